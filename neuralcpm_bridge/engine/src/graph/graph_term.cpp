#include "graph/graph_term.hpp"

#include <algorithm>

namespace ncpm::graph {
namespace {

constexpr int kAtOnce = 64;  // cells that are finished side by side

double mean(const std::vector<std::int64_t>& of_members) {
  double sum = 0.0;
  for (const std::int64_t value : of_members) sum += from_fixed(value);
  return sum / double(of_members.size());
}

// An undefined total stays so until the next rebuild.
std::int64_t sum_of(std::int64_t total, std::int64_t change) {
  return total == kUndefined || change == kUndefined ? kUndefined : total + change;
}

void all(const std::vector<std::int64_t>& of_members, std::vector<double>& out) {
  out.clear();
  for (const std::int64_t value : of_members) out.push_back(from_fixed(value));
}

}  // namespace

GraphTerm::GraphTerm(const Model& model, const Tissue& tissue)
    : network_(model),
      inputs_(network_.weights, tissue, model.neural->order),
      relations_(tissue.lattice, network_.weights.edge, inputs_.pair_weight, network_.kernels),
      distances_(tissue.lattice, network_.weights),
      cells_(network_.weights),
      totals_(network_.weights.members, 0),
      pairs_(network_.weights.members, 0),
      proposal_(inputs_, network_, relations_, distances_, cells_, totals_) {}

// -- energies ---------------------------------------------------------------------------------------------

double GraphTerm::energy() const { return mean(totals_); }

double GraphTerm::delta(const Tissue& tissue, int site, std::int32_t new_id) {
  proposal_.make(tissue, site, new_id);
  return mean(proposal_.deltas());
}

void GraphTerm::member_energies(std::vector<double>& out) const { all(totals_, out); }

void GraphTerm::member_deltas(const Tissue& tissue, int site, std::int32_t new_id, std::vector<double>& out) {
  if (!proposal_.is(tissue, site, new_id)) proposal_.make(tissue, site, new_id);
  all(proposal_.deltas(), out);
}

bool GraphTerm::inside_range(const Tissue& tissue, std::int32_t id) const {
  const Cell& cell = cells_[id];
  return !cell.alive() || inputs_.inside_range(tissue, id, cell.shape, cell.pairs);
}

// -- changes ----------------------------------------------------------------------------------------------

void GraphTerm::commit(const Tissue& before, int site, std::int32_t new_id) {
  if (!proposal_.is(before, site, new_id)) proposal_.make(before, site, new_id);
  for (std::size_t member = 0; member < totals_.size(); ++member) {
    totals_[member] = sum_of(totals_[member], proposal_.deltas()[member]);
    pairs_[member] = sum_of(pairs_[member], proposal_.pair_deltas()[member]);
  }
  proposal_.accept();
}

void GraphTerm::rebuild(const Tissue& tissue) {
  proposal_.forget();
  cells_.clear(tissue.cells());
  std::fill(totals_.begin(), totals_.end(), 0);
  std::fill(pairs_.begin(), pairs_.end(), 0);
  touched_.clear();
  std::int32_t ids[kMostNeighbours];
  const Neighbourhood& neighbours = tissue.neighbourhoods[inputs_.neighbourhood];
  for (int site = 0; site < tissue.sites(); ++site) {
    const std::int32_t id = tissue.ids[site];
    if (id == 0) continue;
    const int total = neighbours.ids_around(tissue.lattice, site, tissue.ids.data(), ids);
    for (int k = 0; k < total; ++k)
      if (ids[k] != id) add_pairs(id, ids[k], +1);
  }
  std::vector<std::int32_t> all;
  for (int id = 1; id < tissue.cells(); ++id) all.push_back(id);
  recompute(tissue, all);
}

// One site of many: the whole numbers follow at once, the network when all have come.
void GraphTerm::follow(const Tissue& before, int site, std::int32_t new_id) {
  proposal_.forget();
  const std::int32_t old_id = before.ids[site];
  std::int32_t ids[kMostNeighbours];
  const Neighbourhood& neighbours = before.neighbourhoods[inputs_.neighbourhood];
  const int total = neighbours.ids_around(before.lattice, site, before.ids.data(), ids);
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
  proposal_.forget();
  if (after.cells() > cells_.size()) cells_.grow(after.cells());
  touched_.insert(touched_.end(), cells.begin(), cells.end());
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  touched_.erase(touched_.begin(), std::upper_bound(touched_.begin(), touched_.end(), 0));
  recompute(after, touched_);
  touched_.clear();
}

// A pair of sites of a cell and of another one, or of the medium, comes or goes; the other side counts its own.
void GraphTerm::add_pairs(std::int32_t id, std::int32_t other, std::int32_t by) {
  if (id == 0) return;
  Cell& cell = cells_[id];
  cell.pairs += by;
  if (other == 0) cell.medium_pairs += by;
  else if ((cells_.contact(cell, other).pairs += by) == 0) Cells::remove(cell, other);
}

// -- from whole numbers -----------------------------------------------------------------------------------

// Everything that depends on these cells, by the whole numbers as they are now.
void GraphTerm::recompute(const Tissue& tissue, const std::vector<std::int32_t>& ids) {
  const int members = network_.weights.members, features = network_.weights.features();
  measure(tissue, ids);
  relate(ids);
  std::vector<std::int32_t> reached;
  cells_.forget_marks();
  const auto reach = [&](std::int32_t id) {
    if (cells_.mark(cells_[id], 0)) reached.push_back(id);
  };
  for (const std::int32_t id : ids)
    if (cells_[id].alive()) reach(id);

  std::vector<float> own(reached.size() * inputs_.count()), row(reached.size() * features);
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const Cell& cell = cells_[reached[i]];
    inputs_.write(tissue, reached[i], cell.shape, cell.pairs, &own[i * inputs_.count()]);
  }
  network_.embed(int(reached.size()), own.data(), row.data());
  for (int round = 0; round < network_.weights.rounds; ++round) {
    const std::size_t changed = reached.size();
    for (std::size_t i = 0; i < changed; ++i)
      network_.project(round, 1, &row[i * features], cells_.row(cells_[reached[i]], round));
    for (std::size_t i = 0; i < changed; ++i)
      for (const Contact& contact : cells_[reached[i]]) reach(contact.id);
    row.resize(reached.size() * features);
    run_round(round, reached, row);
  }
  std::vector<std::int64_t> energies(reached.size() * members);
  network_.energies(int(reached.size()), row.data(), energies.data());
  for (std::size_t i = 0; i < reached.size(); ++i) set_energies(cells_[reached[i]], &energies[i * members]);
  std::vector<std::int64_t> pairs(members, 0);
  distances_.add_all(tissue, cells_, pairs);
  for (int member = 0; member < members; ++member) {
    const bool known = pairs[member] != kUndefined && pairs_[member] != kUndefined;
    totals_[member] = sum_of(totals_[member], known ? pairs[member] - pairs_[member] : kUndefined);
  }
  pairs_ = pairs;
}

// Shapes, and the end of cells that have none.
void GraphTerm::measure(const Tissue& tissue, const std::vector<std::int32_t>& ids) {
  const std::vector<std::int64_t> nothing(network_.weights.members, 0);
  for (const std::int32_t id : ids) {
    Cell& cell = cells_[id];
    const Moments& moments = tissue.moments->of(id);
    cell.shape = moments.n ? Shape(tissue.lattice, moments, tissue.moments->reference(id, 0)) : Shape();
    cell.share = inputs_.share_of(cell.pairs);
    if (!cell.alive()) set_energies(cell, nothing.data());
  }
}

// Contacts of these cells, seen from both sides.
void GraphTerm::relate(const std::vector<std::int32_t>& ids) {
  for (const std::int32_t id : ids) {
    Cell& cell = cells_[id];
    for (Contact& contact : cell) {
      Cell& other = cells_[contact.id];
      relations_.add(contact, cell.shape, other.shape);
      relations_.add(*Cells::find(other, id), other.shape, cell.shape);
    }
  }
  relations_.compute();
}

void GraphTerm::run_round(int round, const std::vector<std::int32_t>& ids, std::vector<float>& features) {
  const int size = network_.weights.features();
  const float* rows[kAtOnce];
  std::vector<std::int32_t> totals(std::size_t(kAtOnce) * size);
  for (std::size_t first = 0; first < ids.size(); first += kAtOnce) {
    const int count = int(std::min<std::size_t>(kAtOnce, ids.size() - first));
    for (int i = 0; i < count; ++i) {
      Cell& cell = cells_[ids[first + i]];
      sum_messages(round, cell);
      rows[i] = cells_.row(cell, round);
      std::copy_n(cells_.sums(cell, round), size, &totals[std::size_t(i) * size]);
    }
    network_.finish(round, count, rows, totals.data(), &features[first * size]);
  }
}

void GraphTerm::sum_messages(int round, Cell& cell) {
  static constexpr float nothing[kEdgeInputs] = {};
  const Weights& weights = network_.weights;
  const float* own = cells_.row(cell, round);
  std::int32_t* sum = cells_.sums(cell, round);
  std::fill_n(sum, weights.features(), 0);
  messages_.clear();
  const auto hear = [&](const float* sender, std::int32_t pairs, const float* inputs) {
    if (pairs)
      messages_.push_back(
          {own, sender + weights.width, nullptr, inputs, sum, float(pairs) * cell.share, kTouch, false});
  };
  hear(weights.round[round].medium.data(), cell.medium_pairs, nothing);
  for (const Contact& contact : cell) hear(cells_.row(cells_[contact.id], round), contact.pairs, contact.inputs);
  network_.send(round, messages_.data(), messages_.size());
}

void GraphTerm::set_energies(Cell& cell, const std::int64_t* energies) {
  for (int member = 0; member < network_.weights.members; ++member) {
    std::int64_t& kept = cells_.energies(cell)[member];
    const bool known = energies[member] != kUndefined;
    totals_[member] = sum_of(totals_[member], known ? energies[member] - kept : kUndefined);
    kept = known ? energies[member] : 0;
  }
}

}  // namespace ncpm::graph

namespace ncpm {

std::unique_ptr<NeuralTerm> make_graph_term(const Model& model, const Tissue& tissue) {
  return std::make_unique<graph::GraphTerm>(model, tissue);
}

}  // namespace ncpm
