#include "checklist.hpp"

#include "error.hpp"

namespace ncpm {

std::string text(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

void Checklist::need(const std::string& key, const Shape& shape) {
  const Tensor& tensor = model_.weight(key);
  if (tensor.shape != shape)
    throw Error("The weight '" + key + "' has the shape " + text(tensor.shape) + ", but " + text(shape) +
                " was expected: export the model again.");
  seen_.insert(key);
}

void Checklist::affine(const std::string& name, const Shape& weight) {
  need(name + ".weight", weight);
  need(name + ".bias", {weight[0]});
}

void Checklist::complete(const std::string& prefix) const {
  for (const auto& item : model_.weights)
    if (item.first.compare(0, prefix.size(), prefix) == 0 && !seen_.count(item.first))
      throw Error("The weight '" + item.first +
                  "' has no place in this model: install a newer neuralcpm-bridge or export the model again.");
}

}  // namespace ncpm
