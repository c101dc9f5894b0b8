#include "layer.hpp"

#include <algorithm>
#include <cstring>

namespace ncpm::neural {

Layer::Layer(const LayerShape& shape, const LayerMaps& maps, Workspace& workspace)
    : shape_(shape),
      work_(workspace),
      shared_(pack(maps.shared)),
      second_phi_bias_(padded_bias(maps.second_phi.bias)) {}

std::vector<float> output_bias(const LayerMaps& maps) {
  std::vector<float> bias = padded_bias(maps.second_psi.bias);
  if (maps.skip)
    for (int c = 0; c < maps.skip->outputs; ++c) bias[c] += float(maps.skip->bias[c]);
  return bias;
}

Packed pack_skip(const std::optional<Linear>& skip) { return skip ? pack(*skip) : Packed{}; }

int Layer::most_channels() const { return std::max(inputs(), width()); }

Frame Layer::frame(const Box& changed) const { return Frame(changed, shape_.grid, shape_.pool); }

void Layer::load(const Pass& pass, const float* cache, int channels, const Rect& rect, float* to) const {
  if (rect.empty()) return;
  const Grid& grid = shape_.grid;
  copy_shared(pass.frame.sites(rect), to + pass.at(channels, rect), pass.pitch(channels), grid.all(), cache,
              grid.x.size * channels, channels, grid);
}

void Layer::store(const Pass& pass, const float* from, int channels, const Rect& rect, Array<float>& cache) const {
  if (rect.empty()) return;
  const Grid& grid = shape_.grid;
  copy_shared(grid.all(), cache.data(), grid.x.size * channels, pass.frame.sites(rect), from + pass.at(channels, rect),
              pass.pitch(channels), channels, grid);
}

// Rows (or columns) of input that an output range reads, counted once per tap, zeros left out.
static int taps(int outputs, int live_lo, int live_hi) {
  int count = 0;
  for (int step = -1; step <= 1; ++step)
    count += std::max(0, std::min(outputs + step, live_hi) - std::max(step, live_lo));
  return count;
}

void Layer::run(const Convolution& job, int outputs) {
  work_.multiply_adds += std::uint64_t(taps(job.rows, job.live_y0, job.live_y1)) *
                         taps(job.columns, job.live_x0, job.live_x1) * job.in_channels * outputs;
  work_.kernels.convolve(job);
}

void Layer::convolve(const Pass& pass, const Packed& weights, const float* in, const Rect& rect, float* out,
                     const std::vector<float>* bias) {
  if (rect.empty()) return;
  // Of the padding, only the far end that a whole circular axis repeats is not zero.
  const auto live = [](const FrameAxis& axis, Span span) {
    const Span read = span.grown(1);
    return axis.whole ? read : read & axis.exists;
  };
  const Span y = live(pass.frame.y, rect.y), x = live(pass.frame.x, rect.x);
  run({in + pass.at(weights.in_stride, rect), pass.pitch(weights.in_stride), weights.inputs, weights.in_stride,
       out + pass.at(weights.out_stride, rect), pass.pitch(weights.out_stride), weights.out_stride, rect.y.size(),
       rect.x.size(), y.lo - rect.y.lo, y.hi - rect.y.lo, x.lo - rect.x.lo, x.hi - rect.x.lo, weights.weights.data(),
       bias != nullptr, bias ? bias->data() : nullptr},
      weights.outputs);
}

void Layer::silu(const Pass& pass, const float* in, const Rect& rect, float* out) const {
  const std::ptrdiff_t at = pass.at(width(), rect);
  const int pitch = pass.pitch(width());
  work_.kernels.silu({rect.y.size(), rect.x.size() * width()}, in + at, pitch, out + at, pitch);
}

void Layer::fill_bias(const Pass& pass, const Rect& rect, const std::vector<float>& bias, float* to) const {
  const int channels = width();
  const bool by_border = int(bias.size()) > channels;
  for (int y = rect.y.lo; y < rect.y.hi; ++y)
    for (int x = rect.x.lo; x < rect.x.hi; ++x) {
      const int border = by_border ? border_class(shape_.grid, pass.frame.y.site(y), pass.frame.x.site(x)) : 0;
      std::memcpy(to + pass.at(channels, y, x), bias.data() + border * channels, sizeof(float) * channels);
    }
}

void Layer::receive(Pass& pass, const Array<float>& kept) {
  const Patch& fresh = proposal().passes[shape_.index - 1].output;
  const Rect exists = pass.frame.exists();
  pass.h = proposal().new_image(pass, inputs());
  load(pass, kept.data(), inputs(), exists, pass.h);
  copy_shared(pass.frame.sites(exists), pass.h + pass.at(inputs(), exists), pass.pitch(inputs()), fresh.at, fresh.data,
              fresh.pitch, inputs(), shape_.grid);
}

void Layer::locate_cells(const Pass& pass) {
  for (Candidate& cell : proposal().candidates) cell.at = pass.frame.footprint(cell.support);
}

void Layer::start_sum(Pass& pass) {
  const Rect rect = pass.frame.phi();
  const float counted = float(work_.counted);
  for (int y = rect.y.lo; y < rect.y.hi; ++y) {
    const std::ptrdiff_t row = pass.at(width(), y, rect.x.lo);
    for (int i = 0; i < rect.x.size() * width(); ++i) pass.sum[row + i] = counted * pass.phi[row + i];
  }
}

void Layer::new_psi_images(Pass& pass) {
  pass.t = proposal().new_image(pass, width());
  pass.g = proposal().new_image(pass, width());
}

void Layer::add_shared(Pass& pass) {
  const Rect rect = pass.frame.psi();
  for (int y = rect.y.lo; y < rect.y.hi; ++y) {
    const std::ptrdiff_t row = pass.at(width(), y, rect.x.lo);
    std::memcpy(pass.t + row, pass.y + row, sizeof(float) * rect.x.size() * width());
  }
  fill_padding(pass, pass.sum, width(), rect.grown(1));
  convolve(pass, shared_, pass.sum, rect, pass.t);
}

void Layer::add_background_skip(const Pass& pass, const Packed& skip) const {
  const Rect out = pass.frame.output();
  const float* from = pass.h + pass.at(inputs(), out);
  float* to = pass.out + pass.at(width(), out);
  if (skip.empty())
    work_.kernels.add({out.y.size(), out.x.size() * width()}, from, pass.pitch(inputs()), to, pass.pitch(width()));
  else
    work_.kernels.mix_channels({from, pass.pitch(inputs()), shape_.inputs, inputs(), to, pass.pitch(width()), width(),
                                out.y.size(), out.x.size(), 0, 0, 0, 0, skip.weights.data()});
}

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

}  // namespace ncpm::neural
