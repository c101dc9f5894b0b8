// The directed pairs of neighbouring sites that belong to different cells, ready for uniform choice.
#pragma once

#include <cstdint>
#include <vector>

#include "tissue.hpp"

namespace ncpm {

// Pairs are ordered by site and direction, whatever the history: a chain resumed from its lattice chooses the same
// ones. They are counted in a tree of sums, 16 children to a node over words of 8 sites: a choice reads a few dozen
// neighbouring numbers, a flip changes a handful. Mask is an unsigned integer with a bit for every direction.
template <class Mask>
class Edges {
 public:
  Edges(const Tissue& tissue, const Neighbourhood& copies);

  std::int64_t count() const { return count_; }

  struct Pair {
    int target, source;
  };
  Pair at(const Tissue& tissue, std::int64_t index) const;  // 0 <= index < count()

  void flipped(const Tissue& after, int site);  // ids[site] has changed

 private:
  static constexpr int kChildren = 16;

  void change(int site, Mask mask, int by);  // the mask's number of directions changes `by` that much

  const Neighbourhood& copies_;
  std::vector<Mask> mask_;                       // per site, the directions to another cell
  std::vector<std::vector<std::int32_t>> sums_;  // of words of 8 sites, then of 16 sums of the level before
  std::int64_t count_ = 0;
};

extern template class Edges<std::uint8_t>;
extern template class Edges<std::uint32_t>;
extern template class Edges<std::uint64_t>;

}  // namespace ncpm
