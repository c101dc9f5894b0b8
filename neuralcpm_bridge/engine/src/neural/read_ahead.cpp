// In a large tissue nothing near a random site is in the CPU's caches, and the work on one cell ends in waiting for
// the next one's values. So everything the first layer will read is read once before, back to back: many requests
// are then under way at a time. What tells where to read comes first, and the background's values, whose places are
// known, while that is on its way. Plain loads, because CPUs drop prefetches when they are busy or miss a page.
#include "incremental.hpp"

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
  const Grid& grid = pass.plan->grid;
  const Box at = pass.frame.sites(rect);
  const int rows = std::min(at.y.length, grid.y.size - at.y.start);
  const int columns = std::min(at.x.length, grid.x.size - at.x.start);
  touch(static_cast<const float*>(image) + (std::ptrdiff_t(at.y.start) * grid.x.size + at.x.start) * channels, rows,
        std::ptrdiff_t(grid.x.size) * channels, columns * channels);
}

}  // namespace

void Incremental::read_background() const {
  const Pass& pass = proposal_.passes[0];
  const Frame& frame = pass.frame;
  const Rect exists = frame.exists();
  const Background& cache = background_[0];
  const int width = padded(pass.plan->width);
  touch_lattice(pass, cache.x_fixed.data(), width, frame.phi().grown(1) & exists);
  touch_lattice(pass, cache.y_fixed.data(), width, frame.psi());
  touch_lattice(pass, cache.sum.data(), width, frame.psi().grown(1) & exists);
  touch_lattice(pass, cache.t.data(), width, frame.output().grown(1) & exists);
  touch_lattice(pass, cache.skip_fixed.data(), width, frame.output());
  if (!proposal_.background) {
    touch_lattice(pass, cache.p.data(), width, frame.phi());
    touch_lattice(pass, cache.phi.data(), width, frame.phi());
  }
}

void Incremental::read_cells() const {
  const Pass& pass = proposal_.passes[0];
  const Frame& frame = pass.frame;
  for (const Candidate& cell : proposal_.candidates) {
    if (!cells_.has_tiles(cell.id)) continue;
    const Tile& tile = cells_.tile(cell.id, 0);
    const Rect output = cell.at.reached & frame.output(), phi = cell.at.reached & frame.phi();
    touch_tile(pass, tile, kY, cell.at.near & output.grown(1));
    touch_tile(pass, tile, kSkip, cell.at.own & output);
    if (proposal_.background) touch_tile(pass, tile, kX, cell.at.near & phi.grown(1));
    else touch_tile(pass, tile, kPhi, phi);
  }
}

}  // namespace ncpm::neural
