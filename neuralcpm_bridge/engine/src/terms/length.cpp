#include "error.hpp"
#include "term.hpp"

namespace ncpm {
namespace {

// sum over cells of strength (L - target)^2, L the longest axis of the ellipse or ellipsoid with the cell's covariance;
// in 3D, where a target of the shortest axis M is given, plus strength (M - minor_target)^2.
class LengthTerm final : public Term {
 public:
  LengthTerm(const Model& model, Tissue& tissue) : constraint_(model, "length"), geometry_(tissue.lattice.geometry) {
    tissue.look_at_shapes();
    if (model.has("symbolic.length.minor_target")) minor_target_ = model.weight("symbolic.length.minor_target").doubles;
  }

  double energy(const Tissue& tissue) const override {
    return over_cells(tissue, [&](int id) { return at(tissue.types[id], tissue.moments->of(id)); });
  }

  double delta(const Tissue& tissue, const Flip& flip) const override {
    return change(tissue, flip.old_id, flip.site, -1) + change(tissue, flip.new_id, flip.site, +1);
  }

 private:
  double change(const Tissue& tissue, std::int32_t id, int site, int sign) const {
    if (id == 0) return 0.0;
    const int type = tissue.types[id];
    const CellMoments& moments = *tissue.moments;
    return at(type, moments.changed(tissue.lattice, id, site, sign)) - at(type, moments.of(id));
  }

  double at(int type, const Moments& moments) const {
    const Axes axes(geometry_, moments);
    double energy = constraint_(type, axes.longest);
    if (!minor_target_.empty()) {
      const double excess = axes.shortest - minor_target_[type];
      energy += constraint_.strength[type] * excess * excess;
    }
    return energy;
  }

  Constraint constraint_;
  std::vector<double> minor_target_;  // empty: the shortest axis is free
  Geometry geometry_;
};

void check(const Model& model, Checklist& list) {
  Constraint::check(model, list, "length");
  list.optional("symbolic.length.minor_target", {model.types()});
  if (model.has("symbolic.length.minor_target") && dimension_of(model.geometry) != 3)
    throw Error("The length term has a target for the shortest axis, which it has in 3D only: export the model again.");
}

}  // namespace

extern const TermRow kLengthTerm;
const TermRow kLengthTerm = {"length", check, make_term<LengthTerm>};

}  // namespace ncpm
