#include "graph/shape.hpp"

#include <cmath>

namespace ncpm::graph {

Shape::Shape(const Lattice& lattice, const Moments& moments, int reference) : sites(std::int32_t(moments.n)) {
  const Offset from = lattice.coordinates(lattice.place(reference));
  sums[0] = from.plane * moments.n + moments.z;
  sums[1] = from.row * moments.n + moments.y;
  sums[2] = from.col * moments.n + moments.x;
  const Covariance c(lattice.geometry, moments);
  const double values[kForm] = {c.zz, c.yy, c.xx, c.zy, c.zx, c.yx, c.zz + c.yy + c.xx};
  for (int i = 0; i < kForm; ++i) form[i] = float(values[i]);
}

float Shape::anisotropy(int dimension) const {
  if (trace() <= 0.0f) return 0.0f;
  const float mean = trace() / float(dimension);
  const float z = dimension == 3 ? form[0] - mean : 0.0f, y = form[1] - mean, x = form[2] - mean;
  const float squares = z * z + y * y + x * x + 2.0f * (form[3] * form[3] + form[4] * form[4] + form[5] * form[5]);
  return std::sqrt(squares * (float(dimension) / float(dimension - 1))) / trace();
}

float Shape::prolateness() const {
  // Squared anisotropy of cells that are neither rods nor discs: what a quotient of nothings would be is rounding.
  constexpr float kRound = 1e-3f;
  if (trace() <= 0.0f) return 0.0f;
  const float unit = 3.0f / trace();
  const float z = form[0] * unit - 1.0f, y = form[1] * unit - 1.0f, x = form[2] * unit - 1.0f;
  const float zy = form[3] * unit, zx = form[4] * unit, yx = form[5] * unit;
  const float determinant = z * (y * x - yx * yx) - zy * (zy * x - yx * zx) + zx * (zy * yx - y * zx);
  const float uneven = anisotropy(3);
  return determinant / (2.0f * (uneven * uneven + kRound));
}

float Shape::radius() const { return std::sqrt(trace()); }

}  // namespace ncpm::graph
