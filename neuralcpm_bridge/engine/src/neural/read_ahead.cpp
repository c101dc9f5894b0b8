// In a large tissue nothing near a random site is in the CPU's caches, and the work on one cell ends in waiting for
// the next one's values. So everything the first layer will read is read once before, back to back: many requests
// are then under way at a time. What tells where to read comes first, and the background's values, whose places are
// known, while that is on its way. Plain loads, because CPUs drop prefetches when they are busy or miss a page.
#include "pixel_layer.hpp"

namespace ncpm::neural {
namespace {

void touch(const float* first, int rows, std::ptrdiff_t pitch, int floats) {
  constexpr int kLine = int(kAlignment / sizeof(float));
  for (int row = 0; row < rows; ++row, first += pitch) {
    for (int i = 0; i < floats; i += kLine) read(first[i]);
    read(first[floats - 1]);
  }
}

// Only what lies in one piece: across a circular end the rest is fetched when it is used.
void touch_tile(const Pass& pass, const Tile& tile, Field field, const Rect& rect) {
  const int channels = (*tile.channels)[field];
  const Box& box = tile.box(field);
  const int y = wrapped(pass.frame.y.origin + rect.y.lo - box.y.start, pass.frame.y.axis.size);
  const int x = wrapped(pass.frame.x.origin + rect.x.lo - box.x.start, pass.frame.x.axis.size);
  if (channels == 0 || rect.empty() || y + rect.y.size() > box.y.length || x + rect.x.size() > box.x.length) return;
  touch(tile.field[field] + std::ptrdiff_t(y) * tile.pitch(field) + x * channels, rect.y.size(), tile.pitch(field),
        rect.x.size() * channels);
}

void touch_lattice(const Pass& pass, const void* image, int channels, const Rect& rect) {
  const Grid& grid = pass.shape->grid;
  const Box at = pass.frame.sites(rect);
  const int rows = std::min(at.y.length, grid.y.size - at.y.start);
  const int columns = std::min(at.x.length, grid.x.size - at.x.start);
  touch(static_cast<const float*>(image) + (std::ptrdiff_t(at.y.start) * grid.x.size + at.x.start) * channels, rows,
        std::ptrdiff_t(grid.x.size) * channels, columns * channels);
}

}  // namespace

void PixelLayer::read_background(const Pass& pass) const {
  const Frame& frame = pass.frame;
  const Rect exists = frame.exists();
  touch_lattice(pass, x_.data(), width(), frame.phi().grown(1) & exists);
  touch_lattice(pass, y_.data(), width(), frame.psi());
  touch_lattice(pass, sum_.data(), width(), frame.psi().grown(1) & exists);
  touch_lattice(pass, t_.data(), width(), frame.output().grown(1) & exists);
  touch_lattice(pass, skip_.data(), width(), frame.output());
  if (!work_.proposal.retypes()) {
    touch_lattice(pass, p_.data(), width(), frame.phi());
    touch_lattice(pass, phi_.data(), width(), frame.phi());
  }
}

void PixelLayer::read_cells(const Pass& pass) const {
  const Frame& frame = pass.frame;
  for (const Candidate& cell : work_.proposal.candidates) {
    if (!work_.cells.has_tiles(cell.id)) continue;
    const Tile& tile = work_.cells.tile(cell.id, 0);
    const Rect output = cell.at.reached & frame.output(), phi = cell.at.reached & frame.phi();
    touch_tile(pass, tile, kY, cell.at.near & output.grown(1));
    touch_tile(pass, tile, kSkip, cell.at.own & output);
    if (work_.proposal.retypes()) touch_tile(pass, tile, kX, cell.at.near & phi.grown(1));
    else touch_tile(pass, tile, kPhi, phi);
  }
}

}  // namespace ncpm::neural
