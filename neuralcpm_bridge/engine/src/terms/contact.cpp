#include "error.hpp"
#include "term.hpp"

namespace ncpm {
namespace {

// 2/|N| times the sum over unordered pairs of neighbours of J[type_i, type_j] where the ids differ.
class ContactTerm final : public Term {
 public:
  ContactTerm(const Model& model, Tissue& tissue)
      : types_(model.types()),
        neighbourhood_(tissue.look_at(model.order("contact"))),
        energies_(model.weight("symbolic.contact.J").doubles) {
    for (double& value : energies_) value *= tissue.neighbourhoods[neighbourhood_].pair_weight();
  }

  double energy(const Tissue& tissue) const override {
    double sum = 0.0;
    int around[kMostNeighbours];
    for (int site = 0; site < tissue.sites(); ++site) {
      const std::int32_t id = tissue.ids[site];
      const double* row = &energies_[tissue.types[id] * types_];
      const int count = tissue.neighbourhoods[neighbourhood_].around(tissue.lattice, site, around);
      for (int k = 0; k < count; ++k)
        if (tissue.ids[around[k]] != id) sum += row[tissue.type_at(around[k])];
    }
    return sum / 2;  // every pair was met from both ends
  }

  double delta(const Tissue& tissue, const Flip& flip) const override {
    const Flip::Around& around = flip.around[neighbourhood_];
    // A loop of known length for by far the most frequent number.
    return around.count == 8 ? sum_over<8>(tissue, flip, around, 8) : sum_over<0>(tissue, flip, around, around.count);
  }

 private:
  template <int known>
  double sum_over(const Tissue& tissue, const Flip& flip, const Flip::Around& around, int count) const {
    const double* old_row = &energies_[tissue.types[flip.old_id] * types_];
    const double* new_row = &energies_[tissue.types[flip.new_id] * types_];
    double sum = 0.0;
    for (int k = 0; k < (known ? known : count); ++k) {
      const std::int32_t id = around.ids[k];
      const int type = tissue.types[id];
      // Products instead of branches, which nothing could predict.
      sum += new_row[type] * double(id != flip.new_id) - old_row[type] * double(id != flip.old_id);
    }
    return sum;
  }

  int types_, neighbourhood_;
  std::vector<double> energies_;  // of one pair, [T, T]
};

void check(const Model& model, Checklist& list) {
  const std::int64_t types = model.types();
  list.need("symbolic.contact.J", {types, types});
  const std::vector<double>& J = model.weight("symbolic.contact.J").doubles;
  for (std::int64_t a = 0; a < types; ++a)
    for (std::int64_t b = 0; b < a; ++b)
      if (J[a * types + b] != J[b * types + a])
        throw Error("The contact energies J are not symmetric: J[" + std::to_string(a) + ", " + std::to_string(b) +
                    "] and its mirror differ, make them equal.");
  if (J[0] != 0.0)
    throw Error("The contact energy of the medium with itself is not 0, but it never counts: set J[0, 0] to 0.");
}

}  // namespace

extern const TermRow kContactTerm;
const TermRow kContactTerm = {"contact", check, make_term<ContactTerm>};

}  // namespace ncpm
