#include "state.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "error.hpp"

namespace ncpm {
namespace {

std::string str(long long number) { return std::to_string(number); }

double deviation(const std::vector<double>& values) {
  double mean = 0.0, squares = 0.0;
  for (const double value : values) mean += value / double(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean) / double(values.size());
  return std::sqrt(squares);
}

void check_lattice(const Model& model, const Lattice& lattice) {
  if (lattice.geometry != model.geometry)
    throw Error(std::string("A ") + name_of(lattice.geometry) + " lattice was given, but the model is for " +
                name_of(model.geometry) + " ones: use a state on such a lattice or another model.");
  if (!model.fixed_shape.empty() && lattice.shape() != model.fixed_shape)
    throw Error("A lattice of " + lattice.text() + " sites was given, but the model is bound to " +
                size_text({model.fixed_shape.begin(), model.fixed_shape.end()}) + ": use a state of that size.");
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

void check_properties(const Model& model, const std::vector<std::int32_t>& types, const Properties& properties) {
  if (properties.empty()) return;
  const std::vector<std::string>& names = model.properties();
  if (properties.size() != names.size())
    throw Error(str((long long)properties.size()) + " properties of cells were given, but the model reads " +
                str((long long)names.size()) + ": give exactly those.");
  for (std::size_t number = 0; number < names.size(); ++number) {
    const std::string& name = names[number];
    if (properties[number].size() != types.size())
      throw Error("The property '" + name + "' has " + str((long long)properties[number].size()) +
                  " values, but there are " + str((long long)types.size()) + " ids: give one value per id.");
    for (std::size_t id = 1; id < types.size(); ++id)
      if (types[id] > 0 && !std::isfinite(properties[number][id]))
        throw Error("The property '" + name + "' of cell " + str((long long)id) +
                    " is not a finite number: give it a value.");
  }
}

}  // namespace

State::State(std::shared_ptr<const Model> model, const Lattice& lattice, std::vector<std::int32_t> ids,
             std::vector<std::int32_t> types, StateOptions options, Properties properties)
    : model_(std::move(model)), options_(options) {
  check_lattice(*model_, lattice);
  check_cells(*model_, std::size_t(lattice.sites()), ids, types);
  check_properties(*model_, types, properties);
  tissue_.lattice = lattice;
  symbolic_weight_ = model_->scalar("symbolic.weight", 1.0);
  offset_ = model_->scalar("symbolic.offset", 0.0);
  neural_weight_ = model_->scalar("neural.weight", 1.0);
  terms_ = make_terms(*model_, tissue_);
  if (model_->neural && model_->neural->is_graph()) {
    tissue_.look_at(model_->neural->order);
    tissue_.look_at_shapes();
  }
  adopt(std::move(ids), std::move(types), std::move(properties));
  if (model_->neural && options_.part != Part::Symbolic) neural();
}

void State::adopt(std::vector<std::int32_t> ids, std::vector<std::int32_t> types, Properties properties) {
  std::optional<CellMoments> moments = measured(ids, int(types.size()));
  fill_properties(properties, types);
  tissue_.ids = std::move(ids);
  tissue_.types = std::move(types);
  tissue_.properties = std::move(properties);
  tissue_.moments = std::move(moments);
  rebuild_caches();
}

std::optional<CellMoments> State::measured(const std::vector<std::int32_t>& ids, int cells) const {
  if (!tissue_.moments) return std::nullopt;
  CellMoments found;
  found.rebuild(tissue_.lattice, ids, cells);
  found.check_spans(tissue_.lattice);
  return found;
}

void State::reset(std::vector<std::int32_t> ids, std::vector<std::int32_t> types, Properties properties) {
  check_cells(*model_, tissue_.ids.size(), ids, types);
  check_properties(*model_, types, properties);
  adopt(std::move(ids), std::move(types), std::move(properties));
}

void State::rebuild() {
  tissue_.moments = measured(tissue_.ids, tissue_.cells());
  rebuild_caches();
}

// Ids that have none get the mean of the training data, and so do those of no cell.
void State::fill_properties(Properties& properties, const std::vector<std::int32_t>& types) const {
  properties.resize(model_->properties().size());
  for (std::size_t number = 0; number < properties.size(); ++number) {
    const double mean = model_->property_mean(int(number));
    properties[number].resize(types.size(), mean);
    for (std::size_t id = 0; id < types.size(); ++id)
      if (types[id] < 1) properties[number][id] = mean;
  }
}

void State::rebuild_caches() {
  tissue_.volumes.assign(tissue_.cells(), 0);
  for (const std::int32_t id : tissue_.ids) ++tissue_.volumes[id];
  for (const auto& term : terms_) term->rebuild(tissue_);
  if (neural_) neural_->rebuild(tissue_);
}

NeuralTerm& State::neural() {
  if (!neural_) {
    std::unique_ptr<NeuralTerm> made = make_neural_term(*model_, tissue_);
    made->rebuild(tissue_);
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
  const bool symbolic = model_->has_symbolic && options_.part != Part::Neural;
  const bool neural = model_->neural && options_.part != Part::Symbolic;
  return (symbolic ? symbolic_energy() : 0.0) + (neural ? neural_energy() : 0.0);
}

double State::symbolic_energy() const {
  double sum = offset_;
  for (const auto& term : terms_) sum += term->energy(tissue_);
  return symbolic_weight_ * sum;
}

double State::neural_energy() { return neural_weight_ * neural().energy(); }

double State::symbolic_delta(const Flip& flip) const {
  double sum = 0.0;
  for (const auto& term : terms_) sum += term->delta(tissue_, flip);
  return symbolic_weight_ * sum;
}

Energy State::delta_parts(int site, std::int32_t new_id) {
  check_flip(site, new_id);
  Energy change;
  if (tissue_.ids[site] == new_id) return change;
  tissue_.has_shape(new_id, site);  // seen the right way round, whatever the rules say
  change.symbolic = symbolic_delta(Flip(tissue_, site, new_id));
  if (model_->neural) change.neural = neural_weight_ * neural().delta(tissue_, site, new_id);
  return change;
}

double State::delta(int site, std::int32_t new_id) {
  check_flip(site, new_id);
  return tissue_.ids[site] == new_id ? 0.0 : delta_unchecked(Flip(tissue_, site, new_id));
}

double State::delta_unchecked(const Flip& flip) {
  const double symbolic = symbolic_delta_unchecked(flip);
  return symbolic == std::numeric_limits<double>::infinity() ? symbolic : symbolic + neural_delta_unchecked(flip);
}

double State::symbolic_delta_unchecked(const Flip& flip) {
  if (options_.rules.forbid(tissue_, flip)) return std::numeric_limits<double>::infinity();
  return options_.part == Part::Neural ? 0.0 : symbolic_delta(flip);
}

double State::neural_delta_unchecked(const Flip& flip) {
  if (!model_->neural || options_.part == Part::Symbolic) return 0.0;
  return neural_weight_ * neural_->delta(tissue_, flip.site, flip.new_id);
}

// -- changes ----------------------------------------------------------------------------------------------

void State::commit(int site, std::int32_t new_id) {
  check_flip(site, new_id);
  if (tissue_.ids[site] != new_id) commit_unchecked(Flip(tissue_, site, new_id));
}

void State::commit_unchecked(const Flip& flip) {
  if (neural_) neural_->commit(tissue_, flip.site, flip.new_id);
  move_pixel(flip);
}

void State::move_pixel(const Flip& flip) {
  for (const auto& term : terms_) term->commit(tissue_, flip);
  if (tissue_.moments) tissue_.moments->commit(tissue_.lattice, tissue_.ids, flip.site, flip.new_id);
  tissue_.ids[flip.site] = flip.new_id;
  --tissue_.volumes[flip.old_id];
  ++tissue_.volumes[flip.new_id];
}

void State::change_pixels(const std::vector<int>& sites, const std::vector<std::int32_t>& new_ids) {
  if (sites.size() != new_ids.size())
    throw Error(str((long long)sites.size()) + " sites and " + str((long long)new_ids.size()) +
                " ids were given: give one id per site.");
  for (std::size_t i = 0; i < sites.size(); ++i) check_flip(sites[i], new_ids[i]);
  std::vector<int> changed;
  std::vector<std::int32_t> cells;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (tissue_.ids[sites[i]] == new_ids[i]) continue;
    changed.push_back(sites[i]);
    cells.push_back(tissue_.ids[sites[i]]);
    cells.push_back(new_ids[i]);
    if (neural_) neural_->follow(tissue_, sites[i], new_ids[i]);
    move_pixel(Flip(tissue_, sites[i], new_ids[i]));
  }
  if (!neural_ || changed.empty()) return;
  for (auto* list : {&changed, &cells}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  neural_->changed(tissue_, changed, cells);
}

void State::set_type(std::int32_t id, int type) {
  if (id < 1 || id >= kMaxCells)
    throw Error("The type of cell " + str(id) + " was to be set, but cells have ids from 1 to " + str(kMaxCells - 1) +
                ": give such an id.");
  if (type != -1 && (type < 1 || type >= model_->types()))
    throw Error("Cell " + str(id) + " was to get type " + str(type) + ", but the model knows the cell types 1 to " +
                str(model_->types() - 1) + " (-1: no such cell): give one of them.");
  const int old_cells = tissue_.cells();
  if (type == -1 && (id >= old_cells || tissue_.types[id] == -1)) return;
  if (type == -1 && tissue_.volumes[id] > 0)
    throw Error("Cell " + str(id) + " was to be removed, but it still has " + str(tissue_.volumes[id]) +
                " pixels: give them to other cells first.");
  if (id >= old_cells) {
    tissue_.types.resize(id + 1, -1);
    tissue_.volumes.resize(id + 1, 0);
    fill_properties(tissue_.properties, tissue_.types);
    if (tissue_.moments) tissue_.moments->grow(id + 1);
    for (const auto& term : terms_) term->grow(id + 1);
  }
  if (tissue_.types[id] == type) return;
  if (type == -1)
    for (std::size_t number = 0; number < tissue_.properties.size(); ++number)
      tissue_.properties[number][id] = model_->property_mean(int(number));
  give_type(id, type);
}

void State::give_type(std::int32_t id, int type) {
  tissue_.types[id] = type;
  if (neural_) neural_->changed(tissue_, neural_->wants_sites() ? sites_of(id) : std::vector<int>(), {id});
}

void State::set_property(std::int32_t id, int number, double value) {
  const int known = int(tissue_.properties.size());
  if (number < 0 || number >= known)
    throw Error("Property " + str(number) + " was to be set, but the model reads " + str(known) +
                " properties of cells: count them from 0.");
  const std::string& name = model_->properties()[number];
  if (id < 1 || id >= tissue_.cells() || tissue_.types[id] < 1)
    throw Error("The property '" + name + "' of cell " + str(id) +
                " was to be set, but there is no such cell: give it a type first.");
  if (!std::isfinite(value))
    throw Error("The property '" + name + "' of cell " + str(id) + " was to become " + std::to_string(value) +
                ": give a finite number.");
  if (tissue_.properties[number][id] == value) return;
  tissue_.properties[number][id] = value;
  if (neural_) neural_->changed(tissue_, {}, {id});
}

std::vector<double> State::member_energies() {
  std::vector<double> energies;
  if (model_->neural) neural().member_energies(energies);
  for (double& energy : energies) energy *= neural_weight_;
  return energies;
}

std::vector<double> State::member_deltas(int site, std::int32_t new_id) {
  check_flip(site, new_id);
  std::vector<double> deltas;
  if (!model_->neural) return deltas;
  tissue_.has_shape(new_id, site);
  if (tissue_.ids[site] == new_id) deltas.assign(model_->neural->members, 0.0);
  else neural().member_deltas(tissue_, site, new_id, deltas);
  for (double& delta : deltas) delta *= neural_weight_;
  return deltas;
}

double State::spread() { return deviation(member_energies()); }

double State::delta_spread(int site, std::int32_t new_id) { return deviation(member_deltas(site, new_id)); }

std::vector<std::uint8_t> State::inside_range() {
  std::vector<std::uint8_t> inside(tissue_.cells(), 1);
  for (int id = 1; id < tissue_.cells(); ++id) inside[id] = inside_range(id);
  return inside;
}

bool State::inside_range(std::int32_t id) {
  return !model_->neural || tissue_.types[id] < 1 || neural().inside_range(tissue_, id);
}

void State::trade_places(std::int32_t a, std::int32_t b) {
  for (std::vector<double>& values : tissue_.properties) std::swap(values[a], values[b]);
  const std::int32_t type = tissue_.types[a];
  give_type(a, tissue_.types[b]);  // one after the other: what each reaches is small, their hull may not be
  give_type(b, type);
}

void State::remove_cell(std::int32_t id) {
  if (id < 1 || id >= tissue_.cells() || tissue_.types[id] == -1)
    throw Error("Cell " + str(id) + " was to be removed, but there is no such cell: give the id of a cell.");
  const std::vector<int> sites = sites_of(id);
  change_pixels(sites, std::vector<std::int32_t>(sites.size(), 0));
  set_type(id, -1);
}

void State::set_cell_coupling(const std::vector<double>& coupling, int cells, int fields) {
  for (const auto& term : terms_)
    if (term->couple(coupling, cells, fields)) return;
  throw Error("Couplings of single cells were given, but the model has no external potential: use one that has.");
}

// -- checks -----------------------------------------------------------------------------------------------

int State::site(std::int64_t site) const {
  if (site < 0 || site >= tissue_.sites())
    throw Error("Site " + str(site) + " lies outside of the lattice of " + tissue_.lattice.text() +
                " sites: give a site on it.");
  return static_cast<int>(site);
}

std::int32_t State::cell(std::int64_t id) const {
  if (id < 0 || id >= tissue_.cells() || tissue_.types[id] < 0)
    throw Error("Cell " + str(id) + " was to be copied, but there is no such cell: give it a type first.");
  return static_cast<std::int32_t>(id);
}

void State::check_flip(int at, std::int32_t new_id) const {
  site(at);
  cell(new_id);
}

std::vector<int> State::sites_of(std::int32_t id) const {
  std::vector<int> sites;
  for (int site = 0; tissue_.volumes[id] > std::int64_t(sites.size()); ++site)
    if (tissue_.ids[site] == id) sites.push_back(site);
  return sites;
}

}  // namespace ncpm
