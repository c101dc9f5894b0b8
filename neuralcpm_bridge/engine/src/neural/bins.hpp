// Which cells are near: lists of cells by coarse regions of the lattice.
#pragma once

#include <cstdint>
#include <vector>

#include "geometry.hpp"

namespace ncpm::neural {

class Bins {
 public:
  explicit Bins(const Grid& grid);

  void clear();
  void add(std::int32_t id, const Box& support);
  void remove(std::int32_t id, const Box& support);
  void move(std::int32_t id, const Box& from, const Box& to);

  // Asks for the lists that near() will read.
  void read_ahead(const Box& box);
  // Every cell whose support touches the box and perhaps a few more, each once, ascending.
  void near(const Box& box, std::vector<std::int32_t>& ids);

 private:
  static constexpr int kSide = 4;   // blocks across a bin
  static constexpr int kMany = 64;  // a cell in more bins than this is listed as being everywhere

  // One cache line where few cells are near each other, as in most tissues.
  struct alignas(64) Bin {
    static constexpr int kHeld = 9;
    std::int32_t count = 0;
    std::int32_t held[kHeld];
    std::vector<std::int32_t> more;

    void add(std::int32_t id);
    void remove(std::int32_t id);
    template <class Visit>
    void visit(Visit visit_id) const {
      for (int i = 0; i < count; ++i) visit_id(held[i]);
      for (const std::int32_t id : more) visit_id(id);
    }
  };

  Box range(const Box& support) const;
  template <class Visit>
  void visit(const Box& range, Visit visit_bin);

  Grid grid_, bins_;
  std::vector<Bin> lists_;
  Bin everywhere_;
  std::vector<std::uint8_t> taken_;  // by id: met by the query under way; all 0 between queries
};

}  // namespace ncpm::neural
