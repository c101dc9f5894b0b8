// What a tissue is (Setting), what energies know of its cells (Cells), and the mechanisms' energies.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

using Way = std::array<int, 3>;  // plane, row, column
using Matrix = std::array<std::array<double, 3>, 3>;

enum Geometry : int32_t { kSquare, kHexagonal, kCubic };
enum Term : int32_t {
  kNone,
  kLength,
  kThickness,
  kSurface,
  kNeighbours,
  kAlignment,
  kExposure,
  kFlattening,
  kCrowding,
  kSpacing
};
constexpr int kTypes = 3;

// Layout shared with generator.py.
struct Setting {
  int32_t geometry, term, ids;
  int32_t shape[3];
  const int32_t* types;  // [ids]
  double J[kTypes][kTypes];
  double strength[kTypes], target[kTypes], temperature;
  double mechanism[kTypes][2];  // how strong and what is wanted, by the cell's own type
  int32_t partner;              // the type of neighbours that count; 0: every cell
  double range;

  double contact(int a, int b) const { return J[types[a]][types[b]]; }
  double volume_energy(int id, double after, double before) const {
    const int t = types[id];
    return strength[t] * (after - before) * (after + before - 2 * target[t]);
  }
  int dimension() const { return geometry == kCubic ? 3 : 2; }
  double pair_weight() const { return 2.0 / (geometry == kCubic ? 26 : geometry == kHexagonal ? 6 : 8); }
  // Whether cells beside the site that change hands change their own energies too.
  bool looks_around() const {
    return term == kNeighbours || term == kExposure || term == kFlattening || term == kCrowding;
  }
  // Integer coordinates in space: skewed axes of hexagons are straightened.
  std::array<double, 3> in_space(const std::array<double, 3>& v) const {
    if (geometry != kHexagonal) return v;
    return {v[0], v[1] * std::sqrt(0.75), v[2] + v[1] / 2};
  }
};

struct Cell {
  int64_t volume = 0, surface = 0;  // surface: ordered pairs that leave the cell
  std::array<int64_t, 3> first{};
  std::array<std::array<int64_t, 3>, 3> second{}, medium{};  // medium: sum of o oᵀ of the pairs that end in it
};

// Largest and smallest eigenvalue of a symmetric matrix of the last d axes.
inline std::array<double, 2> extremes(const Matrix& q, int d) {
  if (d == 2) {
    const double half = (q[1][1] + q[2][2]) / 2;
    const double root = std::hypot((q[1][1] - q[2][2]) / 2, q[1][2]);
    return {half + root, half - root};
  }
  const double mean = (q[0][0] + q[1][1] + q[2][2]) / 3;
  double p2 = 0;
  Matrix b = q;
  for (int i = 0; i < 3; ++i) b[i][i] -= mean;
  for (const auto& row : b)
    for (double x : row) p2 += x * x;
  const double p = std::sqrt(p2 / 6);
  if (p < 1e-12) return {mean, mean};
  const double determinant = b[0][0] * (b[1][1] * b[2][2] - b[1][2] * b[2][1]) -
                             b[0][1] * (b[1][0] * b[2][2] - b[1][2] * b[2][0]) +
                             b[0][2] * (b[1][0] * b[2][1] - b[1][1] * b[2][0]);
  const double angle = std::acos(std::clamp(determinant / (2 * p * p * p), -1.0, 1.0)) / 3;
  return {mean + 2 * p * std::cos(angle), mean + 2 * p * std::cos(angle + 2 * M_PI / 3)};
}

class Cells {
 public:
  explicit Cells(const Setting& setting) : s_(setting), cells_(setting.ids), pairs_(size_t(setting.ids) * setting.ids) {
    for (int id = 1; id < setting.ids; ++id) by_type_[setting.types[id]].push_back(id);
  }

  // A site joins (1) or leaves (−1) a cell.
  void put(int id, const Way& at, int sign) {
    Cell& cell = cells_[id];
    cell.volume += sign;
    for (int a = 0; a < 3; ++a) {
      cell.first[a] += sign * at[a];
      for (int b = 0; b < 3; ++b) cell.second[a][b] += int64_t(sign) * at[a] * at[b];
    }
  }
  // An ordered pair of neighbours in two cells, `o` apart, appears (1) or goes (−1).
  void meet(int id, int other, const Way& o, int sign) {
    pairs_[size_t(id) * s_.ids + other] += sign;
    Cell& cell = cells_[id];
    cell.surface += sign;
    if (other == 0)
      for (int a = 0; a < 3; ++a)
        for (int b = 0; b < 3; ++b) cell.medium[a][b] += sign * o[a] * o[b];
  }
  int64_t volume(int id) const { return cells_[id].volume; }

  // What a copy between two cells can change of the mechanism's energy: theirs, that of cells around, that of pairs.
  double local(int from, int to, const std::vector<int>& around) const {
    double sum = 0;
    if (s_.term == kAlignment || s_.term == kSpacing) {
      for (int id : {from, to})
        if (id && s_.mechanism[s_.types[id]][0] != 0)
          for (int other : by_type_[s_.types[id]])
            if (other != id && !(id == to && other == from)) sum += pair_energy(id, other);
    } else if (s_.term != kNone) {
      for (int id : around)
        if (id && s_.mechanism[s_.types[id]][0] != 0) sum += cell_energy(id);
    }
    return sum;
  }

 private:
  double cell_energy(int id) const {
    const auto [strength, wanted] = s_.mechanism[s_.types[id]];
    const Cell& cell = cells_[id];
    switch (s_.term) {
      case kLength: return strength * square(axis(id, 0) - wanted);
      case kThickness: return strength * square(axis(id, 1) - wanted);
      case kSurface: return strength * square(s_.pair_weight() * double(cell.surface) - wanted);
      case kNeighbours: return strength * square(touching(id) - wanted);
      case kExposure:
        return cell.surface ? strength * square(double(pairs(id, 0)) / double(cell.surface) - wanted) : 0.0;
      case kFlattening: return strength * s_.pair_weight() * across_the_medium(id);
      case kCrowding: {  // the target volume grows by `wanted` with every neighbour more than `range`
        const int t = s_.types[id];
        const double away = double(cell.volume) - s_.target[t];
        return strength * (square(away - wanted * (touching(id) - s_.range)) - square(away));
      }
      default: return 0;
    }
  }

  double pair_energy(int a, int b) const {
    const double strength = s_.mechanism[s_.types[a]][0];
    if (s_.term == kSpacing) {
      const double near = 1 - distance(a, b) / s_.range;
      return near > 0 ? strength * square(near) : 0.0;
    }
    const double contact = s_.pair_weight() * double(pairs(a, b));
    if (contact == 0) return 0;
    const Matrix qa = gyration(a), qb = gyration(b);
    const int d = s_.dimension();
    double product = 0;  // of the traceless d·Q / tr Q − 1, 1 for parallel lines
    for (int i = 3 - d; i < 3; ++i)
      for (int j = 3 - d; j < 3; ++j)
        product += (d * qa[i][j] / trace(qa) - (i == j)) * (d * qb[i][j] / trace(qb) - (i == j));
    return -strength * contact * product / (d * (d - 1));
  }

  // Covariance of a cell's area in space, that of each site included.
  Matrix gyration(int id) const {
    const Cell& cell = cells_[id];
    const double v = double(cell.volume), site = s_.geometry == kHexagonal ? 5.0 / 72 : 1.0 / 12;
    Matrix skewed{};
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b)
        skewed[a][b] = (double(cell.second[a][b]) - double(cell.first[a]) * double(cell.first[b]) / v) / v;
    Matrix q = straightened(skewed);
    for (int a = 3 - s_.dimension(); a < 3; ++a) q[a][a] += site;
    return q;
  }
  Matrix straightened(Matrix m) const {
    for (auto& row : m) row = s_.in_space(row);
    for (int b = 0; b < 3; ++b) {
      const auto column = s_.in_space({m[0][b], m[1][b], m[2][b]});
      for (int a = 0; a < 3; ++a) m[a][b] = column[a];
    }
    return m;
  }

  // Longest (0) or shortest (1) axis of the ellipse with a cell's moments, from end to end.
  double axis(int id, int which) const {
    const double moment = extremes(gyration(id), s_.dimension())[which];
    return 2 * std::sqrt((s_.dimension() + 2) * std::max(moment, 0.0));
  }
  // Number of pairs with the medium, each weighed by how much of the cell's extent lies along it.
  double across_the_medium(int id) const {
    const Cell& cell = cells_[id];
    Matrix skewed{};
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) skewed[a][b] = double(cell.medium[a][b]);
    const Matrix g = straightened(skewed), q = gyration(id);
    double sum = 0;
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) sum += g[a][b] * q[a][b];
    return sum / trace(q);
  }
  // Cells of the partners' type (0: of any) that a cell touches.
  double touching(int id) const {
    int count = 0;
    for (int other = 1; other < s_.ids; ++other)
      count += pairs(id, other) > 0 && (s_.partner == 0 || s_.types[other] == s_.partner);
    return count;
  }
  double distance(int a, int b) const {
    std::array<double, 3> way;
    for (int axis = 0; axis < 3; ++axis) {
      const double away = double(cells_[a].first[axis]) / double(cells_[a].volume) -
                          double(cells_[b].first[axis]) / double(cells_[b].volume);
      way[axis] = away - s_.shape[axis] * std::round(away / s_.shape[axis]);
    }
    way = s_.in_space(way);
    return std::sqrt(way[0] * way[0] + way[1] * way[1] + way[2] * way[2]);
  }

  int pairs(int id, int other) const { return pairs_[size_t(id) * s_.ids + other]; }
  static double trace(const Matrix& m) { return m[0][0] + m[1][1] + m[2][2]; }
  static double square(double x) { return x * x; }

  const Setting& s_;
  std::vector<Cell> cells_;
  std::vector<int> pairs_;  // ordered pairs of neighbouring sites, [ids, ids]
  std::array<std::vector<int>, kTypes> by_type_;
};
