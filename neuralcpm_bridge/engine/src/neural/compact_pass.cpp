// Layers whose grid is one Winograd tile: every proposal recomputes them as a whole, for the background and all cells.
// A cell then differs from the background everywhere, if only by rounding, so its support is the whole grid, always.
//
// They go through a convolution in batches, a matrix product per interpolation point. Between two convolutions an image
// stays in the core's own cache: what is not needed later is never written elsewhere.
#include <cstring>

#include "incremental.hpp"
#include "winograd.hpp"

namespace ncpm::neural {
namespace {

int points_of(const LayerPlan& plan) { return (plan.grid.y.size + 2) * (plan.grid.x.size + 2); }

}  // namespace

// Room for the points of a batch in every such layer.
void Incremental::make_points() {
  std::size_t in = 0, out = 0;
  for (const LayerPlan& plan : plan_.layers) {
    if (!plan.compact && !plan.boxed) continue;
    const std::size_t slots = std::size_t(plan.compact ? points_of(plan) : kBoxPoints * kBoxPoints) * kBatch;
    in = std::max(in, slots * padded(std::max(plan.inputs, plan.width)));
    out = std::max(out, slots * padded(plan.width));
  }
  points_in_ = Array<float>(in);
  points_out_ = Array<float>(out);
}

void Incremental::to_points(const Pass& pass, const float* image, int channels, int slot) {
  const Grid& grid = pass.plan->grid;
  kernels_.tile_to_points(grid.y.size, grid.x.size, image, channels, channels, points_in_.data() + slot * channels,
                          kBatch * channels);
}

void Incremental::from_points(const Pass& pass, int channels, int slot, float* image) const {
  const Grid& grid = pass.plan->grid;
  kernels_.tile_from_points(grid.y.size, grid.x.size, points_out_.data() + slot * channels, kBatch * channels, channels,
                            image, channels);
}

void Incremental::multiply_points(int points, const WinogradWeights& weights, int slots) {
  kernels_.multiply_points({points, slots, kBatch, weights.inputs, weights.out_stride, points_in_.data(),
                            weights.weights.data(), points_out_.data()});
  multiply_adds_ += std::uint64_t(points) * slots * weights.inputs * weights.out_stride;
}

// A cell's image of the whole grid, new in the arena.
Patch Incremental::whole_patch(const Pass& pass, int channels) {
  const Grid& grid = pass.plan->grid;
  return {grid.all(), proposal_.arena.take<float>(std::size_t(grid.sites()) * channels), channels,
          grid.x.size * channels};
}

// Completes a cell's new input by what it keeps.
void Incremental::whole_input(const Pass& pass, Candidate& cell) {
  const Grid& grid = pass.plan->grid;
  const int inputs = padded(pass.plan->inputs);
  const bool gets_all = pass.plan->gets_all;
  if (gets_all && cell.input.data) return;
  Patch input = whole_patch(pass, inputs);
  const std::size_t bytes = sizeof(float) * grid.sites() * inputs;
  if (!gets_all && cells_.has_tiles(cell.id))
    std::memcpy(input.data, cells_.tile(cell.id, pass.layer).field[kInput], bytes);
  else std::memset(input.data, 0, bytes);
  if (cell.input.data)
    copy_shared(input.at, input.data, input.pitch, cell.input.at, cell.input.data, cell.input.pitch, inputs, grid);
  cell.input = input;
}

// The background's part of a batch. Its images lie in frames.
void Incremental::background_to_points(const Pass& pass, const float* from, int channels, int slot) {
  const Rect all = pass.frame.exists();
  float* image = proposal_.scratch[0].data();
  const int row_floats = all.x.size() * channels;
  for (int row = 0; row < all.y.size(); ++row)
    std::memcpy(image + row * row_floats, from + pass.at(channels, all.y.lo + row, all.x.lo),
                sizeof(float) * row_floats);
  to_points(pass, image, channels, slot);
}

void Incremental::background_from_points(const Pass& pass, int slot, const std::vector<float>& bias, float* to) {
  const Rect all = pass.frame.exists();
  const int width = padded(pass.plan->width), row_floats = all.x.size() * width;
  float* image = proposal_.scratch[0].data();
  from_points(pass, width, slot, image);
  fill_bias(pass, all, bias, to);
  kernels_.add({all.y.size(), row_floats}, image, row_floats, to + pass.at(width, all.y.lo, all.x.lo),
               pass.pitch(width));
}

// X, Y and phi of the background, Y of the cells, and the sum of their phi.
void Incremental::compact_first_and_phi(Pass& pass) {
  const LayerPlan& plan = *pass.plan;
  const int points = points_of(plan), width = padded(plan.width);
  const int pitch = pass.pitch(width), image_pitch = plan.grid.x.size * width;
  const Rect all = pass.frame.exists();
  const std::ptrdiff_t at = pass.at(width, all.y.lo, all.x.lo);
  const Window window{plan.grid.y.size, image_pitch};
  float* image = proposal_.scratch[0].data();
  for (float** values : {&pass.x, &pass.q, &pass.y, &pass.p, &pass.phi})
    *values = proposal_.arena.take<float>(std::size_t(pass.frame.area()) * width);
  present_.assign(1, nullptr);
  for (Candidate& cell : proposal_.candidates)
    if (!cell.support.empty()) present_.push_back(&cell);
  const int count = int(present_.size());
  for (int start = 0; start < count; start += kBatch) {
    const int slots = std::min(kBatch, count - start);
    for (int slot = 0; slot < slots; ++slot) {
      if (Candidate* cell = present_[start + slot]) {
        whole_input(pass, *cell);
        to_points(pass, cell->input.data, padded(plan.inputs), slot);
      } else {
        background_to_points(pass, pass.h, padded(plan.inputs), slot);
      }
    }
    // One convolution after the other: the points in front of it, its weights and the points behind it fit the cache.
    multiply_points(points, plan.compact_first_psi, slots);
    for (int slot = 0; slot < slots; ++slot) {
      if (Candidate* cell = present_[start + slot]) {
        cell->y = whole_patch(pass, width);
        from_points(pass, width, slot, cell->y.data);
      } else {
        background_from_points(pass, slot, plan.psi_bias, pass.y);
      }
    }
    multiply_points(points, plan.compact_first_phi, slots);
    for (int slot = 0; slot < slots; ++slot) {
      if (!present_[start + slot]) {
        background_from_points(pass, slot, plan.phi_bias, pass.x);
        kernels_.silu(window, pass.x + at, pitch, pass.q + at, pitch);
        background_to_points(pass, pass.q, width, slot);
        continue;
      }
      from_points(pass, width, slot, image);
      kernels_.silu_change(window, pass.x + at, pass.q + at, pitch, image, image_pitch, image, image_pitch);
      to_points(pass, image, width, slot);
    }
    multiply_points(points, plan.compact_second_phi, slots);
    for (int slot = 0; slot < slots; ++slot) {
      if (!present_[start + slot]) {
        background_from_points(pass, slot, plan.second_phi_bias, pass.p);
        kernels_.silu(window, pass.p + at, pitch, pass.phi + at, pitch);
        start_sum(pass);
        continue;
      }
      from_points(pass, width, slot, image);
      kernels_.add_silu_change(window, pass.p + at, pass.phi + at, pitch, image, image_pitch, pass.sum + at);
    }
  }
}

// For a head that wants no more than what is behind psi's first SiLU: the sums of that and of the layer's input.
void Incremental::show_activations(const Pass& pass) {
  const LayerPlan& plan = *pass.plan;
  const Rect all = pass.frame.exists();
  const int width = padded(plan.width), inputs = padded(plan.inputs);
  const std::ptrdiff_t at = pass.at(width, all.y.lo, all.x.lo);
  Patch output{plan.grid.all(), nullptr, width, pass.pitch(width)}, input = whole_patch(pass, inputs);
  output.data = proposal_.arena.take<float>(std::size_t(pass.frame.area()) * width);
  clear(output);
  clear(input);
  for (const Candidate* cell : present_) {
    if (!cell) continue;
    kernels_.add_silu_change({all.y.size(), all.x.size() * width}, pass.t + at, pass.g + at, pass.pitch(width),
                             cell->y.data, cell->y.pitch, output.data);
    kernels_.add({all.y.size(), all.x.size() * inputs}, cell->input.data, cell->input.pitch, input.data, input.pitch);
  }
  head_->see_cells(output, input);
}

// For the others: the sum of the last layer's outputs.
void Incremental::show_outputs() {
  const Grid& grid = plan_.output_grid;
  const int width = padded(plan_.layers.back().width), pitch = grid.x.size * width;
  const Patch sum{grid.all(), proposal_.arena.take<float>(std::size_t(grid.y.size) * pitch), width, pitch};
  clear(sum);
  for (const Candidate& cell : proposal_.candidates) {
    const Patch& part = cell.input;  // of what would be the next layer
    if (part.data)
      kernels_.add({part.at.y.length, part.at.x.length * width}, part.data, part.pitch,
                   sum.data + part.at.y.start * pitch + part.at.x.start * width, pitch);
  }
  head_->see_cells({}, sum);
}

void Incremental::compact_psi(Pass& pass) {
  if (pass.plan->last && !head_->wants_output()) return show_activations(pass);
  const LayerPlan& plan = *pass.plan;
  const int points = points_of(plan), width = padded(plan.width);
  const int pitch = pass.pitch(width), image_pitch = plan.grid.x.size * width;
  const Rect all = pass.frame.exists(), seen = pass.frame.output();
  const std::ptrdiff_t at = pass.at(width, all.y.lo, all.x.lo);
  const Window window{plan.grid.y.size, image_pitch};
  const auto activate = [&](Candidate& cell) {
    kernels_.silu_change(window, pass.t + at, pass.g + at, pitch, cell.y.data, image_pitch, cell.y.data, image_pitch);
  };
  const int count = int(present_.size());
  for (int start = 0; start < count; start += kBatch) {
    const int slots = std::min(kBatch, count - start);
    for (int slot = 0; slot < slots; ++slot) {
      if (Candidate* cell = present_[start + slot]) {
        activate(*cell);
        to_points(pass, cell->y.data, width, slot);
      } else {
        background_to_points(pass, pass.g, width, slot);
      }
    }
    multiply_points(points, plan.compact_second_psi, slots);
    for (int slot = 0; slot < slots; ++slot) {
      if (!present_[start + slot]) {
        background_from_points(pass, slot, plan.second_psi_bias, pass.out);
        add_background_skip(pass);
        continue;
      }
      Candidate& cell = *present_[start + slot];
      cell.output = {pass.frame.sites(seen), cell.y.data, width, image_pitch};  // psi's first activation has served
      cell.output_rect = seen;
      from_points(pass, width, slot, cell.output.data);
      if (plan.cell_skip.empty())
        kernels_.add(window, cell.input.data, cell.input.pitch, cell.output.data, image_pitch);
      else
        kernels_.mix_channels({cell.input.data, 0, plan.inputs, padded(plan.inputs), cell.output.data, 0, width, 1,
                               plan.grid.sites(), 0, 0, 0, 0, plan.cell_skip.weights.data()});
    }
  }
}

}  // namespace ncpm::neural
