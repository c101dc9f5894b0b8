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

Cells::Cells(std::vector<Grid> grids, std::vector<int> pools, std::vector<std::array<int, kFields>> channels,
             int first_whole)
    : grids_(std::move(grids)), pools_(std::move(pools)), channels_(std::move(channels)), first_whole_(first_whole) {}

void Cells::resize(int cells) {
  if (cells <= size()) return;
  cells_.resize(cells);
  tiles_.resize(cells * grids_.size());
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
    for (std::size_t layer = 0; layer < grids_.size(); ++layer) {
      const Grid& grid = grids_[layer];
      Tile& tile = tiles[layer];
      tile.channels = &channels_[layer];
      if (int(layer) >= first_whole_) support = grid.all();
      for (int reach = 0; reach < int(tile.boxes.size()); ++reach) tile.boxes[reach] = dilated(support, reach, grid);
      for (int f = 0; f < kFields; ++f) {
        if (channels_[layer][f] == 0) continue;
        if (base) tile.field[f] = base + floats;
        const Box& box = tile.box(Field(f));
        floats += rounded_up(sizeof(float) * box.y.length * box.x.length * channels_[layer][f]) / sizeof(float);
      }
      if (layer + 1 < grids_.size()) support = pooled(tile.boxes[2], pools_[layer], grids_[layer + 1]);
    }
  };
  place(nullptr);
  cell.memory = pool_.take(floats);
  cell.floats = floats;
  place(cell.memory);
}

void Cells::make_room(int id, const Box& support) {
  Cell& cell = cells_[id];
  const Grid& grid = grids_[0];
  if (has_tiles(id) && covers(cell.room.y, support.y, grid.y) && covers(cell.room.x, support.x, grid.x)) return;
  Box wanted = united(cell.support, support, grid);
  if (has_tiles(id))  // pixels counted since the support was last fitted
    wanted = united(wanted, occupied(id), grid);
  Cell grown;
  grown.support = cell.support;
  std::vector<Tile> tiles(grids_.size());
  allocate(grown, tiles.data(), wanted);
  if (has_tiles(id)) {
    for (std::size_t layer = 0; layer < grids_.size(); ++layer) {
      const Tile &from = tile(id, int(layer)), &to = tiles[layer];
      for (int f = 0; f < kFields; ++f)
        if (to.field[f])
          copy_shared(to.box(Field(f)), to.field[f], to.pitch(Field(f)), from.box(Field(f)), from.field[f],
                      from.pitch(Field(f)), channels_[layer][f], grids_[layer]);
    }
    for (int i = 0; i < cell.room.y.length; ++i)
      if (cell.rows[i]) grown.rows[offset(grown.room.y, cell.room.y.start + i, grid.y)] = cell.rows[i];
    for (int i = 0; i < cell.room.x.length; ++i)
      if (cell.columns[i]) grown.columns[offset(grown.room.x, cell.room.x.start + i, grid.x)] = cell.columns[i];
  }
  pool_.give_back(cell.memory, cell.floats);
  cell = std::move(grown);
  std::copy(tiles.begin(), tiles.end(), tiles_.begin() + id * grids_.size());
}

void Cells::count(int id, int y, int x, int by) {
  Cell& cell = cells_[id];
  cell.rows[offset(cell.room.y, y, grids_[0].y)] += by;
  cell.columns[offset(cell.room.x, x, grids_[0].x)] += by;
}

void Cells::fit_support(int id) {
  Cell& cell = cells_[id];
  if (!has_tiles(id)) return;
  cell.support = occupied(id);
}

Box Cells::occupied(int id) const {
  const Cell& cell = cells_[id];
  if (!has_tiles(id)) return {};
  return {neural::occupied(cell.room.y, cell.rows, grids_[0].y),
          neural::occupied(cell.room.x, cell.columns, grids_[0].x)};
}

Box Cells::occupied_without(int id, int y, int x) const {
  const Cell& cell = cells_[id];
  const Grid& grid = grids_[0];
  return {neural::occupied(cell.room.y, cell.rows, grid.y, offset(cell.room.y, y, grid.y)),
          neural::occupied(cell.room.x, cell.columns, grid.x, offset(cell.room.x, x, grid.x))};
}

void Cells::widen_support(int id) {
  const Box before = cells_[id].support;
  fit_support(id);
  cells_[id].support = united(before, cells_[id].support, grids_[0]);
}

}  // namespace ncpm::neural
