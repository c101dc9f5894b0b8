// The layer in front of the compact ones, where every proposal reaches all of psi too. Most cells differ from the
// background in so few sites that one box holds what psi's second convolution reads: the cells go through it in
// batches, by a matrix product per interpolation point. A cell's box is a function of its extent alone, so that a value
// is the same whatever led to it. Larger cells, and the medium, are convolved directly.
#include <cstring>

#include "incremental.hpp"
#include "winograd.hpp"

namespace ncpm::neural {
namespace {

constexpr int kPoints = kBoxPoints * kBoxPoints;

// The first of the kBox positions that hold `near`.
int box_start(Span near, Span exists) { return std::max(exists.lo, std::min(near.lo, exists.hi - kBox)); }

}  // namespace

// What is behind psi's first SiLU, at the points.
void Incremental::box_activation(const Pass& pass, const BoxedCell& boxed, int slot) {
  const int width = padded(pass.plan->width);
  const Rect& near = boxed.near;
  float* image = proposal_.scratch[1].data();
  if (near.y.size() < kBox || near.x.size() < kBox) std::memset(image, 0, sizeof(float) * kBox * kBox * width);
  if (!near.empty()) {
    const View y = view(pass, *boxed.cell, kY, boxed.cell->y, near, proposal_.scratch[0].data());
    const std::ptrdiff_t at = pass.at(width, near.y.lo, near.x.lo);
    kernels_.silu_change({near.y.size(), near.x.size() * width}, pass.t + at, pass.g + at, pass.pitch(width), y.data,
                         y.pitch, image + ((near.y.lo - boxed.top) * kBox + near.x.lo - boxed.left) * width,
                         kBox * width);
  }
  kernels_.box_to_points(image, width, width, points_in_.data() + slot * width, kBatch * width);
}

void Incremental::box_output(const Pass& pass, const BoxedCell& boxed, int slot) {
  const int width = padded(pass.plan->width);
  Candidate& cell = *boxed.cell;
  const Rect rect = output_rect(pass, cell);
  if (rect.empty()) return;
  float* image = proposal_.scratch[1].data();
  kernels_.box_from_points(points_out_.data() + slot * width, kBatch * width, width, image, width);
  cell.output_rect = rect;
  cell.output = new_patch(pass, rect, width);
  clear(cell.output);
  if (!boxed.near.empty()) {  // beyond what the cell reaches, the box holds zeros but for rounding
    const Rect filled = rect & boxed.near.grown(1);
    const float* from = image + ((filled.y.lo - boxed.top + 1) * kBoxPoints + filled.x.lo - boxed.left + 1) * width;
    float* to = cell.output.data + std::ptrdiff_t(filled.y.lo - rect.y.lo) * cell.output.pitch +
                (filled.x.lo - rect.x.lo) * width;
    kernels_.add({filled.y.size(), filled.x.size() * width}, from, kBoxPoints * width, to, cell.output.pitch);
  }
  add_cell_skip(pass, cell);
}

void Incremental::boxed_psi(Pass& pass) {
  const Rect exists = pass.frame.exists();
  boxed_.clear();
  for (Candidate& cell : proposal_.candidates) {
    if (cell.support.empty()) continue;
    const Rect near = pass.frame.footprint(cell.extent).near;
    if (near.y.size() <= kBox && near.x.size() <= kBox)
      boxed_.push_back({&cell, near, box_start(near.y, exists.y), box_start(near.x, exists.x)});
    else cell_psi(pass, cell);
  }
  const int count = int(boxed_.size());
  for (int start = 0; start < count; start += kBatch) {
    const int slots = std::min(kBatch, count - start);
    for (int slot = 0; slot < slots; ++slot) box_activation(pass, boxed_[start + slot], slot);
    multiply_points(kPoints, pass.plan->boxed_second_psi, slots);
    for (int slot = 0; slot < slots; ++slot) box_output(pass, boxed_[start + slot], slot);
  }
}

}  // namespace ncpm::neural
