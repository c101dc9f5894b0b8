#include <algorithm>

#include "term.hpp"

namespace ncpm {
namespace {

// sum over cells of strength (S - target)^2, S = 2/|N| times the ordered pairs of neighbours (i in c, j not in c).
class SurfaceTerm final : public Term {
 public:
  SurfaceTerm(const Model& model, Tissue& tissue)
      : constraint_(model, "surface"),
        neighbourhood_(tissue.look_at(model.order("surface"))),
        pair_weight_(tissue.neighbourhoods[neighbourhood_].pair_weight()) {}

  void rebuild(const Tissue& tissue) override {
    pairs_.assign(tissue.cells(), 0);
    int around[kMostNeighbours];
    for (int site = 0; site < tissue.sites(); ++site) {
      const int count = tissue.neighbourhoods[neighbourhood_].around(tissue.lattice, site, around);
      for (int k = 0; k < count; ++k) pairs_[tissue.ids[site]] += tissue.ids[around[k]] != tissue.ids[site];
    }
  }

  void grow(int cells) override { pairs_.resize(cells, 0); }

  double energy(const Tissue& tissue) const override {
    return over_cells(tissue, [&](int id) { return at(tissue, id, 0); });
  }

  double delta(const Tissue& tissue, const Flip& flip) const override {
    const Flip::Around& around = flip.around[neighbourhood_];
    double sum = 0.0;
    if (flip.old_id > 0) sum += at(tissue, flip.old_id, lost(around, flip.old_id)) - at(tissue, flip.old_id, 0);
    if (flip.new_id > 0) sum += at(tissue, flip.new_id, gained(around, flip.new_id)) - at(tissue, flip.new_id, 0);
    return sum;
  }

  void commit(const Tissue&, const Flip& flip) override {
    pairs_[flip.old_id] += lost(flip.around[neighbourhood_], flip.old_id);
    pairs_[flip.new_id] += gained(flip.around[neighbourhood_], flip.new_id);
  }

 private:
  // The site's own unlike pairs go (come), and each like neighbour gains (loses) one.
  static int lost(const Flip::Around& around, std::int32_t id) { return 2 * like(around, id) - around.count; }
  static int gained(const Flip::Around& around, std::int32_t id) { return around.count - 2 * like(around, id); }
  static int like(const Flip::Around& around, std::int32_t id) {
    return static_cast<int>(std::count(around.ids, around.ids + around.count, id));
  }

  double at(const Tissue& tissue, std::int32_t id, int more) const {
    return constraint_(tissue.types[id], pair_weight_ * double(pairs_[id] + more));
  }

  Constraint constraint_;
  int neighbourhood_;
  double pair_weight_;
  std::vector<std::int64_t> pairs_;
};

void check(const Model& model, Checklist& list) { Constraint::check(model, list, "surface"); }

}  // namespace

extern const TermRow kSurfaceTerm;
const TermRow kSurfaceTerm = {"surface", check, make_term<SurfaceTerm>};

}  // namespace ncpm
