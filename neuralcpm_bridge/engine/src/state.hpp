// One state under one Hamiltonian: energies, differences, and every way the state can change.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model.hpp"
#include "neural_term.hpp"
#include "rules.hpp"
#include "term.hpp"
#include "tissue.hpp"

namespace ncpm {

enum class Part { Full, Neural, Symbolic };  // of H, that delta() and sweeps go by

struct Energy {
  double symbolic = 0.0;  // w_S H_S
  double neural = 0.0;    // w_NN H_NN
};

struct StateOptions {
  Part part = Part::Full;
  Rules rules;
};

// Most ids a state may have: refuses a mistaken id before it becomes gigabytes.
inline constexpr std::int32_t kMaxCells = 1 << 24;

// Every argument is checked; Error leaves the state as it was. Used by one thread at a time.
class State {
 public:
  // properties: of those that the model reads, in its order; none at all: every cell has the means of the training
  // data.
  State(std::shared_ptr<const Model> model, const Lattice& lattice, std::vector<std::int32_t> ids,
        std::vector<std::int32_t> types, StateOptions options, Properties properties = {});

  // Replaces the state by another one on the same lattice.
  void reset(std::vector<std::int32_t> ids, std::vector<std::int32_t> types, Properties properties = {});
  void rebuild();  // every cache from scratch

  Energy energy();
  Energy delta_parts(int site, std::int32_t new_id);  // both parts, whatever is selected, without rules
  double delta(int site, std::int32_t new_id);        // the selected part; +infinity for what a rule forbids
  void commit(int site, std::int32_t new_id);         // applies a flip, forbidden or not

  // Many pixels at once: a division, a death, a layout. Of several entries for one site the last holds.
  void change_pixels(const std::vector<int>& sites, const std::vector<std::int32_t>& new_ids);
  // An id that does not exist yet appears, without pixels; type -1 removes a cell that has none.
  void set_type(std::int32_t id, int type);
  // One of the named properties that the model reads, by its number there. A cell that appears has the mean of the
  // training data until it is set.
  void set_property(std::int32_t id, int number, double value);
  // A cell dies: its pixels become medium and its id ceases to exist.
  void remove_cell(std::int32_t id);
  // Couplings of single cells to the external fields, [cells, K], in place of their types'; empty: back to types'.
  void set_cell_coupling(const std::vector<double>& coupling, int cells, int fields);

  const Tissue& tissue() const { return tissue_; }
  const Lattice& lattice() const { return tissue_.lattice; }
  const Model& model() const { return *model_; }
  const StateOptions& options() const { return options_; }
  int site(std::int64_t site) const;         // checked
  std::int32_t cell(std::int64_t id) const;  // checked: an existing id

  // The unchecked core of the Metropolis loop: `flip` belongs to this state and really changes an id.
  double delta_unchecked(const Flip& flip);
  double symbolic_delta_unchecked(const Flip& flip);  // delta is this, rules included, ...
  double neural_delta_unchecked(const Flip& flip);    // ... plus this; each 0 where it is not selected
  void commit_unchecked(const Flip& flip);
  void trade_places(std::int32_t a, std::int32_t b);  // two existing cells exchange types and properties
  double selected_energy();

  // Of a committee: the neural part, or what a flip does to it, as each member has it, weight included.
  std::vector<double> member_energies();
  std::vector<double> member_deltas(int site, std::int32_t new_id);
  // How far they disagree about it: a standard deviation, 0 for a single network.
  double spread();
  double delta_spread(int site, std::int32_t new_id);
  // Of every id, whether its cell is like those of the training data; 1 where nobody knows.
  std::vector<std::uint8_t> inside_range();
  bool inside_range(std::int32_t id);

  // Multiplications and additions of the network's layers so far; 0 before it was first asked.
  std::uint64_t multiply_adds() const { return neural_ ? neural_->multiply_adds() : 0; }

  // Attempts this chain has made: with its seed, all there is to the state of its random numbers.
  std::uint64_t attempts = 0;

 private:
  void adopt(std::vector<std::int32_t> ids, std::vector<std::int32_t> types, Properties properties);
  // Of cells as they lie on the lattice, where a term looks at them; throws Error for a cell without a shape.
  std::optional<CellMoments> measured(const std::vector<std::int32_t>& ids, int cells) const;
  void rebuild_caches();
  void check_flip(int site, std::int32_t new_id) const;
  double symbolic_delta(const Flip& flip) const;
  double symbolic_energy() const;
  double neural_energy();
  NeuralTerm& neural();
  std::vector<int> sites_of(std::int32_t id) const;
  void move_pixel(const Flip& flip);
  void fill_properties(Properties& properties, const std::vector<std::int32_t>& types) const;
  void give_type(std::int32_t id, int type);

  std::shared_ptr<const Model> model_;
  StateOptions options_;
  Tissue tissue_;
  double symbolic_weight_, offset_, neural_weight_;
  std::vector<std::unique_ptr<Term>> terms_;
  std::unique_ptr<NeuralTerm> neural_;  // made when first asked for: a symbolic run never pays for it
};

}  // namespace ncpm
