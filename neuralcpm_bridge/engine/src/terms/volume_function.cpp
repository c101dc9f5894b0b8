#include <algorithm>

#include "error.hpp"
#include "term.hpp"

namespace ncpm {
namespace {

const std::string kPrefix = "symbolic.volume_function.";

// sum over cells of f(V): a polynomial without constant term between two volumes, continued quadratically outside.
class VolumeFunctionTerm final : public Term {
 public:
  VolumeFunctionTerm(const Model& model, Tissue&)
      : center_(model.weight(kPrefix + "center").doubles),
        low_(model.weight(kPrefix + "low").doubles),
        high_(model.weight(kPrefix + "high").doubles),
        coefficients_(model.weight(kPrefix + "coefficients").doubles),
        stiffness_(model.weight(kPrefix + "stiffness").doubles),
        powers_(coefficients_.size() / center_.size()) {}

  double energy(const Tissue& tissue) const override {
    return over_cells(tissue, [&](int id) { return at(tissue.types[id], double(tissue.volumes[id])); });
  }

  double delta(const Tissue& tissue, const Flip& flip) const override {
    return change(tissue, flip.new_id, +1) + change(tissue, flip.old_id, -1);
  }

 private:
  double change(const Tissue& tissue, std::int32_t id, int by) const {
    if (id == 0) return 0.0;
    const double volume = double(tissue.volumes[id]);
    return at(tissue.types[id], volume + by) - at(tissue.types[id], volume);
  }

  double at(int type, double volume) const {
    const double inside = std::clamp(volume, low_[type], high_[type]);
    const double x = inside - center_[type], beyond = volume - inside;
    const double* c = &coefficients_[type * powers_];
    double value = 0.0, slope = 0.0;  // Horner's rule for both
    for (std::size_t k = powers_; k-- > 0;) {
      slope = slope * x + value;
      value = value * x + c[k];
    }
    slope = slope * x + value;
    value *= x;
    return value + beyond * (slope + stiffness_[type] * beyond);
  }

  std::vector<double> center_, low_, high_;
  std::vector<double> coefficients_;  // [T, K], of powers 1 to K
  std::vector<double> stiffness_;
  std::size_t powers_;
};

void check(const Model& model, Checklist& list) {
  const std::int64_t types = model.types();
  const Shape& shape = model.weight(kPrefix + "coefficients").shape;
  if (shape.size() != 2 || shape[1] < 1 || shape[1] > kMaxSize)
    throw Error("The volume function's coefficients have the shape " + text(shape) +
                ", but [T, K] was expected: export the model again.");
  list.need(kPrefix + "coefficients", {types, shape[1]});
  for (const char* part : {"center", "low", "high", "stiffness"}) list.need(kPrefix + part, {types});
  const std::vector<double>& low = model.weight(kPrefix + "low").doubles;
  const std::vector<double>& high = model.weight(kPrefix + "high").doubles;
  for (std::int64_t type = 0; type < types; ++type)
    if (low[type] > high[type])
      throw Error("The volume function of type " + std::to_string(type) +
                  " ends before it begins: export the model again.");
}

}  // namespace

extern const TermRow kVolumeFunctionTerm;
const TermRow kVolumeFunctionTerm = {"volume_function", check, make_term<VolumeFunctionTerm>};

}  // namespace ncpm
