#include "edges.hpp"

namespace ncpm {
namespace {

constexpr int kWord = 8;  // sites per leaf of the tree

int bits(std::uint8_t mask) {
  int count = 0;
  for (; mask; mask &= mask - 1) ++count;
  return count;
}

}  // namespace

Edges::Edges(const Lattice& lattice, bool von_neumann) : directions_(0xFF), mask_(lattice.sites(), 0) {
  if (von_neumann) {
    directions_ = 0;
    for (const int k : kVonNeumann) directions_ |= std::uint8_t(1 << k);
  }
  std::size_t nodes = (mask_.size() + kWord - 1) / kWord;
  sums_.emplace_back(nodes, 0);
  while (nodes > kChildren) sums_.emplace_back(nodes = (nodes + kChildren - 1) / kChildren, 0);

  for (int site = 0; site < lattice.sites(); ++site) {
    const int row = site / lattice.width, col = site % lattice.width;
    std::uint8_t mask = 0;
    for (int k = 0; k < 8; ++k) {
      const int other = neighbour(lattice, row, col, kMoore[k]);
      if (other >= 0 && lattice.ids[other] != lattice.ids[site]) mask |= std::uint8_t(1 << k);
    }
    mask_[site] = mask & directions_;
    sums_[0][site / kWord] += bits(mask_[site]);
  }
  for (std::size_t level = 1; level < sums_.size(); ++level)
    for (std::size_t child = 0; child < sums_[level - 1].size(); ++child)
      sums_[level][child / kChildren] += sums_[level - 1][child];
  for (const std::int32_t sum : sums_.back()) count_ += sum;
}

void Edges::change(int site, std::uint8_t mask, int by) {
  mask_[site] = mask;
  count_ += by;
  int node = site / kWord;
  for (std::vector<std::int32_t>& level : sums_) {
    level[node] += by;
    node /= kChildren;
  }
}

Edges::Pair Edges::at(const Lattice& lattice, std::int64_t index) const {
  int node = 0;
  for (std::size_t level = sums_.size(); level-- > 0;) {
    const std::int32_t* sums = sums_[level].data();
    for (node *= kChildren; sums[node] <= index; ++node) index -= sums[node];
  }
  int site = node * kWord;
  for (int here; (here = bits(mask_[site])) <= index; ++site) index -= here;
  std::uint8_t mask = mask_[site];
  for (; index > 0; --index) mask &= mask - 1;
  int k = 0;
  while (!(mask >> k & 1)) ++k;
  return {site, neighbour(lattice, site / lattice.width, site % lattice.width, kMoore[k])};
}

void Edges::flipped(const Lattice& after, int site) {
  const int row = site / after.width, col = site % after.width;
  std::uint8_t mask = 0;
  for (int k = 0; k < 8; ++k) {
    const int other = neighbour(after, row, col, kMoore[k]);
    if (!(directions_ >> k & 1) || other < 0) continue;
    const bool differs = after.ids[other] != after.ids[site];
    if (differs) mask |= std::uint8_t(1 << k);
    // The way back: on a periodic lattice one site across, `other` is the site itself and nothing differs.
    const auto back = std::uint8_t(1 << (7 - k));
    if (other != site && bool(mask_[other] & back) != differs) change(other, mask_[other] ^ back, differs ? 1 : -1);
  }
  if (mask != mask_[site]) change(site, mask, bits(mask) - bits(mask_[site]));
}

}  // namespace ncpm
