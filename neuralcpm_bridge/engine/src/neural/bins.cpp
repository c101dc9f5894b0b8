#include "bins.hpp"

#include <algorithm>

namespace ncpm::neural {

Bins::Bins(const Grid& grid) : grid_(grid), bins_(grid) {
  bins_.y.size = (grid.y.size + kSide - 1) / kSide;
  bins_.x.size = (grid.x.size + kSide - 1) / kSide;
  lists_.resize(bins_.sites());
}

void Bins::Bin::add(std::int32_t id) {
  if (count < kHeld) held[count++] = id;
  else more.push_back(id);
}

void Bins::Bin::remove(std::int32_t id) {
  for (int i = 0; i < count; ++i)
    if (held[i] == id) {
      held[i] = held[--count];
      if (!more.empty()) {
        held[count++] = more.back();
        more.pop_back();
      }
      return;
    }
  *std::find(more.begin(), more.end(), id) = more.back();
  more.pop_back();
}

void Bins::clear() {
  for (Bin& bin : lists_) bin = {};
  everywhere_ = {};
}

Box Bins::range(const Box& support) const {
  const auto along = [](Interval sites, Axis axis, Axis bins) {
    const int end = sites.start + sites.length;  // may run over a circular end
    const int first = sites.start / kSide;
    const int last = end <= axis.size ? (end - 1) / kSide : bins.size + (end - axis.size - 1) / kSide;
    return Interval{first, std::min(last - first + 1, bins.size)};
  };
  return {along(support.y, grid_.y, bins_.y), along(support.x, grid_.x, bins_.x)};
}

template <class Visit>
void Bins::visit(const Box& range, Visit visit_bin) {
  for (int i = 0; i < range.y.length; ++i) {
    int y = range.y.start + i;
    if (y >= bins_.y.size) y -= bins_.y.size;
    for (int j = 0; j < range.x.length; ++j) {
      int x = range.x.start + j;
      if (x >= bins_.x.size) x -= bins_.x.size;
      visit_bin(lists_[std::size_t(y) * bins_.x.size + x]);
    }
  }
}

void Bins::add(std::int32_t id, const Box& support) {
  if (support.empty()) return;
  if (std::size_t(id) >= taken_.size()) taken_.resize(id + 1, 0);
  const Box bins = range(support);
  if (bins.y.length * bins.x.length > kMany) everywhere_.add(id);
  else visit(bins, [id](Bin& bin) { bin.add(id); });
}

void Bins::remove(std::int32_t id, const Box& support) {
  if (support.empty()) return;
  const Box bins = range(support);
  if (bins.y.length * bins.x.length > kMany) everywhere_.remove(id);
  else visit(bins, [id](Bin& bin) { bin.remove(id); });
}

void Bins::move(std::int32_t id, const Box& from, const Box& to) {
  if (!from.empty() && !to.empty() && range(from) == range(to)) return;
  remove(id, from);
  add(id, to);
}

void Bins::read_ahead(const Box& box) {
  visit(range(box), [](const Bin& bin) { __builtin_prefetch(&bin); });
}

void Bins::near(const Box& box, std::vector<std::int32_t>& ids) {
  ids.clear();
  ids.reserve(taken_.size());  // now, so that nothing below fails and leaves marks behind
  const auto take = [&](std::int32_t id) {
    if (taken_[id]) return;
    taken_[id] = 1;
    ids.push_back(id);
  };
  everywhere_.visit(take);
  visit(range(box), [&](const Bin& bin) { bin.visit(take); });
  for (const std::int32_t id : ids) taken_[id] = 0;
  std::sort(ids.begin(), ids.end());
}

}  // namespace ncpm::neural
