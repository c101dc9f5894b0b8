// In a large tissue nothing near a random site is in the CPU's caches: what a proposal will read in its first layer
// is asked for some time before it is needed.
#include "incremental.hpp"

namespace ncpm::neural {
namespace {

void prefetch_rows(const float* first, int rows, std::ptrdiff_t pitch, int floats) {
  constexpr int kLine = int(kAlignment / sizeof(float));
  for (int row = 0; row < rows; ++row, first += pitch) {
    for (int i = 0; i < floats; i += kLine) __builtin_prefetch(first + i);
    __builtin_prefetch(first + floats - 1);
  }
}

}  // namespace

void Incremental::prefetch_background(const Pass& pass) const {
  const Grid& grid = pass.plan->grid;
  const int width = padded(pass.plan->width);
  const Background& cache = background_[pass.layer];
  // The part within the lattice that does not cross a circular end: good enough for a hint.
  const auto ask = [&](const void* image, int channels, const Rect& rect) {
    const Box at = pass.frame.sites(rect);
    const int rows = std::min(at.y.length, grid.y.size - at.y.start), columns = std::min(at.x.length, grid.x.size - at.x.start);
    prefetch_rows(static_cast<const float*>(image) + (std::ptrdiff_t(at.y.start) * grid.x.size + at.x.start) * channels, rows,
                  std::ptrdiff_t(grid.x.size) * channels, columns * channels);
  };
  const Rect exists = pass.frame.exists();
  ask(cache.x_fixed.data(), width, pass.frame.phi().grown(1) & exists);
  ask(cache.y_fixed.data(), width, pass.frame.psi());
  ask(cache.sum.data(), width, pass.frame.psi().grown(1) & exists);
  ask(cache.t.data(), width, pass.frame.output().grown(1) & exists);
  ask(cache.skip_fixed.data(), width, pass.frame.output());
  if (proposal_.background) return;
  ask(cache.p.data(), width, pass.frame.phi());
  ask(cache.phi.data(), width, pass.frame.phi());
}

void Incremental::prefetch_cell(const Pass& pass, const Candidate& cell, Stage stage) const {
  if (!cells_.has_tiles(cell.id)) return;
  const Tile& tile = cells_.tile(cell.id, pass.layer);
  const auto ask = [&](Field field, const Rect& rect) {
    const int channels = (*tile.channels)[field];
    const int y = wrapped(pass.frame.y.origin + rect.y.lo - tile.y.start, pass.frame.y.axis.size);
    const int x = wrapped(pass.frame.x.origin + rect.x.lo - tile.x.start, pass.frame.x.axis.size);
    if (channels == 0 || rect.empty() || y + rect.y.size() > tile.y.length || x + rect.x.size() > tile.x.length) return;
    prefetch_rows(tile.field[field] + std::ptrdiff_t(y) * tile.pitch(field) + x * channels, rect.y.size(), tile.pitch(field),
                  rect.x.size() * channels);
  };
  if (stage == Stage::phi) {
    const Rect phi = cell.at.reached & pass.frame.phi();
    if (proposal_.background) ask(kX, cell.at.near & phi.grown(1));
    else ask(kPhi, phi);
  } else {
    const Rect output = cell.at.reached & pass.frame.output();
    ask(kY, cell.at.near & output.grown(1));
    ask(kSkip, cell.at.own & output);
    ask(kEnergy, output);
  }
}

}  // namespace ncpm::neural
