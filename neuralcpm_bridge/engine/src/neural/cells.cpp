#include "cells.hpp"

#include <cstring>

namespace ncpm::neural {
namespace {

bool covers(Interval outer, Interval inner, Axis axis) {
  if (outer.length == axis.size) return true;
  const int offset = axis.circular ? wrapped(inner.start - outer.start, axis.size) : inner.start - outer.start;
  return offset >= 0 && offset + inner.length <= outer.length;
}

int offset(Interval room, int site, Axis axis) {
  return axis.circular ? wrapped(site - room.start, axis.size) : site - room.start;
}

// The positions whose counts are not 0, one pixel less being counted at `without` if that is one of them.
Interval occupied(Interval room, const std::vector<std::int32_t>& counts, Axis axis, int without = -1) {
  const auto empty = [&](int i) { return counts[i] == (i == without ? 1 : 0); };
  int lo = 0, hi = int(counts.size());
  while (lo < hi && empty(lo)) ++lo;
  while (hi > lo && empty(hi - 1)) --hi;
  const int start = room.start + lo;
  return {axis.circular && start >= axis.size ? start - axis.size : start, hi - lo};
}

// Rows are short, and most are whole vectors: a call of memcpy would take longer than the copying.
void copy_row(float* to, const float* from, int floats) {
  int i = 0;
  for (; i + kChannelBlock <= floats; i += kChannelBlock) std::memcpy(to + i, from + i, sizeof(float) * kChannelBlock);
  for (; i < floats; ++i) to[i] = from[i];
}

}  // namespace

void copy_shared(const Box& to, float* to_data, int to_pitch, const Box& from, const float* from_data, int from_pitch,
                 int channels, const Grid& grid) {
  for_shared_runs(to, from, grid, [&](int to_row, int to_column, int from_row, int from_column, int length) {
    copy_row(to_data + std::ptrdiff_t(to_row) * to_pitch + to_column * channels,
             from_data + std::ptrdiff_t(from_row) * from_pitch + from_column * channels, channels * length);
  });
}

Box Cells::handed_on(const Box& support, int layer) const {
  if (support.empty()) return support;
  const LayerTiles &from = layers_[layer], &to = layers_[layer + 1];
  return to.whole ? to.grid.all() : pooled(dilated(support, 2, from.grid), from.pool, to.grid);
}

void Cells::resize(int cells) {
  if (cells <= size()) return;
  cells_.resize(cells);
  tiles_.resize(cells * layers_.size());
}

void Cells::clear() {
  const int count = size();
  cells_.clear();
  tiles_.clear();
  pool_.clear();
  resize(count);
}

void Cells::allocate(Cell& cell, Tile* tiles, const Box& room) {
  cell.room = room;
  cell.rows.assign(room.y.length, 0);
  cell.columns.assign(room.x.length, 0);
  std::size_t floats = 0;
  const auto place = [&](float* base) {
    floats = 0;
    Box support = room;
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const auto& [grid, pool, whole, channels] = layers_[layer];
      Tile& tile = tiles[layer];
      tile.channels = &channels;
      if (whole) support = grid.all();  // whatever was in front: the cell may grow into sight
      else if (layer > 0) support = handed_on(support, int(layer) - 1);
      for (int reach = 0; reach < int(tile.boxes.size()); ++reach) tile.boxes[reach] = dilated(support, reach, grid);
      for (int f = 0; f < kFields; ++f) {
        if (channels[f] == 0) continue;
        if (base) tile.field[f] = base + floats;
        const Box& box = tile.box(Field(f));
        floats += rounded_up(sizeof(float) * box.y.length * box.x.length * channels[f]) / sizeof(float);
      }
    }
  };
  place(nullptr);
  cell.memory = pool_.take(floats);
  cell.floats = floats;
  place(cell.memory);
}

void Cells::make_room(int id, const Box& support) {
  Cell& cell = cells_[id];
  const Grid& grid = layers_[0].grid;
  if (has_tiles(id) && covers(cell.room.y, support.y, grid.y) && covers(cell.room.x, support.x, grid.x)) return;
  Box wanted = united(cell.support, support, grid);
  if (has_tiles(id))  // pixels counted since the support was last fitted
    wanted = united(wanted, occupied(id), grid);
  Cell grown;
  grown.support = cell.support;
  std::vector<Tile> tiles(layers_.size());
  allocate(grown, tiles.data(), wanted);
  if (has_tiles(id)) {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const Tile &from = tile(id, int(layer)), &to = tiles[layer];
      for (int f = 0; f < kFields; ++f)
        if (to.field[f])
          copy_shared(to.box(Field(f)), to.field[f], to.pitch(Field(f)), from.box(Field(f)), from.field[f],
                      from.pitch(Field(f)), layers_[layer].channels[f], layers_[layer].grid);
    }
    for (int i = 0; i < cell.room.y.length; ++i)
      if (cell.rows[i]) grown.rows[offset(grown.room.y, cell.room.y.start + i, grid.y)] = cell.rows[i];
    for (int i = 0; i < cell.room.x.length; ++i)
      if (cell.columns[i]) grown.columns[offset(grown.room.x, cell.room.x.start + i, grid.x)] = cell.columns[i];
  }
  pool_.give_back(cell.memory, cell.floats);
  cell = std::move(grown);
  std::copy(tiles.begin(), tiles.end(), tiles_.begin() + id * layers_.size());
}

void Cells::count(int id, int y, int x, int by) {
  Cell& cell = cells_[id];
  cell.rows[offset(cell.room.y, y, layers_[0].grid.y)] += by;
  cell.columns[offset(cell.room.x, x, layers_[0].grid.x)] += by;
}

void Cells::fit_support(int id) {
  Cell& cell = cells_[id];
  if (!has_tiles(id)) return;
  cell.support = occupied(id);
}

Box Cells::occupied(int id) const {
  const Cell& cell = cells_[id];
  if (!has_tiles(id)) return {};
  return {neural::occupied(cell.room.y, cell.rows, layers_[0].grid.y),
          neural::occupied(cell.room.x, cell.columns, layers_[0].grid.x)};
}

Box Cells::occupied_without(int id, int y, int x) const {
  const Cell& cell = cells_[id];
  const Grid& grid = layers_[0].grid;
  return {neural::occupied(cell.room.y, cell.rows, grid.y, offset(cell.room.y, y, grid.y)),
          neural::occupied(cell.room.x, cell.columns, grid.x, offset(cell.room.x, x, grid.x))};
}

void Cells::widen_support(int id) {
  const Box before = cells_[id].support;
  fit_support(id);
  cells_[id].support = united(before, cells_[id].support, layers_[0].grid);
}

}  // namespace ncpm::neural
