// The weights a model needs, ticked off one by one; what remains unticked is refused.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model.hpp"

namespace ncpm {

using Shape = std::vector<std::int64_t>;

std::string text(const Shape& shape);  // "[3, 3]"

class Checklist {
 public:
  explicit Checklist(const Model& model) : model_(model) {}

  void need(const std::string& key, const Shape& shape);  // throws Error where it is missing or of another shape
  void optional(const std::string& key, const Shape& shape) {
    if (model_.has(key)) need(key, shape);
  }
  void affine(const std::string& name, const Shape& weight);  // its .weight and .bias
  void complete(const std::string& prefix) const;             // all weights of one prefix have been asked for

 private:
  const Model& model_;
  std::set<std::string> seen_;
};

}  // namespace ncpm
