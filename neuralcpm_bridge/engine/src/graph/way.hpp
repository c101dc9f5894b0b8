// The way from the middle of a cell to that of another one.
#pragma once

#include <cmath>

#include "graph/shape.hpp"

namespace ncpm::graph {

struct Way {
  double z, y, x;  // in space
  bool tied;  // along some ring the middles lie exactly opposite: of two equally short ways this is the positive one
};

// Its nearest image. It is exact in units of 1 / (n_here · n_there): the same wherever sums are counted from.
inline Way way_between(const Lattice& lattice, const Shape& here, const Shape& there) {
  const std::int64_t n = here.sites, m = there.sites, unit = n * m;
  bool tied = false;
  const auto nearest = [&](std::int64_t way, std::int64_t ring) {
    while (2 * way > ring) way -= ring;
    while (2 * way <= -ring) way += ring;
    tied |= 2 * way == ring;
    return way;
  };
  const auto between = [&](int axis) { return there.sums[axis] * n - here.sums[axis] * m; };
  const double share = 1.0 / double(unit);

  std::int64_t col = between(2), row = between(1), plane = 0;
  if (lattice.periodic[1]) {
    const std::int64_t ahead = row;
    row = nearest(row, lattice.height * unit);
    // Once round the rows of an even number is half as many columns on skewed axes; those may be several rings.
    if (lattice.layout == Layout::Rows) col -= (row - ahead) / 2;
  }
  if (lattice.periodic[2]) {
    const std::int64_t ring = lattice.width * unit;
    col = nearest(lattice.layout == Layout::Rows ? col % ring : col, ring);
  }
  if (lattice.dimension() == 3) plane = lattice.periodic[0] ? nearest(between(0), lattice.depth * unit) : between(0);
  double y = double(row) * share, x = double(col) * share;
  if (lattice.geometry == Geometry::Hexagonal) {
    x += 0.5 * y;
    y *= 0.5 * std::sqrt(3.0);
  }
  return {double(plane) * share, y, x, tied};
}

}  // namespace ncpm::graph
