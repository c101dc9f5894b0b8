#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "artifact.hpp"
#include "convert.hpp"
#include "reference_network.hpp"

namespace ncpm::python {
namespace {

std::vector<std::string> boundary_of(const Model& model) {
  std::vector<std::string> words;
  for (const bool ring : model.periodic) words.push_back(ring ? "periodic" : "free");
  return words;
}

// A model of the geometry alone: what neighbour tables need.
nb::object neighbours(const std::string& geometry, const std::vector<std::size_t>& shape,
                      const std::vector<std::string>& boundary, const std::string& layout, int order) {
  Model model;
  model.geometry = geometry_named(geometry);
  const Lattice lattice = lattice_of(model, shape.size(), shape.data(), layout, boundary);
  const Neighbourhood around(lattice, order);
  std::vector<std::int32_t> table;
  for (int site = 0; site < lattice.sites(); ++site)
    for (int k = 0; k < around.size(); ++k) {
      const Place place = lattice.place(site);
      const int other = around.at(lattice, site, place, around.steps_inside(place), k);
      table.push_back(other == site ? -1 : other);
    }
  return to_numpy(std::move(table), {std::size_t(lattice.sites()), std::size_t(around.size())});
}

}  // namespace

void bind_model(nb::module_& m) {
  nb::class_<Model>(m, "Model", "A Hamiltonian: description and weights, checked.")
      .def(nb::new_([](const std::string& metadata, const nb::dict& weights) {
             return std::const_pointer_cast<Model>(make_model(metadata, weights_from(weights)));
           }),
           nb::arg("metadata_json"), nb::arg("weights"))
      .def_static(
          "load", [](const std::string& path) { return std::const_pointer_cast<Model>(load_model(path)); },
          nb::arg("path"), nb::call_guard<nb::gil_scoped_release>(),
          "Read an artifact; its hash, its description and its stored examples are checked.")
      .def_prop_ro("metadata", [](const Model& self) { return self.metadata; })
      .def_prop_ro("name", [](const Model& self) { return self.name; })
      .def_prop_ro("type_names", [](const Model& self) { return self.type_names; })
      .def_prop_ro(
          "properties", [](const Model& self) { return self.properties(); }, "Named ones of cells that it reads.")
      .def_prop_ro("geometry", [](const Model& self) { return name_of(self.geometry); })
      .def_prop_ro("boundary", &boundary_of, "A word per axis, as in training.")
      .def_prop_ro(
          "temperature", [](const Model& self) { return self.temperature; }, "Temperature of training.")
      .def_prop_ro("forbids_extinction", [](const Model& self) { return self.forbids_extinction; })
      .def_prop_ro("covered", &Model::covered, "Whether the engine computes this architecture itself.")
      .def_prop_ro(
          "hash", [](const Model& self) { return weights_hash(self.weights); }, "SHA-256 of the weights, hex.")
      .def_prop_ro("weights", [](const Model& self) { return weights_to(self.weights); });

  m.def(
      "reference_energy",
      [](const Model& model, const Ids& ids, const Types& types) {
        // A symbolic state checks the arrays; the plain loops then compute what it leaves out.
        const State state(std::shared_ptr<const Model>(std::shared_ptr<const Model>(), &model),
                          lattice_of(model, ids, "axes", {}), to_vector(ids), to_vector(types),
                          options_from("symbolic", false));
        return model.scalar("neural.weight", 1.0) * reference_energy(model, state.tissue());
      },
      nb::arg("model"), nb::arg("ids").noconvert(), nb::arg("types").noconvert(),
      "w_NN·H_NN by plain loops in float64: the slow ground truth.");

  m.def("neighbours", &neighbours, nb::arg("geometry"), nb::arg("shape"), nb::arg("boundary"), nb::arg("layout"),
        nb::arg("order"), "[sites, n]: the neighbours of every site in the order of the offsets, -1 for none.");
}

}  // namespace ncpm::python
