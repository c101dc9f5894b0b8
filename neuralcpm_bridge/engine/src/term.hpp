// A summand of the symbolic energy: one class per term in terms/, named once in terms.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "checklist.hpp"
#include "flip.hpp"
#include "model.hpp"

namespace ncpm {

// Terms answer for the tissue they are given; what they cache about it is exact in integers, so that no history of
// flips can drift.
class Term {
 public:
  virtual ~Term() = default;

  virtual double energy(const Tissue& tissue) const = 0;
  virtual double delta(const Tissue& tissue, const Flip& flip) const = 0;

  virtual void rebuild(const Tissue&) {}                         // caches from scratch
  virtual void grow(int /*cells*/) {}                            // there are more ids now
  virtual void commit(const Tissue& /*before*/, const Flip&) {}  // called before the tissue changes

  // Couplings of single cells to external fields, [cells, fields]; empty: back to their types'. Whether it has fields.
  virtual bool couple(const std::vector<double>& /*coupling*/, int /*cells*/, int /*fields*/) { return false; }
};

// One term: its name, as in `symbolic.<name>.*`, the weights it needs, and how it is made. A model has the terms that
// it has weights of. `make` is called before the tissue is filled; a term that looks at neighbours says so there.
struct TermRow {
  const char* name;
  void (*check)(const Model& model, Checklist& list);
  std::unique_ptr<Term> (*make)(const Model& model, Tissue& tissue);
};

// All terms, in the order in which their energies are added.
const std::vector<TermRow>& term_rows();

// Those that a model has.
std::vector<std::unique_ptr<Term>> make_terms(const Model& model, Tissue& tissue);

template <class Made>
std::unique_ptr<Term> make_term(const Model& model, Tissue& tissue) {
  return std::make_unique<Made>(model, tissue);
}

// Energy of a quantity of every cell: sum over cells of strength[type] (quantity - target[type])^2.
struct Constraint {
  std::vector<double> strength, target;

  Constraint(const Model& model, const std::string& term)
      : strength(model.weight("symbolic." + term + ".strength").doubles),
        target(model.weight("symbolic." + term + ".target").doubles) {}

  static void check(const Model& model, Checklist& list, const std::string& term) {
    list.need("symbolic." + term + ".strength", {model.types()});
    list.need("symbolic." + term + ".target", {model.types()});
  }

  double operator()(int type, double quantity) const {
    const double excess = quantity - target[type];
    return strength[type] * excess * excess;
  }
};

// The sum of `of(id)` over the cells that exist.
template <class Of>
double over_cells(const Tissue& tissue, Of of) {
  double sum = 0.0;
  for (int id = 1; id < tissue.cells(); ++id)
    if (tissue.types[id] >= 1) sum += of(id);
  return sum;
}

}  // namespace ncpm
