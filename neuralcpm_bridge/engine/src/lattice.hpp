// The state of a cellular Potts model: which cell owns each site, and what type each cell has.
#pragma once

#include <cstdint>
#include <vector>

namespace ncpm {

// Plain data with its invariants kept by State (state.hpp), the only writer:
//   ids[site]   in [0, cells()), site = row * width + col; 0 is the medium
//   types[id]   in [0, T), or -1: there is no such cell (then volumes[id] == 0); types[0] == 0
//   volumes[id] number of sites with that id, the medium included; may be 0 for an existing cell
struct Lattice {
  int height = 0;
  int width = 0;
  bool periodic = true;
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> types;
  std::vector<std::int64_t> volumes;

  int sites() const { return height * width; }
  int cells() const { return static_cast<int>(types.size()); }  // number of ids, medium included
  int type_at(int site) const { return types[ids[site]]; }
};

// Moore neighbours as (row, column) offsets; opposite directions are k and 7 - k, and the four
// von Neumann neighbours are those of kVonNeumann.
struct Offset {
  int row, col;
};
inline constexpr Offset kMoore[8] = {{-1, -1}, {-1, 0}, {-1, 1}, {0, -1}, {0, 1}, {1, -1}, {1, 0}, {1, 1}};
inline constexpr int kVonNeumann[4] = {1, 3, 4, 6};

// The site `offset` away, or -1 where a free boundary ends the lattice.
inline int neighbour(const Lattice& lattice, int row, int col, Offset offset) {
  int r = row + offset.row;
  int c = col + offset.col;
  if (lattice.periodic) {
    r = r < 0 ? r + lattice.height : (r >= lattice.height ? r - lattice.height : r);
    c = c < 0 ? c + lattice.width : (c >= lattice.width ? c - lattice.width : c);
  } else if (r < 0 || r >= lattice.height || c < 0 || c >= lattice.width) {
    return -1;
  }
  return r * lattice.width + c;
}

// Writes the Moore neighbours of `site` to `out` and returns how many there are. On a periodic lattice one or
// two sites across, several offsets reach the same site and each counts; the site itself is no neighbour.
inline int moore_neighbours(const Lattice& lattice, int site, int out[8]) {
  const int row = site / lattice.width;
  const int col = site - row * lattice.width;
  if (row > 0 && row + 1 < lattice.height && col > 0 && col + 1 < lattice.width) {
    for (int k = 0; k < 8; ++k) out[k] = site + kMoore[k].row * lattice.width + kMoore[k].col;
    return 8;
  }
  int count = 0;
  for (const Offset offset : kMoore) {
    const int other = neighbour(lattice, row, col, offset);
    if (other >= 0 && other != site) out[count++] = other;
  }
  return count;
}

}  // namespace ncpm
