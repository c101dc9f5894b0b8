// A summand of the symbolic energy. One class per term; to add one, derive from Term and name it in make_terms.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lattice.hpp"
#include "model.hpp"

namespace ncpm {

// A site and the id copied into it, with what every term asks about it. old_id != new_id.
struct Flip {
  int site;
  std::int32_t old_id, new_id;
  int neighbours;  // how many Moore neighbours the site has
  std::int32_t neighbour_ids[8];

  Flip(const Lattice& lattice, int at, std::int32_t id) : site(at), old_id(lattice.ids[at]), new_id(id) {
    int around[8];
    neighbours = moore_neighbours(lattice, site, around);
    for (int k = 0; k < neighbours; ++k) neighbour_ids[k] = lattice.ids[around[k]];
  }
};

// Terms answer for the lattice they are given; what they cache about it is exact in integers, so that
// no history of flips can drift.
class Term {
 public:
  virtual ~Term() = default;

  virtual double energy(const Lattice& lattice) const = 0;
  virtual double delta(const Lattice& lattice, const Flip& flip) const = 0;

  virtual void rebuild(const Lattice&) {}                         // caches from scratch
  virtual void grow(int /*cells*/) {}                             // there are more ids now
  virtual void commit(const Lattice& /*before*/, const Flip&) {}  // called before the lattice changes
};

// Energy of quantities attached to cells: sum over cells of strength[type] (quantity - target[type])^2.
struct Constraint {
  std::vector<double> strength, target;

  Constraint(const Model& model, const std::string& name)
      : strength(model.weight(name + ".strength").doubles), target(model.weight(name + ".target").doubles) {}

  double operator()(int type, double quantity) const {
    const double excess = quantity - target[type];
    return strength[type] * excess * excess;
  }
};

// sum over sites and fields of field[k, i] * coupling, where a cell's own coupling, if set, replaces its type's.
class ExternalTerm final : public Term {
 public:
  explicit ExternalTerm(const Model& model);

  double energy(const Lattice& lattice) const override;
  double delta(const Lattice& lattice, const Flip& flip) const override;

  int fields() const { return fields_; }
  void set_cell_coupling(std::vector<double> coupling) { by_cell_ = std::move(coupling); }  // [C, K]; empty: types'

 private:
  double at(const Lattice& lattice, int site, std::int32_t id) const;

  int fields_;
  std::vector<double> field_;    // [H*W, K]: the fields of one site side by side
  std::vector<double> by_type_;  // [T, K]
  std::vector<double> by_cell_;
};

// The terms a model has weights for. `external` is set to the external term among them, if there is one.
std::vector<std::unique_ptr<Term>> make_terms(const Model& model, ExternalTerm*& external);

// Terms in files of their own (shape_terms.cpp).
std::unique_ptr<Term> make_length_term(const Model& model);
std::unique_ptr<Term> make_surface_term(const Model& model);

}  // namespace ncpm
