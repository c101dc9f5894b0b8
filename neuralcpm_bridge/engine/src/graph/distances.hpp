// Energies of all pairs of cells by how far their middles are apart, touching or not: what lies beyond the reach of
// messages. Nothing is kept of a pair; energies follow from the cells' whole numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/changes.hpp"
#include "graph/network.hpp"
#include "graph/way.hpp"

namespace ncpm::graph {

class Distances {
 public:
  Distances(const Lattice& lattice, const Weights& weights) : lattice_(lattice), weights_(weights) {}

  bool any() const { return weights_.knots > 0; }
  // What all pairs add to the total of every member.
  void add_all(const Tissue& tissue, const Cells& cells, std::vector<std::int64_t>& totals) const;
  // What the pairs of the cells that change will add, less what they do.
  void add_changes(const Tissue& tissue, const Cells& cells, const Changes& changes,
                   std::vector<std::int64_t>& deltas) const;

 private:
  void add_pair(const Tissue& tissue, std::int32_t a, std::int32_t b, const Shape& here, const Shape& there, int sign,
                std::vector<std::int64_t>& out) const;
  void add_at(int row, const Way& way, std::int64_t times, std::vector<std::int64_t>& out) const;

  const Lattice lattice_;
  const Weights& weights_;
};

}  // namespace ncpm::graph
