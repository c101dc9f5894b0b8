// The Python module `_engine`: the same classes the C ABI serves, with numpy arrays.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "artifact.hpp"
#include "convert.hpp"
#include "guarded.hpp"
#include "reference_network.hpp"
#include "sweep.hpp"

namespace ncpm::python {
namespace {

Selection selection_from(const std::string& term) {
  if (term == "full") return Selection::Full;
  if (term == "neural") return Selection::Neural;
  if (term == "symbolic") return Selection::Symbolic;
  throw Error("The term '" + term + "' was asked for: choose 'full', 'neural' or 'symbolic'.");
}

SweepOptions sweep_options(std::int64_t mcs, double temperature, std::uint64_t seed, const std::string& neighbourhood,
                           bool boundary_only, bool balanced, bool staged, int trades) {
  if (neighbourhood != "moore" && neighbourhood != "von_neumann")
    throw Error("The neighbourhood '" + neighbourhood + "' was asked for: choose 'moore' or 'von_neumann'.");
  SweepOptions options;
  options.mcs = mcs;
  options.temperature = temperature;
  options.seed = seed;
  options.von_neumann = neighbourhood == "von_neumann";
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

  Flips(const State& state, const Indices& rows, const Indices& cols, const Indices& new_ids) {
    if (rows.size() != cols.size() || rows.size() != new_ids.size())
      throw Error(std::to_string(rows.size()) + " rows, " + std::to_string(cols.size()) + " columns and " +
                  std::to_string(new_ids.size()) + " ids were given: give one of each per flip.");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      sites.push_back(state.site(rows(i), cols(i)));
      ids.push_back(state.cell(new_ids(i)));
    }
  }
};

std::pair<double, double> as_pair(const Energy& energy) { return {energy.symbolic, energy.neural}; }

void bind_model(nb::module_& m) {
  nb::class_<Model>(m, "Model", "A Hamiltonian: description and weights, checked.")
      .def(nb::new_([](const std::string& metadata, const nb::dict& weights) {
             return std::const_pointer_cast<Model>(make_model(metadata, weights_from(weights)));
           }),
           nb::arg("metadata_json"), nb::arg("weights"))
      .def_static(
          "load", [](const std::string& path) { return std::const_pointer_cast<Model>(load_model(path)); },
          nb::arg("path"), nb::call_guard<nb::gil_scoped_release>(),
          "Read an artifact; its hash and its stored examples are checked.")
      .def_prop_ro("metadata", [](const Model& self) { return self.metadata; })
      .def_prop_ro("name", [](const Model& self) { return self.name; })
      .def_prop_ro("type_names", [](const Model& self) { return self.type_names; })
      .def_prop_ro("boundary", [](const Model& self) { return self.periodic ? "periodic" : "free"; })
      .def_prop_ro(
          "temperature", [](const Model& self) { return self.temperature; }, "Temperature of training.")
      .def_prop_ro("forbids_extinction", [](const Model& self) { return self.forbids_extinction; })
      .def_prop_ro("covered", &Model::covered, "Whether the engine computes this architecture itself.")
      .def_prop_ro("weights", [](const Model& self) { return weights_to(self.weights); });

  m.def(
      "read_artifact",
      [](const std::string& path) {
        const Artifact artifact = read_artifact(path);
        return nb::make_tuple(artifact.metadata, weights_to(artifact.weights), artifact.hash);
      },
      nb::arg("path"), "(metadata_json, weights, hash of the weights) of an artifact, as found.");

  m.def(
      "reference_energy",
      [](const Model& model, const Ids& ids, const Types& types) {
        // A symbolic state checks the arrays; the plain loops then compute what it leaves out.
        const State state(std::shared_ptr<const Model>(std::shared_ptr<const Model>(), &model), int(ids.shape(0)),
                          int(ids.shape(1)), to_vector(ids), to_vector(types), {Selection::Symbolic, false});
        return model.scalar("neural.weight", 1.0) * reference_energy(model, state.lattice());
      },
      nb::arg("model"), nb::arg("ids").noconvert(), nb::arg("types").noconvert(),
      "w_NN·H_NN by plain loops in float64: the slow ground truth.");
}

void bind_state(nb::module_& m) {
  using Self = GuardedState;
  nb::class_<Self>(m, "State", "One state under one model. Used by one thread at a time.")
      .def(nb::new_([](std::shared_ptr<Model> model, const Ids& ids, const Types& types, const std::string& term,
                       bool forbid_extinction) {
             const StateOptions options{selection_from(term), forbid_extinction};
             auto id_list = to_vector(ids);
             auto type_list = to_vector(types);
             const int height = int(ids.shape(0)), width = int(ids.shape(1));
             nb::gil_scoped_release unlocked;
             return std::make_shared<Self>(std::move(model), height, width, std::move(id_list), std::move(type_list),
                                           options);
           }),
           nb::arg("model"), nb::arg("ids").noconvert(), nb::arg("types").noconvert(), nb::arg("term") = "full",
           nb::arg("forbid_extinction") = false)
      .def(
          "reset",
          [](Self& self, const Ids& ids, const Types& types) {
            const auto lock = self.claim();
            const Lattice& lattice = self.state.lattice();
            if (int(ids.shape(0)) != lattice.height || int(ids.shape(1)) != lattice.width)
              throw Error("A lattice of " + std::to_string(ids.shape(0)) + " x " + std::to_string(ids.shape(1)) +
                          " sites was given to a state of " + std::to_string(lattice.height) + " x " +
                          std::to_string(lattice.width) + ": make a new state.");
            self.state.reset(to_vector(ids), to_vector(types));
          },
          nb::arg("ids").noconvert(), nb::arg("types").noconvert())
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
          [](Self& self, std::int64_t row, std::int64_t col, std::int64_t new_id) {
            const auto lock = self.claim();
            return self.state.delta(self.state.site(row, col), self.state.cell(new_id));
          },
          nb::arg("row"), nb::arg("col"), nb::arg("new_id"), "ΔH in the selected term; inf for a forbidden extinction.")
      .def(
          "delta_parts",
          [](Self& self, std::int64_t row, std::int64_t col, std::int64_t new_id) {
            const auto lock = self.claim();
            return as_pair(self.state.delta_parts(self.state.site(row, col), self.state.cell(new_id)));
          },
          nb::arg("row"), nb::arg("col"), nb::arg("new_id"), "(symbolic, neural) ΔH, whatever the term.")
      .def(
          "deltas",
          [](Self& self, const Indices& rows, const Indices& cols, const Indices& new_ids) {
            const auto lock = self.claim();
            const Flips flips(self.state, rows, cols, new_ids);
            std::vector<double> parts;
            {
              nb::gil_scoped_release unlocked;
              for (std::size_t i = 0; i < flips.sites.size(); ++i) {
                const Energy change = self.state.delta_parts(flips.sites[i], flips.ids[i]);
                parts.insert(parts.end(), {change.symbolic, change.neural});
              }
            }
            return to_numpy(std::move(parts), {flips.sites.size(), 2});
          },
          nb::arg("rows").noconvert(), nb::arg("cols").noconvert(), nb::arg("new_ids").noconvert(),
          "ΔH of independent flips, [n, 2]: symbolic and neural part.")
      .def(
          "commit",
          [](Self& self, std::int64_t row, std::int64_t col, std::int64_t new_id) {
            const auto lock = self.claim();
            self.state.commit(self.state.site(row, col), self.state.cell(new_id));
          },
          nb::arg("row"), nb::arg("col"), nb::arg("new_id"))
      .def(
          "change_pixels",
          [](Self& self, const Indices& rows, const Indices& cols, const Indices& new_ids) {
            const auto lock = self.claim();
            const Flips flips(self.state, rows, cols, new_ids);
            nb::gil_scoped_release unlocked;
            self.state.change_pixels(flips.sites, flips.ids);
          },
          nb::arg("rows").noconvert(), nb::arg("cols").noconvert(), nb::arg("new_ids").noconvert())
      .def(
          "set_type",
          [](Self& self, std::int32_t cell, int type) {
            const auto lock = self.claim();
            self.state.set_type(cell, type);
          },
          nb::arg("cell"), nb::arg("cell_type"), "A new id appears without pixels; type -1 removes one without pixels.")
      .def(
          "remove_cell",
          [](Self& self, std::int32_t cell) {
            const auto lock = self.claim();
            self.state.remove_cell(cell);
          },
          nb::arg("cell"), "A cell dies: its pixels become medium.")
      .def(
          "set_cell_coupling",
          [](Self& self, const Couplings& coupling) {
            const auto lock = self.claim();
            self.state.set_cell_coupling(to_vector(coupling), int(coupling.shape(0)), int(coupling.shape(1)));
          },
          nb::arg("coupling").noconvert(),
          "[C, K]: couplings of single cells to the external fields; empty: the types'.")
      .def_prop_ro("ids",
                   [](Self& self) {
                     const auto lock = self.claim();
                     const Lattice& lattice = self.state.lattice();
                     return to_numpy(lattice.ids, {std::size_t(lattice.height), std::size_t(lattice.width)});
                   })
      .def_prop_ro("types",
                   [](Self& self) {
                     const auto lock = self.claim();
                     return to_numpy(self.state.lattice().types, {self.state.lattice().types.size()});
                   })
      .def_prop_ro("volumes",
                   [](Self& self) {
                     const auto lock = self.claim();
                     return to_numpy(self.state.lattice().volumes, {self.state.lattice().volumes.size()});
                   })
      .def_prop_ro(
          "multiply_adds",
          [](Self& self) {
            const auto lock = self.claim();
            return self.state.multiply_adds();
          },
          "Multiply-adds of the network's convolutions so far.")
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
          [](Self& self, std::int64_t mcs, double temperature, std::uint64_t seed, const std::string& neighbourhood,
             bool boundary_only, bool balanced, bool staged, int trades) {
            const SweepOptions options =
                sweep_options(mcs, temperature, seed, neighbourhood, boundary_only, balanced, staged, trades);
            SweepCounts counts;
            {
              nb::gil_scoped_release unlocked;
              const auto lock = self.claim();
              counts = sweep(self.state, options);
            }
            return as_dict(counts);
          },
          nb::arg("mcs"), nb::arg("temperature"), nb::arg("seed"), nb::arg("neighbourhood") = "moore",
          nb::arg("boundary_only") = false, nb::arg("balanced") = false, nb::arg("staged") = false,
          nb::arg("trades") = 0);

  m.def(
      "run_chains",
      [](const std::vector<Self*>& states, std::int64_t mcs, double temperature,
         const std::vector<std::uint64_t>& seeds, int threads, const std::string& neighbourhood, bool boundary_only,
         bool balanced, bool staged, int trades) {
        const SweepOptions options =
            sweep_options(mcs, temperature, 0, neighbourhood, boundary_only, balanced, staged, trades);
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
      },
      nb::arg("states"), nb::arg("mcs"), nb::arg("temperature"), nb::arg("seeds"), nb::arg("threads") = 1,
      nb::arg("neighbourhood") = "moore", nb::arg("boundary_only") = false, nb::arg("balanced") = false,
      nb::arg("staged") = false, nb::arg("trades") = 0,
      "Sweep independent chains, one seed each; the result does not depend on the number of threads.");
}

}  // namespace
}  // namespace ncpm::python

NB_MODULE(_engine, m) {
  m.doc() = "Exact incremental energy differences of cellular Potts models, and their Metropolis dynamics.";
  nanobind::exception<ncpm::Error>(m, "EngineError", PyExc_ValueError);
  m.def("isa", &ncpm::selected_isa, "The instruction set the kernels run on.");
  ncpm::python::bind_model(m);
  ncpm::python::bind_state(m);
}
