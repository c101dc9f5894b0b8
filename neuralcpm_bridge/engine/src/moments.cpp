#include "moments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "error.hpp"

namespace ncpm {
namespace {

// Largest and smallest eigenvalue.
struct Extremes {
  double largest, smallest;
};

Extremes eigenvalues_2d(const Covariance& c) {
  const double mean = 0.5 * (c.yy + c.xx);
  const double spread = std::sqrt(0.25 * (c.yy - c.xx) * (c.yy - c.xx) + c.yx * c.yx);
  return {mean + spread, mean - spread};
}

// The roots of the characteristic polynomial by its trigonometric solution.
Extremes eigenvalues_3d(const Covariance& c) {
  const double mean = (c.zz + c.yy + c.xx) / 3.0;
  const double z = c.zz - mean, y = c.yy - mean, x = c.xx - mean;
  const double scale = std::sqrt((z * z + y * y + x * x + 2.0 * (c.zy * c.zy + c.zx * c.zx + c.yx * c.yx)) / 6.0);
  if (scale == 0.0) return {mean, mean};
  const double determinant =
      z * (y * x - c.yx * c.yx) - c.zy * (c.zy * x - c.yx * c.zx) + c.zx * (c.zy * c.yx - y * c.zx);
  const double angle = std::acos(std::clamp(0.5 * determinant / (scale * scale * scale), -1.0, 1.0)) / 3.0;
  constexpr double third_of_a_turn = 2.0943951023931957;
  return {mean + 2.0 * scale * std::cos(angle), mean + 2.0 * scale * std::cos(angle + third_of_a_turn)};
}

}  // namespace

Moments Moments::with(Offset at, int sign) const {
  const std::int64_t p = at.plane, r = at.row, c = at.col;
  return {n + sign,          z + sign * p,      y + sign * r,      x + sign * c,      zz + sign * p * p,
          yy + sign * r * r, xx + sign * c * c, zy + sign * p * r, zx + sign * p * c, yx + sign * r * c};
}

Covariance::Covariance(Geometry geometry, const Moments& m) {
  const double square = double(m.n) * double(m.n);
  const auto of = [&](std::int64_t product, std::int64_t a, std::int64_t b) {
    return double(m.n * product - a * b) / square;
  };
  yy = of(m.yy, m.y, m.y);
  yx = of(m.yx, m.y, m.x);
  xx = of(m.xx, m.x, m.x);
  if (geometry == Geometry::Cubic) {
    zz = of(m.zz, m.z, m.z);
    zy = of(m.zy, m.z, m.y);
    zx = of(m.zx, m.z, m.x);
  } else if (geometry == Geometry::Hexagonal) {  // y = sqrt(3)/2 row, x = col + row/2
    const double rows = yy, both = yx, cols = xx;
    yy = 0.75 * rows;
    yx = 0.5 * std::sqrt(3.0) * (both + 0.5 * rows);
    xx = cols + both + 0.25 * rows;
  }
}

Axes::Axes(Geometry geometry, const Moments& moments) {
  if (moments.n == 0) return;
  const Covariance covariance(geometry, moments);
  const bool solid = geometry == Geometry::Cubic;
  const Extremes found = solid ? eigenvalues_3d(covariance) : eigenvalues_2d(covariance);
  // Of an ellipse the variance along an axis is its square over 16, of an ellipsoid over 20.
  const double scale = solid ? 2.0 * std::sqrt(5.0) : 4.0;
  longest = scale * std::sqrt(found.largest);
  shortest = scale * std::sqrt(std::max(found.smallest, 0.0));
}

void CellMoments::rebuild(const Tissue& tissue) {
  const Lattice& lattice = tissue.lattice;
  cells_.assign(tissue.cells(), {});
  const auto add = [&](Cell& cell, int site) {
    cell.moments = cell.moments.with(lattice.between(lattice.place(cell.reference), lattice.place(site)), +1);
  };
  for (int site = 0; site < tissue.sites(); ++site) {
    if (tissue.ids[site] == 0) continue;
    Cell& cell = cells_[tissue.ids[site]];
    if (cell.moments.n == 0) cell.reference = site;
    add(cell, site);
  }
  // Once more for the cells whose first site is too far from their middle.
  std::vector<char> moved(cells_.size(), 0);
  bool any = false;
  for (std::size_t id = 1; id < cells_.size(); ++id) {
    Cell& cell = cells_[id];
    if (!off_centre(lattice, cell.moments)) continue;
    cell.reference = middle(lattice, cell);
    cell.moments = {};
    moved[id] = 1;
    any = true;
  }
  if (any)
    for (int site = 0; site < tissue.sites(); ++site)
      if (moved[tissue.ids[site]]) add(cells_[tissue.ids[site]], site);
}

void CellMoments::check_spans(const Tissue& tissue) const {
  const Lattice& lattice = tissue.lattice;
  if (std::none_of(lattice.periodic.begin(), lattice.periodic.end(), [](bool ring) { return ring; })) return;
  const int sizes[3] = {lattice.depth, lattice.height, lattice.width};
  std::vector<std::array<int, 6>> spans(cells_.size(), {0, 0, 0, 0, 0, 0});  // least and greatest way along each axis
  for (int site = 0; site < tissue.sites(); ++site) {
    const std::int32_t id = tissue.ids[site];
    if (id == 0) continue;
    const Offset way = lattice.between(lattice.place(cells_[id].reference), lattice.place(site));
    const int along[3] = {way.plane, way.row, way.col};
    for (int axis = 0; axis < 3; ++axis) {
      int& least = spans[id][2 * axis];
      int& greatest = spans[id][2 * axis + 1];
      least = std::min(least, along[axis]);
      greatest = std::max(greatest, along[axis]);
      if (lattice.periodic[axis] && sizes[axis] > 1 && 2 * (greatest - least) > sizes[axis])
        throw Error("Cell " + std::to_string(id) + " spans more than half of a periodic lattice of " + lattice.text() +
                    " sites, where its length is not defined: use a larger lattice or a free boundary.");
    }
  }
}

Moments CellMoments::changed(const Tissue& tissue, std::int32_t id, int site, int sign) const {
  const Lattice& lattice = tissue.lattice;
  const Place from = lattice.place(reference(id, site));
  return cells_[id].moments.with(lattice.between(from, lattice.place(site)), sign);
}

void CellMoments::commit(const Tissue& before, int changed_site, std::int32_t new_id) {
  const Lattice& lattice = before.lattice;
  for (const auto& [id, sign] : {std::pair{before.ids[changed_site], -1}, std::pair{new_id, +1}}) {
    if (id == 0) continue;
    Cell& cell = cells_[id];
    const Moments after = changed(before, id, changed_site, sign);
    if (cell.moments.n == 0) cell.reference = changed_site;
    cell.moments = after;
    if (!off_centre(lattice, cell.moments)) continue;
    // A cell that has travelled is measured from a new reference, on the tissue as it will be.
    cell.reference = middle(lattice, cell);
    cell.moments = {};
    const Place reference = lattice.place(cell.reference);
    for (int site = 0; site < before.sites(); ++site) {
      const std::int32_t owner = site == changed_site ? new_id : before.ids[site];
      if (owner == id) cell.moments = cell.moments.with(lattice.between(reference, lattice.place(site)), +1);
    }
  }
}

// With its mean an eighth of a ring away, a cell that spans three eighths of it still has all its sites within half a
// ring of the reference: their nearest images are the right ones.
bool CellMoments::off_centre(const Lattice& lattice, const Moments& m) {
  return (lattice.periodic[1] && 8 * std::abs(m.y) > m.n * lattice.height) ||
         (lattice.periodic[2] && 8 * std::abs(m.x) > m.n * lattice.width) ||
         (lattice.periodic[0] && lattice.depth > 1 && 8 * std::abs(m.z) > m.n * lattice.depth);
}

// The site nearest to a cell's mean along the rings; along free axes the reference serves wherever it lies.
int CellMoments::middle(const Lattice& lattice, const Cell& cell) {
  const auto wrapped = [](long at, int size) { return static_cast<int>(((at % size) + size) % size); };
  const auto mean = [&](std::int64_t sum) { return std::lround(double(sum) / double(cell.moments.n)); };
  Place at = lattice.place(cell.reference);
  const int row = at.row;
  long rows = 0;
  if (lattice.periodic[0]) at.plane = wrapped(at.plane + mean(cell.moments.z), lattice.depth);
  if (lattice.periodic[1]) at.row = wrapped(at.row + (rows = mean(cell.moments.y)), lattice.height);
  if (lattice.periodic[2])
    at.col = wrapped(at.col + mean(cell.moments.x) + lattice.push(row, int(rows)), lattice.width);
  return lattice.site(at);
}

}  // namespace ncpm
