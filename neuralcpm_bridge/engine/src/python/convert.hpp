// Between numpy arrays and the engine's vectors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "error.hpp"
#include "model.hpp"
#include "state.hpp"

namespace ncpm::python {

namespace nb = nanobind;

using Ids = nb::ndarray<const std::int32_t, nb::c_contig, nb::device::cpu>;      // [H, W] or [D, H, W]
using HostIds = nb::ndarray<const std::int64_t, nb::c_contig, nb::device::cpu>;  // likewise
using Types = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;  // a row per cell

// The lattice of an array on a model's geometry; `boundary` has a word per axis, or none: the model's.
Lattice lattice_of(const Model& model, std::size_t axes, const std::size_t* shape, const std::string& layout,
                   const std::vector<std::string>& boundary);

template <typename Array>
Lattice lattice_of(const Model& model, const Array& ids, const std::string& layout,
                   const std::vector<std::string>& boundary) {
  std::vector<std::size_t> shape;
  for (std::size_t axis = 0; axis < ids.ndim(); ++axis) shape.push_back(ids.shape(axis));
  return lattice_of(model, shape.size(), shape.data(), layout, boundary);
}

std::vector<std::size_t> shape_of(const Lattice& lattice);
StateOptions options_from(const std::string& part, bool forbid_extinction);

// Weights are float32 or float64 by their name (docs/artifact.md), whatever precision the array has.
Weights weights_from(const nb::dict& arrays);
nb::dict weights_to(const Weights& weights);

template <typename Array>
auto to_vector(const Array& array) {
  using Number = std::remove_const_t<typename Array::Scalar>;
  return std::vector<Number>(array.data(), array.data() + array.size());
}

// Named properties of cells [C, P], to and from a list for each; none: those of the training data's mean.
Properties properties_from(const std::optional<Table>& table);
nb::object properties_to(const Tissue& tissue);

inline std::pair<double, double> as_pair(const Energy& energy) { return {energy.symbolic, energy.neural}; }

// A numpy array that owns its data.
template <typename Number>
nb::object to_numpy(std::vector<Number> values, std::vector<std::size_t> shape) {
  auto* kept = new std::vector<Number>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<Number>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, Number>(kept->data(), shape.size(), shape.data(), owner));
}

// Parts of the module, each in a file of its own.
void bind_model(nb::module_& m);
void bind_state(nb::module_& m);
void bind_mirror(nb::module_& m);
void bind_host_calls(nb::module_& m);

}  // namespace ncpm::python
