#include <algorithm>

#include "term.hpp"

namespace ncpm {
namespace {

// 1/4 sum over unordered Moore pairs of J[type_i, type_j] where the ids differ.
class ContactTerm final : public Term {
 public:
  explicit ContactTerm(const Model& model)
      : types_(model.types()), quarter_(model.weight("symbolic.contact.J").doubles) {
    for (double& value : quarter_) value *= 0.25;
  }

  double energy(const Lattice& lattice) const override {
    double sum = 0.0;
    int around[8];
    for (int site = 0; site < lattice.sites(); ++site) {
      const std::int32_t id = lattice.ids[site];
      const double* row = &quarter_[lattice.types[id] * types_];
      for (int k = 0, count = moore_neighbours(lattice, site, around); k < count; ++k)
        if (lattice.ids[around[k]] != id) sum += row[lattice.type_at(around[k])];
    }
    return sum / 2;  // every pair was met from both ends
  }

  double delta(const Lattice& lattice, const Flip& flip) const override {
    const double* old_row = &quarter_[lattice.types[flip.old_id] * types_];
    const double* new_row = &quarter_[lattice.types[flip.new_id] * types_];
    double sum = 0.0;
    for (int k = 0; k < flip.neighbours; ++k) {
      const std::int32_t id = flip.neighbour_ids[k];
      const int type = lattice.types[id];
      // Products instead of branches, which nothing could predict.
      sum += new_row[type] * double(id != flip.new_id) - old_row[type] * double(id != flip.old_id);
    }
    return sum;
  }

 private:
  int types_;
  std::vector<double> quarter_;  // J / 4
};

// sum over cells of strength (V - target)^2; a cell without pixels counts.
class VolumeTerm final : public Term {
 public:
  explicit VolumeTerm(const Model& model) : constraint_(model, "symbolic.volume") {}

  double energy(const Lattice& lattice) const override {
    double sum = 0.0;
    for (int id = 1; id < lattice.cells(); ++id)
      if (lattice.types[id] >= 1) sum += constraint_(lattice.types[id], double(lattice.volumes[id]));
    return sum;
  }

  double delta(const Lattice& lattice, const Flip& flip) const override {
    return change(lattice, flip.new_id, +1) + change(lattice, flip.old_id, -1);
  }

 private:
  double change(const Lattice& lattice, std::int32_t id, int by) const {
    if (id == 0) return 0.0;
    const int type = lattice.types[id];
    const double excess = double(lattice.volumes[id]) - constraint_.target[type];
    return constraint_.strength[type] * (2.0 * by * excess + 1.0);
  }

  Constraint constraint_;
};

// sum over cells of f(V): a polynomial without constant term between two volumes, continued quadratically outside.
class VolumeFunctionTerm final : public Term {
 public:
  explicit VolumeFunctionTerm(const Model& model)
      : center_(model.weight("symbolic.volume_function.center").doubles),
        low_(model.weight("symbolic.volume_function.low").doubles),
        high_(model.weight("symbolic.volume_function.high").doubles),
        coefficients_(model.weight("symbolic.volume_function.coefficients").doubles),
        stiffness_(model.weight("symbolic.volume_function.stiffness").doubles),
        powers_(coefficients_.size() / center_.size()) {}

  double energy(const Lattice& lattice) const override {
    double sum = 0.0;
    for (int id = 1; id < lattice.cells(); ++id)
      if (lattice.types[id] >= 1) sum += at(lattice.types[id], double(lattice.volumes[id]));
    return sum;
  }

  double delta(const Lattice& lattice, const Flip& flip) const override {
    return change(lattice, flip.new_id, +1) + change(lattice, flip.old_id, -1);
  }

 private:
  double change(const Lattice& lattice, std::int32_t id, int by) const {
    if (id == 0) return 0.0;
    const double volume = double(lattice.volumes[id]);
    return at(lattice.types[id], volume + by) - at(lattice.types[id], volume);
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

}  // namespace

ExternalTerm::ExternalTerm(const Model& model) : by_type_(model.weight("symbolic.external.coupling").doubles) {
  const Tensor& field = model.weight("symbolic.external.field");
  fields_ = static_cast<int>(field.shape[0]);
  const std::size_t sites = field.doubles.size() / fields_;
  field_.resize(field.doubles.size());
  for (int k = 0; k < fields_; ++k)
    for (std::size_t site = 0; site < sites; ++site) field_[site * fields_ + k] = field.doubles[k * sites + site];
}

double ExternalTerm::at(const Lattice& lattice, int site, std::int32_t id) const {
  const bool own = (std::size_t(id) + 1) * fields_ <= by_cell_.size();
  const double* coupling = own ? &by_cell_[std::size_t(id) * fields_] : &by_type_[lattice.types[id] * fields_];
  double sum = 0.0;
  for (int k = 0; k < fields_; ++k) sum += field_[std::size_t(site) * fields_ + k] * coupling[k];
  return sum;
}

double ExternalTerm::energy(const Lattice& lattice) const {
  double sum = 0.0;
  for (int site = 0; site < lattice.sites(); ++site) sum += at(lattice, site, lattice.ids[site]);
  return sum;
}

double ExternalTerm::delta(const Lattice& lattice, const Flip& flip) const {
  return at(lattice, flip.site, flip.new_id) - at(lattice, flip.site, flip.old_id);
}

std::vector<std::unique_ptr<Term>> make_terms(const Model& model, ExternalTerm*& external) {
  std::vector<std::unique_ptr<Term>> terms;
  external = nullptr;
  if (model.has("symbolic.contact.J")) terms.push_back(std::make_unique<ContactTerm>(model));
  if (model.has("symbolic.volume.strength")) terms.push_back(std::make_unique<VolumeTerm>(model));
  if (model.has("symbolic.volume_function.coefficients")) terms.push_back(std::make_unique<VolumeFunctionTerm>(model));
  if (model.has("symbolic.surface.strength")) terms.push_back(make_surface_term(model));
  if (model.has("symbolic.length.strength")) terms.push_back(make_length_term(model));
  if (model.has("symbolic.external.field")) {
    auto term = std::make_unique<ExternalTerm>(model);
    external = term.get();
    terms.push_back(std::move(term));
  }
  return terms;
}

}  // namespace ncpm
