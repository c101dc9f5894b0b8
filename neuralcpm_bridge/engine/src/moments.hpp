// First and second moments of cells in whole numbers: what lengths and shapes are computed from.
#pragma once

#include <cstdint>
#include <vector>

#include "lattice.hpp"

namespace ncpm {

// Sums over a cell's sites of 1, of their coordinates and of the coordinates' products, along the axes of the geometry
// relative to a reference site. n times the second minus the squared first is the same for every reference: shapes do
// not depend on where a cell lies.
struct Moments {
  std::int64_t n = 0;
  std::int64_t z = 0, y = 0, x = 0;
  std::int64_t zz = 0, yy = 0, xx = 0, zy = 0, zx = 0, yx = 0;

  Moments with(Offset at, int sign) const;
};

// Covariance of the sites' positions in space; hexagonal ones in Cartesian coordinates.
struct Covariance {
  double zz = 0, yy = 0, xx = 0, zy = 0, zx = 0, yx = 0;

  Covariance(Geometry geometry, const Moments& moments);  // of at least one site
};

// The axes of the ellipse or ellipsoid with a cell's covariance.
struct Axes {
  double longest = 0.0;
  double shortest = 0.0;

  Axes(Geometry geometry, const Moments& moments);  // both 0 for a cell without sites
};

// The moments of every cell, followed flip by flip. Positions are nearest images of the way from a reference site near
// the cell's middle: the cell's shape as long as it spans less than half of every ring. A rule keeps cells from more.
class CellMoments {
 public:
  using Ids = std::vector<std::int32_t>;  // of every site

  void rebuild(const Lattice& lattice, const Ids& ids, int cells);
  void grow(int cells) { cells_.resize(cells); }
  void commit(const Lattice& lattice, const Ids& before, int site, std::int32_t new_id);
  // Behind a rebuild: throws Error where a cell spans half a ring, for which way round it lies is not defined.
  void check_spans(const Lattice& lattice) const;

  const Moments& of(std::int32_t id) const { return cells_[id].moments; }
  // What they are relative to; of a cell without sites, the first one that it gets.
  int reference(std::int32_t id, int first) const { return cells_[id].moments.n ? cells_[id].reference : first; }

  // As they would be with one site more (+1) or less (-1).
  Moments changed(const Lattice& lattice, std::int32_t id, int site, int sign) const;

  // Whether a cell would span less than half of every ring with one site more. May choose another reference.
  bool fits(const Lattice& lattice, const Ids& ids, std::int32_t id, int site);

 private:
  // How far a cell reaches along each axis from its reference: never less than it does, exact when measured.
  struct Box {
    int least[3] = {0, 0, 0}, greatest[3] = {0, 0, 0};

    Box with(Offset way) const;
  };

  struct Cell {
    int reference = 0;
    Moments moments;
    Box box;
  };

  static Offset way(const Lattice& lattice, const Cell& cell, int site);
  static bool off_centre(const Lattice& lattice, const Box& box);
  static bool spans_half(const Lattice& lattice, const Box& box);
  static int middle(const Lattice& lattice, const Cell& cell);
  static void measure(const Lattice& lattice, const std::vector<int>& sites, Cell& cell);

  std::vector<Cell> cells_;
};

}  // namespace ncpm
