#include "lattice.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "error.hpp"

namespace ncpm {
namespace {

constexpr int kReach = 8;  // farthest step along an axis that neighbourhoods may take

int squared_length(Geometry geometry, Offset by) {
  const int sum = by.plane * by.plane + by.row * by.row + by.col * by.col;
  return geometry == Geometry::Hexagonal ? sum + by.row * by.col : sum;
}

// Neighbourhoods of one geometry by order, as far as they are allowed.
std::vector<std::vector<Offset>> all_orders(Geometry geometry) {
  std::map<int, int> shells;  // sites by squared distance
  std::vector<Offset> box;
  const int planes = dimension_of(geometry) == 3 ? kReach : 0;
  for (int plane = -planes; plane <= planes; ++plane)
    for (int row = -kReach; row <= kReach; ++row)
      for (int col = -kReach; col <= kReach; ++col) {
        box.push_back({plane, row, col});
        ++shells[squared_length(geometry, box.back())];
      }
  std::vector<std::vector<Offset>> orders;
  int count = 0;
  for (const auto& [square, sites] : shells) {
    if (square == 0) continue;
    // A step of kReach + 1 along one axis is at least that times the axes' smallest distance (sqrt(3)/2) away.
    if ((count += sites) > kMostNeighbours || 4 * square >= 3 * (kReach + 1) * (kReach + 1)) break;
    std::vector<Offset> chosen;
    for (const Offset by : box)
      if (const int length = squared_length(geometry, by); length > 0 && length <= square) chosen.push_back(by);
    orders.push_back(std::move(chosen));
  }
  return orders;
}

std::vector<std::int64_t> widened(const std::vector<std::int64_t>& shape) {
  return shape.size() == 2 ? std::vector<std::int64_t>{1, shape[0], shape[1]} : shape;
}

int nearest(int distance, int size) {
  if (2 * distance > size) return distance - size;
  return 2 * distance <= -size ? distance + size : distance;
}

}  // namespace

std::string size_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

const char* name_of(Geometry geometry) {
  switch (geometry) {
    case Geometry::Square: return "square";
    case Geometry::Hexagonal: return "hexagonal";
    default: return "cubic";
  }
}

Geometry geometry_named(const std::string& name) {
  for (const Geometry geometry : kGeometries)
    if (name == name_of(geometry)) return geometry;
  throw Error("The lattice is '" + name + "', but 'square', 'hexagonal' or 'cubic' was expected: use one of them.");
}

int dimension_of(Geometry geometry) { return geometry == Geometry::Cubic ? 3 : 2; }

int moore_order(Geometry geometry) {
  switch (geometry) {
    case Geometry::Square: return 2;
    case Geometry::Hexagonal: return 1;
    default: return 3;
  }
}

const std::vector<Offset>& offsets_of(Geometry geometry, int order) {
  static const std::array<std::vector<std::vector<Offset>>, 3> table = {
      all_orders(Geometry::Square), all_orders(Geometry::Hexagonal), all_orders(Geometry::Cubic)};
  const auto& orders = table[static_cast<int>(geometry)];
  if (order < 1 || std::size_t(order) > orders.size())
    throw Error("A neighbourhood of order " + std::to_string(order) + " was asked for, but on " + name_of(geometry) +
                " lattices orders from 1 to " + std::to_string(orders.size()) + " are possible: choose one of them.");
  return orders[order - 1];
}

double pair_weight(Geometry geometry, int order) { return 2.0 / double(offsets_of(geometry, order).size()); }

Lattice Lattice::make(Geometry geometry, Layout layout, const std::vector<std::int64_t>& shape,
                      const std::vector<bool>& periodic) {
  const std::size_t axes = dimension_of(geometry);
  if (shape.size() != axes || periodic.size() != axes)
    throw Error("A lattice of " + size_text(shape) + " sites was given, but a " + name_of(geometry) + " one has " +
                std::to_string(axes) + " axes: give a state of another shape or use another model.");
  // Directed pairs of sites are numbered by 32-bit numbers in places: 8 neighbours of every site must fit.
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 8;
  std::int64_t sites = 1;
  for (const std::int64_t size : shape) sites = size < 1 || size > most || sites > most ? most + 1 : sites * size;
  if (sites > most)
    throw Error("A lattice of " + size_text(shape) +
                " sites was given, but 1 to 268 million sites are possible: give another size.");
  const std::vector<std::int64_t> sizes = widened(shape);
  Lattice lattice;
  lattice.geometry = geometry;
  lattice.layout = layout;
  lattice.depth = int(sizes[0]);
  lattice.height = int(sizes[1]);
  lattice.width = int(sizes[2]);
  for (std::size_t axis = 0; axis < axes; ++axis) lattice.periodic[3 - axes + axis] = periodic[axis];
  if (layout == Layout::Rows && geometry != Geometry::Hexagonal)
    throw Error(std::string("Pushed rows were asked for on a ") + name_of(geometry) +
                " lattice, but they belong to hexagonal ones: store the state on its axes.");
  if (layout == Layout::Rows && lattice.periodic[1] && lattice.height % 2)
    throw Error("A hexagonal lattice in rows is periodic over " + std::to_string(lattice.height) +
                " of them, but only an even number closes to a ring: use an even number of rows.");
  return lattice;
}

std::vector<int> Lattice::shape() const {
  return dimension() == 3 ? std::vector<int>{depth, height, width} : std::vector<int>{height, width};
}

std::string Lattice::text() const {
  const std::vector<int> sizes = shape();
  return size_text({sizes.begin(), sizes.end()});
}

Offset Lattice::between(Place from, Place to) const {
  Offset way = {to.plane - from.plane, to.row - from.row, to.col - from.col - push(from.row, to.row - from.row)};
  if (periodic[0]) way.plane = nearest(way.plane, depth);
  if (periodic[1]) {
    const int rows = nearest(way.row, height);
    // Once round the rows of an even number is half as many columns on skewed axes.
    if (layout == Layout::Rows) way.col -= (rows - way.row) / 2;
    way.row = rows;
  }
  // Pushed rows may lie several rings apart.
  if (periodic[2]) way.col = nearest(layout == Layout::Rows ? way.col % width : way.col, width);
  return way;
}

Neighbourhood::Neighbourhood(const Lattice& lattice, int order)
    : order_(order),
      size_(int(offsets_of(lattice.geometry, order).size())),
      odd_(lattice.layout == Layout::Rows ? 1 : 0),
      offsets_(&offsets_of(lattice.geometry, order)) {
  reach_ = {0, 0, 0};
  for (int parity = 0; parity <= odd_; ++parity)
    for (int k = 0; k < size_; ++k) {
      const Offset by = (*offsets_)[k];
      const int col = by.col + lattice.push(parity, by.row);
      steps_[parity][k] = (by.plane * lattice.height + by.row) * lattice.width + col;
      reach_.plane = std::max(reach_.plane, std::abs(by.plane));
      reach_.row = std::max(reach_.row, std::abs(by.row));
      reach_.col = std::max(reach_.col, std::abs(col));
    }
  const auto inner = [](int size, int reach) { return unsigned(std::max(0, size - 2 * reach)); };
  inner_ = {inner(lattice.depth, reach_.plane), inner(lattice.height, reach_.row), inner(lattice.width, reach_.col)};
}

}  // namespace ncpm
