// What the network is told about cells, in numbers that it understands.
#pragma once

#include "graph/shape.hpp"
#include "graph/weights.hpp"
#include "tissue.hpp"

namespace ncpm::graph {

class CellInputs {
 public:
  CellInputs(const Weights& weights, const Tissue& tissue, int order);

  const int neighbourhood;  // of contacts
  const float pair_weight;

  int count() const { return weights_.types - 1 + weights_.inputs(); }
  // The type as one of as many numbers, then what the data's statistics make of the rest. `pairs`: ordered ones of
  // neighbours that leave the cell.
  void write(const Tissue& tissue, std::int32_t id, const Shape& shape, std::int64_t pairs, float* out) const;
  bool inside_range(const Tissue& tissue, std::int32_t id, const Shape& shape, std::int64_t pairs) const;
  // Of what a cell touches, the part that is one pair.
  float share_of(std::int64_t pairs) const;

 private:
  void raw(const Tissue& tissue, std::int32_t id, const Shape& shape, std::int64_t pairs, float* out) const;

  const Weights& weights_;
};

}  // namespace ncpm::graph
