#include "mirror.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "error.hpp"

namespace ncpm {

// -- IdMap ------------------------------------------------------------------------------------------------

std::vector<std::int32_t> IdMap::load(std::vector<HostCell> cells) {
  std::sort(cells.begin(), cells.end(), [](const HostCell& a, const HostCell& b) { return a.id < b.id; });
  for (std::size_t i = 1; i < cells.size(); ++i)
    if (cells[i].id == cells[i - 1].id)
      throw Error("Cell " + std::to_string(cells[i].id) + " was given twice: give every cell once.");
  index_of_ = {{0, 0}};
  type_of_.clear();
  free_.clear();
  std::vector<std::int32_t> types = {0};
  for (const HostCell& cell : cells) {
    type_of_[cell.id] = cell.type;
    index_of_[cell.id] = cell.type ? std::int32_t(types.size()) : 0;
    if (cell.type) types.push_back(cell.type);
  }
  if (fixed_ids_) {
    if (int(types.size()) > fixed_ids_) too_many();
    // Ids without pixels are of type 1, as in training.
    for (std::int32_t id = fixed_ids_ - 1; id >= std::int32_t(types.size()); --id) free_.push_back(id);
    types.resize(fixed_ids_, 1);
  }
  next_ = std::int32_t(types.size());
  return types;
}

bool IdMap::take(const std::vector<HostCell>& cells, std::vector<Change>& changes) {
  for (const HostCell& cell : cells) {
    const auto known = type_of_.find(cell.id);
    if (known != type_of_.end() && known->second == cell.type) continue;
    std::int32_t index = 0;
    if (known != type_of_.end()) {
      index = index_of_.at(cell.id);
      if ((cell.type == 0) != (index == 0)) return false;
    } else if (cell.type) {
      if (free_.empty() && next_ == fixed_ids_) too_many();
      index = free_.empty() ? next_++ : free_.back();
      if (!free_.empty()) free_.pop_back();
    }
    if (index) changes.push_back({index, cell.type});
    index_of_[cell.id] = index;
    type_of_[cell.id] = cell.type;
  }
  return true;
}

bool IdMap::bury(const std::vector<HostCell>& living, const std::vector<std::int64_t>& volumes,
                 std::vector<Change>& changes) {
  if (living.size() == type_of_.size()) return true;  // all that is known was taken from the living
  std::unordered_set<std::int64_t> alive;
  for (const HostCell& cell : living) alive.insert(cell.id);
  std::vector<std::int64_t> dead;
  for (const auto& known : type_of_)
    if (!alive.count(known.first)) dead.push_back(known.first);
  std::sort(dead.begin(), dead.end());
  for (const std::int64_t host_id : dead)
    if (const std::int32_t index = index_of_.at(host_id); index && volumes.at(index)) return false;
  for (const std::int64_t host_id : dead) {
    if (const std::int32_t index = index_of_.at(host_id)) {
      if (!fixed_ids_) changes.push_back({index, -1});
      free_.push_back(index);
    }
    index_of_.erase(host_id);
    type_of_.erase(host_id);
    index_of_.emplace(0, 0);  // 0 is the medium again if a cell had that number
  }
  return true;
}

std::int32_t IdMap::at(std::int64_t host_id) const {
  const auto found = index_of_.find(host_id);
  if (found == index_of_.end())
    throw Error("Cell " + std::to_string(host_id) + " is on the lattice but not among the host's cells: report this.");
  return found->second;
}

std::vector<std::int32_t> IdMap::translate(const std::int64_t* host_ids, std::size_t count) const {
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i)  // neighbours mostly belong to the same cell
    ids[i] = i > 0 && host_ids[i] == host_ids[i - 1] ? ids[i - 1] : at(host_ids[i]);
  return ids;
}

void IdMap::too_many() const {
  throw Error("There are more than " + std::to_string(fixed_ids_ - 1) +
              " cells, but this model is fixed to that many: use a model of another architecture.");
}

// -- Mirror -----------------------------------------------------------------------------------------------

namespace {

// The lattice as a model's network sees it.
Lattice seen(const Model& model, Lattice lattice, Part part) {
  if (!model.neural || model.neural->is_graph()) return lattice;
  const std::size_t axes = model.periodic.size();
  bool all = true, any = false, same = true, trained = false;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    bool& periodic = lattice.periodic[3 - axes + axis];
    all = all && periodic;
    any = any || periodic;
    same = same && periodic == model.periodic[axis];
    trained = trained || model.periodic[axis];
    periodic = model.periodic[axis];
  }
  if (model.neural->circular && !all)
    throw Error(
        "The lattice is not periodic in every direction, but the model's network wraps around (circular padding): make "
        "it periodic, or use a cell graph.");
  if (!model.neural->circular && any && !trained)
    throw Error(
        "The lattice is periodic, but the model was trained on lattices with a border and its network does not see "
        "across it: remove the periodic boundary, or use a cell graph.");
  if (part != Part::Neural && !same)
    throw Error(
        "The lattice has other boundaries than the model's own terms: change them, or take the network's energy "
        "alone.");
  return lattice;
}

}  // namespace

Mirror::Mirror(std::shared_ptr<const Model> model, const Lattice& lattice, StateOptions options)
    : model_(std::move(model)),
      knows_range_(model_->knows_range()),
      lattice_(seen(*model_, lattice, options.part)),
      options_(options) {}

State& Mirror::state() {
  if (!state_) throw Error("No lattice has been loaded yet: load one first.");
  return *state_;
}

void Mirror::load(const std::int64_t* host_ids, std::vector<HostCell> cells) {
  check_types(cells);
  IdMap ids;
  std::vector<std::int32_t> types = ids.load(std::move(cells));
  std::vector<std::int32_t> translated = ids.translate(host_ids, std::size_t(lattice_.sites()));
  if (state_) state_->reset(std::move(translated), std::move(types));
  else state_ = std::make_unique<State>(model_, lattice_, std::move(translated), std::move(types), options_);
  ids_ = std::move(ids);
}

bool Mirror::follow(const std::vector<HostCell>& cells, const std::vector<int>& sites,
                    const std::vector<std::int64_t>& host_ids) {
  State& state = this->state();
  check_types(cells);
  if (sites.size() != host_ids.size())
    throw Error(std::to_string(sites.size()) + " sites and " + std::to_string(host_ids.size()) +
                " cell ids were given: give one id per site.");
  std::vector<IdMap::Change> changes;
  if (!ids_.take(cells, changes)) return false;
  apply(changes);
  for (const std::int64_t host_id : host_ids)
    if (!ids_.knows(host_id)) return false;
  state.change_pixels(sites, ids_.translate(host_ids.data(), host_ids.size()));
  changes.clear();
  if (!ids_.bury(cells, state.tissue().volumes, changes)) return false;
  apply(changes);
  return true;
}

bool Mirror::appear(HostCell cell) {
  state();
  check_types({cell});
  std::vector<IdMap::Change> changes;
  if (!ids_.take({cell}, changes)) return false;
  apply(changes);
  return true;
}

// Before anything changes: a wrong type would leave the host's list and the state at odds.
void Mirror::check_types(const std::vector<HostCell>& cells) const {
  for (const HostCell& cell : cells)
    if (cell.type < 0 || cell.type >= model_->types())
      throw Error("The host's cell " + std::to_string(cell.id) + " has type " + std::to_string(cell.type) +
                  ", but the model knows the types 0 to " + std::to_string(model_->types() - 1) +
                  ": map its type to one of them.");
}

void Mirror::apply(const std::vector<IdMap::Change>& changes) {
  for (const IdMap::Change& change : changes) state().set_type(change.id, change.type);
}

Mirror::Opinion Mirror::opinion(std::int64_t site, std::int64_t host_id) {
  const std::vector<double> members = state().member_deltas(state().site(site), ids_.at(host_id));
  Opinion found = {0.0, 0.0};
  for (const double member : members) found.mean += member / double(members.size());
  for (const double member : members)
    found.spread += (member - found.mean) * (member - found.mean) / double(members.size());
  found.spread = std::sqrt(found.spread);
  return found;
}

double Mirror::outside(std::int64_t site, std::int64_t host_id) {
  if (!knows_range_) return 0.0;
  int cells = 0, outside = 0;
  for (const std::int32_t id : {state().tissue().ids[state().site(site)], ids_.at(host_id)}) {
    if (id == 0) continue;
    ++cells;
    outside += !state().inside_range(id);
  }
  return cells ? double(outside) / cells : 0.0;
}

Mirror::Range Mirror::range() {
  const Tissue& tissue = state().tissue();
  const std::vector<std::uint8_t> inside = state().inside_range();
  Range range;
  for (int id = 1; id < tissue.cells(); ++id) {
    if (tissue.types[id] < 1 || tissue.volumes[id] == 0) continue;
    ++range.cells;
    range.outside += !inside[id];
  }
  if (!knows_range_) range.outside = -1;
  return range;
}

Comparison Mirror::compare(const std::int64_t* host_ids) {
  const Tissue& tissue = state().tissue();
  std::vector<std::int32_t> found = ids_.translate(host_ids, tissue.ids.size());
  Comparison result = {};
  for (std::size_t site = 0; site < found.size(); ++site) result.differing += found[site] != tissue.ids[site];
  const Energy cached = state().energy();
  state().rebuild();
  result.energy = state().energy();
  result.drift =
      std::max(std::abs(cached.symbolic - result.energy.symbolic), std::abs(cached.neural - result.energy.neural));
  if (!std::isfinite(result.drift))
    throw Error("The model's energy is not a number: its weights are out of range, export it again.");
  if (result.differing)
    state().reset(std::move(found), std::vector<std::int32_t>(tissue.types), Properties(tissue.properties));
  return result;
}

}  // namespace ncpm
