// The lattice: geometry, shape, boundary per axis, and who is next to whom. Nothing else in the engine knows how many
// neighbours a site has, or how many axes there are.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ncpm {

enum class Geometry { Square, Hexagonal, Cubic };
inline constexpr Geometry kGeometries[] = {Geometry::Square, Geometry::Hexagonal, Geometry::Cubic};

const char* name_of(Geometry geometry);
Geometry geometry_named(const std::string& name);  // throws Error
int dimension_of(Geometry geometry);
int moore_order(Geometry geometry);  // of the neighbourhood that surrounds a site: 8, 6 and 26 neighbours

// Hexagonal lattices lie on skewed axes (x = col + row/2), or in rows of which every second one is pushed by half a
// site, as CompuCell3D stores them: site (y, x) at x + 1/2 for even y, at x for odd y.
enum class Layout { Axes, Rows };

// A step along the axes of the geometry (skewed ones on hexagonal lattices, whatever the layout).
struct Offset {
  int plane, row, col;
};

// A site by its place in the array.
struct Place {
  int plane, row, col;
};

inline constexpr int kMostNeighbours = 128;  // of one neighbourhood

// The neighbours up to the order-th distance, ascending by plane, row and column, so that k and n - 1 - k are opposite.
// Throws Error for an order that does not exist or has more than kMostNeighbours.
const std::vector<Offset>& offsets_of(Geometry geometry, int order);

// 2/|N|: what one pair of neighbours weighs in contact energies and surfaces.
double pair_weight(Geometry geometry, int order);

std::string size_text(const std::vector<std::int64_t>& shape);  // "100 x 80"

// Sites are numbered row by row: (plane * height + row) * width + col; in 2D there is one plane.
struct Lattice {
  Geometry geometry = Geometry::Square;
  Layout layout = Layout::Axes;
  int depth = 1, height = 1, width = 1;
  std::array<bool, 3> periodic = {true, true, true};  // along planes, rows, columns

  // Checked: `shape` and `periodic` have one entry per axis of the geometry. Throws Error.
  static Lattice make(Geometry geometry, Layout layout, const std::vector<std::int64_t>& shape,
                      const std::vector<bool>& periodic);

  int sites() const { return depth * height * width; }
  int dimension() const { return dimension_of(geometry); }
  std::vector<int> shape() const;
  std::string text() const;  // its size

  int site(Place at) const { return (at.plane * height + at.row) * width + at.col; }

  Place place(int site) const {
    const int line = site / width;
    const int plane = depth == 1 ? 0 : line / height;
    return {plane, line - plane * height, site - line * width};
  }

  // Columns by which a step of so many rows pushes: 0 on axes.
  int push(int row, int rows) const {
    return layout == Layout::Rows ? floor_half(row + rows + 1) - floor_half(row + 1) : 0;
  }

  // The site an offset away, or -1 where a free boundary ends the lattice; may be the site itself on a narrow ring.
  int moved(Place from, Offset by) const {
    Place to = {from.plane + by.plane, from.row + by.row, from.col + by.col + push(from.row, by.row)};
    if (!wrap(to.plane, depth, periodic[0]) || !wrap(to.row, height, periodic[1]) || !wrap(to.col, width, periodic[2]))
      return -1;
    return site(to);
  }

  // Coordinates along the geometry's axes.
  Offset coordinates(Place at) const { return {at.plane, at.row, at.col - push(0, at.row)}; }

  // The shortest way between two sites along the geometry's axes, in whole steps; of two equally short ones along a
  // ring the positive.
  Offset between(Place from, Place to) const;

 private:
  static int floor_half(int x) { return (x - (x & 1)) / 2; }

  static bool wrap(int& at, int size, bool periodic) {
    if (unsigned(at) < unsigned(size)) return true;
    if (!periodic) return false;
    at %= size;
    if (at < 0) at += size;
    return true;
  }
};

// One neighbourhood on one lattice, ready for the flip loop.
class Neighbourhood {
 public:
  Neighbourhood(const Lattice& lattice, int order);

  int order() const { return order_; }
  int size() const { return size_; }
  double pair_weight() const { return 2.0 / size_; }

  // Writes the neighbours of a site to `out`, in the order of the offsets, and returns how many there are. Beyond a
  // free boundary there are none, and a site is no neighbour of itself; on a ring narrower than the neighbourhood
  // several offsets reach the same site and each counts.
  int around(const Lattice& lattice, int site, int* out) const {
    return around(lattice, site, out, [](int other) { return other; });
  }

  // The same for the ids of the neighbours.
  int ids_around(const Lattice& lattice, int site, const std::int32_t* ids, std::int32_t* out) const {
    return around(lattice, site, out, [ids](int other) { return ids[other]; });
  }

  // What to add to a site's number for each of its neighbours; null where some lie beyond the array's edge.
  const int* steps_inside(Place at) const {
    const bool inside = unsigned(at.row - reach_.row) < inner_.row && unsigned(at.col - reach_.col) < inner_.col &&
                        unsigned(at.plane - reach_.plane) < inner_.plane;
    return inside ? steps_[at.row & odd_].data() : nullptr;
  }

  // The k-th neighbour, -1 beyond a free boundary; `steps` are its site's.
  int at(const Lattice& lattice, int site, Place place, const int* steps, int k) const {
    return steps ? site + steps[k] : lattice.moved(place, (*offsets_)[k]);
  }

 private:
  template <class Of>
  int around(const Lattice& lattice, int site, std::int32_t* out, Of of) const {
    const Place at = lattice.place(site);
    if (const int* steps = steps_inside(at)) {
      if (size_ == 8)  // by far the most frequent: a loop of known length
        for (int k = 0; k < 8; ++k) out[k] = of(site + steps[k]);
      else
        for (int k = 0; k < size_; ++k) out[k] = of(site + steps[k]);
      return size_;
    }
    int count = 0;
    for (const Offset by : *offsets_) {
      const int other = lattice.moved(at, by);
      if (other >= 0 && other != site) out[count++] = of(other);
    }
    return count;
  }

  struct Inner {
    unsigned plane, row, col;
  };

  int order_, size_;
  int odd_;      // 1 where steps depend on the row's parity, else 0
  Place reach_;  // how far it goes along each axis ...
  Inner inner_;  // ... and how many places are farther than that from every edge
  std::array<std::array<int, kMostNeighbours>, 2> steps_;  // by the row's parity
  const std::vector<Offset>* offsets_;
};

}  // namespace ncpm
