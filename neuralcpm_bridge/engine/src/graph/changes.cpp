#include "graph/changes.hpp"

#include <algorithm>

namespace ncpm::graph {
namespace {

template <class List>
auto with_id(List& list, std::int32_t id) {
  return std::find_if(list.begin(), list.end(), [id](const auto& entry) { return entry.id == id; });
}

}  // namespace

void Changes::find(const Tissue& tissue, const Cells& cells, int site, std::int32_t new_id) {
  site_ = site;
  old_id_ = tissue.ids[site];
  new_id_ = new_id;
  std::int32_t ids[kMostNeighbours];
  const Neighbourhood& neighbours = tissue.neighbourhoods[inputs_.neighbourhood];
  const int total = neighbours.ids_around(tissue.lattice, site, tissue.ids.data(), ids);
  around_.clear();
  for (int k = 0; k < total; ++k) {
    const auto known = with_id(around_, ids[k]);
    if (known == around_.end()) around_.push_back({ids[k], 1});
    else ++known->pairs;
  }
  int like_old = 0, like_new = 0;
  for (const Share& share : around_) {
    if (share.id == old_id_) like_old = share.pairs;
    if (share.id == new_id_) like_new = share.pairs;
  }
  count_ = 0;
  if (old_id_) change_cell(tissue, cells[old_id_], old_id_, new_id_, -1, total, like_old, like_new);
  if (new_id_) change_cell(tissue, cells[new_id_], new_id_, old_id_, +1, total, like_old, like_new);
  medium_.clear();
  if (old_id_ == 0 || new_id_ == 0)
    for (const Share& share : around_)
      if (!change(share.id)) medium_.push_back({share.id, new_id_ == 0 ? share.pairs : -share.pairs});
}

void Changes::change_cell(const Tissue& tissue, const Cell& now, std::int32_t id, std::int32_t other, int sign,
                          int total, int like_old, int like_new) {
  Change& then = both_[count_++];
  then.id = id;
  then.contacts.clear();
  const Moments moments = tissue.moments->changed(tissue.lattice, id, site_, sign);
  if (moments.n == 0) {
    then.shape = {};
    then.pairs = then.medium_pairs = 0;
    return;
  }
  then.shape = Shape(tissue.lattice, moments, tissue.moments->reference(id, site_));
  then.pairs = now.pairs + sign * (total - 2 * (sign < 0 ? like_old : like_new));
  then.medium_pairs = now.medium_pairs;
  then.share = inputs_.share_of(then.pairs);
  then.contacts.assign(now.begin(), now.end());
  // The site's pairs with others come or go; of those between the two cells some open and some close.
  for (const Share& share : around_)
    if (!change(share.id)) shift(then, share.id, sign * share.pairs);
  shift(then, other, like_old - like_new);
}

void Changes::shift(Change& cell, std::int32_t to, std::int32_t by) {
  if (by == 0) return;
  if (to == 0) {
    cell.medium_pairs += by;
    return;
  }
  auto contact = with_id(cell.contacts, to);
  if (contact == cell.contacts.end()) contact = cell.contacts.insert(contact, Contact{to, 0, {}, 0});
  if ((contact->pairs += by) > 0) return;
  *contact = cell.contacts.back();
  cell.contacts.pop_back();
}

void Changes::relate(const Cells& cells) {
  for (int i = 0; i < count_; ++i) {
    Change& cell = both_[i];
    cell.back.resize(cell.contacts.size());
    for (std::size_t k = 0; k < cell.contacts.size(); ++k) {
      Contact& contact = cell.contacts[k];
      const Shape& there = shape_of(cells, contact.id);
      relations_.add(contact, cell.shape, there);
      if (!contact.tied) continue;
      cell.back[k] = contact;
      relations_.add(cell.back[k], there, cell.shape);
    }
  }
  relations_.compute();
}

const Shape& Changes::shape_of(const Cells& cells, std::int32_t id) const {
  for (int i = 0; i < count_; ++i)
    if (both_[i].id == id) return both_[i].shape;
  return cells[id].shape;
}

void Changes::accept(Cells& cells) const {
  for (const Share& share : medium_) cells[share.id].medium_pairs += share.pairs;
  for (int i = 0; i < count_; ++i) {
    const Change& then = both_[i];
    Cell& cell = cells[then.id];
    for (const Contact& contact : cell)
      if (!change(contact.id) && with_id(then.contacts, contact.id) == then.contacts.end())
        Cells::remove(cells[contact.id], then.id);
    for (std::size_t k = 0; k < then.contacts.size(); ++k) {
      const Contact& ours = then.contacts[k];
      if (change(ours.id)) continue;
      Contact& theirs = cells.contact(cells[ours.id], then.id);
      theirs = ours.tied ? then.back[k] : ours;
      theirs.id = then.id;
      if (!ours.tied) std::swap(theirs.inputs[kRadii], theirs.inputs[kRadii + 1]);
    }
    cells.assign(cell, then.contacts);
    cell.shape = then.shape;
    cell.pairs = then.pairs;
    cell.medium_pairs = then.medium_pairs;
    cell.share = then.share;
  }
}

}  // namespace ncpm::graph
