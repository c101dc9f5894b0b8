// Layers whose grid is one Winograd tile: every proposal recomputes them as a whole, all cells together. A cell
// then differs from the background everywhere, if only by rounding, so its support is the whole grid, always.
#include <cstring>

#include "incremental.hpp"

namespace ncpm::neural {
namespace {

constexpr int kBatch = 18;  // cells whose points stay in the cache together

}  // namespace

// outs[k][part] = convolution of images[k]; the weights' outputs are shared out to `parts` images of equal width.
void Incremental::convolve_compact(const Pass& pass, const WinogradWeights& weights, const std::vector<const float*>& images,
                                   const std::vector<float*>& outs, int parts) {
  const int height = pass.plan->grid.y.size, width = pass.plan->grid.x.size, points = (height + 2) * (width + 2);
  const int in_stride = padded(weights.inputs), out_stride = weights.out_stride, part_width = out_stride / parts;
  const std::size_t in_size = std::size_t(points) * kBatch * in_stride, out_size = std::size_t(points) * kBatch * out_stride;
  if (points_in_.size() < in_size) points_in_ = Array<float>(in_size);
  if (points_out_.size() < out_size) points_out_ = Array<float>(out_size);
  const int count = int(images.size());
  for (int start = 0; start < count; start += kBatch) {
    const int cells = std::min(kBatch, count - start);
    for (int k = 0; k < cells; ++k)
      kernels_.winograd_input(height, width, images[start + k], in_stride, points_in_.data() + k * in_stride, kBatch * in_stride);
    for (int point = 0; point < points; ++point)
      kernels_.mix_channels({points_in_.data() + std::size_t(point) * kBatch * in_stride, 0, weights.inputs, in_stride,
                             points_out_.data() + std::size_t(point) * kBatch * out_stride, 0, out_stride, 1, cells, 0, 0, 0, 0,
                             weights.weights.data() + std::size_t(point) * weights.inputs * out_stride, true});
    for (int k = 0; k < cells; ++k)
      for (int part = 0; part < parts; ++part)
        kernels_.winograd_output(height, width, points_out_.data() + k * out_stride + part * part_width, kBatch * out_stride,
                                 part_width, outs[(start + k) * parts + part], part_width);
    multiply_adds_ += std::uint64_t(points) * cells * weights.inputs * out_stride;
  }
}

// A cell's image of the whole grid, new in the arena.
Patch Incremental::whole_patch(const Pass& pass, int channels) {
  const Grid& grid = pass.plan->grid;
  return {{{0, grid.y.size}, {0, grid.x.size}}, proposal_.arena.take<float>(std::size_t(grid.sites()) * channels), channels,
          grid.x.size * channels};
}

void Incremental::compact_first_and_phi(Pass& pass) {
  const LayerPlan& plan = *pass.plan;
  const Grid& grid = plan.grid;
  const int inputs = padded(plan.inputs), width = padded(plan.width);
  const Rect all = pass.frame.exists();
  const std::ptrdiff_t at = pass.at(width, all.y.lo, all.x.lo);
  const Window window{grid.y.size, grid.x.size * width};
  std::vector<const float*> images;
  std::vector<float*> outs;
  for (Candidate& cell : proposal_.candidates) {
    if (cell.support.empty()) continue;
    if (!cell.input.data || cell.input.at.y.length < grid.y.size || cell.input.at.x.length < grid.x.size) {
      Patch input = whole_patch(pass, inputs);
      const Tile& tile = cells_.tile(cell.id, pass.layer);
      if (cells_.has_tiles(cell.id))  // a whole-grid tile
        std::memcpy(input.data, tile.field[kInput], sizeof(float) * grid.sites() * inputs);
      else
        std::memset(input.data, 0, sizeof(float) * grid.sites() * inputs);
      if (cell.input.data)
        copy_shared(input.at, input.data, input.pitch, cell.input.at, cell.input.data, cell.input.pitch, inputs, grid);
      cell.input = input;
    }
    cell.x = whole_patch(pass, width);
    cell.y = whole_patch(pass, width);
    images.push_back(cell.input.data);
    outs.insert(outs.end(), {cell.x.data, cell.y.data});
  }
  convolve_compact(pass, plan.compact_first, images, outs, 2);
  images.clear();
  outs.clear();
  for (Candidate& cell : proposal_.candidates) {
    if (cell.support.empty()) continue;
    // phi's first activation takes X's place.
    kernels_.silu_change(window, pass.x + at, pass.q + at, pass.pitch(width), cell.x.data, cell.x.pitch, cell.x.data, cell.x.pitch);
    cell.phi = whole_patch(pass, width);
    images.push_back(cell.x.data);
    outs.push_back(cell.phi.data);
  }
  convolve_compact(pass, plan.compact_second_phi, images, outs, 1);
  for (Candidate& cell : proposal_.candidates)
    if (cell.phi.data)
      kernels_.silu_change(window, pass.p + at, pass.phi + at, pass.pitch(width), cell.phi.data, cell.phi.pitch, cell.phi.data, cell.phi.pitch);
}

void Incremental::compact_psi(Pass& pass) {
  const LayerPlan& plan = *pass.plan;
  const Grid& grid = plan.grid;
  const int inputs = padded(plan.inputs), width = padded(plan.width);
  const Rect all = pass.frame.exists(), seen = pass.frame.output();
  const std::ptrdiff_t at = pass.at(width, all.y.lo, all.x.lo);
  const bool stop = plan.last && !head_->wants_output();
  std::vector<const float*> images;
  std::vector<float*> outs;
  for (Candidate& cell : proposal_.candidates) {
    if (cell.support.empty()) continue;
    kernels_.silu_change({grid.y.size, grid.x.size * width}, pass.t + at, pass.g + at, pass.pitch(width), cell.y.data, cell.y.pitch,
                         cell.y.data, cell.y.pitch);
    cell.output_rect = seen;
    if (stop) {
      cell.output = cell.y;
      proposal_.writes.push_back({cell.id, pass.layer, kG, cell.output});
      continue;
    }
    cell.output = whole_patch(pass, width);
    images.push_back(cell.y.data);
    outs.push_back(cell.output.data);
  }
  if (stop) return;
  convolve_compact(pass, plan.compact_second_psi, images, outs, 1);
  for (Candidate& cell : proposal_.candidates) {
    if (!cell.output.data) continue;
    if (plan.cell_skip.empty())
      kernels_.add({grid.y.size, grid.x.size * width}, cell.input.data, cell.input.pitch, cell.output.data, cell.output.pitch);
    else
      kernels_.mix_channels({cell.input.data, cell.input.pitch, plan.inputs, inputs, cell.output.data, cell.output.pitch, width,
                             grid.y.size, grid.x.size, 0, 0, 0, 0, plan.cell_skip.weights.data()});
    cell.output.at = pass.frame.sites(seen);  // sites that fill no pooling block end here
  }
}

}  // namespace ncpm::neural
