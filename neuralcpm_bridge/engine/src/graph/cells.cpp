#include "graph/cells.hpp"

#include <algorithm>

namespace ncpm::graph {
namespace {

constexpr std::int32_t kFewContacts = 8;
constexpr std::size_t kFirstPiece = 512;  // contacts
constexpr std::size_t kLargestPiece = (neural::kHugePage - neural::kAlignment) / sizeof(Contact);

template <class T>
void touch(const T* data, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += neural::kAlignment)
    __builtin_prefetch(reinterpret_cast<const char*>(data) + at);
}

}  // namespace

Contact* ContactPool::take(std::int32_t room) {
  if (std::vector<Contact*>& free = free_[room]; !free.empty()) {
    Contact* memory = free.back();
    free.pop_back();
    return memory;
  }
  if (pieces_.empty() || used_ + room > pieces_.back().size()) {
    const std::size_t next = pieces_.empty() ? kFirstPiece : std::min(kLargestPiece, 2 * pieces_.back().size());
    pieces_.emplace_back(std::max<std::size_t>(room, next));
    used_ = 0;
  }
  used_ += room;
  return pieces_.back().data() + used_ - room;
}

void ContactPool::clear() {
  pieces_.clear();
  free_.clear();
  used_ = 0;
}

Cells::Cells(const Weights& weights)
    : projected_(weights.projected()),
      features_(weights.features()),
      rows_(neural::rounded_up(sizeof(Cell) + weights.members * sizeof(std::int64_t))),
      sums_(rows_ + weights.rounds * projected_ * sizeof(float)),
      stride_(sums_ + weights.rounds * features_ * sizeof(std::int32_t)) {}

void Cells::clear(int count) {
  contacts_.clear();
  room_ = size_ = count;
  memory_ = neural::Array<char>(room_ * stride_);
}

void Cells::grow(int count) {
  if (std::size_t(count) > room_) {
    room_ = std::max<std::size_t>(count, room_ + room_ / 4);
    neural::Array<char> more(room_ * stride_);
    std::copy_n(memory_.data(), size_ * stride_, more.data());
    memory_ = std::move(more);
  }
  size_ = count;
}

Contact* Cells::find(const Cell& cell, std::int32_t id) {
  return std::find_if(cell.begin(), cell.end(), [id](const Contact& contact) { return contact.id == id; });
}

Contact& Cells::contact(Cell& cell, std::int32_t id) {
  if (Contact* known = find(cell, id); known != cell.end()) return *known;
  reserve(cell, cell.count + 1);
  return cell.contacts[cell.count++] = {id, 0, {}, 0};
}

void Cells::remove(Cell& cell, std::int32_t id) {
  if (Contact* known = find(cell, id); known != cell.end()) *known = cell.contacts[--cell.count];
}

void Cells::assign(Cell& cell, const std::vector<Contact>& contacts) {
  reserve(cell, std::int32_t(contacts.size()));
  std::copy(contacts.begin(), contacts.end(), cell.contacts);
  cell.count = std::int32_t(contacts.size());
}

void Cells::reserve(Cell& cell, std::int32_t room) {
  if (room <= cell.room) return;
  std::int32_t more = std::max(cell.room, kFewContacts);
  while (more < room) more *= 2;
  Contact* wider = contacts_.take(more);
  std::copy(cell.begin(), cell.end(), wider);
  if (cell.room) contacts_.give_back(cell.contacts, cell.room);
  cell.contacts = wider;
  cell.room = more;
}

void Cells::read_ahead(const Cell& cell, int round) const {
  const char* from = reinterpret_cast<const char*>(&cell);
  touch(from, rows_);
  touch(from + rows_ + round * projected_ * sizeof(float), projected_ * sizeof(float));
  touch(from + sums_ + round * features_ * sizeof(std::int32_t), features_ * sizeof(std::int32_t));
}

void Cells::read_contacts_ahead(const Cell& cell) { touch(cell.contacts, cell.count * sizeof(Contact)); }

}  // namespace ncpm::graph
