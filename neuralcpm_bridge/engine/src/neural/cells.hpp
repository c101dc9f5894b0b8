// The cells' caches: for each cell and layer one tile per quantity, just large enough for where the cell
// differs from an absent one. Outside its tile, and wherever it does not differ, a cell's values are zero.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "geometry.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace ncpm::neural {

// Quantities kept per cell, as differences from the background.
enum Field {
  kInput,  // h, what the layer receives (layers > 0)
  kY,      // psi's part of the cell in front of its first SiLU; in layer 0 fixed point, as kSkip and kX
  kSkip,   // the skip path (layer 0)
  kX,      // in front of phi's first SiLU
  kPhi,    // phi
  kG,      // behind psi's first SiLU (last layer of nh)
  kFields
};

// How many convolutions a quantity is away from the layer's input: so far it reaches beyond the cell's support.
constexpr int reach_of(Field field) { return field == kPhi ? 2 : (field == kX || field == kY || field == kG ? 1 : 0); }

// Aligned: what tells where a cell of a large tissue keeps its values is read in whole cache lines.
struct alignas(64) Tile {
  std::array<Box, 3> boxes;  // by reach
  std::array<float*, kFields> field{};
  const std::array<int, kFields>* channels = nullptr;

  const Box& box(Field f) const { return boxes[reach_of(f)]; }
  std::int32_t* fixed(Field f) const { return reinterpret_cast<std::int32_t*>(field[f]); }
  int pitch(Field f) const { return box(f).x.length * (*channels)[f]; }
};

// What the cells keep of one layer.
struct LayerTiles {
  Grid grid;
  int pool = 1;
  bool whole = false;                   // a cell that differs from the background does so everywhere
  std::array<int, kFields> channels{};  // floats per pixel of each field, 0 where it is not kept
};

class Cells {
 public:
  Cells() = default;
  explicit Cells(std::vector<LayerTiles> layers) : layers_(std::move(layers)) {}

  const Grid& grid(int layer) const { return layers_[layer].grid; }
  // Where the input of the next layer differs if that of this one does within `support`.
  Box handed_on(const Box& support, int layer) const;
  void resize(int cells);  // the number of ids; new ones are empty
  int size() const { return int(cells_.size()); }
  std::size_t bytes() const { return pool_.bytes(); }  // of all tiles
  void clear();

  Box support(int id) const { return cells_[id].support; }           // blocks with pixels of the cell (hull)
  bool has_tiles(int id) const { return !cells_[id].room.empty(); }  // not before it had its first pixel
  int channels(int layer, Field field) const { return layers_[layer].channels[field]; }
  const Tile& tile(int id, int layer) const { return tiles_[id * layers_.size() + layer]; }
  // Reads what says where a cell's values of the first layer are.
  void read_ahead(int id) const {
    const Tile& first = tile(id, 0);
    read(cells_[id].support.y.start);
    read(first.boxes.front().y.start);
    read(first.channels);
  }

  // Makes room for a support, keeping the values.
  void make_room(int id, const Box& support);
  // Counts a pixel of block (y, x) in or out; the block must be in the room made.
  void count(int id, int y, int x, int by);
  // Lets the support cover both what it did and the blocks that are occupied.
  void widen_support(int id);
  // Shrinks the support to the blocks that are occupied.
  void fit_support(int id);
  // The blocks that are occupied (hull); without a pixel of block (y, x).
  Box occupied(int id) const;
  Box occupied_without(int id, int y, int x) const;

 private:
  struct alignas(64) Cell {
    Box support, room;
    std::vector<std::int32_t> rows, columns;  // pixels per row and column of blocks in `room`
    float* memory = nullptr;                  // of all its tiles, from the pool
    std::size_t floats = 0;
  };

  void allocate(Cell& cell, Tile* tiles, const Box& room);

  std::vector<LayerTiles> layers_;
  std::vector<Cell> cells_;
  std::vector<Tile> tiles_;  // [cell][layer]
  Pool pool_;
};

// Copies what two boxes of one grid share; `channels` 4-byte numbers per pixel, rows contiguous.
void copy_shared(const Box& to, float* to_data, int to_pitch, const Box& from, const float* from_data, int from_pitch,
                 int channels, const Grid& grid);

}  // namespace ncpm::neural
