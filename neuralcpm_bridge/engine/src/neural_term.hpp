// The neural part of the energy as the engine uses it: cached activations, exact ΔH of single flips.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tissue.hpp"
#include "model.hpp"

namespace ncpm {

// H_NN without its weight w_NN. One object serves one State and is used by one thread at a time.
// The lattice passed is always that State's; its size and boundary never change, the number of ids may
// grow. Ids and types are valid (checked by State), and a flip always changes the id of its site.
class NeuralTerm {
 public:
  virtual ~NeuralTerm() = default;

  // Computes every cache from scratch. All other methods presuppose it.
  virtual void rebuild(const Tissue& tissue) = 0;

  // H_NN of the cached state; bit-equal to that of a fresh rebuild after any history of changes.
  virtual double energy() const = 0;

  // Multiplications and additions of its layers so far: what speed is to be compared with.
  virtual std::uint64_t multiply_adds() const = 0;

  // H_NN(with ids[site] = new_id) - H_NN. Keeps what it computed, so that a commit of it is cheap.
  // new_id exists (type >= 0), but may have no pixels yet; the old cell may lose its last one.
  virtual double delta(const Tissue& tissue, int site, std::int32_t new_id) = 0;

  // Makes the flip the cached state. Called BEFORE the lattice changes. Reuses the proposal kept by the
  // last delta() if that was this very flip of this very state, else computes it.
  virtual void commit(const Tissue& before, int site, std::int32_t new_id) = 0;

  // Called AFTER many pixels, types or the set of cells changed; any kept proposal is void.
  //   sites: every site whose id or whose type changed, ascending
  //   cells: every id that gained or lost pixels, changed type (-1 included) or is new, ascending
  // Updates where the change reaches, or rebuilds.
  virtual void changed(const Tissue& after, const std::vector<int>& sites, const std::vector<std::int32_t>& cells) = 0;

  // Called BEFORE each of many pixels changes; changed() follows when all have.
  virtual void follow(const Tissue& /*before*/, int /*site*/, std::int32_t /*new_id*/) {}
  virtual bool wants_sites() const { return true; }  // whether changed() reads its sites

  // Of a committee: H_NN, or what a flip does to it, as each member has it. A single network is its only member.
  virtual void member_energies(std::vector<double>& out) const { out.assign(1, energy()); }
  virtual void member_deltas(const Tissue& tissue, int site, std::int32_t new_id, std::vector<double>& out) {
    out.assign(1, delta(tissue, site, new_id));
  }
  // Whether a cell is like those of the training data; networks that do not know say yes.
  virtual bool inside_range(const Tissue&, std::int32_t /*id*/) const { return true; }
};

// Defined in src/neural/. `model` outlives the term. Throws Error for kinds the engine does not cover
// and for lattices the network cannot see (smaller than one block of stride and pools).
std::unique_ptr<NeuralTerm> make_neural_term(const Model& model, const Tissue& tissue);

// The instruction set the kernels run on: "baseline", "avx2" or "avx512"; defined in src/neural/. The best
// the CPU has, or what NEURALCPM_ISA asks for; Error if that is unknown or the CPU lacks it.
std::string selected_isa();

}  // namespace ncpm
