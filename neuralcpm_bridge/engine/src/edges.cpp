#include "edges.hpp"

namespace ncpm {
namespace {

constexpr int kWord = 8;  // sites per leaf of the tree

template <class Mask>
int bits(Mask mask) {
  int count = 0;
  for (; mask; mask &= Mask(mask - 1)) ++count;
  return count;
}

}  // namespace

template <class Mask>
Edges<Mask>::Edges(const Tissue& tissue, const Neighbourhood& copies) : copies_(copies), mask_(tissue.sites(), 0) {
  std::size_t nodes = (mask_.size() + kWord - 1) / kWord;
  sums_.emplace_back(nodes, 0);
  while (nodes > kChildren) sums_.emplace_back(nodes = (nodes + kChildren - 1) / kChildren, 0);

  for (int site = 0; site < tissue.sites(); ++site) {
    const Place place = tissue.lattice.place(site);
    const int* steps = copies.steps_inside(place);
    Mask mask = 0;
    for (int k = 0; k < copies.size(); ++k) {
      const int other = copies.at(tissue.lattice, site, place, steps, k);
      if (other >= 0 && tissue.ids[other] != tissue.ids[site]) mask |= Mask(Mask(1) << k);
    }
    mask_[site] = mask;
    sums_[0][site / kWord] += bits(mask);
  }
  for (std::size_t level = 1; level < sums_.size(); ++level)
    for (std::size_t child = 0; child < sums_[level - 1].size(); ++child)
      sums_[level][child / kChildren] += sums_[level - 1][child];
  for (const std::int32_t sum : sums_.back()) count_ += sum;
}

template <class Mask>
void Edges<Mask>::change(int site, Mask mask, int by) {
  mask_[site] = mask;
  count_ += by;
  int node = site / kWord;
  for (std::vector<std::int32_t>& level : sums_) {
    level[node] += by;
    node /= kChildren;
  }
}

template <class Mask>
typename Edges<Mask>::Pair Edges<Mask>::at(const Tissue& tissue, std::int64_t index) const {
  int node = 0;
  for (std::size_t level = sums_.size(); level-- > 0;) {
    const std::int32_t* sums = sums_[level].data();
    for (node *= kChildren; sums[node] <= index; ++node) index -= sums[node];
  }
  int site = node * kWord;
  for (int here; (here = bits(mask_[site])) <= index; ++site) index -= here;
  Mask mask = mask_[site];
  for (; index > 0; --index) mask &= Mask(mask - 1);
  int k = 0;
  while (!(mask >> k & 1)) ++k;
  const Place place = tissue.lattice.place(site);
  return {site, copies_.at(tissue.lattice, site, place, copies_.steps_inside(place), k)};
}

template <class Mask>
void Edges<Mask>::flipped(const Tissue& after, int site) {
  const Place place = after.lattice.place(site);
  const int* steps = copies_.steps_inside(place);
  const int last = copies_.size() - 1;
  Mask mask = 0;
  for (int k = 0; k <= last; ++k) {
    const int other = copies_.at(after.lattice, site, place, steps, k);
    if (other < 0) continue;
    const bool differs = after.ids[other] != after.ids[site];
    if (differs) mask |= Mask(Mask(1) << k);
    const Mask back = Mask(Mask(1) << (last - k));  // the other site sees this one in the opposite direction
    const Mask now = differs ? Mask(mask_[other] | back) : Mask(mask_[other] & Mask(~back));
    if (now != mask_[other]) change(other, now, differs ? 1 : -1);
  }
  if (mask != mask_[site]) change(site, mask, bits(mask) - bits(mask_[site]));
}

template class Edges<std::uint8_t>;
template class Edges<std::uint32_t>;
template class Edges<std::uint64_t>;

}  // namespace ncpm
