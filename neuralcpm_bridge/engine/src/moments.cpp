#include "moments.hpp"

#include <algorithm>
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

CellMoments::Box CellMoments::Box::with(Offset way) const {
  Box wider = *this;
  const int along[3] = {way.plane, way.row, way.col};
  for (int axis = 0; axis < 3; ++axis) {
    wider.least[axis] = std::min(least[axis], along[axis]);
    wider.greatest[axis] = std::max(greatest[axis], along[axis]);
  }
  return wider;
}

void CellMoments::rebuild(const Lattice& lattice, const Ids& ids, int cells) {
  cells_.assign(cells, {});
  std::vector<std::vector<int>> sites(cells);
  for (int site = 0; site < lattice.sites(); ++site)
    if (ids[site]) sites[ids[site]].push_back(site);
  for (int id = 1; id < cells; ++id) {
    if (sites[id].empty()) continue;
    cells_[id].reference = sites[id].front();
    measure(lattice, sites[id], cells_[id]);
  }
}

void CellMoments::check_spans(const Lattice& lattice) const {
  for (std::size_t id = 1; id < cells_.size(); ++id)
    if (spans_half(lattice, cells_[id].box))
      throw Error("Cell " + std::to_string(id) + " spans half of a periodic lattice of " + lattice.text() +
                  " sites or more, where its length is not defined: use a larger lattice or a free boundary.");
}

Moments CellMoments::changed(const Lattice& lattice, std::int32_t id, int site, int sign) const {
  const Place from = lattice.place(reference(id, site));
  return cells_[id].moments.with(lattice.between(from, lattice.place(site)), sign);
}

bool CellMoments::fits(const Lattice& lattice, const Ids& ids, std::int32_t id, int site) {
  Cell& cell = cells_[id];
  if (cell.moments.n == 0 || !spans_half(lattice, cell.box.with(way(lattice, cell, site)))) return true;
  std::vector<int> sites;  // the box may know sites that the cell has left since
  for (int other = 0; std::int64_t(sites.size()) < cell.moments.n; ++other)
    if (ids[other] == id) sites.push_back(other);
  measure(lattice, sites, cell);
  return !spans_half(lattice, cell.box.with(way(lattice, cell, site)));
}

void CellMoments::commit(const Lattice& lattice, const Ids& before, int changed_site, std::int32_t new_id) {
  for (const auto& [id, sign] : {std::pair{before[changed_site], -1}, std::pair{new_id, +1}}) {
    if (id == 0) continue;
    if (sign > 0) fits(lattice, before, id, changed_site);  // the site is seen the right way round
    Cell& cell = cells_[id];
    const Moments after = changed(lattice, id, changed_site, sign);
    if (cell.moments.n == 0) cell.reference = changed_site;
    cell.moments = after;
    if (after.n == 0) cell.box = {};
    if (sign < 0) continue;
    cell.box = cell.box.with(way(lattice, cell, changed_site));
    if (!off_centre(lattice, cell.box)) continue;
    std::vector<int> sites;  // of the cell as it will be
    for (int site = 0; std::int64_t(sites.size()) < after.n; ++site)
      if ((site == changed_site ? new_id : before[site]) == id) sites.push_back(site);
    measure(lattice, sites, cell);
  }
}

Offset CellMoments::way(const Lattice& lattice, const Cell& cell, int site) {
  return lattice.between(lattice.place(cell.reference), lattice.place(site));
}

// Everything about a cell from the middle of its box.
void CellMoments::measure(const Lattice& lattice, const std::vector<int>& sites, Cell& cell) {
  const Offset first = way(lattice, cell, sites.front());
  cell.box = {{first.plane, first.row, first.col}, {first.plane, first.row, first.col}};
  for (const int site : sites) cell.box = cell.box.with(way(lattice, cell, site));
  cell.reference = middle(lattice, cell);
  cell.moments = {};
  cell.box = {};
  for (const int site : sites) {
    const Offset at = way(lattice, cell, site);
    cell.moments = cell.moments.with(at, +1);
    cell.box = cell.box.with(at);
  }
}

// Beyond three eighths of a ring a neighbour's nearest image may soon be the wrong one.
bool CellMoments::off_centre(const Lattice& lattice, const Box& box) {
  const int sizes[3] = {lattice.depth, lattice.height, lattice.width};
  for (int axis = 0; axis < 3; ++axis)
    if (lattice.periodic[axis] && sizes[axis] > 1 &&
        8 * std::max(-box.least[axis], box.greatest[axis]) > 3 * sizes[axis])
      return true;
  return false;
}

bool CellMoments::spans_half(const Lattice& lattice, const Box& box) {
  const int sizes[3] = {lattice.depth, lattice.height, lattice.width};
  for (int axis = 0; axis < 3; ++axis)
    if (lattice.periodic[axis] && sizes[axis] > 1 && 2 * (box.greatest[axis] - box.least[axis]) >= sizes[axis])
      return true;
  return false;
}

// The site in the middle of a cell's box along the rings; along free axes the reference serves wherever it lies.
int CellMoments::middle(const Lattice& lattice, const Cell& cell) {
  const auto wrapped = [](int at, int size) { return ((at % size) + size) % size; };
  const auto half = [&](int axis) { return (cell.box.least[axis] + cell.box.greatest[axis]) / 2; };
  Place at = lattice.place(cell.reference);
  const int row = at.row, rows = lattice.periodic[1] ? half(1) : 0;
  if (lattice.periodic[0]) at.plane = wrapped(at.plane + half(0), lattice.depth);
  if (lattice.periodic[1]) at.row = wrapped(at.row + rows, lattice.height);
  if (lattice.periodic[2]) at.col = wrapped(at.col + half(2) + lattice.push(row, rows), lattice.width);
  return lattice.site(at);
}

}  // namespace ncpm
