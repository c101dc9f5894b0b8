// Between numpy arrays and the engine's vectors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <vector>

#include "error.hpp"
#include "model.hpp"

namespace ncpm::python {

namespace nb = nanobind;

using Ids = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Types = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Couplings = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Weights are float32 or float64 by their name (docs/artifact.md), whatever precision the array has.
Weights weights_from(const nb::dict& arrays);
nb::dict weights_to(const Weights& weights);

template <typename Array>
auto to_vector(const Array& array) {
  using Number = std::remove_const_t<typename Array::Scalar>;
  return std::vector<Number>(array.data(), array.data() + array.size());
}

// A numpy array that owns its data.
template <typename Number>
nb::object to_numpy(std::vector<Number> values, std::vector<std::size_t> shape) {
  auto* kept = new std::vector<Number>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<Number>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, Number>(kept->data(), shape.size(), shape.data(), owner));
}

}  // namespace ncpm::python
