// The layer in front of the compact ones, where every proposal reaches all of psi too. Most cells differ from the
// background in so few sites that one box holds what psi's second convolution reads: the cells go through it in batches,
// by a matrix product per interpolation point. A cell's box is a function of its extent alone, so that a value is the
// same whatever led to it. Larger cells, and the medium, are convolved directly.
#include <cstring>

#include "incremental.hpp"
#include "winograd.hpp"

namespace ncpm::neural {
namespace {

constexpr int kPoints = kBoxPoints * kBoxPoints;

// The first of the kBox positions that hold `near`.
int box_start(Span near, Span exists) { return std::max(exists.lo, std::min(near.lo, exists.hi - kBox)); }

}  // namespace

bool Incremental::fits_box(const Pass& pass, const Candidate& cell) const {
  const Rect near = pass.frame.footprint(cell.extent).near;
  return near.y.size() <= kBox && near.x.size() <= kBox;
}

// What is behind psi's first SiLU, at the points.
void Incremental::box_activation(const Pass& pass, const Candidate& cell, int slot) {
  const int width = padded(pass.plan->width);
  const Rect near = pass.frame.footprint(cell.extent).near, exists = pass.frame.exists();
  float* image = proposal_.scratch[1].data();
  if (near.y.size() < kBox || near.x.size() < kBox) std::memset(image, 0, sizeof(float) * kBox * kBox * width);
  if (!near.empty()) {
    const int row = near.y.lo - box_start(near.y, exists.y), column = near.x.lo - box_start(near.x, exists.x);
    const View y = view(pass, cell, kY, cell.y, near, proposal_.scratch[0].data());
    const std::ptrdiff_t at = pass.at(width, near.y.lo, near.x.lo);
    kernels_.silu_change({near.y.size(), near.x.size() * width}, pass.t + at, pass.g + at, pass.pitch(width), y.data,
                         y.pitch, image + (row * kBox + column) * width, kBox * width);
  }
  kernels_.box_input(image, width, points_in_.data() + slot * width, kBatch * width);
}

void Incremental::box_output(const Pass& pass, Candidate& cell, int slot) {
  const int width = padded(pass.plan->width);
  const Rect near = pass.frame.footprint(cell.extent).near, exists = pass.frame.exists();
  const Rect rect = output_rect(pass, cell);
  if (rect.empty()) return;
  float* image = proposal_.scratch[1].data();
  kernels_.box_output(points_out_.data() + slot * width, kBatch * width, width, image);
  cell.output_rect = rect;
  cell.output = new_patch(pass, rect, width);
  const int top = box_start(near.y, exists.y) - 1, left = box_start(near.x, exists.x) - 1;
  // Beyond what the cell reaches, the box holds zeros but for rounding.
  const Rect filled = near.empty() ? Rect{} : rect & near.grown(1);
  const auto floats = [&](int columns) { return sizeof(float) * columns * width; };
  for (int y = rect.y.lo; y < rect.y.hi; ++y) {
    float* to = cell.output.data + std::ptrdiff_t(y - rect.y.lo) * cell.output.pitch;
    if (filled.empty() || y < filled.y.lo || y >= filled.y.hi) {
      std::memset(to, 0, floats(rect.x.size()));
      continue;
    }
    std::memset(to, 0, floats(filled.x.lo - rect.x.lo));
    std::memcpy(to + (filled.x.lo - rect.x.lo) * width,
                image + ((y - top) * kBoxPoints + filled.x.lo - left) * width, floats(filled.x.size()));
    std::memset(to + (filled.x.hi - rect.x.lo) * width, 0, floats(rect.x.hi - filled.x.hi));
  }
  add_cell_skip(pass, cell);
}

void Incremental::boxed_psi(Pass& pass) {
  const WinogradWeights& weights = pass.plan->boxed_second_psi;
  present_.clear();
  for (Candidate& cell : proposal_.candidates) {
    if (cell.support.empty()) continue;
    if (fits_box(pass, cell)) present_.push_back(&cell);
    else cell_psi(pass, cell);
  }
  const int count = int(present_.size());
  for (int start = 0; start < count; start += kBatch) {
    const int slots = std::min(kBatch, count - start);
    for (int slot = 0; slot < slots; ++slot) box_activation(pass, *present_[start + slot], slot);
    multiply_points(kPoints, weights, slots);
    for (int slot = 0; slot < slots; ++slot) box_output(pass, *present_[start + slot], slot);
  }
}

}  // namespace ncpm::neural
