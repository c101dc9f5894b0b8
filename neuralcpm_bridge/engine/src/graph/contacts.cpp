#include "graph/contacts.hpp"

#include <cmath>

namespace ncpm::graph {

Relations::Relations(const Lattice& lattice, const Standard& standard, float pair_weight, const Kernels& kernels)
    : lattice_(lattice), pair_weight_(pair_weight), kernels_(kernels), columns_{} {
  columns_.dimension = lattice.dimension();
  columns_.mean = standard.mean.data();
  columns_.inverse = standard.inverse.data();
}

// The way between the middles is exact, in units of 1 / (n_here · n_there): the same wherever sums are counted from.
void Relations::add(Contact& contact, const Shape& here, const Shape& there) {
  if (columns_.count == kColumnRoom) compute();
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
  const int at = columns_.count++;
  const bool solid = columns_.dimension == 3;

  std::int64_t col = between(2), row = between(1);
  if (lattice_.periodic[1]) {
    const std::int64_t ahead = row;
    row = nearest(row, lattice_.height * unit);
    // Once round the rows of an even number is half as many columns on skewed axes; those may be several rings.
    if (lattice_.layout == Layout::Rows) col -= (row - ahead) / 2;
  }
  if (lattice_.periodic[2]) {
    const std::int64_t ring = lattice_.width * unit;
    col = nearest(lattice_.layout == Layout::Rows ? col % ring : col, ring);
  }
  double y = double(row) * share, x = double(col) * share;
  if (lattice_.geometry == Geometry::Hexagonal) {
    x += 0.5 * y;
    y *= 0.5 * std::sqrt(3.0);
  }
  columns_.way[1][at] = float(y);
  columns_.way[2][at] = float(x);
  if (solid) {
    const std::int64_t plane = lattice_.periodic[0] ? nearest(between(0), lattice_.depth * unit) : between(0);
    columns_.way[0][at] = float(double(plane) * share);
  }
  const auto copy = [&](int k) {
    columns_.here[k][at] = here.form[k];
    columns_.there[k][at] = there.form[k];
  };
  for (const int k : {1, 2, 5, 6}) copy(k);  // what there is in 2D
  if (solid)
    for (const int k : {0, 3, 4}) copy(k);
  columns_.inputs[0][at] = float(contact.pairs) * pair_weight_;
  contact.tied = tied;
  contacts_[at] = &contact;
}

void Relations::compute() {
  kernels_.contacts(columns_);
  for (int at = 0; at < columns_.count; ++at)
    for (int k = 0; k < kEdgeInputs; ++k) contacts_[at]->inputs[k] = columns_.inputs[k][at];
  columns_.count = 0;
}

}  // namespace ncpm::graph
