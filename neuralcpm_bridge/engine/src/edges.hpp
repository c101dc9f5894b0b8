// The directed pairs of neighbouring sites that belong to different cells, ready for uniform choice.
#pragma once

#include <cstdint>
#include <vector>

#include "lattice.hpp"

namespace ncpm {

// Pairs are ordered by site and direction, whatever the history: a chain resumed from its lattice chooses the same
// ones. They are counted in a tree of sums, 16 children to a node over words of 8 sites: a choice reads a few dozen
// neighbouring numbers, a flip changes a handful.
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
  static constexpr int kChildren = 16;

  void change(int site, std::uint8_t mask, int by);  // the mask's number of directions changes `by` that much

  std::uint8_t directions_;                      // the allowed ones, bit k for kMoore[k]
  std::vector<std::uint8_t> mask_;               // per site, the directions to another cell
  std::vector<std::vector<std::int32_t>> sums_;  // of words of 8 sites, then of 16 sums of the level before
  std::int64_t count_ = 0;
};

}  // namespace ncpm
