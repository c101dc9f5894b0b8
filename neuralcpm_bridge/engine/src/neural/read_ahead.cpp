// In a large tissue nothing near a random site is in the CPU's caches, and the work on one cell ends in waiting for
// the next one's values. So everything the first layer will read is read once before, back to back: many requests
// are then under way at a time. Plain loads, because CPUs drop prefetches when they are busy or miss a page.
#include "incremental.hpp"

namespace ncpm::neural {
namespace {

float touch(const float* first, int rows, std::ptrdiff_t pitch, int floats) {
  constexpr int kLine = int(kAlignment / sizeof(float));
  float sum = 0;
  for (int row = 0; row < rows; ++row, first += pitch) {
    for (int i = 0; i < floats; i += kLine) sum += first[i];
    sum += first[floats - 1];
  }
  return sum;
}

// Only what lies in one piece: across a circular end the rest is fetched when it is used.
float touch_tile(const Pass& pass, const Tile& tile, Field field, const Rect& rect) {
  const int channels = (*tile.channels)[field];
  const Box& box = tile.box(field);
  const int y = wrapped(pass.frame.y.origin + rect.y.lo - box.y.start, pass.frame.y.axis.size);
  const int x = wrapped(pass.frame.x.origin + rect.x.lo - box.x.start, pass.frame.x.axis.size);
  if (channels == 0 || rect.empty() || y + rect.y.size() > box.y.length || x + rect.x.size() > box.x.length) return 0;
  return touch(tile.field[field] + std::ptrdiff_t(y) * tile.pitch(field) + x * channels, rect.y.size(),
               tile.pitch(field), rect.x.size() * channels);
}

float touch_lattice(const Pass& pass, const void* image, int channels, const Rect& rect) {
  const Grid& grid = pass.plan->grid;
  const Box at = pass.frame.sites(rect);
  const int rows = std::min(at.y.length, grid.y.size - at.y.start);
  const int columns = std::min(at.x.length, grid.x.size - at.x.start);
  return touch(static_cast<const float*>(image) + (std::ptrdiff_t(at.y.start) * grid.x.size + at.x.start) * channels,
               rows, std::ptrdiff_t(grid.x.size) * channels, columns * channels);
}

}  // namespace

void Incremental::read_ahead() {
  const Pass& pass = proposal_.passes[0];
  const Frame& frame = pass.frame;
  const Rect exists = frame.exists();
  const Background& cache = background_[0];
  const int width = padded(pass.plan->width);
  float sum = touch_lattice(pass, cache.x_fixed.data(), width, frame.phi().grown(1) & exists);
  sum += touch_lattice(pass, cache.y_fixed.data(), width, frame.psi());
  sum += touch_lattice(pass, cache.sum.data(), width, frame.psi().grown(1) & exists);
  sum += touch_lattice(pass, cache.t.data(), width, frame.output().grown(1) & exists);
  sum += touch_lattice(pass, cache.skip_fixed.data(), width, frame.output());
  if (!proposal_.background) {
    sum += touch_lattice(pass, cache.p.data(), width, frame.phi());
    sum += touch_lattice(pass, cache.phi.data(), width, frame.phi());
  }
  for (const Candidate& cell : proposal_.candidates) {
    if (!cells_.has_tiles(cell.id)) continue;
    const Tile& tile = cells_.tile(cell.id, 0);
    const Rect output = cell.at.reached & frame.output(), phi = cell.at.reached & frame.phi();
    sum += touch_tile(pass, tile, kY, cell.at.near & output.grown(1));
    sum += touch_tile(pass, tile, kSkip, cell.at.own & output);
    sum += touch_tile(pass, tile, kEnergy, output);
    if (proposal_.background) sum += touch_tile(pass, tile, kX, cell.at.near & phi.grown(1));
    else sum += touch_tile(pass, tile, kPhi, phi);
  }
  read_ = sum;
}

}  // namespace ncpm::neural
