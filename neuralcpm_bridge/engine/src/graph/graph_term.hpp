// The cell graph: an energy of cells and their contacts, followed flip by flip (proposal.hpp) and through greater
// changes. Everything that is kept follows from the state: cached energies equal rebuilt ones bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/distances.hpp"
#include "graph/proposal.hpp"
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
  std::uint64_t multiply_adds() const override { return network_.multiply_adds(); }

  void member_energies(std::vector<double>& out) const override;
  void member_deltas(const Tissue& tissue, int site, std::int32_t new_id, std::vector<double>& out) override;
  bool inside_range(const Tissue& tissue, std::int32_t id) const override;

 private:
  void recompute(const Tissue& tissue, const std::vector<std::int32_t>& ids);
  void measure(const Tissue& tissue, const std::vector<std::int32_t>& ids);
  void relate(const std::vector<std::int32_t>& ids);
  void run_round(int round, const std::vector<std::int32_t>& ids, std::vector<float>& features);
  void sum_messages(int round, Cell& cell);
  void set_energies(Cell& cell, const std::int64_t* energies);
  void add_pairs(std::int32_t id, std::int32_t other, std::int32_t by);

  Network network_;
  const CellInputs inputs_;
  Relations relations_;
  const Distances distances_;
  Cells cells_;
  std::vector<std::int64_t> totals_;  // [member]
  std::vector<std::int64_t> pairs_;   // [member]: what of it is about distances
  Proposal proposal_;
  std::vector<std::int32_t> touched_;  // cells whose contacts were followed but not yet computed
  std::vector<Message> messages_;
};

}  // namespace ncpm::graph
