#include "term.hpp"

namespace ncpm {
namespace {

// sum over cells of strength (V - target)^2; a cell without pixels counts.
class VolumeTerm final : public Term {
 public:
  VolumeTerm(const Model& model, Tissue&) : constraint_(model, "volume") {}

  double energy(const Tissue& tissue) const override {
    return over_cells(tissue, [&](int id) { return constraint_(tissue.types[id], double(tissue.volumes[id])); });
  }

  double delta(const Tissue& tissue, const Flip& flip) const override {
    return change(tissue, flip.new_id, +1) + change(tissue, flip.old_id, -1);
  }

 private:
  double change(const Tissue& tissue, std::int32_t id, int by) const {
    if (id == 0) return 0.0;
    const int type = tissue.types[id];
    const double excess = double(tissue.volumes[id]) - constraint_.target[type];
    return constraint_.strength[type] * (2.0 * by * excess + 1.0);
  }

  Constraint constraint_;
};

void check(const Model& model, Checklist& list) { Constraint::check(model, list, "volume"); }

}  // namespace

extern const TermRow kVolumeTerm;
const TermRow kVolumeTerm = {"volume", check, make_term<VolumeTerm>};

}  // namespace ncpm
