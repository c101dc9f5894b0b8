#include "edges.hpp"

namespace ncpm {
namespace {

int bits(std::uint8_t mask) {
  int count = 0;
  for (; mask; mask &= mask - 1) ++count;
  return count;
}

}  // namespace

Edges::Edges(const Lattice& lattice, bool von_neumann)
    : directions_(0xFF), mask_(lattice.sites(), 0), tree_((lattice.sites() + kBlock - 1) / kBlock + 1, 0), top_(1) {
  if (von_neumann) {
    directions_ = 0;
    for (const int k : kVonNeumann) directions_ |= std::uint8_t(1 << k);
  }
  while (2 * top_ < int(tree_.size())) top_ *= 2;
  for (int site = 0; site < lattice.sites(); ++site) store(site, look(lattice, site));
}

std::uint8_t Edges::look(const Lattice& lattice, int site) const {
  const int row = site / lattice.width, col = site % lattice.width;
  std::uint8_t mask = 0;
  for (int k = 0; k < 8; ++k) {
    const int other = neighbour(lattice, row, col, kMoore[k]);
    if (other >= 0 && lattice.ids[other] != lattice.ids[site]) mask |= std::uint8_t(1 << k);
  }
  return mask & directions_;
}

void Edges::store(int site, std::uint8_t mask) {
  const int change = bits(mask) - bits(mask_[site]);
  mask_[site] = mask;
  if (change == 0) return;
  count_ += change;
  for (int node = site / kBlock + 1; node < int(tree_.size()); node += node & -node) tree_[node] += change;
}

Edges::Pair Edges::at(const Lattice& lattice, std::int64_t index) const {
  int block = 0;
  for (int step = top_; step > 0; step /= 2)
    if (block + step < int(tree_.size()) && tree_[block + step] <= index) index -= tree_[block += step];
  int site = block * kBlock;
  for (int here; (here = bits(mask_[site])) <= index; ++site) index -= here;
  std::uint8_t mask = mask_[site];
  for (; index > 0; --index) mask &= mask - 1;
  int k = 0;
  while (!(mask >> k & 1)) ++k;
  return {site, neighbour(lattice, site / lattice.width, site % lattice.width, kMoore[k])};
}

void Edges::flipped(const Lattice& after, int site) {
  store(site, look(after, site));
  const int row = site / after.width, col = site % after.width;
  for (int k = 0; k < 8; ++k) {
    const int other = neighbour(after, row, col, kMoore[k]);
    if (other < 0) continue;
    const auto back = std::uint8_t(1 << (7 - k));
    const bool differs = after.ids[other] != after.ids[site];
    store(other, (differs ? mask_[other] | back : mask_[other] & ~back) & directions_);
  }
}

}  // namespace ncpm
