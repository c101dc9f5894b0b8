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

template <typename Value>
Value* given(Value* pointer, const char* what) {
  if (!pointer) throw Error(std::string("The argument '") + what + "' is null: pass an address.");
  return pointer;
}

std::vector<std::int32_t> copied(const std::int32_t* values, std::int64_t count, const char* what) {
  if (count < 0) throw Error(std::string("A negative number of ") + what + " was given: give 0 or more.");
  if (count == 0) return {};
  given(values, what);
  return std::vector<std::int32_t>(values, values + count);
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

int ncpm_temperature(const ncpm_model* model, double* temperature) {
  return guard([&] { *given(temperature, "temperature") = model_of(models().find(model)).temperature; });
}

int ncpm_is_periodic(const ncpm_model* model, int32_t* periodic) {
  return guard([&] { *given(periodic, "periodic") = model_of(models().find(model)).periodic; });
}

int ncpm_forbids_extinction(const ncpm_model* model, int32_t* forbids) {
  return guard([&] { *given(forbids, "forbids") = model_of(models().find(model)).forbids_extinction; });
}

ncpm_state* ncpm_create(const ncpm_model* model, int32_t height, int32_t width, const int32_t* ids, int32_t cells,
                        const int32_t* types, const ncpm_options* options) {
  ncpm_state* handle = nullptr;
  guard([&] {
    const std::shared_ptr<ncpm_model> held = models().find(model);
    model_of(held);
    StateOptions chosen;
    if (options) {
      if (options->term < NCPM_TERM_FULL || options->term > NCPM_TERM_SYMBOLIC)
        throw Error("The term " + std::to_string(options->term) +
                    " was asked for: choose one of NCPM_TERM_FULL, _NEURAL and _SYMBOLIC.");
      constexpr Selection selections[] = {Selection::Full, Selection::Neural, Selection::Symbolic};
      chosen = {selections[options->term], options->forbid_extinction != 0};
    }
    if (height < 1 || width < 1)
      throw Error("A lattice without sites was given: give a height and a width of at least 1.");
    handle = states().add(std::make_shared<ncpm_state>(held->model, height, width,
                                                       copied(ids, std::int64_t(height) * width, "ids"),
                                                       copied(types, cells, "types"), chosen));
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
                    [&](State& s) { s.reset(copied(ids, s.lattice().sites(), "ids"), copied(types, cells, "types")); });
}

int ncpm_energy(ncpm_state* state, double* symbolic, double* neural) {
  return with_state(state, [&](State& s) {
    given(symbolic, "symbolic"), given(neural, "neural");
    const Energy energy = s.energy();
    *symbolic = energy.symbolic;
    *neural = energy.neural;
  });
}

int ncpm_delta(ncpm_state* state, int32_t row, int32_t col, int32_t new_id, double* delta) {
  return with_state(state, [&](State& s) { *given(delta, "delta") = s.delta(s.site(row, col), new_id); });
}

int ncpm_delta_parts(ncpm_state* state, int32_t row, int32_t col, int32_t new_id, double* symbolic, double* neural) {
  return with_state(state, [&](State& s) {
    given(symbolic, "symbolic"), given(neural, "neural");
    const Energy change = s.delta_parts(s.site(row, col), new_id);
    *symbolic = change.symbolic;
    *neural = change.neural;
  });
}

int ncpm_commit(ncpm_state* state, int32_t row, int32_t col, int32_t new_id) {
  return with_state(state, [&](State& s) { s.commit(s.site(row, col), new_id); });
}

int ncpm_change_pixels(ncpm_state* state, int32_t count, const int32_t* rows, const int32_t* cols,
                       const int32_t* new_ids) {
  return with_state(state, [&](State& s) {
    const std::vector<std::int32_t> row = copied(rows, count, "rows"), col = copied(cols, count, "cols");
    std::vector<int> sites(row.size());
    for (std::size_t i = 0; i < sites.size(); ++i) sites[i] = s.site(row[i], col[i]);
    s.change_pixels(sites, copied(new_ids, count, "new_ids"));
  });
}

int ncpm_set_type(ncpm_state* state, int32_t id, int32_t type) {
  return with_state(state, [&](State& s) { s.set_type(id, type); });
}

int ncpm_remove_cell(ncpm_state* state, int32_t id) {
  return with_state(state, [&](State& s) { s.remove_cell(id); });
}

int ncpm_sweep(ncpm_state* state, int64_t mcs, double temperature, uint64_t seed, uint32_t flags, ncpm_counts* counts) {
  return with_state(state, [&](State& s) {
    if (flags & ~std::uint32_t(NCPM_VON_NEUMANN | NCPM_BOUNDARY_ONLY))
      throw Error("The sweep got unknown flags (" + std::to_string(flags) +
                  "): combine NCPM_VON_NEUMANN and NCPM_BOUNDARY_ONLY only.");
    SweepOptions options;
    options.mcs = mcs;
    options.temperature = temperature;
    options.seed = seed;
    options.von_neumann = flags & NCPM_VON_NEUMANN;
    options.boundary_only = flags & NCPM_BOUNDARY_ONLY;
    const SweepCounts result = sweep(s, options);
    if (counts) *counts = {result.attempts, result.proposals, result.accepted};
  });
}

int ncpm_get_ids(ncpm_state* state, int32_t* ids) {
  return with_state(state,
                    [&](State& s) { std::copy(s.lattice().ids.begin(), s.lattice().ids.end(), given(ids, "ids")); });
}

int ncpm_get_cell_count(ncpm_state* state, int32_t* cells) {
  return with_state(state, [&](State& s) { *given(cells, "cells") = s.lattice().cells(); });
}

int ncpm_get_cells(ncpm_state* state, int32_t cells, int32_t* types, int64_t* volumes) {
  return with_state(state, [&](State& s) {
    const Lattice& lattice = s.lattice();
    if (cells != lattice.cells())
      throw Error("Room for " + std::to_string(cells) + " cells was given, but there are " +
                  std::to_string(lattice.cells()) + ": ask ncpm_get_cell_count first.");
    if (types) std::copy(lattice.types.begin(), lattice.types.end(), types);
    if (volumes) std::copy(lattice.volumes.begin(), lattice.volumes.end(), volumes);
  });
}

}  // extern "C"
