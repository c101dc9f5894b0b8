// The background's part of a proposal, layer by layer, and the sum over cells.
#include <algorithm>
#include <cstring>

#include "incremental.hpp"

namespace ncpm::neural {

void fill_padding(const Pass& pass, float* image, int channels, const Rect& need) {
  const Rect exists = pass.frame.exists();
  const Span rows = pass.frame.y.whole ? exists.y : need.y & exists.y;  // whole: the far rows are copied below
  const auto pixel = [&](int y, int x) { return image + pass.at(channels, y, x); };
  const auto fill = [&](int y, int x, int count, const float* from) {
    if (from) std::memcpy(pixel(y, x), from, sizeof(float) * channels * count);
    else std::memset(pixel(y, x), 0, sizeof(float) * channels * count);
  };
  for (int x = need.x.lo; x < need.x.hi; ++x) {
    if (x >= exists.x.lo && x < exists.x.hi) x = exists.x.hi;
    if (x >= need.x.hi) break;
    const int same = x < exists.x.lo ? x + exists.x.size() : x - exists.x.size();
    for (int y = rows.lo; y < rows.hi; ++y) fill(y, x, 1, pass.frame.x.whole ? pixel(y, same) : nullptr);
  }
  for (int y = need.y.lo; y < need.y.hi; ++y) {
    if (y >= exists.y.lo && y < exists.y.hi) y = exists.y.hi;
    if (y >= need.y.hi) break;
    const int same = y < exists.y.lo ? y + exists.y.size() : y - exists.y.size();
    fill(y, need.x.lo, need.x.size(), pass.frame.y.whole ? pixel(same, need.x.lo) : nullptr);
  }
}

void Incremental::load(const Pass& pass, const float* cache, int channels, const Rect& rect, float* to) const {
  if (rect.empty()) return;
  const Grid& grid = pass.plan->grid;
  copy_shared(pass.frame.sites(rect), to + pass.at(channels, rect.y.lo, rect.x.lo), pass.pitch(channels), grid.all(),
              cache, grid.x.size * channels, channels, grid);
}

void Incremental::store(const Pass& pass, const float* from, int channels, const Rect& rect, float* cache) const {
  if (rect.empty()) return;
  const Grid& grid = pass.plan->grid;
  copy_shared(grid.all(), cache, grid.x.size * channels, pass.frame.sites(rect),
              from + pass.at(channels, rect.y.lo, rect.x.lo), pass.pitch(channels), channels, grid);
}

// Fixed-point sums of the background as floats, with the flip's change of type.
void Incremental::load_fixed(const Pass& pass, const PixelTable& table, const Array<std::int32_t>& cache,
                             const Rect& rect, float* to) {
  if (rect.empty()) return;
  const int channels = table.channels;
  // The integers are 4 bytes wide as floats are, and converted in place.
  load(pass, reinterpret_cast<const float*>(cache.data()), channels, rect, to);
  auto* fixed = reinterpret_cast<std::int32_t*>(to);
  if (const Flip* flip = proposal_.flip; flip && flip->retypes()) {
    const int pixels = plan_.stride * plan_.stride;
    const std::int32_t* in = table.type_at(flip->new_type, flip->pixel, pixels);
    const std::int32_t* out = table.type_at(flip->old_type, flip->pixel, pixels);
    for_reached(pass.frame, *flip, table.taps, rect, [&](int tap, int y, int x) {
      std::int32_t* sum = fixed + pass.at(channels, y, x);
      for (int c = 0; c < channels; ++c) sum[c] += in[tap * channels + c] - out[tap * channels + c];
    });
  }
  const std::ptrdiff_t at = pass.at(channels, rect.y.lo, rect.x.lo);
  kernels_.from_fixed({rect.y.size(), rect.x.size() * channels}, fixed + at, pass.pitch(channels), table.step, to + at,
                      pass.pitch(channels));
}

// Rows (or columns) of input that an output range reads, counted once per tap, zeros left out.
static int taps(int outputs, int live_lo, int live_hi) {
  int count = 0;
  for (int step = -1; step <= 1; ++step)
    count += std::max(0, std::min(outputs + step, live_hi) - std::max(step, live_lo));
  return count;
}

void Incremental::run(const Convolution& job, int outputs) const {
  multiply_adds_ += std::uint64_t(taps(job.rows, job.live_y0, job.live_y1)) *
                    taps(job.columns, job.live_x0, job.live_x1) * job.in_channels * outputs;
  kernels_.convolve(job);
}

// out += (with a bias: out = bias +) convolution of `in`, both over the frame.
void Incremental::convolve(const Pass& pass, const Packed& weights, const float* in, const Rect& rect, float* out,
                           const std::vector<float>* bias) const {
  if (rect.empty()) return;
  const int rows = rect.y.size(), columns = rect.x.size();
  // Of the padding, only the far end that a whole circular axis repeats is not zero.
  const Frame& frame = pass.frame;
  const auto live = [](const FrameAxis& axis, Span span) {
    const Span read = span.grown(1);
    return axis.whole ? read : read & axis.exists;
  };
  const Span y = live(frame.y, rect.y), x = live(frame.x, rect.x);
  run({in + pass.at(weights.in_stride, rect.y.lo, rect.x.lo), pass.pitch(weights.in_stride), weights.inputs,
       weights.in_stride, out + pass.at(weights.out_stride, rect.y.lo, rect.x.lo), pass.pitch(weights.out_stride),
       weights.out_stride, rows, columns, y.lo - rect.y.lo, y.hi - rect.y.lo, x.lo - rect.x.lo, x.hi - rect.x.lo,
       weights.weights.data(), bias != nullptr, bias ? bias->data() : nullptr},
      weights.outputs);
}

void fill_bias(const Pass& pass, const Rect& rect, const std::vector<float>& bias, float* to) {
  const int channels = padded(pass.plan->width);
  const bool by_border = int(bias.size()) > channels;
  for (int y = rect.y.lo; y < rect.y.hi; ++y)
    for (int x = rect.x.lo; x < rect.x.hi; ++x) {
      const int border = by_border ? border_class(pass.plan->grid, pass.frame.y.site(y), pass.frame.x.site(x)) : 0;
      std::memcpy(to + pass.at(channels, y, x), bias.data() + border * channels, sizeof(float) * channels);
    }
}

// X and Y, and X's SiLU with the surroundings that phi's second convolution needs.
void Incremental::background_first(Pass& pass) {
  const Frame& frame = pass.frame;
  const LayerPlan& plan = *pass.plan;
  Background& cache = background_[pass.layer];
  const int width = padded(plan.width), inputs = padded(plan.inputs), area = frame.area();
  const Rect first = frame.first(), around_phi = frame.phi().grown(1), known = frame.inputs_of(frame.phi());
  Arena& arena = proposal_.arena;
  pass.x = arena.take<float>(std::size_t(area) * width);
  pass.q = arena.take<float>(std::size_t(area) * width);
  pass.y = arena.take<float>(std::size_t(area) * width);
  if (pass.layer == 0) {
    load_fixed(pass, plan_.x, cache.x_fixed, known, pass.x);
    load_fixed(pass, plan_.y, cache.y_fixed, frame.psi(), pass.y);
  } else {
    fill_padding(pass, pass.h, inputs, first.grown(1));
    load(pass, cache.x.data(), width, known, pass.x);
    load(pass, cache.y.data(), width, frame.psi(), pass.y);
    fill_bias(pass, first, plan.phi_bias, pass.x);
    fill_bias(pass, first, plan.psi_bias, pass.y);
    convolve(pass, plan.first_phi, pass.h, first, pass.x);
    convolve(pass, plan.first_psi, pass.h, first, pass.y);
  }
  const std::ptrdiff_t at = pass.at(width, known.y.lo, known.x.lo);
  kernels_.silu({known.y.size(), known.x.size() * width}, pass.x + at, pass.pitch(width), pass.q + at,
                pass.pitch(width));
  fill_padding(pass, pass.q, width, around_phi);
}

void Incremental::background_phi(Pass& pass) {
  const Rect rect = pass.frame.phi();
  const int width = padded(pass.plan->width), area = pass.frame.area();
  pass.p = proposal_.arena.take<float>(std::size_t(area) * width);
  pass.phi = proposal_.arena.take<float>(std::size_t(area) * width);
  if (pass.layer == 0 && !proposal_.background) {
    load(pass, background_[0].p.data(), width, rect, pass.p);
    load(pass, background_[0].phi.data(), width, rect, pass.phi);
    return;
  }
  convolve(pass, pass.plan->second_phi, pass.q, rect, pass.p, &pass.plan->second_phi_bias);
  const std::ptrdiff_t at = pass.at(width, rect.y.lo, rect.x.lo);
  kernels_.silu({rect.y.size(), rect.x.size() * width}, pass.p + at, pass.pitch(width), pass.phi + at,
                pass.pitch(width));
}

// Σ over cells of phi, always in the order of ids: the background's share.
void Incremental::start_sum(Pass& pass) {
  const Frame& frame = pass.frame;
  const Rect rect = frame.phi();
  const int width = padded(pass.plan->width);
  const float background_counts = plan_.local ? 0.0f : float(counted_);
  pass.sum = proposal_.arena.take<float>(std::size_t(frame.area()) * width);
  if (!pass.plan->compact)
    load(pass, background_[pass.layer].sum.data(), width, frame.inputs_of(frame.psi()), pass.sum);
  for (int y = rect.y.lo; y < rect.y.hi; ++y) {
    const std::ptrdiff_t row = pass.at(width, y, rect.x.lo);
    for (int i = 0; i < rect.x.size() * width; ++i) pass.sum[row + i] = background_counts * pass.phi[row + i];
  }
}

// The cells' share: near ones from the proposal or from their tiles.
void Incremental::sum_cells(Pass& pass) {
  const Rect rect = pass.frame.phi();
  const int width = padded(pass.plan->width);
  for (const Candidate& cell : proposal_.candidates) {
    const Rect part = cell.at.reached & rect;
    if (part.empty()) continue;
    const View phi = cell.phi.data ? View{cell.phi.data, cell.phi.pitch}
                                   : view(pass, cell, kPhi, {}, part, proposal_.scratch[0].data());
    kernels_.add({part.y.size(), part.x.size() * width}, phi.data, phi.pitch,
                 pass.sum + pass.at(width, part.y.lo, part.x.lo), pass.pitch(width));
  }
}

// psi: T in front of its first SiLU (Y and the shared part), G behind it, and the output.
void Incremental::background_psi(Pass& pass) {
  const Frame& frame = pass.frame;
  const LayerPlan& plan = *pass.plan;
  Background& cache = background_[pass.layer];
  const int width = padded(plan.width), area = frame.area();
  const bool all = plan.compact || plan.boxed;
  const Rect rect = frame.psi(), out = frame.output(), known = all ? rect : frame.inputs_of(out);
  Arena& arena = proposal_.arena;
  pass.t = arena.take<float>(std::size_t(area) * width);
  pass.g = arena.take<float>(std::size_t(area) * width);
  if (!all) load(pass, cache.t.data(), width, known, pass.t);
  for (int y = rect.y.lo; y < rect.y.hi; ++y) {
    const std::ptrdiff_t row = pass.at(width, y, rect.x.lo);
    std::memcpy(pass.t + row, pass.y + row, sizeof(float) * rect.x.size() * width);
  }
  fill_padding(pass, pass.sum, width, rect.grown(1));
  convolve(pass, plan.shared, pass.sum, rect, pass.t);
  const Rect active = plan.last && !head_->wants_output() ? rect : known;
  const std::ptrdiff_t at = pass.at(width, active.y.lo, active.x.lo);
  kernels_.silu({active.y.size(), active.x.size() * width}, pass.t + at, pass.pitch(width), pass.g + at,
                pass.pitch(width));
  if ((plan.last && !head_->wants_output()) || out.empty()) return;
  pass.out = arena.take<float>(std::size_t(area) * width);
  if (!plan.compact) background_output(pass);
}

void Incremental::background_output(Pass& pass) {
  const LayerPlan& plan = *pass.plan;
  const Rect out = pass.frame.output();
  fill_padding(pass, pass.g, padded(plan.width), out.grown(1));
  if (pass.layer == 0) {
    load_fixed(pass, plan_.skip, background_[0].skip_fixed, out, pass.out);  // with the biases
    convolve(pass, plan.second_psi, pass.g, out, pass.out);
    return;
  }
  convolve(pass, plan.second_psi, pass.g, out, pass.out, &plan.second_psi_bias);
  add_background_skip(pass);
}

void Incremental::add_background_skip(Pass& pass) {
  const LayerPlan& plan = *pass.plan;
  const Rect out = pass.frame.output();
  const int width = padded(plan.width), inputs = padded(plan.inputs);
  const std::ptrdiff_t in_at = pass.at(inputs, out.y.lo, out.x.lo), out_at = pass.at(width, out.y.lo, out.x.lo);
  if (plan.skip.empty())
    kernels_.add({out.y.size(), out.x.size() * width}, pass.h + in_at, pass.pitch(inputs), pass.out + out_at,
                 pass.pitch(width));
  else
    kernels_.mix_channels({pass.h + in_at, pass.pitch(inputs), plan.inputs, inputs, pass.out + out_at,
                           pass.pitch(width), width, out.y.size(), out.x.size(), 0, 0, 0, 0, plan.skip.weights.data()});
}

void Incremental::accept_background(const Pass& pass) {
  const Frame& frame = pass.frame;
  Background& cache = background_[pass.layer];
  const int width = padded(pass.plan->width);
  if (pass.layer > 0) {
    store(pass, pass.h, padded(pass.plan->inputs), frame.in(), cache.h.data());
    if (pass.plan->compact) return;  // recomputed as a whole every time
    store(pass, pass.x, width, frame.first(), cache.x.data());
    store(pass, pass.y, width, frame.first(), cache.y.data());
  }
  if (pass.layer > 0 || proposal_.background) {
    store(pass, pass.p, width, frame.phi(), cache.p.data());
    store(pass, pass.phi, width, frame.phi(), cache.phi.data());
  }
  store(pass, pass.sum, width, frame.phi(), cache.sum.data());
  store(pass, pass.t, width, frame.psi(), cache.t.data());
}

}  // namespace ncpm::neural
