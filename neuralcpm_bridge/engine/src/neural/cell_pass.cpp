// The cells' part of a proposal: differences from the background, where a cell has any.
#include "incremental.hpp"

namespace ncpm::neural {
namespace {

Span aligned_out(Span part, Span whole, int pool) {  // to the pooling blocks, which start at whole.lo
  if (pool == 1 || part.empty()) return part;
  return {whole.lo + (part.lo - whole.lo) / pool * pool, whole.lo + (part.hi - whole.lo + pool - 1) / pool * pool};
}

// The pixel at a local position of a tile, if the tile holds `length` pixels from there in one run; else -1.
int run_in(Interval tile, const FrameAxis& axis, Span span) {
  int offset = axis.origin + span.lo - tile.start;
  if (axis.axis.circular) offset = wrapped(offset, axis.axis.size);
  return offset >= 0 && offset + span.size() <= tile.length ? offset : -1;
}

}  // namespace

void clear_around(const Pass& pass, float* image, const Packed& convolution, const Rect& need, const Rect& live) {
  const int channels = convolution.in_stride;
  // Kernels leave out rows beyond those that share a block with a live one, and up to two columns on either side.
  constexpr int kBlockRows = 3, kSkippedColumns = 2;
  const Span rows = need.y & live.y.grown(kBlockRows);
  const bool ring = pass.frame.x.whole && live.x == pass.frame.x.exists;  // not dead, but filled later
  const bool skipped = !ring && live.x.lo - need.x.lo <= kSkippedColumns && need.x.hi - live.x.hi <= kSkippedColumns;
  const Span columns = skipped && skips_columns(channels, convolution.out_stride) ? live.x & need.x : need.x;
  const auto clear = [&](int y, int from, int to) {
    if (to > from) std::memset(image + pass.at(channels, y, from), 0, sizeof(float) * channels * (to - from));
  };
  for (int y = rows.lo; y < rows.hi; ++y) {
    if (y < live.y.lo || y >= live.y.hi) {
      clear(y, columns.lo, columns.hi);
    } else {
      clear(y, columns.lo, std::min(live.x.lo, columns.hi));
      clear(y, std::max(live.x.hi, columns.lo), columns.hi);
    }
  }
}

View view_of(const Cells& cells, const Pass& pass, int id, Field field, const Patch& fresh, const Rect& rect,
             float* scratch) {
  const bool has_tiles = cells.has_tiles(id);
  if (fresh.data) {
    const int y = run_in(fresh.at.y, pass.frame.y, rect.y), x = run_in(fresh.at.x, pass.frame.x, rect.x);
    if (y >= 0 && x >= 0) return {fresh.data + std::ptrdiff_t(y) * fresh.pitch + x * fresh.channels, fresh.pitch};
  } else if (has_tiles) {
    const Tile& tile = cells.tile(id, pass.layer);
    const Box& box = tile.box(field);
    const int y = run_in(box.y, pass.frame.y, rect.y), x = run_in(box.x, pass.frame.x, rect.x);
    if (y >= 0 && x >= 0)
      return {tile.field[field] + std::ptrdiff_t(y) * tile.pitch(field) + x * (*tile.channels)[field],
              tile.pitch(field)};
  }
  const int channels = cells.channels(pass.layer, field), pitch = pass.pitch(channels);
  float* to = scratch + pass.at(channels, rect.y.lo, rect.x.lo);
  const Box at = pass.frame.sites(rect);
  for (int row = 0; row < rect.y.size(); ++row)
    std::memset(to + std::ptrdiff_t(row) * pitch, 0, sizeof(float) * channels * rect.x.size());
  if (has_tiles) {
    const Tile& tile = cells.tile(id, pass.layer);
    copy_shared(at, to, pitch, tile.box(field), tile.field[field], tile.pitch(field), channels, pass.plan->grid);
  }
  if (fresh.data) copy_shared(at, to, pitch, fresh.at, fresh.data, fresh.pitch, channels, pass.plan->grid);
  return {to, pitch};
}

// The same for the fixed-point sums of layer 0: a flip moves its pixel's contribution between two cells.
View Incremental::view_fixed(const Pass& pass, const Candidate& cell, Field field, const PixelTable& table,
                             const Rect& rect, float* scratch) {
  const View held = view(pass, cell, field, {}, rect, scratch);
  if (!moved(cell)) return held;
  const int channels = table.channels, pitch = pass.pitch(channels);
  float* to = scratch + pass.at(channels, rect.y.lo, rect.x.lo);
  if (held.data != to)
    for (int row = 0; row < rect.y.size(); ++row)
      std::memcpy(to + std::ptrdiff_t(row) * pitch, held.data + std::ptrdiff_t(row) * held.pitch,
                  sizeof(float) * channels * rect.x.size());
  const Flip& flip = *proposal_.flip;
  const std::int32_t* own = table.own_at(flip.pixel);
  auto* fixed = reinterpret_cast<std::int32_t*>(scratch);
  const int sign = cell.id == flip.new_id ? 1 : -1;
  for_reached(pass.frame, flip, table.taps, rect, [&](int tap, int y, int x) {
    std::int32_t* sum = fixed + pass.at(channels, y, x);
    for (int c = 0; c < channels; ++c) sum[c] += sign * own[tap * channels + c];
  });
  return {to, pitch};
}

Patch Incremental::new_patch(const Pass& pass, const Rect& rect, int channels) {
  Patch patch{pass.frame.sites(rect), nullptr, channels, rect.x.size() * channels};
  patch.data = proposal_.arena.take<float>(std::size_t(rect.y.size()) * rect.x.size() * channels);
  return patch;
}

// out += (fresh: out =) convolution of `in` (over the frame, valid in `live`) on `rect`.
void Incremental::convolve_cell(const Pass& pass, const Packed& weights, float* in, const Rect& live, const Rect& rect,
                                const Patch& out, bool fresh) {
  const int channels = weights.in_stride;
  const Frame& frame = pass.frame;
  // Where a cell differs all the way round, the ring repeats the far end.
  const bool round_y = frame.y.whole && live.y.size() == frame.y.axis.size;
  const bool round_x = frame.x.whole && live.x.size() == frame.x.axis.size;
  const Rect valid{round_y ? live.y.grown(1) : live.y, round_x ? live.x.grown(1) : live.x};
  const Rect read{round_y ? valid.y : rect.y.grown(1), round_x ? valid.x : rect.x.grown(1)};
  clear_around(pass, in, weights, read, live);
  if (round_y || round_x)
    fill_padding(pass, in, channels,
                 {round_y ? read.y : read.y & frame.y.exists, round_x ? read.x : read.x & frame.x.exists});
  run({in + pass.at(channels, rect.y.lo, rect.x.lo), pass.pitch(channels), weights.inputs, channels, out.data,
       out.pitch, weights.out_stride, rect.y.size(), rect.x.size(), valid.y.lo - rect.y.lo, valid.y.hi - rect.y.lo,
       valid.x.lo - rect.x.lo, valid.x.hi - rect.x.lo, weights.weights.data(), fresh},
      weights.outputs);
}

// X and Y of a cell in layers > 0: convolutions of its input, where that is new.
void Incremental::cell_first(Pass& pass, Candidate& cell) {
  if (!cell.input.data) return;
  const LayerPlan& plan = *pass.plan;
  const Box changed = dilated(cell.input.at, 1, plan.grid);
  const Rect rect = cell.at.near & Rect{pass.frame.y.locate(changed.y), pass.frame.x.locate(changed.x)};
  if (rect.empty()) return;
  const Rect live = pass.frame.live(cell.at.own, cell.at.near, rect);
  const int inputs = padded(plan.inputs);
  float* scratch = proposal_.scratch[0].data();
  cell.x = new_patch(pass, rect, padded(plan.width));
  cell.y = new_patch(pass, rect, padded(plan.width));
  if (live.empty()) {
    clear(cell.x);
    clear(cell.y);
  } else {
    const View input = view(pass, cell, kInput, cell.input, live, scratch);
    float* to = scratch + pass.at(inputs, live.y.lo, live.x.lo);
    if (input.data != to)
      for (int row = 0; row < live.y.size(); ++row)
        std::memcpy(to + std::ptrdiff_t(row) * pass.pitch(inputs), input.data + std::ptrdiff_t(row) * input.pitch,
                    sizeof(float) * inputs * live.x.size());
    convolve_cell(pass, plan.first_phi, scratch, live, rect, cell.x, true);
    convolve_cell(pass, plan.first_psi, scratch, live, rect, cell.y, true);
  }
  proposal_.writes.push_back({cell.id, pass.layer, kX, cell.x});
  proposal_.writes.push_back({cell.id, pass.layer, kY, cell.y});
}

// phi of a cell minus phi of the background.
void Incremental::cell_phi(Pass& pass, Candidate& cell) {
  const LayerPlan& plan = *pass.plan;
  const Rect rect = cell.at.reached & pass.frame.phi();
  if (rect.empty()) return;
  const Rect live = pass.frame.live(cell.at.near, cell.at.reached, rect);
  const int width = padded(plan.width), pitch = pass.pitch(width);
  float* q = proposal_.scratch[1].data();
  cell.phi = new_patch(pass, rect, width);
  if (live.empty()) {
    clear(cell.phi);
  } else {
    const std::ptrdiff_t at = pass.at(width, live.y.lo, live.x.lo);
    const Window window{live.y.size(), live.x.size() * width};
    if (pass.layer == 0) {
      const View x = view_fixed(pass, cell, kX, plan_.x, live, proposal_.scratch[0].data());
      kernels_.silu_change_fixed(window, pass.x + at, pass.q + at, pitch, reinterpret_cast<const std::int32_t*>(x.data),
                                 x.pitch, plan_.x.step, q + at, pitch);
    } else {
      const View x = view(pass, cell, kX, cell.x, live, proposal_.scratch[0].data());
      kernels_.silu_change(window, pass.x + at, pass.q + at, pitch, x.data, x.pitch, q + at, pitch);
    }
    convolve_cell(pass, plan.second_phi, q, live, rect, cell.phi, true);
  }
  const std::ptrdiff_t at = pass.at(width, rect.y.lo, rect.x.lo);
  kernels_.silu_change({rect.y.size(), rect.x.size() * width}, pass.p + at, pass.phi + at, pitch, cell.phi.data,
                       cell.phi.pitch, cell.phi.data, cell.phi.pitch);
  proposal_.writes.push_back({cell.id, pass.layer, kPhi, cell.phi});
}

// Where a cell's output differs from the background's, on pooling blocks.
Rect Incremental::output_rect(const Pass& pass, const Candidate& cell) const {
  const Frame& frame = pass.frame;
  const Rect rect = cell.at.reached & frame.output();
  return {aligned_out(rect.y, frame.y.y, pass.plan->pool), aligned_out(rect.x, frame.x.y, pass.plan->pool)};
}

// Adds the skip path to a cell's output.
void Incremental::add_cell_skip(const Pass& pass, const Candidate& cell) {
  const LayerPlan& plan = *pass.plan;
  const Rect &rect = cell.output_rect, own = cell.at.own & rect;
  if (own.empty()) return;
  const int out_pitch = cell.output.pitch;
  float* out =
      cell.output.data + std::ptrdiff_t(own.y.lo - rect.y.lo) * out_pitch + (own.x.lo - rect.x.lo) * plan.cell_outputs;
  const Window window{own.y.size(), own.x.size() * plan.cell_outputs};
  if (pass.layer == 0) {
    const View skip = view_fixed(pass, cell, kSkip, plan_.cell_skip, own, proposal_.scratch[0].data());
    kernels_.from_fixed(window, reinterpret_cast<const std::int32_t*>(skip.data), skip.pitch, plan_.cell_skip.step, out,
                        out_pitch);
    return;
  }
  const View input = view(pass, cell, kInput, cell.input, own, proposal_.scratch[0].data());
  if (plan.cell_skip.empty()) kernels_.add(window, input.data, input.pitch, out, out_pitch);
  else
    kernels_.mix_channels({input.data, input.pitch, plan.inputs, padded(plan.inputs), out, out_pitch, plan.cell_outputs,
                           own.y.size(), own.x.size(), 0, 0, 0, 0, plan.cell_skip.weights.data()});
}

// The layer's output of a cell minus the background's (before pooling), on pooling blocks.
void Incremental::cell_psi(Pass& pass, Candidate& cell) {
  const LayerPlan& plan = *pass.plan;
  const Frame& frame = pass.frame;
  const Rect rect = output_rect(pass, cell);
  if (rect.empty()) return;
  const Rect live = frame.live(cell.at.near, cell.at.reached, rect);
  const int width = padded(plan.width), pitch = pass.pitch(width);
  cell.output_rect = rect;
  if (plan.last && plan_.local)  // its head takes it at once
    cell.output = {frame.sites(rect), proposal_.scratch[2].data(), plan.cell_outputs,
                   rect.x.size() * plan.cell_outputs};
  else cell.output = new_patch(pass, rect, plan.cell_outputs);

  const bool skips = !(cell.at.own & rect).empty();
  if (skips || live.empty()) clear(cell.output);
  if (skips) add_cell_skip(pass, cell);
  if (live.empty()) return;
  float* g = proposal_.scratch[1].data();
  const std::ptrdiff_t at = pass.at(width, live.y.lo, live.x.lo);
  const Window window{live.y.size(), live.x.size() * width};
  if (pass.layer == 0) {
    const View y = view_fixed(pass, cell, kY, plan_.y, live, proposal_.scratch[0].data());
    kernels_.silu_change_fixed(window, pass.t + at, pass.g + at, pitch, reinterpret_cast<const std::int32_t*>(y.data),
                               y.pitch, plan_.y.step, g + at, pitch);
  } else {
    const View y = view(pass, cell, kY, cell.y, live, proposal_.scratch[0].data());
    kernels_.silu_change(window, pass.t + at, pass.g + at, pitch, y.data, y.pitch, g + at, pitch);
  }
  convolve_cell(pass, plan.cell_second_psi, g, live, rect, cell.output, !skips);
}

// What is behind psi's first SiLU, for a head that sums it before the last, linear convolution.
void Incremental::cell_activation(Pass& pass, Candidate& cell) {
  const LayerPlan& plan = *pass.plan;
  const Rect rect = cell.at.near & pass.frame.psi();
  if (rect.empty()) return;
  const int width = padded(plan.width);
  cell.output_rect = rect;
  cell.output = new_patch(pass, rect, width);
  const View y = view(pass, cell, kY, cell.y, rect, proposal_.scratch[0].data());
  const std::ptrdiff_t at = pass.at(width, rect.y.lo, rect.x.lo);
  kernels_.silu_change({rect.y.size(), rect.x.size() * width}, pass.t + at, pass.g + at, pass.pitch(width), y.data,
                       y.pitch, cell.output.data, cell.output.pitch);
  proposal_.writes.push_back({cell.id, pass.layer, kG, cell.output});
}

}  // namespace ncpm::neural
