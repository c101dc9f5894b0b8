#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "convert.hpp"
#include "guarded.hpp"
#include "sweep.hpp"

namespace ncpm::python {
namespace {

using Self = GuardedState;

SweepOptions sweep_options(std::int64_t mcs, double temperature, std::uint64_t seed, int copy_order, bool boundary_only,
                           bool balanced, bool staged, int trades) {
  SweepOptions options;
  options.mcs = mcs;
  options.temperature = temperature;
  options.seed = seed;
  options.copy_order = copy_order;
  options.boundary_only = boundary_only;
  options.balanced = balanced;
  options.staged = staged;
  options.trades = trades;
  return options;
}

nb::dict as_dict(const SweepCounts& counts) {
  nb::dict out;
  out["attempts"] = counts.attempts;
  out["proposals"] = counts.proposals;
  out["accepted"] = counts.accepted;
  out["traded"] = counts.traded;
  return out;
}

struct Flips {
  std::vector<int> sites;
  std::vector<std::int32_t> ids;

  Flips(const State& state, const Indices& at, const Indices& new_ids) {
    if (at.size() != new_ids.size())
      throw Error(std::to_string(at.size()) + " sites and " + std::to_string(new_ids.size()) +
                  " ids were given: give one of each per flip.");
    for (std::size_t i = 0; i < at.size(); ++i) {
      sites.push_back(state.site(at(i)));
      ids.push_back(state.cell(new_ids(i)));
    }
  }
};

std::shared_ptr<Self> make_state(std::shared_ptr<Model> model, const Ids& ids, const Types& types,
                                 const std::string& part, bool forbid_extinction, const std::string& layout,
                                 const std::vector<std::string>& boundary, const std::optional<Table>& properties) {
  const StateOptions options = options_from(part, forbid_extinction);
  const Lattice lattice = lattice_of(*model, ids, layout, boundary);
  auto id_list = to_vector(ids);
  auto type_list = to_vector(types);
  Properties of_cells = properties_from(properties);
  nb::gil_scoped_release unlocked;
  return std::make_shared<Self>(std::move(model), lattice, std::move(id_list), std::move(type_list), options,
                                std::move(of_cells));
}

void reset(Self& self, const Ids& ids, const Types& types, const std::optional<Table>& properties) {
  const auto lock = self.claim();
  const Lattice& lattice = self.state.lattice();
  std::vector<std::int64_t> found;
  for (std::size_t axis = 0; axis < ids.ndim(); ++axis) found.push_back(std::int64_t(ids.shape(axis)));
  const std::vector<int> shape = lattice.shape();
  if (found != std::vector<std::int64_t>(shape.begin(), shape.end()))
    throw Error("A lattice of " + size_text(found) + " sites was given to a state of " + lattice.text() +
                ": make a new state.");
  self.state.reset(to_vector(ids), to_vector(types), properties_from(properties));
}

nb::object deltas(Self& self, const Indices& sites, const Indices& new_ids) {
  const auto lock = self.claim();
  const Flips flips(self.state, sites, new_ids);
  std::vector<double> parts;
  {
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < flips.sites.size(); ++i) {
      const Energy change = self.state.delta_parts(flips.sites[i], flips.ids[i]);
      parts.insert(parts.end(), {change.symbolic, change.neural});
    }
  }
  return to_numpy(std::move(parts), {flips.sites.size(), 2});
}

nb::list chains(const std::vector<Self*>& states, const SweepOptions& options, const std::vector<std::uint64_t>& seeds,
                int threads) {
  std::vector<SweepCounts> counts;
  {
    nb::gil_scoped_release unlocked;
    std::vector<std::unique_lock<std::mutex>> locks;
    std::vector<State*> inner;
    for (Self* state : states) {
      locks.push_back(state->claim());
      inner.push_back(&state->state);
    }
    counts = run_chains(inner, options, seeds, threads);
  }
  nb::list out;
  for (const SweepCounts& count : counts) out.append(as_dict(count));
  return out;
}

}  // namespace

void bind_state(nb::module_& m) {
  nb::class_<Self>(m, "State", "One state under one model. Used by one thread at a time.")
      .def(nb::new_(&make_state), nb::arg("model"), nb::arg("ids").noconvert(), nb::arg("types").noconvert(),
           nb::arg("part") = "full", nb::arg("forbid_extinction") = false, nb::arg("layout") = "axes",
           nb::arg("boundary") = std::vector<std::string>(), nb::arg("properties").noconvert() = nb::none(),
           "ids [H, W] or [D, H, W]; boundary: a word per axis, none: the model's; properties [C, P] of cells, none: "
           "the training data's means.")
      .def("reset", &reset, nb::arg("ids").noconvert(), nb::arg("types").noconvert(),
           nb::arg("properties").noconvert() = nb::none())
      .def(
          "rebuild",
          [](Self& self) {
            const auto lock = self.claim();
            self.state.rebuild();
          },
          "Compute every cache from scratch.")
      .def(
          "energy",
          [](Self& self) {
            const auto lock = self.claim();
            return as_pair(self.state.energy());
          },
          "(w_S·H_S, w_NN·H_NN)")
      .def(
          "delta",
          [](Self& self, std::int64_t site, std::int64_t new_id) {
            const auto lock = self.claim();
            return self.state.delta(self.state.site(site), self.state.cell(new_id));
          },
          nb::arg("site"), nb::arg("new_id"), "ΔH of the selected part; inf for what a rule forbids.")
      .def(
          "delta_parts",
          [](Self& self, std::int64_t site, std::int64_t new_id) {
            const auto lock = self.claim();
            return as_pair(self.state.delta_parts(self.state.site(site), self.state.cell(new_id)));
          },
          nb::arg("site"), nb::arg("new_id"), "(symbolic, neural) ΔH, whatever is selected.")
      .def("deltas", &deltas, nb::arg("sites").noconvert(), nb::arg("new_ids").noconvert(),
           "ΔH of independent flips, [n, 2]: symbolic and neural part.")
      .def(
          "commit",
          [](Self& self, std::int64_t site, std::int64_t new_id) {
            const auto lock = self.claim();
            self.state.commit(self.state.site(site), self.state.cell(new_id));
          },
          nb::arg("site"), nb::arg("new_id"))
      .def(
          "change_pixels",
          [](Self& self, const Indices& sites, const Indices& new_ids) {
            const auto lock = self.claim();
            const Flips flips(self.state, sites, new_ids);
            nb::gil_scoped_release unlocked;
            self.state.change_pixels(flips.sites, flips.ids);
          },
          nb::arg("sites").noconvert(), nb::arg("new_ids").noconvert())
      .def(
          "set_type",
          [](Self& self, std::int32_t cell, int type) {
            const auto lock = self.claim();
            self.state.set_type(cell, type);
          },
          nb::arg("cell"), nb::arg("cell_type"), "A new id appears without pixels; type -1 removes one without pixels.")
      .def(
          "set_property",
          [](Self& self, std::int32_t cell, int number, double value) {
            const auto lock = self.claim();
            self.state.set_property(cell, number, value);
          },
          nb::arg("cell"), nb::arg("number"), nb::arg("value"), "One of the named properties that the model reads.")
      .def_prop_ro(
          "properties",
          [](Self& self) {
            const auto lock = self.claim();
            return properties_to(self.state.tissue());
          },
          "[C, P]: the named properties that the model reads.")
      .def(
          "member_energies",
          [](Self& self) {
            const auto lock = self.claim();
            return self.state.member_energies();
          },
          "w_NN·H_NN as each member of a committee has it.")
      .def(
          "member_deltas",
          [](Self& self, std::int64_t site, std::int64_t new_id) {
            const auto lock = self.claim();
            return self.state.member_deltas(self.state.site(site), self.state.cell(new_id));
          },
          nb::arg("site"), nb::arg("new_id"), "What a flip does to it, by member.")
      .def(
          "spread",
          [](Self& self) {
            const auto lock = self.claim();
            return self.state.spread();
          },
          "Standard deviation of the members' energies; 0 for a single network.")
      .def(
          "delta_spread",
          [](Self& self, std::int64_t site, std::int64_t new_id) {
            const auto lock = self.claim();
            return self.state.delta_spread(self.state.site(site), self.state.cell(new_id));
          },
          nb::arg("site"), nb::arg("new_id"), "Standard deviation of what a flip does to them.")
      .def_prop_ro(
          "inside_range",
          [](Self& self) {
            const auto lock = self.claim();
            auto inside = self.state.inside_range();
            const std::size_t count = inside.size();
            return to_numpy(std::move(inside), {count});
          },
          "[C]: 1 for cells like those of the training data, 0 for others.")
      .def(
          "remove_cell",
          [](Self& self, std::int32_t cell) {
            const auto lock = self.claim();
            self.state.remove_cell(cell);
          },
          nb::arg("cell"), "A cell dies: its pixels become medium.")
      .def(
          "set_cell_coupling",
          [](Self& self, const Table& coupling) {
            const auto lock = self.claim();
            self.state.set_cell_coupling(to_vector(coupling), int(coupling.shape(0)), int(coupling.shape(1)));
          },
          nb::arg("coupling").noconvert(),
          "[C, K]: couplings of single cells to the external fields; empty: the types'.")
      .def_prop_ro("ids",
                   [](Self& self) {
                     const auto lock = self.claim();
                     return to_numpy(self.state.tissue().ids, shape_of(self.state.lattice()));
                   })
      .def_prop_ro("types",
                   [](Self& self) {
                     const auto lock = self.claim();
                     return to_numpy(self.state.tissue().types, {self.state.tissue().types.size()});
                   })
      .def_prop_ro("volumes",
                   [](Self& self) {
                     const auto lock = self.claim();
                     return to_numpy(self.state.tissue().volumes, {self.state.tissue().volumes.size()});
                   })
      .def_prop_ro(
          "multiply_adds",
          [](Self& self) {
            const auto lock = self.claim();
            return self.state.multiply_adds();
          },
          "Multiply-adds of the network's layers so far.")
      .def_prop_rw(
          "attempts",
          [](Self& self) {
            const auto lock = self.claim();
            return self.state.attempts;
          },
          [](Self& self, std::uint64_t attempts) {
            const auto lock = self.claim();
            self.state.attempts = attempts;
          },
          "Attempts made so far: with the seed, the state of the random numbers.")
      .def(
          "sweep",
          [](Self& self, std::int64_t mcs, double temperature, std::uint64_t seed, int copy_order, bool boundary_only,
             bool balanced, bool staged, int trades) {
            const SweepOptions options =
                sweep_options(mcs, temperature, seed, copy_order, boundary_only, balanced, staged, trades);
            SweepCounts counts;
            {
              nb::gil_scoped_release unlocked;
              const auto lock = self.claim();
              counts = sweep(self.state, options);
            }
            return as_dict(counts);
          },
          nb::arg("mcs"), nb::arg("temperature"), nb::arg("seed"), nb::arg("copy_order") = 0,
          nb::arg("boundary_only") = false, nb::arg("balanced") = false, nb::arg("staged") = false,
          nb::arg("trades") = 0, "copy_order 0: copy from all around a site.");

  m.def(
      "run_chains",
      [](const std::vector<Self*>& states, std::int64_t mcs, double temperature,
         const std::vector<std::uint64_t>& seeds, int threads, int copy_order, bool boundary_only, bool balanced,
         bool staged, int trades) {
        return chains(states, sweep_options(mcs, temperature, 0, copy_order, boundary_only, balanced, staged, trades),
                      seeds, threads);
      },
      nb::arg("states"), nb::arg("mcs"), nb::arg("temperature"), nb::arg("seeds"), nb::arg("threads") = 1,
      nb::arg("copy_order") = 0, nb::arg("boundary_only") = false, nb::arg("balanced") = false,
      nb::arg("staged") = false, nb::arg("trades") = 0,
      "Sweep independent chains, one seed each; the result does not depend on the number of threads.");
}

}  // namespace ncpm::python
