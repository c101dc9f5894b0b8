#include "graph/inputs.hpp"

#include <algorithm>
#include <cmath>

namespace ncpm::graph {

CellInputs::CellInputs(const Weights& weights, const Tissue& tissue, int order)
    : neighbourhood(tissue.number_of(order)),
      pair_weight(float(tissue.neighbourhoods[neighbourhood].pair_weight())),
      weights_(weights) {}

void CellInputs::raw(const Tissue& tissue, std::int32_t id, const Shape& shape, std::int64_t pairs, float* out) const {
  out[0] = float(shape.sites);
  out[1] = shape.anisotropy(tissue.lattice.dimension());
  out[2] = shape.radius();
  out[3] = float(pairs) * pair_weight;
  out[4] = tissue.lattice.dimension() == 3 ? shape.prolateness() : 0.0f;
  for (int i = 0; i < weights_.properties; ++i) out[kCellInputs + i] = float(tissue.property(id, i));
}

void CellInputs::write(const Tissue& tissue, std::int32_t id, const Shape& shape, std::int64_t pairs,
                       float* out) const {
  std::fill_n(out, weights_.types - 1, 0.0f);
  out[tissue.types[id] - 1] = 1.0f;
  raw(tissue, id, shape, pairs, out + weights_.types - 1);
  weights_.cell.apply(out + weights_.types - 1);
}

bool CellInputs::inside_range(const Tissue& tissue, std::int32_t id, const Shape& shape, std::int64_t pairs) const {
  std::vector<float> inputs(weights_.inputs());
  raw(tissue, id, shape, pairs, inputs.data());
  const std::size_t row = std::size_t(tissue.types[id]) * inputs.size();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] < weights_.low[row + i] || inputs[i] > weights_.high[row + i]) return false;
  return true;
}

float CellInputs::share_of(std::int64_t pairs) const {
  const float own = float(pairs) * pair_weight;
  return pair_weight / std::sqrt(own * own + weights_.surface * weights_.surface);
}

}  // namespace ncpm::graph
