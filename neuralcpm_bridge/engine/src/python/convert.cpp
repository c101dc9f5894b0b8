#include "convert.hpp"

namespace ncpm::python {
namespace {

template <typename To, typename Array>
std::vector<To> numbers(const Array& array, const std::string& name) {
  if (array.dtype() == nb::dtype<float>()) {
    const auto* data = static_cast<const float*>(array.data());
    return std::vector<To>(data, data + array.size());
  }
  if (array.dtype() == nb::dtype<double>()) {
    const auto* data = static_cast<const double*>(array.data());
    std::vector<To> out(array.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<To>(data[i]);
    return out;
  }
  throw Error("The weight '" + name + "' is neither float32 nor float64: convert it first.");
}

}  // namespace

Lattice lattice_of(const Model& model, std::size_t axes, const std::size_t* shape, const std::string& layout,
                   const std::vector<std::string>& boundary) {
  if (layout != "axes" && layout != "rows")
    throw Error("The layout '" + layout + "' was given: choose 'axes' or 'rows'.");
  std::vector<bool> periodic = model.periodic;
  if (!boundary.empty()) {
    periodic.clear();
    for (const std::string& word : boundary) {
      if (word != "periodic" && word != "free")
        throw Error("The boundary '" + word + "' was given: choose 'periodic' or 'free'.");
      periodic.push_back(word == "periodic");
    }
  }
  return Lattice::make(model.geometry, layout == "rows" ? Layout::Rows : Layout::Axes, {shape, shape + axes}, periodic);
}

std::vector<std::size_t> shape_of(const Lattice& lattice) {
  const std::vector<int> shape = lattice.shape();
  return {shape.begin(), shape.end()};
}

StateOptions options_from(const std::string& part, bool forbid_extinction) {
  StateOptions options;
  if (part == "full") options.part = Part::Full;
  else if (part == "neural") options.part = Part::Neural;
  else if (part == "symbolic") options.part = Part::Symbolic;
  else throw Error("The part '" + part + "' was asked for: choose 'full', 'neural' or 'symbolic'.");
  options.rules.extinction = forbid_extinction;
  return options;
}

Weights weights_from(const nb::dict& arrays) {
  Weights weights;
  for (const auto& [key, value] : arrays) {
    const auto name = nb::cast<std::string>(key);
    nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> array;
    if (!nb::try_cast(value, array))
      throw Error("The weight '" + name + "' is not a contiguous array: pass a numpy array.");
    Tensor tensor;
    for (std::size_t i = 0; i < array.ndim(); ++i) tensor.shape.push_back(std::int64_t(array.shape(i)));
    if (name.compare(0, 9, "symbolic.") == 0 || name == "neural.weight") {
      tensor.type = Tensor::Type::Double;
      tensor.doubles = numbers<double>(array, name);
    } else {
      tensor.floats = numbers<float>(array, name);
    }
    weights.emplace(name, std::move(tensor));
  }
  return weights;
}

nb::dict weights_to(const Weights& weights) {
  nb::dict arrays;
  for (const auto& [name, tensor] : weights) {
    const std::vector<std::size_t> shape(tensor.shape.begin(), tensor.shape.end());
    arrays[name.c_str()] =
        tensor.type == Tensor::Type::Float ? to_numpy(tensor.floats, shape) : to_numpy(tensor.doubles, shape);
  }
  return arrays;
}

Properties properties_from(const std::optional<Table>& table) {
  if (!table) return {};
  Properties properties(table->shape(1), std::vector<double>(table->shape(0)));
  for (std::size_t number = 0; number < table->shape(1); ++number)
    for (std::size_t id = 0; id < table->shape(0); ++id) properties[number][id] = (*table)(id, number);
  return properties;
}

nb::object properties_to(const Tissue& tissue) {
  const std::size_t count = tissue.properties.size();
  std::vector<double> table;
  for (int id = 0; id < tissue.cells(); ++id)
    for (std::size_t number = 0; number < count; ++number) table.push_back(tissue.property(id, int(number)));
  return to_numpy(std::move(table), {std::size_t(tissue.cells()), count});
}

}  // namespace ncpm::python
