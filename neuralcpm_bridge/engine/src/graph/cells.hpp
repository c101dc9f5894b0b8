// The cells of a cell graph: whole numbers, contacts, and what the network has computed of each, a block of memory per
// cell. A flip reads many of them, here and there: a cell's lines lie together, and are asked for ahead.
#pragma once

#include <map>
#include <vector>

#include "graph/contacts.hpp"
#include "graph/weights.hpp"
#include "neural/memory.hpp"

namespace ncpm::graph {

struct Cell {
  // What matters of a cell whose shape or contacts change.
  Shape shape;
  std::int64_t pairs = 0;  // ordered pairs of neighbours that leave it, those into the medium included
  // What matters of all cells that hear of a change.
  Contact* contacts = nullptr;
  std::int32_t count = 0, room = 0;  // of contacts
  std::int32_t medium_pairs = 0;
  float share = 0.0f;  // of what it touches that one pair is
  std::uint64_t stamp = 0;
  std::int32_t slot = 0;  // in the current proposal, if the stamp is the current one

  bool alive() const { return shape.sites > 0; }
  Contact* begin() const { return contacts; }
  Contact* end() const { return contacts + count; }
};

// Memory for lists of contacts; given back, it serves lists of the same room.
class ContactPool {
 public:
  Contact* take(std::int32_t room);
  void give_back(Contact* memory, std::int32_t room) { free_[room].push_back(memory); }
  void clear();

 private:
  std::vector<neural::Array<Contact>> pieces_;
  std::size_t used_ = 0;  // of the last one
  std::map<std::int32_t, std::vector<Contact*>> free_;
};

class Cells {
 public:
  explicit Cells(const Weights& weights);

  void clear(int count);  // so many without sites
  void grow(int count);
  int size() const { return size_; }

  Cell& operator[](std::int32_t id) { return *reinterpret_cast<Cell*>(memory_.data() + std::size_t(id) * stride_); }
  const Cell& operator[](std::int32_t id) const {
    return *reinterpret_cast<const Cell*>(memory_.data() + std::size_t(id) * stride_);
  }

  // By member; of cells without sites 0.
  std::int64_t* energies(Cell& cell) const { return reinterpret_cast<std::int64_t*>(&cell + 1); }
  float* row(Cell& cell, int round) const { return at<float>(cell, rows_) + std::ptrdiff_t(round) * projected_; }
  std::int32_t* sums(Cell& cell, int round) const {
    return at<std::int32_t>(cell, sums_) + std::ptrdiff_t(round) * features_;
  }

  static Contact* find(const Cell& cell, std::int32_t id);
  Contact& contact(Cell& cell, std::int32_t id);  // which joins if it is new, with nothing in it
  static void remove(Cell& cell, std::int32_t id);
  void assign(Cell& cell, const std::vector<Contact>& contacts);

  // Marks: which cells a proposal, or a recomputation, has met.
  void forget_marks() { ++stamp_; }
  bool mark(Cell& cell, std::int32_t slot) const {  // false, and no change, if it has a slot already
    if (cell.stamp == stamp_) return false;
    cell.stamp = stamp_;
    cell.slot = slot;
    return true;
  }

  void read_ahead(const Cell& cell, int round) const;  // all but its contacts
  static void read_contacts_ahead(const Cell& cell);

 private:
  template <class T>
  static T* at(Cell& cell, std::size_t offset) {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(&cell) + offset);
  }
  void reserve(Cell& cell, std::int32_t room);

  const std::size_t projected_, features_, rows_, sums_, stride_;  // of a row, of sums; where they begin; bytes of all
  std::size_t room_ = 0;                                           // for cells
  int size_ = 0;
  std::uint64_t stamp_ = 0;
  neural::Array<char> memory_;
  ContactPool contacts_;
};

}  // namespace ncpm::graph
