// Terms that shape cells: their length and their surface.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "term.hpp"

namespace ncpm {
namespace {

// S_c = 1/4 of the ordered Moore pairs (i in c, j not in c).
class SurfaceTerm final : public Term {
 public:
  explicit SurfaceTerm(const Model& model) : constraint_(model, "symbolic.surface") {}

  void rebuild(const Lattice& lattice) override {
    pairs_.assign(lattice.cells(), 0);
    int around[8];
    for (int site = 0; site < lattice.sites(); ++site)
      for (int k = 0, count = moore_neighbours(lattice, site, around); k < count; ++k)
        pairs_[lattice.ids[site]] += lattice.ids[around[k]] != lattice.ids[site];
  }

  void grow(int cells) override { pairs_.resize(cells, 0); }

  double energy(const Lattice& lattice) const override {
    double sum = 0.0;
    for (int id = 1; id < lattice.cells(); ++id)
      if (lattice.types[id] >= 1) sum += at(lattice, id, 0);
    return sum;
  }

  double delta(const Lattice& lattice, const Flip& flip) const override {
    double sum = 0.0;
    if (flip.old_id > 0) sum += at(lattice, flip.old_id, lost(flip)) - at(lattice, flip.old_id, 0);
    if (flip.new_id > 0) sum += at(lattice, flip.new_id, gained(flip)) - at(lattice, flip.new_id, 0);
    return sum;
  }

  void commit(const Lattice&, const Flip& flip) override {
    pairs_[flip.old_id] += lost(flip);
    pairs_[flip.new_id] += gained(flip);
  }

 private:
  // The site's own unlike pairs go (come), and each like neighbour gains (loses) one.
  static int lost(const Flip& flip) { return 2 * like(flip, flip.old_id) - flip.neighbours; }
  static int gained(const Flip& flip) { return flip.neighbours - 2 * like(flip, flip.new_id); }
  static int like(const Flip& flip, std::int32_t id) {
    return static_cast<int>(std::count(flip.neighbour_ids, flip.neighbour_ids + flip.neighbours, id));
  }

  double at(const Lattice& lattice, std::int32_t id, int more) const {
    return constraint_(lattice.types[id], 0.25 * double(pairs_[id] + more));
  }

  Constraint constraint_;
  std::vector<std::int64_t> pairs_;
};

// Sums over a cell's pixels of 1, y, x, yy, xx, xy, with y and x relative to a reference site.
struct Moments {
  std::int64_t n = 0, y = 0, x = 0, yy = 0, xx = 0, xy = 0;

  Moments with(Offset at, int sign) const {
    const std::int64_t row = at.row, col = at.col;
    return {
        n + sign, y + sign * row, x + sign * col, yy + sign * row * row, xx + sign * col * col, xy + sign * row * col};
  }

  // 4 sqrt(largest eigenvalue of the covariance): for an ellipse, its major axis.
  double length() const {
    if (n == 0) return 0.0;
    const double area = double(n) * double(n);
    const double a = double(n * yy - y * y) / area, b = double(n * xy - x * y) / area,
                 c = double(n * xx - x * x) / area;
    return 4.0 * std::sqrt(0.5 * (a + c) + std::sqrt(0.25 * (a - c) * (a - c) + b * b));
  }
};

// Positions are minimal images of the distance to a reference site near the cell's middle. This is the
// cell's shape as long as it spans less than three eighths of a periodic lattice, whatever borders it crosses.
class LengthTerm final : public Term {
 public:
  explicit LengthTerm(const Model& model) : constraint_(model, "symbolic.length") {}

  void rebuild(const Lattice& lattice) override {
    cells_.assign(lattice.cells(), {});
    for (int site = 0; site < lattice.sites(); ++site) {
      Cell& cell = cells_[lattice.ids[site]];
      if (cell.moments.n == 0) cell.reference = site;
      cell.moments = cell.moments.with(offset(lattice, cell.reference, site), +1);
    }
    for (int id = 1; id < lattice.cells(); ++id) centre(lattice, id);
  }

  void grow(int cells) override { cells_.resize(cells); }

  double energy(const Lattice& lattice) const override {
    double sum = 0.0;
    for (int id = 1; id < lattice.cells(); ++id)
      if (lattice.types[id] >= 1) sum += constraint_(lattice.types[id], cells_[id].moments.length());
    return sum;
  }

  double delta(const Lattice& lattice, const Flip& flip) const override {
    return change(lattice, flip.old_id, flip.site, -1) + change(lattice, flip.new_id, flip.site, +1);
  }

  void commit(const Lattice& before, const Flip& flip) override {
    for (const auto& [id, sign] : {std::pair{flip.old_id, -1}, std::pair{flip.new_id, +1}}) {
      if (id == 0) continue;
      Cell& cell = cells_[id];
      if (cell.moments.n == 0) cell.reference = flip.site;
      cell.moments = cell.moments.with(offset(before, cell.reference, flip.site), sign);
    }
    // A cell that has travelled is measured from a new reference, on the lattice as it will be.
    for (const std::int32_t id : {flip.old_id, flip.new_id})
      if (id > 0 && off_centre(before, cells_[id])) recentre(before, id, &flip);
  }

 private:
  struct Cell {
    int reference = 0;
    Moments moments;
  };

  static int minimal(int distance, int size) {
    if (2 * distance > size) return distance - size;
    return 2 * distance <= -size ? distance + size : distance;
  }

  static Offset offset(const Lattice& lattice, int from, int to) {
    const Offset plain = {to / lattice.width - from / lattice.width, to % lattice.width - from % lattice.width};
    if (!lattice.periodic) return plain;
    return {minimal(plain.row, lattice.height), minimal(plain.col, lattice.width)};
  }

  double change(const Lattice& lattice, std::int32_t id, int site, int sign) const {
    if (id == 0) return 0.0;
    const Cell& cell = cells_[id];
    const int reference = cell.moments.n == 0 ? site : cell.reference;
    const double after = cell.moments.with(offset(lattice, reference, site), sign).length();
    return constraint_(lattice.types[id], after) - constraint_(lattice.types[id], cell.moments.length());
  }

  // With its mean an eighth of the lattice away, a cell that spans three eighths still has all its pixels within
  // half a lattice of the reference: their nearest images are the right ones.
  static bool off_centre(const Lattice& lattice, const Cell& cell) {
    return lattice.periodic && (8 * std::abs(cell.moments.y) > cell.moments.n * lattice.height ||
                                8 * std::abs(cell.moments.x) > cell.moments.n * lattice.width);
  }

  void centre(const Lattice& lattice, std::int32_t id) {
    if (off_centre(lattice, cells_[id])) recentre(lattice, id, nullptr);
  }

  void recentre(const Lattice& lattice, std::int32_t id, const Flip* flip) {
    Cell& cell = cells_[id];
    const auto wrap = [](long at, int size) { return static_cast<int>(((at % size) + size) % size); };
    const double n = double(cell.moments.n);
    const int row = wrap(cell.reference / lattice.width + std::lround(double(cell.moments.y) / n), lattice.height);
    const int col = wrap(cell.reference % lattice.width + std::lround(double(cell.moments.x) / n), lattice.width);
    cell.reference = row * lattice.width + col;
    cell.moments = {};
    for (int site = 0; site < lattice.sites(); ++site) {
      const std::int32_t owner = flip && site == flip->site ? flip->new_id : lattice.ids[site];
      if (owner == id) cell.moments = cell.moments.with(offset(lattice, cell.reference, site), +1);
    }
  }

  Constraint constraint_;
  std::vector<Cell> cells_;
};

}  // namespace

std::unique_ptr<Term> make_length_term(const Model& model) { return std::make_unique<LengthTerm>(model); }
std::unique_ptr<Term> make_surface_term(const Model& model) { return std::make_unique<SurfaceTerm>(model); }

}  // namespace ncpm
