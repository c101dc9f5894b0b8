// From one layer to the next: maximum over pooling blocks, and what the next layer receives.
#include "incremental.hpp"

namespace ncpm::neural {
namespace {

// The maximum over the block of pool x pool pixels at `image`.
void maximum(const float* image, int pitch, int channels, int pool, float* out) {
  std::memcpy(out, image, sizeof(float) * channels);
  for (int y = 0; y < pool; ++y)
    for (int x = 0; x < pool; ++x)
      for (int c = 0; c < channels; ++c) out[c] = std::max(out[c], image[std::ptrdiff_t(y) * pitch + x * channels + c]);
}

// max(background + difference) - max(background), over pooling blocks.
void pool_difference(const float* background, int background_pitch, const Patch& from, const Patch& pooled_background,
                     const float* pooled_at, int pool, Patch& to, std::vector<float>& block) {
  const int channels = from.channels;
  block.resize(std::size_t(pool) * pool * channels);
  for (int y = 0; y < to.at.y.length; ++y)
    for (int x = 0; x < to.at.x.length; ++x) {
      for (int dy = 0; dy < pool; ++dy)
        for (int i = 0; i < pool * channels; ++i)
          block[dy * pool * channels + i] = background[std::ptrdiff_t(y * pool + dy) * background_pitch + x * pool * channels + i] +
                                            from.data[std::ptrdiff_t(y * pool + dy) * from.pitch + x * pool * channels + i];
      float* out = to.data + std::ptrdiff_t(y) * to.pitch + x * channels;
      maximum(block.data(), pool * channels, channels, pool, out);
      const float* base = pooled_at + std::ptrdiff_t(y) * pooled_background.pitch + x * channels;
      for (int c = 0; c < channels; ++c) out[c] -= base[c];
    }
}

}  // namespace

void Incremental::hand_on(Pass& pass) {
  const int pool = pass.plan->pool, width = padded(pass.plan->width), next = pass.layer + 1;
  const Rect rect = pass.frame.output();
  Arena& arena = proposal_.arena;
  if (!rect.empty()) {
    float* out = pass.out + pass.at(width, rect.y.lo, rect.x.lo);
    pass.output = {pass.frame.out(), out, width, pass.pitch(width)};
    if (pool > 1) {
      pass.output.pitch = pass.output.at.x.length * width;
      pass.output.data = arena.take<float>(std::size_t(pass.output.at.y.length) * pass.output.pitch);
      for (int y = 0; y < pass.output.at.y.length; ++y)
        for (int x = 0; x < pass.output.at.x.length; ++x)
          maximum(out + std::ptrdiff_t(y) * pool * pass.pitch(width) + x * pool * width, pass.pitch(width), width, pool,
                  pass.output.data + std::ptrdiff_t(y) * pass.output.pitch + x * width);
    }
  }
  if (pass.plan->last && plan_.local) return;  // its head has taken the cells' outputs as they are

  const Grid& to = cells_.grid(next);
  std::vector<float> block;
  for (Candidate& cell : proposal_.candidates) {
    cell.input = cell.output;
    if (pool > 1 && cell.output.data) {
      const Rect from = cell.output_rect;
      const int y = (from.y.lo - rect.y.lo) / pool, x = (from.x.lo - rect.x.lo) / pool;
      Patch pooled{{{wrapped(pass.output.at.y.start + y, to.y.size), from.y.size() / pool},
                    {wrapped(pass.output.at.x.start + x, to.x.size), from.x.size() / pool}},
                   nullptr, width, from.x.size() / pool * width};
      pooled.data = arena.take<float>(std::size_t(pooled.at.y.length) * pooled.pitch);
      pool_difference(pass.out + pass.at(width, from.y.lo, from.x.lo), pass.pitch(width), cell.output, pass.output,
                      pass.output.data + std::ptrdiff_t(y) * pass.output.pitch + x * width, pool, pooled, block);
      cell.input = pooled;
    }
    if (cell.input.data) proposal_.writes.push_back({cell.id, next, kInput, cell.input});
    if (!cell.support.empty())
      cell.support = next >= plan_.first_whole ? Box{{0, to.y.size}, {0, to.x.size}}
                                               : neural::pooled(dilated(cell.support, 2, pass.plan->grid), pool, to);
    cell.x = cell.y = cell.phi = cell.output = {};
  }
}

}  // namespace ncpm::neural
