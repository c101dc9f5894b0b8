#include "graph/shape.hpp"

#include <algorithm>
#include <cmath>

namespace ncpm::graph {
namespace {

struct Way {
  std::int64_t plane, row, col;
};

std::int64_t nearest(std::int64_t distance, std::int64_t size) {
  if (2 * distance > size) return distance - size;
  return 2 * distance <= -size ? distance + size : distance;
}

// From one cell's middle to the other's along the geometry's axes, in units of 1 / (n_here · n_there): exact, so that
// it is the same whatever the references, the nearest image by the middles and not by them.
Way between_middles(const Lattice& lattice, const Shape& here, const Shape& there) {
  const Offset references = lattice.between(lattice.place(here.reference), lattice.place(there.reference));
  const std::int64_t n = here.moments.n, m = there.moments.n, unit = n * m;
  Way way = {references.plane * unit + there.moments.z * n - here.moments.z * m,
             references.row * unit + there.moments.y * n - here.moments.y * m,
             references.col * unit + there.moments.x * n - here.moments.x * m};
  if (lattice.periodic[0]) way.plane = nearest(way.plane, lattice.depth * unit);
  if (lattice.periodic[1]) {
    const std::int64_t rows = nearest(way.row, lattice.height * unit);
    if (lattice.layout == Layout::Rows) way.col -= (rows - way.row) / 2;
    way.row = rows;
  }
  if (lattice.periodic[2]) way.col = nearest(way.col % (lattice.width * unit), lattice.width * unit);
  return way;
}

float along(const Shape& shape, float z, float y, float x) {
  const float* c = shape.covariance;
  return z * z * c[0] + y * y * c[1] + x * x * c[2] + 2.0f * (z * y * c[3] + z * x * c[4] + y * x * c[5]);
}

float product(const Shape& a, const Shape& b) {
  const float *c = a.covariance, *d = b.covariance;
  return c[0] * d[0] + c[1] * d[1] + c[2] * d[2] + 2.0f * (c[3] * d[3] + c[4] * d[4] + c[5] * d[5]);
}

}  // namespace

Shape::Shape(Geometry geometry, const Moments& of, int relative_to) : moments(of), reference(relative_to) {
  const Covariance c(geometry, moments);
  const double values[6] = {c.zz, c.yy, c.xx, c.zy, c.zx, c.yx};
  for (int i = 0; i < 6; ++i) covariance[i] = float(values[i]);
  trace = float(c.zz + c.yy + c.xx);
}

float Shape::anisotropy(int dimension) const {
  if (trace <= 0.0f) return 0.0f;
  const float mean = trace / float(dimension);
  const float z = dimension == 3 ? covariance[0] - mean : 0.0f, y = covariance[1] - mean, x = covariance[2] - mean;
  const float squares =
      z * z + y * y + x * x +
      2.0f * (covariance[3] * covariance[3] + covariance[4] * covariance[4] + covariance[5] * covariance[5]);
  return std::sqrt(squares * (float(dimension) / float(dimension - 1))) / trace;
}

float Shape::radius() const { return std::sqrt(trace); }

Relation::Relation(const Lattice& lattice, const Shape& here, const Shape& there) {
  const Way way = between_middles(lattice, here, there);
  const double unit = 1.0 / (double(here.moments.n) * double(there.moments.n));
  double y = double(way.row) * unit, x = double(way.col) * unit;
  const double z = double(way.plane) * unit;
  if (lattice.geometry == Geometry::Hexagonal) {
    x += 0.5 * y;
    y *= 0.5 * std::sqrt(3.0);
  }
  const double squared = z * z + y * y + x * x;
  distance = float(std::sqrt(squared));
  if (squared > 0.0) {
    const float inverse = 1.0f / distance;
    const float dz = float(z) * inverse, dy = float(y) * inverse, dx = float(x) * inverse;
    radius_here = std::sqrt(std::max(along(here, dz, dy, dx), 0.0f));
    radius_there = std::sqrt(std::max(along(there, dz, dy, dx), 0.0f));
  } else {  // no direction between them: the mean over all
    const float share = 1.0f / float(lattice.dimension());
    radius_here = std::sqrt(here.trace * share);
    radius_there = std::sqrt(there.trace * share);
  }
  const float traces = here.trace * there.trace;
  alignment = traces > 0.0f ? product(here, there) / traces : 0.0f;
}

}  // namespace ncpm::graph
