// What a flip changes about cells before any network is asked: the two cells that lose and gain the site, their
// contacts, and who touches the medium.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/cells.hpp"
#include "graph/inputs.hpp"

namespace ncpm::graph {

// One of the two cells as it will be; without sites it is not there.
struct Change {
  std::int32_t id = 0;
  Shape shape;
  std::int64_t pairs = 0;
  std::int32_t medium_pairs = 0;
  float share = 0.0f;
  std::vector<Contact> contacts;
  std::vector<Contact> back;  // of each that is tied: as the other cell will see it

  bool alive() const { return shape.sites > 0; }
};

class Changes {
 public:
  // An id around the site, or one that gains or loses so many pairs with the medium.
  struct Share {
    std::int32_t id, pairs;
  };

  Changes(const CellInputs& inputs, Relations& relations) : inputs_(inputs), relations_(relations) {}

  void find(const Tissue& tissue, const Cells& cells, int site, std::int32_t new_id);
  void relate(const Cells& cells);  // inputs of the contacts that were found
  void accept(Cells& cells) const;  // whole numbers, shapes and contacts

  bool are(const Tissue& tissue, int site, std::int32_t new_id) const {
    return site_ == site && new_id_ == new_id && old_id_ == tissue.ids[site];
  }
  bool change(std::int32_t id) const { return id == old_id_ || id == new_id_; }
  int count() const { return count_; }  // of those two that are cells, not the medium
  const Change& operator[](int number) const { return both_[number]; }
  const std::vector<Share>& medium() const { return medium_; }  // of other cells

 private:
  void change_cell(const Tissue& tissue, const Cell& now, std::int32_t id, std::int32_t other, int sign, int total,
                   int like_old, int like_new);
  static void shift(Change& cell, std::int32_t to, std::int32_t by);
  const Shape& shape_of(const Cells& cells, std::int32_t id) const;

  const CellInputs& inputs_;
  Relations& relations_;
  int site_ = -1;
  std::int32_t old_id_ = 0, new_id_ = 0;
  std::vector<Share> around_;
  Change both_[2];
  int count_ = 0;
  std::vector<Share> medium_;
};

}  // namespace ncpm::graph
