// Which cells are near, against a look at every cell: random supports that come, move and go, after any number of
// queries.
#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <vector>

#include "bins.hpp"

using namespace ncpm::neural;

namespace {

std::mt19937 random_numbers(1);

int below(int size) { return std::uniform_int_distribution<int>(0, size - 1)(random_numbers); }

Interval random_interval(Axis axis, int most) {
  const int length = 1 + below(std::min(most, axis.size));
  return {axis.circular ? below(axis.size) : below(axis.size - length + 1), length};
}

Box random_box(const Grid& grid, int most) { return {random_interval(grid.y, most), random_interval(grid.x, most)}; }

using Supports = std::map<std::int32_t, Box>;

// Each cell once, ascending, none that is not there, and every cell that touches the box.
bool right(const std::vector<std::int32_t>& found, const Supports& cells, const Box& box, const Grid& grid) {
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!cells.count(found[i]) || (i > 0 && found[i - 1] >= found[i])) return false;
  for (const auto& [id, support] : cells)
    if (overlap(support, box, grid) && !std::binary_search(found.begin(), found.end(), id)) return false;
  return true;
}

void disturb(Bins& bins, Supports& cells, const Grid& grid) {
  const std::int32_t id = below(40);
  const Box box = random_box(grid, below(8) ? 6 : 60);  // some so large that they are listed as being everywhere
  if (!cells.count(id)) {
    bins.add(id, box);
    cells[id] = box;
  } else if (below(3)) {
    bins.move(id, cells[id], box);
    cells[id] = box;
  } else {
    bins.remove(id, cells[id]);
    cells.erase(id);
  }
}

bool check(const Grid& grid) {
  Bins bins(grid);
  Supports cells;
  std::vector<std::int32_t> found;
  for (int query = 0; query < 20000; ++query) {
    if (query % 8 == 0) disturb(bins, cells, grid);
    if (query == 15000) {
      bins.clear();
      cells.clear();
    }
    const Box box = random_box(grid, 20);
    bins.near(box, found);
    if (!right(found, cells, box, grid)) {
      std::printf("query %d on %d x %d blocks\n", query, grid.y.size, grid.x.size);
      return false;
    }
  }
  return true;
}

// A query that is counted as number 0 again, by a counter of 8 or 16 bits, misses a cell that was never met before.
bool check_after(int queries) {
  const Grid grid{{4, false}, {4, false}};
  Bins bins(grid);
  std::vector<std::int32_t> found;
  for (int query = 0; query < queries; ++query) bins.near(grid.all(), found);
  bins.add(3, grid.all());
  bins.near(grid.all(), found);
  if (found == std::vector<std::int32_t>{3}) return true;
  std::printf("a cell is missed after %d queries\n", queries);
  return false;
}

}  // namespace

int main() {
  for (const int bits : {8, 16})
    if (!check_after((1 << bits) - 1)) return 1;
  for (const bool circular : {false, true})
    for (const auto& [height, width] : {std::pair(1, 1), std::pair(5, 30), std::pair(50, 61)})
      if (!check({{height, circular}, {width, circular}})) return 1;
  return 0;
}
