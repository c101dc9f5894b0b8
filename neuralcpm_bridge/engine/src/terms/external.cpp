#include "error.hpp"
#include "term.hpp"

namespace ncpm {
namespace {

// sum over sites and fields of field[k, site] * coupling, where a cell's own coupling, if set, replaces its type's.
class ExternalTerm final : public Term {
 public:
  ExternalTerm(const Model& model, Tissue& tissue) : by_type_(model.weight("symbolic.external.coupling").doubles) {
    const Tensor& field = model.weight("symbolic.external.field");
    const std::vector<int> shape = tissue.lattice.shape();
    const Shape found(shape.begin(), shape.end()), bound(field.shape.begin() + 1, field.shape.end());
    if (found != bound)
      throw Error("A lattice of " + tissue.lattice.text() + " sites was given, but the model's external fields are " +
                  text(bound) + ": use a state of that size.");
    fields_ = static_cast<int>(field.shape[0]);
    const std::size_t sites = field.doubles.size() / fields_;
    field_.resize(field.doubles.size());
    for (int k = 0; k < fields_; ++k)
      for (std::size_t site = 0; site < sites; ++site) field_[site * fields_ + k] = field.doubles[k * sites + site];
  }

  double energy(const Tissue& tissue) const override {
    double sum = 0.0;
    for (int site = 0; site < tissue.sites(); ++site) sum += at(tissue, site, tissue.ids[site]);
    return sum;
  }

  double delta(const Tissue& tissue, const Flip& flip) const override {
    return at(tissue, flip.site, flip.new_id) - at(tissue, flip.site, flip.old_id);
  }

  bool couple(const std::vector<double>& coupling, int cells, int fields) override {
    if (!coupling.empty() && (fields != fields_ || cells < 1))
      throw Error("Couplings to " + std::to_string(fields) + " fields were given, but the model has " +
                  std::to_string(fields_) + ": give an array of shape [cells, fields].");
    by_cell_ = coupling;
    return true;
  }

 private:
  double at(const Tissue& tissue, int site, std::int32_t id) const {
    const bool own = (std::size_t(id) + 1) * fields_ <= by_cell_.size();
    const double* coupling = own ? &by_cell_[std::size_t(id) * fields_] : &by_type_[tissue.types[id] * fields_];
    double sum = 0.0;
    for (int k = 0; k < fields_; ++k) sum += field_[std::size_t(site) * fields_ + k] * coupling[k];
    return sum;
  }

  int fields_;
  std::vector<double> field_;    // [sites, K]: the fields of one site side by side
  std::vector<double> by_type_;  // [T, K]
  std::vector<double> by_cell_;  // [C, K]; empty: the types'
};

void check(const Model& model, Checklist& list) {
  const Shape& shape = model.weight("symbolic.external.field").shape;
  bool sound = shape.size() == std::size_t(1 + dimension_of(model.geometry));
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    sound = sound && shape[axis] >= 1 && (axis == 0 || shape[axis] <= kMaxSize);
  if (!sound)
    throw Error("The external fields have the shape " + text(shape) +
                ", but [K, H, W], in 3D [K, D, H, W], was expected: export the model again.");
  list.need("symbolic.external.field", shape);
  list.need("symbolic.external.coupling", {model.types(), shape[0]});
}

}  // namespace

extern const TermRow kExternalTerm;
const TermRow kExternalTerm = {"external", check, make_term<ExternalTerm>};

}  // namespace ncpm
