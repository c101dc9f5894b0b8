#include "graph/graph_term.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace ncpm::graph {
namespace {

constexpr double kEnergyUnit = 1.0 / 4294967296.0;
constexpr std::int64_t kUndefined = std::numeric_limits<std::int64_t>::min();
constexpr int kAtOnce = 64;  // cells that are recomputed side by side

// Energies are integers as well: totals do not depend on the order of cells. Beyond 2^19 they are undefined.
std::int64_t to_fixed(double value) {
  return std::abs(value) < 524288.0 ? std::llrint(value / kEnergyUnit) : kUndefined;
}

double from_fixed(std::int64_t value) {
  return value == kUndefined ? std::numeric_limits<double>::quiet_NaN() : double(value) * kEnergyUnit;
}

double mean(const std::vector<std::int64_t>& of_members) {
  double sum = 0.0;
  for (const std::int64_t value : of_members) sum += from_fixed(value);
  return sum / double(of_members.size());
}

template <class Number>
void at_least(std::vector<Number>& values, std::size_t size) {
  if (values.size() < size) values.resize(size);
}

}  // namespace

GraphTerm::GraphTerm(const Model& model, const Tissue& tissue)
    : weights_(model),
      kernels_(selected_kernels()),
      neighbourhood_(tissue.number_of(model.neural->order)),
      pair_weight_(float(tissue.neighbourhoods[neighbourhood_].pair_weight())),
      totals_(weights_.members, 0) {}

double GraphTerm::energy() const { return mean(totals_); }

double GraphTerm::delta(const Tissue& tissue, int site, std::int32_t new_id) {
  propose(tissue, site, new_id);
  return mean(proposal_.deltas);
}

// -- one flip ---------------------------------------------------------------------------------------------

void GraphTerm::propose(const Tissue& tissue, int site, std::int32_t new_id) {
  proposal_.site = site;
  proposal_.old_id = tissue.ids[site];
  proposal_.new_id = new_id;
  proposal_.valid = true;
  proposal_.nodes.clear();
  proposal_.changed.clear();
  ++stamp_;
  find_changes(tissue);
  start(tissue);
  for (int round = 0; round < weights_.rounds; ++round) run_round(round);
  sum_up();
}

// The two cells as they will be, but for their relations to neighbours, and who else loses or gains contact with the
// medium.
void GraphTerm::find_changes(const Tissue& tissue) {
  Proposal& p = proposal_;
  std::int32_t ids[kMostNeighbours];
  const int total = tissue.neighbourhoods[neighbourhood_].ids_around(tissue.lattice, p.site, tissue.ids.data(), ids);
  around_.clear();
  for (int k = 0; k < total; ++k) {
    const auto known = std::find_if(around_.begin(), around_.end(), [&](const Share& s) { return s.id == ids[k]; });
    if (known == around_.end()) around_.push_back({ids[k], 1});
    else ++known->pairs;
  }
  int like_old = 0, like_new = 0;
  for (const Share& share : around_) {
    if (share.id == p.old_id) like_old = share.pairs;
    if (share.id == p.new_id) like_new = share.pairs;
  }
  p.count = 0;
  if (p.old_id) change_cell(tissue, p.old_id, p.new_id, -1, total, like_old, like_new);
  if (p.new_id) change_cell(tissue, p.new_id, p.old_id, +1, total, like_old, like_new);
  p.medium.clear();
  if (p.old_id == 0 || p.new_id == 0)
    for (const Share& share : around_)
      if (share.id != p.old_id && share.id != p.new_id)
        p.medium.push_back({share.id, p.new_id == 0 ? share.pairs : -share.pairs});
}

void GraphTerm::change_cell(const Tissue& tissue, std::int32_t id, std::int32_t other, int sign, int total,
                            int like_old, int like_new) {
  Proposal& p = proposal_;
  Change& change = p.changes[p.count++];
  change.id = id;
  const Cell& now = cells_[id];
  Cell& then = change.after;
  const Moments moments = tissue.moments->changed(tissue.lattice, id, p.site, sign);
  then.edges.clear();
  if (moments.n == 0) {
    then.shape = {};
    then.pairs = then.medium_pairs = 0;
    return;
  }
  then.pairs = now.pairs + sign * (total - 2 * (sign < 0 ? like_old : like_new));
  then.medium_pairs = now.medium_pairs;
  then.shape = Shape(tissue.lattice.geometry, moments, tissue.moments->reference(id, p.site));
  then.norm = norm_of(then.pairs);
  then.edges.assign(now.edges.begin(), now.edges.end());
  const auto shift = [&](std::int32_t to, std::int32_t by) {
    if (by == 0) return;
    if (to == 0) {
      then.medium_pairs += by;
      return;
    }
    auto edge = std::find_if(then.edges.begin(), then.edges.end(), [&](const Edge& e) { return e.id == to; });
    if (edge == then.edges.end()) edge = then.edges.insert(edge, {to, 0, {}});
    if ((edge->pairs += by) > 0) return;
    *edge = then.edges.back();
    then.edges.pop_back();
  };
  // The pixel's pairs with others come or go; of those between the two cells some open and some close.
  for (const Share& share : around_)
    if (share.id != p.old_id && share.id != p.new_id) shift(share.id, sign * share.pairs);
  shift(other, like_old - like_new);
}

// Inputs of the changed cells and of the contacts at them, and their features.
void GraphTerm::start(const Tissue& tissue) {
  Proposal& p = proposal_;
  for (int i = 0; i < p.count; ++i)
    if (p.changes[i].after.alive()) mark(p.changes[i].id);
  const int inputs = weights_.types - 1 + weights_.inputs();
  at_least(inputs_, 2 * inputs);
  at_least(features_, 2 * weights_.features());
  int alive = 0;
  for (int i = 0; i < p.count; ++i) {
    Cell& cell = p.changes[i].after;
    if (!cell.alive()) continue;
    cell_inputs(tissue, p.changes[i].id, cell, &inputs_[alive++ * inputs]);
    for (const Edge& edge : cell.edges) read_ahead(0, edge.id);
    for (Edge& edge : cell.edges) edge_inputs(tissue, cell, after(edge.id), edge);
  }
  p.changed.push_back(alive);
  embed(alive, inputs_.data(), features_.data());
}

// From the features of the cells that changed to those of their neighbours too.
void GraphTerm::run_round(int round) {
  Proposal& p = proposal_;
  const int changed = p.changed.back(), width = weights_.width, share = weights_.share();
  const auto mark_all = [&](const Edges& edges) {
    for (const Edge& edge : edges)
      if (after(edge.id).alive()) mark(edge.id);
  };
  for (int slot = 0; slot < changed; ++slot) mark_all(after(p.nodes[slot]).edges);
  for (int i = 0; i < p.count; ++i) mark_all(cells_[p.changes[i].id].edges);  // whom they touched before
  const int all = int(p.nodes.size());
  make_room(all);
  p.changed.push_back(all);
  if (round + 1 < weights_.rounds)
    for (int slot = changed; slot < all; ++slot) {
      const Cell& cell = cells_[p.nodes[slot]];
      __builtin_prefetch(cell.edges.data());
      __builtin_prefetch(cell.edges.data() + 2);
      __builtin_prefetch(cell.edges.data() + 4);
      read_ahead(round + 1, p.nodes[slot]);
    }

  const Round& weights = weights_.round[round];
  dense(weights.project, changed, {features_.data(), weights_.features(), width},
        {weights.project.bias.data(), 0, share}, {slot_row(round, 0), weights_.projected(), share});
  std::fill_n(slot_sums(round, 0), std::size_t(changed) * weights_.features(), 0);
  row_of_slot_.resize(all);
  for (int slot = 0; slot < changed; ++slot) row_of_slot_[slot] = slot_row(round, slot);
  for (int slot = changed; slot < all; ++slot) {
    row_of_slot_[slot] = row(round, p.nodes[slot]);
    std::copy_n(sums(round, p.nodes[slot]), weights_.features(), slot_sums(round, slot));
  }
  messages_.clear();
  receive(round, changed);
  pass_on(round, changed);
  send(round);
  at_least(features_, std::size_t(all) * weights_.features());
  finish(round, all, row_of_slot_.data(), slot_sums(round, 0), features_.data());
}

// All messages to the cells whose own features changed.
void GraphTerm::receive(int round, int changed) {
  Proposal& p = proposal_;
  const auto row_of = [&](std::int32_t id) {
    const int slot = slot_of(id);
    return slot >= 0 && slot < changed ? slot_row(round, slot) : row(round, id);
  };
  for (int slot = 0; slot < changed; ++slot) {
    const std::int32_t id = p.nodes[slot];
    const Cell& cell = after(id);
    const bool one_of_two = slot < p.changed[0];
    std::int32_t medium = cell.medium_pairs;
    if (!one_of_two)
      for (const Share& share : p.medium)
        if (share.id == id) medium += share.pairs;
    from_medium(round, slot_row(round, slot), medium, cell, slot_sums(round, slot), +1.0f);
    const auto from = [&](std::int32_t sender, const Edge& edge, bool swapped) {
      messages_.push_back({slot_row(round, slot), row_of(sender) + weights_.width, edge.inputs, swapped,
                           weight_of(edge.pairs, cell), slot_sums(round, slot)});
    };
    for (const Edge& edge : cell.edges)
      if (one_of_two || (edge.id != p.old_id && edge.id != p.new_id)) from(edge.id, edge, false);
    if (one_of_two) continue;
    for (int i = 0; i < p.count; ++i)  // contacts with the two cells are known there
      for (const Edge& edge : p.changes[i].after.edges)
        if (edge.id == id) from(p.changes[i].id, edge, true);
  }
}

// To cells whose features did not change: the messages of those that did, out as they were and in as they are.
void GraphTerm::pass_on(int round, int changed) {
  Proposal& p = proposal_;
  const auto to_others = [&](const Edges& edges, const float* sender, float sign) {
    for (const Edge& edge : edges) {
      const int slot = slot_of(edge.id);
      if (slot < changed) continue;
      messages_.push_back({row(round, edge.id), sender + weights_.width, edge.inputs, true,
                           sign * weight_of(edge.pairs, cells_[edge.id]), slot_sums(round, slot)});
    }
  };
  for (int slot = 0; slot < changed; ++slot) {
    const std::int32_t id = p.nodes[slot];
    to_others(cells_[id].edges, row(round, id), -1.0f);
    to_others(after(id).edges, slot_row(round, slot), +1.0f);
  }
  for (int i = 0; i < p.count; ++i)
    if (!p.changes[i].after.alive()) to_others(cells_[p.changes[i].id].edges, row(round, p.changes[i].id), -1.0f);
  for (const Share& share : p.medium) {
    const int slot = slot_of(share.id);
    if (slot < changed) continue;
    const Cell& cell = cells_[share.id];
    from_medium(round, row(round, share.id), cell.medium_pairs, cell, slot_sums(round, slot), -1.0f);
    from_medium(round, row(round, share.id), cell.medium_pairs + share.pairs, cell, slot_sums(round, slot), +1.0f);
  }
}

void GraphTerm::from_medium(int round, const float* own, std::int32_t pairs, const Cell& to, std::int32_t* sum,
                            float sign) {
  static constexpr float nothing[kEdgeInputs] = {};
  if (pairs)
    messages_.push_back(
        {own, weights_.round[round].medium.data() + weights_.width, nothing, false, sign * weight_of(pairs, to), sum});
}

void GraphTerm::sum_up() {
  Proposal& p = proposal_;
  const int count = p.changed.back(), members = weights_.members;
  at_least(p.energies, std::size_t(count) * members);
  cell_energies(count, features_.data(), p.energies.data());
  p.deltas.resize(members);
  for (int member = 0; member < members; ++member) {
    std::int64_t sum = 0;
    bool defined = totals_[member] != kUndefined;
    for (int slot = 0; slot < count; ++slot) {
      const std::int64_t energy = p.energies[std::size_t(slot) * members + member];
      defined = defined && energy != kUndefined;
      if (defined) sum += energy - energies_[std::size_t(p.nodes[slot]) * members + member];
    }
    for (int i = 0; i < p.count; ++i)
      if (!p.changes[i].after.alive()) sum -= energies_[std::size_t(p.changes[i].id) * members + member];
    p.deltas[member] = defined ? sum : kUndefined;
  }
}

void GraphTerm::commit(const Tissue& before, int site, std::int32_t new_id) {
  Proposal& p = proposal_;
  if (!p.valid || p.site != site || p.new_id != new_id || p.old_id != before.ids[site]) propose(before, site, new_id);
  p.valid = false;
  for (const Share& share : p.medium) cells_[share.id].medium_pairs += share.pairs;
  for (int i = 0; i < p.count; ++i) {
    Change& change = p.changes[i];
    for (const Edge& edge : cells_[change.id].edges)
      if (edge.id != p.old_id && edge.id != p.new_id) forget(edge.id, change.id);
    for (const Edge& edge : change.after.edges)
      if (edge.id != p.old_id && edge.id != p.new_id) {
        Edge theirs = edge;
        theirs.id = change.id;
        std::swap(theirs.inputs[kRadii], theirs.inputs[kRadii + 1]);
        cells_[edge.id].edges.push_back(theirs);
      }
    std::swap(cells_[change.id], change.after);
    if (!cells_[change.id].alive())
      std::fill_n(&energies_[std::size_t(change.id) * weights_.members], weights_.members, 0);
  }
  for (int round = 0; round < weights_.rounds; ++round) {
    for (int slot = 0; slot < p.changed[round]; ++slot)
      std::copy_n(slot_row(round, slot), weights_.projected(), row(round, p.nodes[slot]));
    for (int slot = 0; slot < p.changed[round + 1]; ++slot)
      std::copy_n(slot_sums(round, slot), weights_.features(), sums(round, p.nodes[slot]));
  }
  const int members = weights_.members;
  for (int slot = 0; slot < p.changed.back(); ++slot)
    std::copy_n(&p.energies[std::size_t(slot) * members], members, &energies_[std::size_t(p.nodes[slot]) * members]);
  for (int member = 0; member < members; ++member)
    totals_[member] = p.deltas[member] == kUndefined ? kUndefined : totals_[member] + p.deltas[member];
}

void GraphTerm::forget(std::int32_t id, std::int32_t neighbour) {
  Edges& edges = cells_[id].edges;
  const auto edge = std::find_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.id == neighbour; });
  if (edge == edges.end()) return;
  *edge = edges.back();
  edges.pop_back();
}

const GraphTerm::Cell& GraphTerm::after(std::int32_t id) const {
  for (int i = 0; i < proposal_.count; ++i)
    if (proposal_.changes[i].id == id) return proposal_.changes[i].after;
  return cells_[id];
}

// -- many at once -----------------------------------------------------------------------------------------

void GraphTerm::rebuild(const Tissue& tissue) {
  proposal_.valid = false;
  proposal_.count = 0;
  cells_.assign(tissue.cells(), {});
  grow(tissue.cells());
  std::fill(energies_.begin(), energies_.end(), 0);
  std::fill(totals_.begin(), totals_.end(), 0);
  touched_.clear();
  std::int32_t ids[kMostNeighbours];
  for (int site = 0; site < tissue.sites(); ++site) {
    const std::int32_t id = tissue.ids[site];
    if (id == 0) continue;
    const int total = tissue.neighbourhoods[neighbourhood_].ids_around(tissue.lattice, site, tissue.ids.data(), ids);
    for (int k = 0; k < total; ++k)
      if (ids[k] != id) add_pairs(id, ids[k], +1);
  }
  std::vector<std::int32_t> all;
  for (int id = 1; id < tissue.cells(); ++id) all.push_back(id);
  recompute(tissue, all);
}

// One pixel of many: the whole numbers follow at once, the network when all have come.
void GraphTerm::follow(const Tissue& before, int site, std::int32_t new_id) {
  proposal_.valid = false;
  const std::int32_t old_id = before.ids[site];
  std::int32_t ids[kMostNeighbours];
  const int total = before.neighbourhoods[neighbourhood_].ids_around(before.lattice, site, before.ids.data(), ids);
  for (int k = 0; k < total; ++k) {
    for (const auto& [id, by] : {std::pair{old_id, -1}, std::pair{new_id, +1}}) {
      if (ids[k] == id) continue;
      add_pairs(id, ids[k], by);
      add_pairs(ids[k], id, by);
    }
    touched_.push_back(ids[k]);
  }
  touched_.push_back(old_id);
  touched_.push_back(new_id);
}

void GraphTerm::changed(const Tissue& after, const std::vector<int>&, const std::vector<std::int32_t>& cells) {
  proposal_.valid = false;
  proposal_.count = 0;
  if (std::size_t(after.cells()) > cells_.size()) {
    cells_.resize(after.cells());
    grow(after.cells());
  }
  touched_.insert(touched_.end(), cells.begin(), cells.end());
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  touched_.erase(touched_.begin(), std::upper_bound(touched_.begin(), touched_.end(), 0));
  recompute(after, touched_);
  touched_.clear();
}

// Everything that depends on these cells, by the whole numbers as they are now.
void GraphTerm::recompute(const Tissue& tissue, const std::vector<std::int32_t>& cells) {
  const int members = weights_.members, inputs = weights_.types - 1 + weights_.inputs(), features = weights_.features();
  std::vector<std::int32_t> nodes;
  ++stamp_;
  const auto add = [&](std::int32_t id) {
    if (marks_[id].stamp == stamp_) return;
    marks_[id] = {stamp_, int(nodes.size())};
    nodes.push_back(id);
  };
  for (const std::int32_t id : cells) {
    Cell& cell = cells_[id];
    const Moments& moments = tissue.moments->of(id);
    cell.shape = moments.n ? Shape(tissue.lattice.geometry, moments, tissue.moments->reference(id, 0)) : Shape();
    cell.norm = norm_of(cell.pairs);
    if (cell.alive()) add(id);
    else set_energies(id, std::vector<std::int64_t>(members, 0).data());
  }
  for (std::size_t i = 0, count = nodes.size(); i < count; ++i)
    for (Edge& edge : cells_[nodes[i]].edges) {
      edge_inputs(tissue, cells_[nodes[i]], cells_[edge.id], edge);
      for (Edge& theirs : cells_[edge.id].edges)
        if (theirs.id == nodes[i]) edge_inputs(tissue, cells_[edge.id], cells_[nodes[i]], theirs);
    }

  std::vector<float> all_features(nodes.size() * features);
  std::vector<float> own_inputs(nodes.size() * inputs);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    cell_inputs(tissue, nodes[i], cells_[nodes[i]], &own_inputs[i * inputs]);
  embed(int(nodes.size()), own_inputs.data(), all_features.data());
  for (int round = 0; round < weights_.rounds; ++round) {
    const std::size_t changed = nodes.size();
    const Layer& project = weights_.round[round].project;
    for (std::size_t i = 0; i < changed; ++i)
      dense(project, 1, {&all_features[i * features], features, weights_.width},
            {project.bias.data(), 0, weights_.share()}, {row(round, nodes[i]), weights_.projected(), weights_.share()});
    for (std::size_t i = 0; i < changed; ++i)
      for (const Edge& edge : cells_[nodes[i]].edges) add(edge.id);
    all_features.resize(nodes.size() * features);
    const float* rows[kAtOnce];
    std::vector<std::int32_t> totals(std::size_t(kAtOnce) * features);
    for (std::size_t first = 0; first < nodes.size(); first += kAtOnce) {
      const int count = int(std::min<std::size_t>(kAtOnce, nodes.size() - first));
      for (int i = 0; i < count; ++i) {
        const std::int32_t id = nodes[first + i];
        sum_messages(round, id);
        rows[i] = row(round, id);
        std::copy_n(sums(round, id), features, &totals[std::size_t(i) * features]);
      }
      finish(round, count, rows, totals.data(), &all_features[first * features]);
    }
  }
  std::vector<std::int64_t> energies(nodes.size() * members);
  cell_energies(int(nodes.size()), all_features.data(), energies.data());
  for (std::size_t i = 0; i < nodes.size(); ++i) set_energies(nodes[i], &energies[i * members]);
}

void GraphTerm::sum_messages(int round, std::int32_t id) {
  const Cell& cell = cells_[id];
  std::fill_n(sums(round, id), weights_.features(), 0);
  messages_.clear();
  from_medium(round, row(round, id), cell.medium_pairs, cell, sums(round, id), +1.0f);
  for (const Edge& edge : cell.edges)
    messages_.push_back({row(round, id), row(round, edge.id) + weights_.width, edge.inputs, false,
                         weight_of(edge.pairs, cell), sums(round, id)});
  send(round);
}

// An undefined total stays so until the next rebuild.
void GraphTerm::set_energies(std::int32_t id, const std::int64_t* energies) {
  for (int member = 0; member < weights_.members; ++member) {
    std::int64_t& kept = energies_[std::size_t(id) * weights_.members + member];
    std::int64_t& total = totals_[member];
    if (total != kUndefined) total = energies[member] == kUndefined ? kUndefined : total + energies[member] - kept;
    kept = energies[member] == kUndefined ? 0 : energies[member];
  }
}

// A pair of sites of a cell and of another one, or of the medium, comes or goes; the other side counts its own.
void GraphTerm::add_pairs(std::int32_t id, std::int32_t other, std::int32_t by) {
  if (id == 0) return;
  Cell& cell = cells_[id];
  cell.pairs += by;
  if (other == 0) {
    cell.medium_pairs += by;
    return;
  }
  auto edge = std::find_if(cell.edges.begin(), cell.edges.end(), [&](const Edge& e) { return e.id == other; });
  if (edge == cell.edges.end()) edge = cell.edges.insert(edge, {other, 0, {}});
  if ((edge->pairs += by) == 0) forget(id, other);
}

// -- the network ------------------------------------------------------------------------------------------

float GraphTerm::norm_of(std::int64_t pairs) const {
  const float own = float(pairs) * pair_weight_;
  return std::sqrt(own * own + weights_.surface * weights_.surface);
}

void GraphTerm::raw_inputs(const Tissue& tissue, std::int32_t id, const Cell& cell, float* out) const {
  out[0] = float(cell.shape.moments.n);
  out[1] = cell.shape.anisotropy(tissue.lattice.dimension());
  out[2] = cell.shape.radius();
  out[3] = float(cell.pairs) * pair_weight_;
  for (int i = 0; i < weights_.properties; ++i) out[kCellInputs + i] = float(tissue.property(id, i));
}

// The type as one of as many numbers, then what the data's statistics make of the rest.
void GraphTerm::cell_inputs(const Tissue& tissue, std::int32_t id, const Cell& cell, float* out) const {
  std::fill_n(out, weights_.types - 1, 0.0f);
  out[tissue.types[id] - 1] = 1.0f;
  raw_inputs(tissue, id, cell, out + weights_.types - 1);
  weights_.cell.apply(out + weights_.types - 1);
}

void GraphTerm::edge_inputs(const Tissue& tissue, const Cell& here, const Cell& there, Edge& edge) const {
  const Relation relation(tissue.lattice, here.shape, there.shape);
  edge.inputs[0] = float(edge.pairs) * pair_weight_;
  edge.inputs[1] = relation.distance;
  edge.inputs[2] = relation.alignment;
  edge.inputs[kRadii] = relation.radius_here;
  edge.inputs[kRadii + 1] = relation.radius_there;
  weights_.edge.apply(edge.inputs);
}

void GraphTerm::dense(const Layer& layer, int count, Rows in, Rows base, RowsOut out) {
  multiply_adds_ += std::uint64_t(count) * layer.weight.size();
  kernels_.dense(layer.dense, count, in, base, out);
}

void GraphTerm::dense(const Layer& layer, int count, Rows in, Scattered base, RowsOut out) {
  multiply_adds_ += std::uint64_t(count) * layer.weight.size();
  kernels_.dense_on(layer.dense, count, in, base, out);
}

// The messages that have been gathered.
void GraphTerm::send(int round) {
  multiply_adds_ += std::uint64_t(messages_.size()) * kEdgeInputs * weights_.features();
  kernels_.messages(weights_.members, weights_.width, weights_.share(), weights_.round[round].edge.data(),
                    messages_.data(), std::ptrdiff_t(messages_.size()));
}

void GraphTerm::embed(int count, const float* inputs, float* features) {
  const int width = weights_.width, row = weights_.features(), given = weights_.types - 1 + weights_.inputs();
  at_least(scratch_, std::size_t(count) * row);
  dense(weights_.embed, count, {inputs, given, 0}, {weights_.embed.bias.data(), 0, width},
        {scratch_.data(), row, width});
  kernels_.silu(scratch_.data(), std::ptrdiff_t(count) * row);
  dense(weights_.embed_more, count, {scratch_.data(), row, width}, {weights_.embed_more.bias.data(), 0, width},
        {features, row, width});
}

void GraphTerm::finish(int round, int count, const float* const* rows, const std::int32_t* sums, float* features) {
  const int width = weights_.width, row = weights_.features(), share = weights_.share();
  const Round& weights = weights_.round[round];
  at_least(scratch_, 2 * std::size_t(count) * row);
  float* gathered = scratch_.data();
  float* hidden = gathered + std::size_t(count) * row;
  kernels_.from_fixed(sums, std::ptrdiff_t(count) * row, gathered);
  dense(weights.gather, count, {gathered, row, width}, {rows, 2 * width, share}, {hidden, row, width});
  kernels_.silu(hidden, std::ptrdiff_t(count) * row);
  dense(weights.finish, count, {hidden, row, width}, {rows, 3 * width, share}, {features, row, width});
}

void GraphTerm::cell_energies(int count, const float* features, std::int64_t* out) {
  const int members = weights_.members;
  at_least(scratch_, std::size_t(count) * members);
  kernels_.energies(members, weights_.width, weights_.out.data(), count, features, scratch_.data());
  for (int i = 0; i < count * members; ++i)
    out[i] = to_fixed(double(scratch_[i]) + double(weights_.constant[i % members]));
}

// Among thousands of cells most lines have to come from far: they are asked for while there is other work.
void GraphTerm::read_ahead(int round, std::int32_t id) {
  const auto touch = [](const void* data, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(data) + at);
  };
  touch(row(round, id), weights_.projected() * sizeof(float));
  touch(sums(round, id), weights_.features() * sizeof(std::int32_t));
  touch(&cells_[id], sizeof(Cell));
  touch(&marks_[id], sizeof(Mark));
}

// -- slots ------------------------------------------------------------------------------------------------

void GraphTerm::mark(std::int32_t id) {
  if (marks_[id].stamp == stamp_) return;
  marks_[id] = {stamp_, int(proposal_.nodes.size())};
  proposal_.nodes.push_back(id);
}

// Keeps what earlier rounds have put into theirs.
void GraphTerm::make_room(int slots) {
  if (slots <= capacity_) return;
  const int more = std::max(slots, 2 * capacity_);
  const auto moved = [&](auto& values, std::size_t size) {
    std::remove_reference_t<decltype(values)> wider(std::size_t(weights_.rounds) * more * size);
    for (int round = 0; round < weights_.rounds; ++round)
      std::copy_n(values.begin() + std::size_t(round) * capacity_ * size, std::size_t(capacity_) * size,
                  wider.begin() + std::size_t(round) * more * size);
    values.swap(wider);
  };
  moved(slot_rows_, weights_.projected());
  moved(slot_sums_, weights_.features());
  capacity_ = more;
}

void GraphTerm::grow(int cells) {
  marks_.resize(cells);
  rows_.resize(std::size_t(cells) * weights_.rounds * weights_.projected());
  sums_.resize(std::size_t(cells) * weights_.rounds * weights_.features());
  energies_.resize(std::size_t(cells) * weights_.members, 0);
}

// -- what is known beyond the energy ----------------------------------------------------------------------

void GraphTerm::member_energies(std::vector<double>& out) const {
  out.clear();
  for (const std::int64_t total : totals_) out.push_back(from_fixed(total));
}

void GraphTerm::member_deltas(const Tissue& tissue, int site, std::int32_t new_id, std::vector<double>& out) {
  propose(tissue, site, new_id);
  out.clear();
  for (const std::int64_t change : proposal_.deltas) out.push_back(from_fixed(change));
}

bool GraphTerm::inside_range(const Tissue& tissue, std::int32_t id) const {
  if (!cells_[id].alive()) return true;
  std::vector<float> inputs(weights_.inputs());
  raw_inputs(tissue, id, cells_[id], inputs.data());
  for (int i = 0; i < weights_.inputs(); ++i) {
    const std::size_t at = std::size_t(tissue.types[id]) * weights_.inputs() + i;
    if (inputs[i] < weights_.low[at] || inputs[i] > weights_.high[at]) return false;
  }
  return true;
}

}  // namespace ncpm::graph

namespace ncpm {

std::unique_ptr<NeuralTerm> make_graph_term(const Model& model, const Tissue& tissue) {
  return std::make_unique<graph::GraphTerm>(model, tissue);
}

}  // namespace ncpm
