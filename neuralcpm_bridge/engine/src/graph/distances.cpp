#include "graph/distances.hpp"

#include <algorithm>
#include <cmath>

namespace ncpm::graph {
namespace {

// Number of an unordered pair of cell types among (1, 1), (1, 2), …, (2, 2), …; `types`: those of cells.
int row_of(int types, int a, int b) {
  const int low = std::min(a, b) - 1, high = std::max(a, b) - 1;
  return low * types - low * (low - 1) / 2 + high - low;
}

}  // namespace

void Distances::add_all(const Tissue& tissue, const Cells& cells, std::vector<std::int64_t>& totals) const {
  if (!any()) return;
  for (std::int32_t a = 1; a < cells.size(); ++a)
    for (std::int32_t b = a + 1; b < cells.size(); ++b)
      add_pair(tissue, a, b, cells[a].shape, cells[b].shape, +1, totals);
}

void Distances::add_changes(const Tissue& tissue, const Cells& cells, const Changes& changes,
                            std::vector<std::int64_t>& deltas) const {
  if (!any()) return;
  for (int i = 0; i < changes.count(); ++i) {
    const Change& change = changes[i];
    const Shape& before = cells[change.id].shape;
    for (std::int32_t other = 1; other < cells.size(); ++other) {
      if (changes.change(other)) continue;
      add_pair(tissue, change.id, other, before, cells[other].shape, -1, deltas);
      add_pair(tissue, change.id, other, change.shape, cells[other].shape, +1, deltas);
    }
  }
  if (changes.count() < 2) return;
  const Change &one = changes[0], &two = changes[1];
  add_pair(tissue, one.id, two.id, cells[one.id].shape, cells[two.id].shape, -1, deltas);
  add_pair(tissue, one.id, two.id, one.shape, two.shape, +1, deltas);
}

// Where middles lie exactly opposite, each of the two cells has a way of its own.
void Distances::add_pair(const Tissue& tissue, std::int32_t a, std::int32_t b, const Shape& here, const Shape& there,
                         int sign, std::vector<std::int64_t>& out) const {
  if (!here.sites || !there.sites) return;
  const int row = row_of(weights_.types - 1, tissue.types[a], tissue.types[b]);
  const Way way = way_between(lattice_, here, there);
  add_at(row, way, way.tied ? sign : 2 * sign, out);
  if (way.tied) add_at(row, way_between(lattice_, there, here), sign, out);
}

// Linear between knots, flat behind the last one; halves, so that two of them are exactly one.
void Distances::add_at(int row, const Way& way, std::int64_t times, std::vector<std::int64_t>& out) const {
  const int knots = weights_.knots;
  const double at =
      std::min(std::sqrt(way.z * way.z + way.y * way.y + way.x * way.x) / weights_.knot_distance, double(knots - 1));
  const int knot = std::min(int(at), knots - 2);
  const double share = at - knot;
  for (int member = 0; member < weights_.members; ++member) {
    const float* energy = &weights_.pair_energies[(std::size_t(member) * weights_.type_pairs() + row) * knots + knot];
    const std::int64_t half = to_fixed(0.5 * ((1.0 - share) * double(energy[0]) + share * double(energy[1])));
    std::int64_t& sum = out[member];
    sum = half == kUndefined || sum == kUndefined ? kUndefined : sum + times * half;
  }
}

}  // namespace ncpm::graph
