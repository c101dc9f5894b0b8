// The directed pairs of neighbouring sites that belong to different cells, ready for uniform choice.
#pragma once

#include <cstdint>
#include <vector>

#include "lattice.hpp"

namespace ncpm {

// Pairs are ordered by site and direction, whatever the history: a chain resumed from its lattice chooses the
// same ones. Counts of blocks of sites are kept in a Fenwick tree: a choice or a flip costs O(log sites).
class Edges {
 public:
  Edges(const Lattice& lattice, bool von_neumann);

  std::int64_t count() const { return count_; }

  struct Pair {
    int target, source;
  };
  Pair at(const Lattice& lattice, std::int64_t index) const;  // 0 <= index < count()

  void flipped(const Lattice& after, int site);  // ids[site] has changed

 private:
  static constexpr int kBlock = 32;  // sites per leaf of the tree

  std::uint8_t look(const Lattice& lattice, int site) const;
  void store(int site, std::uint8_t mask);

  std::uint8_t directions_;            // the allowed ones, bit k for kMoore[k]
  std::vector<std::uint8_t> mask_;     // per site, the directions to another cell
  std::vector<std::int64_t> tree_;     // Fenwick tree over blocks, 1-based
  int top_;                            // largest power of two within the tree
  std::int64_t count_ = 0;
};

}  // namespace ncpm
