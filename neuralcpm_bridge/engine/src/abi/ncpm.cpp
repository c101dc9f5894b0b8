#include "ncpm.h"

#include <algorithm>
#include <new>

#include "artifact.hpp"
#include "guarded.hpp"
#include "registry.hpp"
#include "sweep.hpp"

// The opaque types of the header.
struct ncpm_model {
  std::shared_ptr<const ncpm::Model> model;
};

struct ncpm_state : ncpm::GuardedState {
  using GuardedState::GuardedState;
};

struct ncpm_mirror : ncpm::GuardedMirror {
  using GuardedMirror::GuardedMirror;
};

namespace {

using namespace ncpm;

// Never destroyed: a host may still call while the process's static objects are going.
abi::Registry<ncpm_model>& models() {
  static auto* registry = new abi::Registry<ncpm_model>;
  return *registry;
}

abi::Registry<ncpm_state>& states() {
  static auto* registry = new abi::Registry<ncpm_state>;
  return *registry;
}

abi::Registry<ncpm_mirror>& mirrors() {
  static auto* registry = new abi::Registry<ncpm_mirror>;
  return *registry;
}

thread_local std::string last_error;

struct BadHandle {
  const char* kind;
};

// Runs the body of an ABI function: whatever it throws becomes a code and a sentence.
template <typename Body>
int guard(Body&& body) noexcept {
  try {
    try {
      body();
      return NCPM_OK;
    } catch (const BadHandle& bad) {
      last_error = std::string("The handle is not a ") + bad.kind + ", or it was freed: pass one that ncpm made.";
      return NCPM_HANDLE;
    } catch (const Error& error) {
      last_error = error.what();
    } catch (const std::bad_alloc&) {
      last_error = "The memory did not suffice: use a smaller lattice or fewer states.";
    } catch (const std::exception& error) {
      last_error = std::string("The engine failed unexpectedly (") + error.what() + "): please report it.";
    } catch (...) {
      last_error = "The engine failed unexpectedly: please report it.";
    }
  } catch (...) {  // no memory for the sentence itself
  }
  return NCPM_ERROR;
}

const Model& model_of(const std::shared_ptr<ncpm_model>& handle) {
  if (!handle) throw BadHandle{"model"};
  return *handle->model;
}

// Runs `body(State&)` on a live state, alone.
template <typename Body>
int with_state(ncpm_state* handle, Body&& body) noexcept {
  return guard([&] {
    const std::shared_ptr<ncpm_state> held = states().find(handle);
    if (!held) throw BadHandle{"state"};
    const auto lock = held->claim();
    body(held->state);
  });
}

// Runs `body(Mirror&)` on a live mirror, alone.
template <typename Body>
int with_mirror(ncpm_mirror* handle, Body&& body) noexcept {
  return guard([&] {
    const std::shared_ptr<ncpm_mirror> held = mirrors().find(handle);
    if (!held) throw BadHandle{"mirror"};
    const auto lock = held->claim();
    body(held->mirror);
  });
}

template <typename Value>
Value* given(Value* pointer, const char* what) {
  if (!pointer) throw Error(std::string("The argument '") + what + "' is null: pass an address.");
  return pointer;
}

template <typename Number>
std::vector<Number> copied(const Number* values, std::int64_t count, const char* what) {
  if (count < 0) throw Error(std::string("A negative number of ") + what + " was given: give 0 or more.");
  if (count == 0) return {};
  given(values, what);
  return std::vector<Number>(values, values + count);
}

Lattice lattice_from(const ncpm_lattice* lattice, const Model& model) {
  given(lattice, "lattice");
  if (lattice->dimension != 2 && lattice->dimension != 3)
    throw Error("A lattice of " + std::to_string(lattice->dimension) + " dimensions was given: give 2 or 3.");
  if (lattice->layout != NCPM_AXES && lattice->layout != NCPM_ROWS)
    throw Error("The layout " + std::to_string(lattice->layout) + " was given: choose NCPM_AXES or NCPM_ROWS.");
  std::vector<bool> periodic(lattice->dimension);
  for (std::size_t axis = 0; axis < periodic.size(); ++axis)
    periodic[axis] = lattice->periodic[axis] < 0 ? axis < model.periodic.size() && model.periodic[axis]
                                                 : lattice->periodic[axis] != 0;
  return Lattice::make(model.geometry, lattice->layout == NCPM_ROWS ? Layout::Rows : Layout::Axes,
                       {lattice->shape, lattice->shape + lattice->dimension}, periodic);
}

StateOptions options_from(const ncpm_options* options) {
  StateOptions chosen;
  if (!options) return chosen;
  if (options->part < NCPM_PART_FULL || options->part > NCPM_PART_SYMBOLIC)
    throw Error("The part " + std::to_string(options->part) +
                " was asked for: choose one of NCPM_PART_FULL, _NEURAL and _SYMBOLIC.");
  constexpr Part parts[] = {Part::Full, Part::Neural, Part::Symbolic};
  chosen.part = parts[options->part];
  chosen.rules.extinction = options->forbid_extinction != 0;
  return chosen;
}

std::vector<HostCell> cells_from(std::int64_t count, const std::int64_t* ids, const std::int32_t* types) {
  if (count < 0) throw Error("A negative number of cells was given: give 0 or more.");
  if (count > 0) given(ids, "cell_ids"), given(types, "types");
  std::vector<HostCell> cells;
  cells.reserve(std::size_t(count));
  for (std::int64_t i = 0; i < count; ++i) cells.push_back({ids[i], types[i]});
  return cells;
}

std::vector<int> sites_from(const State& state, std::int64_t count, const std::int64_t* sites) {
  std::vector<int> out;
  for (const std::int64_t site : copied(sites, count, "sites")) out.push_back(state.site(site));
  return out;
}

void check_room(const State& state, int32_t cells) {
  if (cells != state.tissue().cells())
    throw Error("Room for " + std::to_string(cells) + " cells was given, but there are " +
                std::to_string(state.tissue().cells()) + ": ask ncpm_get_cell_count first.");
}

void give(const Energy& energy, double* symbolic, double* neural) {
  *given(symbolic, "symbolic") = energy.symbolic;
  *given(neural, "neural") = energy.neural;
}

}  // namespace

extern "C" {

uint32_t ncpm_abi_version(void) { return NCPM_ABI_VERSION; }

const char* ncpm_last_error(void) { return last_error.c_str(); }

const char* ncpm_isa(void) {
  thread_local std::string name;
  return guard([] { name = selected_isa(); }) == NCPM_OK ? name.c_str() : nullptr;
}

ncpm_model* ncpm_load(const char* path) {
  ncpm_model* handle = nullptr;
  guard([&] {
    auto model = load_model(given(path, "path"));
    handle = models().add(std::make_shared<ncpm_model>(ncpm_model{std::move(model)}));
  });
  return handle;
}

int ncpm_free_model(ncpm_model* model) {
  return guard([&] {
    if (!models().remove(model)) throw BadHandle{"model"};
  });
}

const char* ncpm_metadata(const ncpm_model* model) {
  const char* text = nullptr;
  guard([&] { text = model_of(models().find(model)).metadata.c_str(); });
  return text;
}

int ncpm_type_count(const ncpm_model* model, int32_t* count) {
  return guard([&] { *given(count, "count") = model_of(models().find(model)).types(); });
}

const char* ncpm_type_name(const ncpm_model* model, int32_t type) {
  const char* name = nullptr;
  guard([&] {
    const Model& found = model_of(models().find(model));
    if (type < 0 || type >= found.types())
      throw Error("The name of type " + std::to_string(type) + " was asked for, but the model has the types 0 to " +
                  std::to_string(found.types() - 1) + ": give one of them.");
    name = found.type_names[type].c_str();
  });
  return name;
}

int ncpm_member_count(const ncpm_model* model, int32_t* count) {
  return guard([&] {
    const Model& read = model_of(models().find(model));
    *given(count, "count") = read.neural ? read.neural->members : 1;
  });
}

int ncpm_property_count(const ncpm_model* model, int32_t* count) {
  return guard([&] { *given(count, "count") = int32_t(model_of(models().find(model)).properties().size()); });
}

const char* ncpm_property_name(const ncpm_model* model, int32_t number) {
  const char* name = nullptr;
  guard([&] {
    const std::vector<std::string>& names = model_of(models().find(model)).properties();
    if (number < 0 || std::size_t(number) >= names.size())
      throw Error("The name of property " + std::to_string(number) + " was asked for, but the model reads " +
                  std::to_string(names.size()) + ": count them from 0.");
    name = names[number].c_str();
  });
  return name;
}

int ncpm_temperature(const ncpm_model* model, double* temperature) {
  return guard([&] { *given(temperature, "temperature") = model_of(models().find(model)).temperature; });
}

int ncpm_geometry(const ncpm_model* model, int32_t* geometry) {
  return guard([&] { *given(geometry, "geometry") = static_cast<int>(model_of(models().find(model)).geometry); });
}

int ncpm_is_periodic(const ncpm_model* model, int32_t axis, int32_t* periodic) {
  return guard([&] {
    const std::vector<bool>& rings = model_of(models().find(model)).periodic;
    if (axis < 0 || std::size_t(axis) >= rings.size())
      throw Error("Axis " + std::to_string(axis) + " was asked for, but the model's lattice has " +
                  std::to_string(rings.size()) + ": count them from 0.");
    *given(periodic, "periodic") = rings[axis];
  });
}

int ncpm_forbids_extinction(const ncpm_model* model, int32_t* forbids) {
  return guard([&] { *given(forbids, "forbids") = model_of(models().find(model)).forbids_extinction; });
}

ncpm_state* ncpm_create(const ncpm_model* model, const ncpm_lattice* lattice, const int32_t* ids, int32_t cells,
                        const int32_t* types, const ncpm_options* options) {
  ncpm_state* handle = nullptr;
  guard([&] {
    const std::shared_ptr<ncpm_model> held = models().find(model);
    const Lattice made = lattice_from(lattice, model_of(held));
    handle = states().add(std::make_shared<ncpm_state>(held->model, made, copied(ids, made.sites(), "ids"),
                                                       copied(types, cells, "types"), options_from(options)));
  });
  return handle;
}

int ncpm_free_state(ncpm_state* state) {
  return guard([&] {
    if (!states().remove(state)) throw BadHandle{"state"};
  });
}

int ncpm_reset(ncpm_state* state, const int32_t* ids, int32_t cells, const int32_t* types) {
  return with_state(state,
                    [&](State& s) { s.reset(copied(ids, s.tissue().sites(), "ids"), copied(types, cells, "types")); });
}

int ncpm_energy(ncpm_state* state, double* symbolic, double* neural) {
  return with_state(state, [&](State& s) { give(s.energy(), symbolic, neural); });
}

int ncpm_delta(ncpm_state* state, int64_t site, int32_t new_id, double* delta) {
  return with_state(state, [&](State& s) { *given(delta, "delta") = s.delta(s.site(site), new_id); });
}

int ncpm_delta_parts(ncpm_state* state, int64_t site, int32_t new_id, double* symbolic, double* neural) {
  return with_state(state, [&](State& s) { give(s.delta_parts(s.site(site), new_id), symbolic, neural); });
}

int ncpm_spread(ncpm_state* state, double* spread) {
  return with_state(state, [&](State& s) { *given(spread, "spread") = s.spread(); });
}

int ncpm_delta_spread(ncpm_state* state, int64_t site, int32_t new_id, double* spread) {
  return with_state(state, [&](State& s) { *given(spread, "spread") = s.delta_spread(s.site(site), new_id); });
}

int ncpm_inside_range(ncpm_state* state, int32_t cells, uint8_t* inside) {
  return with_state(state, [&](State& s) {
    check_room(s, cells);
    const std::vector<std::uint8_t> found = s.inside_range();
    std::copy(found.begin(), found.end(), given(inside, "inside"));
  });
}

int ncpm_commit(ncpm_state* state, int64_t site, int32_t new_id) {
  return with_state(state, [&](State& s) { s.commit(s.site(site), new_id); });
}

int ncpm_change_pixels(ncpm_state* state, int64_t count, const int64_t* sites, const int32_t* new_ids) {
  return with_state(state,
                    [&](State& s) { s.change_pixels(sites_from(s, count, sites), copied(new_ids, count, "new_ids")); });
}

int ncpm_set_type(ncpm_state* state, int32_t id, int32_t type) {
  return with_state(state, [&](State& s) { s.set_type(id, type); });
}

int ncpm_set_property(ncpm_state* state, int32_t id, int32_t number, double value) {
  return with_state(state, [&](State& s) { s.set_property(id, number, value); });
}

int ncpm_remove_cell(ncpm_state* state, int32_t id) {
  return with_state(state, [&](State& s) { s.remove_cell(id); });
}

int ncpm_sweep(ncpm_state* state, int64_t mcs, double temperature, uint64_t seed, int32_t copy_order, uint32_t flags,
               ncpm_counts* counts) {
  return with_state(state, [&](State& s) {
    if (flags & ~std::uint32_t(NCPM_BOUNDARY_ONLY))
      throw Error("The sweep got unknown flags (" + std::to_string(flags) + "): use NCPM_BOUNDARY_ONLY or 0.");
    SweepOptions options;
    options.mcs = mcs;
    options.temperature = temperature;
    options.seed = seed;
    options.copy_order = copy_order;
    options.boundary_only = flags & NCPM_BOUNDARY_ONLY;
    const SweepCounts result = sweep(s, options);
    if (counts) *counts = {result.attempts, result.proposals, result.accepted};
  });
}

int ncpm_get_ids(ncpm_state* state, int32_t* ids) {
  return with_state(state,
                    [&](State& s) { std::copy(s.tissue().ids.begin(), s.tissue().ids.end(), given(ids, "ids")); });
}

int ncpm_get_cell_count(ncpm_state* state, int32_t* cells) {
  return with_state(state, [&](State& s) { *given(cells, "cells") = s.tissue().cells(); });
}

int ncpm_get_cells(ncpm_state* state, int32_t cells, int32_t* types, int64_t* volumes) {
  return with_state(state, [&](State& s) {
    const Tissue& tissue = s.tissue();
    check_room(s, cells);
    if (types) std::copy(tissue.types.begin(), tissue.types.end(), types);
    if (volumes) std::copy(tissue.volumes.begin(), tissue.volumes.end(), volumes);
  });
}

ncpm_mirror* ncpm_mirror_create(const ncpm_model* model, const ncpm_lattice* lattice, const ncpm_options* options) {
  ncpm_mirror* handle = nullptr;
  guard([&] {
    const std::shared_ptr<ncpm_model> held = models().find(model);
    const Lattice made = lattice_from(lattice, model_of(held));
    handle = mirrors().add(std::make_shared<ncpm_mirror>(held->model, made, options_from(options)));
  });
  return handle;
}

int ncpm_free_mirror(ncpm_mirror* mirror) {
  return guard([&] {
    if (!mirrors().remove(mirror)) throw BadHandle{"mirror"};
  });
}

int ncpm_mirror_load(ncpm_mirror* mirror, const int64_t* host_ids, int64_t cells, const int64_t* cell_ids,
                     const int32_t* types) {
  return with_mirror(mirror,
                     [&](Mirror& m) { m.load(given(host_ids, "host_ids"), cells_from(cells, cell_ids, types)); });
}

int ncpm_mirror_follow(ncpm_mirror* mirror, int64_t cells, const int64_t* cell_ids, const int32_t* types,
                       int64_t written, const int64_t* sites, const int64_t* host_ids, int32_t* followed) {
  return with_mirror(mirror, [&](Mirror& m) {
    given(followed, "followed");
    *followed = m.follow(cells_from(cells, cell_ids, types), sites_from(m.state(), written, sites),
                         copied(host_ids, written, "host_ids"));
  });
}

int ncpm_mirror_appear(ncpm_mirror* mirror, int64_t host_id, int32_t type, int32_t* followed) {
  return with_mirror(mirror, [&](Mirror& m) {
    given(followed, "followed");
    *followed = m.appear({host_id, type});
  });
}

int ncpm_mirror_set_property(ncpm_mirror* mirror, int64_t host_id, int32_t number, double value) {
  return with_mirror(mirror, [&](Mirror& m) { m.set_property(host_id, number, value); });
}

int ncpm_mirror_delta(ncpm_mirror* mirror, int64_t site, int64_t host_id, double* delta) {
  return with_mirror(mirror, [&](Mirror& m) { *given(delta, "delta") = m.delta(site, host_id); });
}

int ncpm_mirror_commit(ncpm_mirror* mirror, int64_t site, int64_t host_id) {
  return with_mirror(mirror, [&](Mirror& m) { m.commit(site, host_id); });
}

int ncpm_mirror_energy(ncpm_mirror* mirror, double* symbolic, double* neural) {
  return with_mirror(mirror, [&](Mirror& m) { give(m.state().energy(), symbolic, neural); });
}

int ncpm_mirror_delta_spread(ncpm_mirror* mirror, int64_t site, int64_t host_id, double* spread) {
  return with_mirror(mirror, [&](Mirror& m) { *given(spread, "spread") = m.opinion(site, host_id).spread; });
}

int ncpm_mirror_opinion(ncpm_mirror* mirror, int64_t site, int64_t host_id, double* neural, double* spread) {
  return with_mirror(mirror, [&](Mirror& m) {
    given(neural, "neural"), given(spread, "spread");
    const Mirror::Opinion opinion = m.opinion(site, host_id);
    *neural = opinion.mean;
    *spread = opinion.spread;
  });
}

int ncpm_mirror_outside(ncpm_mirror* mirror, int64_t site, int64_t host_id, double* share) {
  return with_mirror(mirror, [&](Mirror& m) { *given(share, "share") = m.outside(site, host_id); });
}

int ncpm_mirror_range(ncpm_mirror* mirror, int64_t* cells, int64_t* outside) {
  return with_mirror(mirror, [&](Mirror& m) {
    given(cells, "cells"), given(outside, "outside");
    const Mirror::Range range = m.range();
    *cells = range.cells;
    *outside = range.outside;
  });
}

int ncpm_mirror_compare(ncpm_mirror* mirror, const int64_t* host_ids, int64_t* differing, double* symbolic,
                        double* neural, double* drift) {
  return with_mirror(mirror, [&](Mirror& m) {
    given(differing, "differing"), given(symbolic, "symbolic"), given(neural, "neural"), given(drift, "drift");
    const Comparison found = m.compare(given(host_ids, "host_ids"));
    *differing = found.differing;
    *drift = found.drift;
    give(found.energy, symbolic, neural);
  });
}

}  // extern "C"
