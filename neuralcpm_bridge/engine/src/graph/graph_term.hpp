// The cell graph: an energy of cells and their contacts, followed flip by flip.
//
// A flip changes the inputs of two cells at most, and of the contacts at them. Round by round, what changed is computed
// anew into a proposal: first the changed cells' rows, then the sums of messages of these cells and their neighbours.
// Sums are integers, so a message is taken out and put in exactly, and a cached energy equals a rebuilt one bit for
// bit.
#pragma once

#include <cstdint>
#include <vector>

#include "tissue.hpp"
#include "graph/weights.hpp"
#include "neural_term.hpp"

namespace ncpm::graph {

class GraphTerm final : public NeuralTerm {
 public:
  GraphTerm(const Model& model, const Tissue& tissue);

  void rebuild(const Tissue& tissue) override;
  double energy() const override;
  double delta(const Tissue& tissue, int site, std::int32_t new_id) override;
  void commit(const Tissue& before, int site, std::int32_t new_id) override;
  void follow(const Tissue& before, int site, std::int32_t new_id) override;
  void changed(const Tissue& after, const std::vector<int>& sites, const std::vector<std::int32_t>& cells) override;
  bool wants_sites() const override { return false; }
  std::uint64_t multiply_adds() const override { return multiply_adds_; }

  void member_energies(std::vector<double>& out) const override;
  void member_deltas(const Tissue& tissue, int site, std::int32_t new_id, std::vector<double>& out) override;
  bool inside_range(const Tissue& tissue, std::int32_t id) const override;

 private:
  // A contact as one of the two cells sees it.
  struct Edge {
    std::int32_t id;
    std::int32_t pairs;
    float inputs[kEdgeInputs];
  };
  using Edges = std::vector<Edge>;

  // A cell, or what it will be after a flip; without sites it is not there.
  struct Cell {
    Shape shape;
    std::int64_t pairs = 0;  // ordered pairs that leave it, those into the medium included
    std::int32_t medium_pairs = 0;
    float norm = 1.0f;  // what its contacts are divided by
    Edges edges;

    bool alive() const { return shape.moments.n > 0; }
  };

  // The ids around a flip's site and how often each; a cell that is not changed but for its contact with the medium.
  struct Share {
    std::int32_t id, pairs;
  };

  // One of the two cells of a flip.
  struct Change {
    std::int32_t id = 0;
    Cell after;
  };

  // Where a cell stands in the current proposal: a slot is valid if its stamp is.
  struct Mark {
    std::uint64_t stamp = 0;
    int slot = 0;
  };

  struct Proposal {
    bool valid = false;
    int site = -1;
    std::int32_t old_id = 0, new_id = 0;
    Change changes[2];  // of which so many are cells:
    int count = 0;
    std::vector<Share> medium;        // contacts with the medium that other cells gain or lose
    std::vector<std::int32_t> nodes;  // by slot; cells whose features of round r change are the first changed[r]
    std::vector<int> changed;         // [rounds + 1]; the last: cells whose energies change
    std::vector<std::int64_t> energies, deltas;  // [slot][member], [member]
  };

  // -- one flip
  void propose(const Tissue& tissue, int site, std::int32_t new_id);
  void find_changes(const Tissue& tissue);
  void change_cell(const Tissue& tissue, std::int32_t id, std::int32_t other, int sign, int total, int like_old,
                   int like_new);
  void start(const Tissue& tissue);
  void run_round(int round);
  void receive(int round, int changed);
  void pass_on(int round, int changed);
  void from_medium(int round, const float* own, std::int32_t pairs, const Cell& to, std::int32_t* sum, float sign);
  void sum_up();
  void forget(std::int32_t id, std::int32_t neighbour);
  const Cell& after(std::int32_t id) const;

  // -- many at once
  void recompute(const Tissue& tissue, const std::vector<std::int32_t>& cells);
  void sum_messages(int round, std::int32_t id);
  void set_energies(std::int32_t id, const std::int64_t* energies);
  void add_pairs(std::int32_t id, std::int32_t other, std::int32_t by);
  void grow(int cells);

  // -- the network; rows and sums of `count` cells lie side by side
  void raw_inputs(const Tissue& tissue, std::int32_t id, const Cell& cell, float* out) const;
  void cell_inputs(const Tissue& tissue, std::int32_t id, const Cell& cell, float* out) const;
  void edge_inputs(const Tissue& tissue, const Cell& here, const Cell& there, Edge& edge) const;
  float norm_of(std::int64_t pairs) const;
  float weight_of(std::int32_t pairs, const Cell& to) const { return float(pairs) * pair_weight_ / to.norm; }
  void dense(const Layer& layer, int count, Rows in, Rows base, RowsOut out);
  void dense(const Layer& layer, int count, Rows in, Scattered base, RowsOut out);
  void send(int round);
  void embed(int count, const float* inputs, float* features);
  void finish(int round, int count, const float* const* rows, const std::int32_t* sums, float* features);
  void cell_energies(int count, const float* features, std::int64_t* out);

  // -- slots
  int slot_of(std::int32_t id) const { return marks_[id].stamp == stamp_ ? marks_[id].slot : -1; }
  void mark(std::int32_t id);
  void make_room(int slots);
  void read_ahead(int round, std::int32_t id);

  float* row(int round, std::int32_t id) {
    return &rows_[(std::size_t(id) * weights_.rounds + round) * weights_.projected()];
  }
  std::int32_t* sums(int round, std::int32_t id) {
    return &sums_[(std::size_t(id) * weights_.rounds + round) * weights_.features()];
  }
  float* slot_row(int round, int slot) {
    return &slot_rows_[(std::size_t(round) * capacity_ + slot) * weights_.projected()];
  }
  std::int32_t* slot_sums(int round, int slot) {
    return &slot_sums_[(std::size_t(round) * capacity_ + slot) * weights_.features()];
  }

  const Weights weights_;
  const Kernels& kernels_;
  const int neighbourhood_;
  const float pair_weight_;

  std::vector<Cell> cells_;
  std::vector<Mark> marks_;
  std::vector<float> rows_;             // [id][round][projected]
  std::vector<std::int32_t> sums_;      // [id][round][features]
  std::vector<std::int64_t> energies_;  // [id][member]; of cells without sites 0
  std::vector<std::int64_t> totals_;    // [member]
  std::vector<std::int32_t> touched_;   // cells whose contacts were followed but not yet computed

  std::uint64_t multiply_adds_ = 0;  // of dense layers and messages
  std::uint64_t stamp_ = 0;
  Proposal proposal_;
  int capacity_ = 0;                     // slots
  std::vector<float> slot_rows_;         // [round][slot][projected]
  std::vector<std::int32_t> slot_sums_;  // [round][slot][features]
  std::vector<Share> around_;
  std::vector<Message> messages_;
  std::vector<const float*> row_of_slot_;
  std::vector<float> inputs_, features_;  // of the cells of a proposal, or of a few cells
  std::vector<float> scratch_;
};

}  // namespace ncpm::graph
