// One flip of a cell graph: what it changes, evaluated beside what is kept, then accepted or forgotten.
//
// A flip changes the inputs of two cells at most, and of the contacts at them. Round by round, what changed is computed
// anew: first the changed cells' rows, then the sums of messages of these cells and their neighbours. Sums are
// integers, so a message is taken out and put in exactly.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/changes.hpp"
#include "graph/distances.hpp"
#include "graph/network.hpp"

namespace ncpm::graph {

class Proposal {
 public:
  // `totals`: every member's energy of all cells.
  Proposal(const CellInputs& inputs, Network& network, Relations& relations, const Distances& distances, Cells& cells,
           const std::vector<std::int64_t>& totals);

  void make(const Tissue& tissue, int site, std::int32_t new_id);
  bool is(const Tissue& tissue, int site, std::int32_t new_id) const {
    return valid_ && changes_.are(tissue, site, new_id);
  }
  void forget() { valid_ = false; }
  void accept();  // makes the cells what they are after the flip

  // What it does to the total of every member; kUndefined if the total is, or an energy in it would be.
  const std::vector<std::int64_t>& deltas() const { return deltas_; }
  const std::vector<std::int64_t>& pair_deltas() const { return pair_deltas_; }  // what of it is about distances

 private:
  // A contact's inputs for one of its cells.
  struct View {
    const float* inputs;
    bool swapped;
  };

  // A contact with the cell of a slot, as the owner of the link sees it and as that cell does.
  struct Link {
    int slot;
    std::int32_t pairs;
    View here, there;
  };

  // A cell that the flip reaches.
  struct Slot {
    Cell* cell = nullptr;
    const Change* change = nullptr;  // if it is one of the two
    std::int32_t id = 0, medium_pairs = 0;
    float share = 0.0f;
    int first = 0, last = 0;  // of its links
  };

  void embed(const Tissue& tissue);

  // -- whom it reaches
  int mark(std::int32_t id);
  void link(int slot);
  void link_past(int number);
  static void add(std::vector<Link>& links, int slot, std::int32_t pairs, View here, View there);
  View seen_by_other(const Contact& contact, std::int32_t id) const;

  // -- one round
  void run(int round);
  void prepare(int round, int changed, int all);
  void receive(int round, int changed);
  void take_out_past();
  void pass_on(int round, int first, int changed);
  void say(int round, int to, const float* sender, const float* before, std::int32_t pairs, View view);
  void say_medium(int round, int to, std::int32_t pairs);
  void read_ahead(int round, int first, int last);
  void sum_up(const Tissue& tissue);

  float* own_row(int round, int slot) {
    return own_rows_.data() + (std::size_t(round) * capacity_ + slot) * network_.weights.projected();
  }
  std::int32_t* own_sums(int round, int slot) {
    return own_sums_.data() + (std::size_t(round) * capacity_ + slot) * network_.weights.features();
  }
  void make_room(int slots);

  const CellInputs& cell_inputs_;
  Network& network_;
  const Distances& distances_;
  Cells& cells_;
  const std::vector<std::int64_t>& totals_;

  bool valid_ = false;
  Changes changes_;
  std::vector<Slot> slots_;    // cells whose features of round r change are the first changed_[r]
  std::vector<int> changed_;   // [rounds + 1]; the last: cells whose energies change
  std::vector<Link> links_;    // of slots whose features change before the last round, as they will be
  std::vector<Link> past_[2];  // of the two cells with others, as they were

  template <class T>
  using Lines = std::vector<T, neural::Aligned<T>>;
  int capacity_ = 0;                                           // slots
  Lines<float> own_rows_;                                      // [round][slot][projected]
  Lines<std::int32_t> own_sums_;                               // [round][slot][features]
  Lines<float> features_;                                      // [slot][features]
  std::vector<float> inputs_;                                  // of the two cells
  std::vector<const float*> row_;                              // by slot, in the current round
  std::vector<Message> messages_;                              // in the current round
  std::vector<std::int64_t> energies_, deltas_, pair_deltas_;  // [slot][member], [member], [member]
};

}  // namespace ncpm::graph
