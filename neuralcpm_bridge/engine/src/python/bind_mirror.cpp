#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "convert.hpp"
#include "guarded.hpp"

namespace ncpm::python {
namespace {

using Changes = std::vector<std::pair<std::int32_t, std::int32_t>>;

std::vector<HostCell> cells_from(const Indices& ids, const Types& types) {
  if (ids.size() != types.size())
    throw Error(std::to_string(ids.size()) + " cells and " + std::to_string(types.size()) +
                " types were given: give one type per cell.");
  std::vector<HostCell> cells;
  for (std::size_t i = 0; i < ids.size(); ++i) cells.push_back({ids(i), types(i)});
  return cells;
}

Changes as_pairs(const std::vector<IdMap::Change>& changes) {
  Changes pairs;
  for (const IdMap::Change& change : changes) pairs.emplace_back(change.id, change.type);
  return pairs;
}

nb::object translated(const IdMap& self, const HostIds& host_ids) {
  std::vector<std::size_t> shape;
  for (std::size_t axis = 0; axis < host_ids.ndim(); ++axis) shape.push_back(host_ids.shape(axis));
  return to_numpy(self.translate(host_ids.data(), host_ids.size()), shape);
}

void bind_id_map(nb::module_& m) {
  nb::class_<IdMap>(m, "IdMap", "The model's ids of a host's cells.")
      .def(nb::init<int>(), nb::arg("fixed_ids") = 0)
      .def(
          "load",
          [](IdMap& self, const Indices& cells, const Types& types) {
            std::vector<std::int32_t> loaded = self.load(cells_from(cells, types));
            const std::size_t count = loaded.size();
            return to_numpy(std::move(loaded), {count});
          },
          nb::arg("cells").noconvert(), nb::arg("types").noconvert(),
          "Take over all cells (type 0: seen as medium); the types of the model's ids.")
      .def(
          "take",
          [](IdMap& self, const Indices& cells, const Types& types) -> std::optional<Changes> {
            std::vector<IdMap::Change> changes;
            if (!self.take(cells_from(cells, types), changes)) return std::nullopt;
            return as_pairs(changes);
          },
          nb::arg("cells").noconvert(), nb::arg("types").noconvert(),
          "New and changed cells as (id, type) of the model; None: only a whole load can tell.")
      .def(
          "bury",
          [](IdMap& self, const Indices& cells, const Types& types, const Indices& volumes) -> std::optional<Changes> {
            std::vector<IdMap::Change> changes;
            if (!self.bury(cells_from(cells, types), to_vector(volumes), changes)) return std::nullopt;
            return as_pairs(changes);
          },
          nb::arg("cells").noconvert(), nb::arg("types").noconvert(), nb::arg("volumes").noconvert(),
          "Forget cells that are not among these; None: one of them still has pixels.")
      .def("knows", &IdMap::knows, nb::arg("host_id"))
      .def("at", &IdMap::at, nb::arg("host_id"))
      .def("translate", &translated, nb::arg("host_ids").noconvert(), "The model's ids of an array of host ids.");
}

}  // namespace

void bind_mirror(nb::module_& m) {
  bind_id_map(m);
  using Self = GuardedMirror;
  nb::class_<Self>(m, "Mirror", "The model's copy of a host's tissue, by the host's ids. Used by one thread at a time.")
      .def(nb::new_([](std::shared_ptr<Model> model, const std::vector<std::size_t>& shape, const std::string& part,
                       bool forbid_extinction, const std::string& layout, const std::vector<std::string>& boundary) {
             const Lattice lattice = lattice_of(*model, shape.size(), shape.data(), layout, boundary);
             return std::make_shared<Self>(std::move(model), lattice, options_from(part, forbid_extinction));
           }),
           nb::arg("model"), nb::arg("shape"), nb::arg("part") = "full", nb::arg("forbid_extinction") = false,
           nb::arg("layout") = "axes", nb::arg("boundary") = std::vector<std::string>())
      .def(
          "load",
          [](Self& self, const HostIds& host_ids, const Indices& cells, const Types& types) {
            const auto lock = self.claim();
            if (host_ids.size() != std::size_t(self.mirror.lattice().sites()))
              throw Error(std::to_string(host_ids.size()) + " cell ids were given for a lattice of " +
                          self.mirror.lattice().text() + " sites: give one per site.");
            self.mirror.load(host_ids.data(), cells_from(cells, types));
          },
          nb::arg("host_ids").noconvert(), nb::arg("cells").noconvert(), nb::arg("types").noconvert(),
          "Take over a whole lattice and all cells (type 0: seen as medium).")
      .def(
          "follow",
          [](Self& self, const Indices& cells, const Types& types, const Indices& sites, const Indices& host_ids) {
            const auto lock = self.claim();
            std::vector<int> at;
            for (std::size_t i = 0; i < sites.size(); ++i) at.push_back(self.mirror.state().site(sites(i)));
            return self.mirror.follow(cells_from(cells, types), at, to_vector(host_ids));
          },
          nb::arg("cells").noconvert(), nb::arg("types").noconvert(), nb::arg("sites").noconvert(),
          nb::arg("host_ids").noconvert(),
          "All cells there are now, and pixels written outside of the Metropolis algorithm; False: load again.")
      .def(
          "set_properties",
          [](Self& self, const Indices& cells, const Table& values) {
            const auto lock = self.claim();
            if (cells.size() != values.shape(0))
              throw Error(std::to_string(values.shape(0)) + " rows of properties were given for " +
                          std::to_string(cells.size()) + " cells: give one per cell.");
            for (std::size_t row = 0; row < cells.size(); ++row)
              for (std::size_t number = 0; number < values.shape(1); ++number)
                self.mirror.set_property(cells(row), int(number), values(row, number));
          },
          nb::arg("cells").noconvert(), nb::arg("values").noconvert(),
          "[n, P]: the properties that the model reads, of the host's cells.")
      .def(
          "delta",
          [](Self& self, std::int64_t site, std::int64_t host_id) {
            const auto lock = self.claim();
            return self.mirror.delta(site, host_id);
          },
          nb::arg("site"), nb::arg("host_id"))
      .def(
          "commit",
          [](Self& self, std::int64_t site, std::int64_t host_id) {
            const auto lock = self.claim();
            self.mirror.commit(site, host_id);
          },
          nb::arg("site"), nb::arg("host_id"))
      .def(
          "energy",
          [](Self& self) {
            const auto lock = self.claim();
            return as_pair(self.mirror.state().energy());
          },
          "(w_S·H_S, w_NN·H_NN)")
      .def(
          "compare",
          [](Self& self, const HostIds& host_ids) {
            const auto lock = self.claim();
            if (host_ids.size() != self.mirror.state().tissue().ids.size())
              throw Error("The host's lattice has another size than the model's copy: load it again.");
            const Comparison found = self.mirror.compare(host_ids.data());
            return std::make_tuple(found.differing, found.energy.symbolic, found.energy.neural, found.drift);
          },
          nb::arg("host_ids").noconvert(),
          "(differing sites, symbolic, neural, drift): with the host's lattice, and with a recomputed energy.")
      .def(
          "opinion",
          [](Self& self, std::int64_t site, std::int64_t host_id) {
            const auto lock = self.claim();
            const Mirror::Opinion found = self.mirror.opinion(site, host_id);
            return std::make_tuple(found.mean, found.spread);
          },
          nb::arg("site"), nb::arg("host_id"), "(mean, standard deviation) of what a committee's members say of a copy")
      .def(
          "outside",
          [](Self& self, std::int64_t site, std::int64_t host_id) {
            const auto lock = self.claim();
            return self.mirror.outside(site, host_id);
          },
          nb::arg("site"), nb::arg("host_id"), "share of a copy's cells that are unlike the training data's")
      .def(
          "range",
          [](Self& self) {
            const auto lock = self.claim();
            const Mirror::Range range = self.mirror.range();
            return std::make_tuple(range.cells, range.outside);
          },
          "(cells that are seen, those of them that are unlike the training data's)")
      .def_prop_ro("loaded", [](Self& self) { return self.mirror.loaded(); })
      .def_prop_ro("ids",
                   [](Self& self) {
                     const auto lock = self.claim();
                     return to_numpy(self.mirror.state().tissue().ids, shape_of(self.mirror.lattice()));
                   })
      .def_prop_ro("types", [](Self& self) {
        const auto lock = self.claim();
        const std::vector<std::int32_t>& types = self.mirror.state().tissue().types;
        return to_numpy(types, {types.size()});
      });
}

}  // namespace ncpm::python
