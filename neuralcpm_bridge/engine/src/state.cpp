#include "state.hpp"

#include <algorithm>
#include <limits>

#include "error.hpp"

namespace ncpm {
namespace {

std::string str(long long number) { return std::to_string(number); }

void check_lattice(const Model& model, int height, int width) {
  if (height < 1 || width < 1 || std::int64_t(height) * width > std::numeric_limits<std::int32_t>::max() / 8)
    throw Error("A lattice of " + str(height) + " x " + str(width) +
                " sites was given, but 1 to 268 million sites are possible: give another size.");
  if (model.fixed_height && (height != model.fixed_height || width != model.fixed_width))
    throw Error("A lattice of " + str(height) + " x " + str(width) + " sites was given, but the model is bound to " +
                str(model.fixed_height) + " x " + str(model.fixed_width) + ": use a state of that size.");
}

void check_cells(const Model& model, std::size_t sites, const std::vector<std::int32_t>& ids,
                 const std::vector<std::int32_t>& types) {
  if (ids.size() != sites)
    throw Error(str((long long)ids.size()) + " cell ids were given for a lattice of " + str((long long)sites) +
                " sites: give one per site.");
  if (types.empty() || types[0] != 0 || types.size() > std::size_t(kMaxCells))
    throw Error("The list of cell types must start with 0 for the medium and hold at most " + str(kMaxCells) +
                " entries: put the medium first.");
  for (std::size_t id = 1; id < types.size(); ++id)
    if (types[id] == 0 || types[id] < -1 || types[id] >= model.types())
      throw Error("Cell " + str((long long)id) + " has type " + str(types[id]) +
                  ", but the model knows the cell types 1 to " + str(model.types() - 1) +
                  " (-1: no such cell): correct its type.");
  for (std::size_t site = 0; site < sites; ++site) {
    const std::int32_t id = ids[site];
    if (id < 0 || std::size_t(id) >= types.size() || types[id] < 0)
      throw Error("Site " + str((long long)site) + " belongs to cell " + str(id) +
                  ", which has no type: give every cell on the lattice a type.");
  }
}

}  // namespace

State::State(std::shared_ptr<const Model> model, int height, int width, std::vector<std::int32_t> ids,
             std::vector<std::int32_t> types, StateOptions options)
    : model_(std::move(model)), options_(options) {
  check_lattice(*model_, height, width);
  check_cells(*model_, std::size_t(height) * width, ids, types);
  lattice_.height = height;
  lattice_.width = width;
  lattice_.periodic = model_->periodic;
  symbolic_weight_ = model_->scalar("symbolic.weight", 1.0);
  offset_ = model_->scalar("symbolic.offset", 0.0);
  neural_weight_ = model_->scalar("neural.weight", 1.0);
  terms_ = make_terms(*model_, external_);
  adopt(std::move(ids), std::move(types));
  if (model_->neural && options_.selection != Selection::Symbolic) neural();
}

void State::adopt(std::vector<std::int32_t> ids, std::vector<std::int32_t> types) {
  lattice_.ids = std::move(ids);
  lattice_.types = std::move(types);
  rebuild();
}

void State::reset(std::vector<std::int32_t> ids, std::vector<std::int32_t> types) {
  check_cells(*model_, lattice_.ids.size(), ids, types);
  adopt(std::move(ids), std::move(types));
}

void State::rebuild() {
  lattice_.volumes.assign(lattice_.cells(), 0);
  for (const std::int32_t id : lattice_.ids) ++lattice_.volumes[id];
  for (const auto& term : terms_) term->rebuild(lattice_);
  if (neural_) neural_->rebuild(lattice_);
}

NeuralTerm& State::neural() {
  if (!neural_) {
    std::unique_ptr<NeuralTerm> made = make_neural_term(*model_, lattice_);
    made->rebuild(lattice_);
    neural_ = std::move(made);
  }
  return *neural_;
}

// -- energies ---------------------------------------------------------------------------------------------

Energy State::energy() {
  Energy energy;
  if (model_->has_symbolic) energy.symbolic = symbolic_energy();
  if (model_->neural) energy.neural = neural_energy();
  return energy;
}

double State::selected_energy() {
  const bool symbolic = model_->has_symbolic && options_.selection != Selection::Neural;
  const bool neural = model_->neural && options_.selection != Selection::Symbolic;
  return (symbolic ? symbolic_energy() : 0.0) + (neural ? neural_energy() : 0.0);
}

double State::symbolic_energy() const {
  double sum = offset_;
  for (const auto& term : terms_) sum += term->energy(lattice_);
  return symbolic_weight_ * sum;
}

double State::neural_energy() { return neural_weight_ * neural().energy(); }

double State::symbolic_delta(const Flip& flip) const {
  double sum = 0.0;
  for (const auto& term : terms_) sum += term->delta(lattice_, flip);
  return symbolic_weight_ * sum;
}

Energy State::delta_parts(int site, std::int32_t new_id) {
  check_flip(site, new_id);
  Energy change;
  if (lattice_.ids[site] == new_id) return change;
  change.symbolic = symbolic_delta(Flip(lattice_, site, new_id));
  if (model_->neural) change.neural = neural_weight_ * neural().delta(lattice_, site, new_id);
  return change;
}

double State::delta(int site, std::int32_t new_id) {
  check_flip(site, new_id);
  return lattice_.ids[site] == new_id ? 0.0 : delta_unchecked(Flip(lattice_, site, new_id));
}

double State::delta_unchecked(const Flip& flip) {
  const double symbolic = symbolic_delta_unchecked(flip);
  return symbolic == std::numeric_limits<double>::infinity() ? symbolic : symbolic + neural_delta_unchecked(flip);
}

double State::symbolic_delta_unchecked(const Flip& flip) const {
  if (options_.forbid_extinction && flip.old_id > 0 && lattice_.volumes[flip.old_id] == 1)
    return std::numeric_limits<double>::infinity();
  return options_.selection == Selection::Neural ? 0.0 : symbolic_delta(flip);
}

double State::neural_delta_unchecked(const Flip& flip) {
  if (!model_->neural || options_.selection == Selection::Symbolic) return 0.0;
  return neural_weight_ * neural_->delta(lattice_, flip.site, flip.new_id);
}

// -- changes ----------------------------------------------------------------------------------------------

void State::commit(int site, std::int32_t new_id) {
  check_flip(site, new_id);
  if (lattice_.ids[site] != new_id) commit_unchecked(Flip(lattice_, site, new_id));
}

void State::commit_unchecked(const Flip& flip) {
  if (neural_) neural_->commit(lattice_, flip.site, flip.new_id);
  move_pixel(flip);
}

void State::move_pixel(const Flip& flip) {
  for (const auto& term : terms_) term->commit(lattice_, flip);
  lattice_.ids[flip.site] = flip.new_id;
  --lattice_.volumes[flip.old_id];
  ++lattice_.volumes[flip.new_id];
}

void State::change_pixels(const std::vector<int>& sites, const std::vector<std::int32_t>& new_ids) {
  if (sites.size() != new_ids.size())
    throw Error(str((long long)sites.size()) + " sites and " + str((long long)new_ids.size()) +
                " ids were given: give one id per site.");
  for (std::size_t i = 0; i < sites.size(); ++i) check_flip(sites[i], new_ids[i]);
  std::vector<int> changed;
  std::vector<std::int32_t> cells;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (lattice_.ids[sites[i]] == new_ids[i]) continue;
    changed.push_back(sites[i]);
    cells.push_back(lattice_.ids[sites[i]]);
    cells.push_back(new_ids[i]);
    move_pixel(Flip(lattice_, sites[i], new_ids[i]));
  }
  if (!neural_ || changed.empty()) return;
  for (auto* list : {&changed, &cells}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  neural_->changed(lattice_, changed, cells);
}

void State::set_type(std::int32_t id, int type) {
  if (id < 1 || id >= kMaxCells)
    throw Error("The type of cell " + str(id) + " was to be set, but cells have ids from 1 to " + str(kMaxCells - 1) +
                ": give such an id.");
  if (type != -1 && (type < 1 || type >= model_->types()))
    throw Error("Cell " + str(id) + " was to get type " + str(type) + ", but the model knows the cell types 1 to " +
                str(model_->types() - 1) + " (-1: no such cell): give one of them.");
  const int old_cells = lattice_.cells();
  if (type == -1 && (id >= old_cells || lattice_.types[id] == -1)) return;
  if (type == -1 && lattice_.volumes[id] > 0)
    throw Error("Cell " + str(id) + " was to be removed, but it still has " + str(lattice_.volumes[id]) +
                " pixels: give them to other cells first.");
  if (id >= old_cells) {
    lattice_.types.resize(id + 1, -1);
    lattice_.volumes.resize(id + 1, 0);
    for (const auto& term : terms_) term->grow(id + 1);
  }
  if (lattice_.types[id] == type) return;
  lattice_.types[id] = type;
  if (neural_) neural_->changed(lattice_, sites_of(id), {id});
}

void State::trade_types(std::int32_t a, std::int32_t b) {
  const std::int32_t type = lattice_.types[a];
  set_type(a, lattice_.types[b]);  // one after the other: what each reaches is small, their hull may not be
  set_type(b, type);
}

void State::remove_cell(std::int32_t id) {
  if (id < 1 || id >= lattice_.cells() || lattice_.types[id] == -1)
    throw Error("Cell " + str(id) + " was to be removed, but there is no such cell: give the id of a cell.");
  const std::vector<int> sites = sites_of(id);
  change_pixels(sites, std::vector<std::int32_t>(sites.size(), 0));
  set_type(id, -1);
}

void State::set_cell_coupling(std::vector<double> coupling, int cells, int fields) {
  if (!external_)
    throw Error("Couplings of single cells were given, but the model has no external potential: use one that has.");
  if (!coupling.empty() && (fields != external_->fields() || cells < 1))
    throw Error("Couplings to " + str(fields) + " fields were given, but the model has " + str(external_->fields()) +
                ": give an array of shape [cells, fields].");
  external_->set_cell_coupling(std::move(coupling));
}

// -- checks -----------------------------------------------------------------------------------------------

int State::site(std::int64_t row, std::int64_t col) const {
  if (row < 0 || row >= lattice_.height || col < 0 || col >= lattice_.width)
    throw Error("Site (" + str(row) + ", " + str(col) + ") lies outside of the lattice of " + str(lattice_.height) +
                " x " + str(lattice_.width) + " sites: give a site on it.");
  return static_cast<int>(row * lattice_.width + col);
}

std::int32_t State::cell(std::int64_t id) const {
  if (id < 0 || id >= lattice_.cells() || lattice_.types[id] < 0)
    throw Error("Cell " + str(id) + " was to be copied, but there is no such cell: give it a type first.");
  return static_cast<std::int32_t>(id);
}

void State::check_flip(int site, std::int32_t new_id) const {
  if (site < 0 || site >= lattice_.sites())
    throw Error("Site " + str(site) + " lies outside of the lattice of " + str(lattice_.sites()) +
                " sites: give a site on it.");
  cell(new_id);
}

std::vector<int> State::sites_of(std::int32_t id) const {
  std::vector<int> sites;
  for (int site = 0; lattice_.volumes[id] > std::int64_t(sites.size()); ++site)
    if (lattice_.ids[site] == id) sites.push_back(site);
  return sites;
}

}  // namespace ncpm
