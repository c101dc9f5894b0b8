// From one layer to the next: maximum over pooling blocks, and what the next layer receives.
#include <cstring>

#include "incremental.hpp"

namespace ncpm::neural {
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
      kernels_.pool({pass.output.at.y.length, pass.output.pitch}, width, pool, out, pass.pitch(width), nullptr, 0,
                    nullptr, 0, pass.output.data, pass.output.pitch);
    }
  }
  if (pass.plan->last && plan_.local) return;  // its head has taken the cells' outputs as they are

  const Grid& to = cells_.grid(next);
  for (Candidate& cell : proposal_.candidates) {
    cell.input = cell.output;
    if (pool > 1 && cell.output.data) {
      const Rect from = cell.output_rect;
      const int y = (from.y.lo - rect.y.lo) / pool, x = (from.x.lo - rect.x.lo) / pool;
      const Box at{{wrapped(pass.output.at.y.start + y, to.y.size), from.y.size() / pool},
                   {wrapped(pass.output.at.x.start + x, to.x.size), from.x.size() / pool}};
      const bool all = pass.plan->boxed;  // what is not in the patch does not differ
      Patch pooled{all ? to.all() : at, nullptr, width, 0};
      pooled.pitch = pooled.at.x.length * width;
      const std::size_t floats = std::size_t(pooled.at.y.length) * pooled.pitch;
      pooled.data = arena.take<float>(floats);
      if (all && (at.y.length < to.y.size || at.x.length < to.x.size))
        std::memset(pooled.data, 0, sizeof(float) * floats);
      float* first = pooled.data + (all ? at.y.start * pooled.pitch + at.x.start * width : 0);
      kernels_.pool({at.y.length, at.x.length * width}, width, pool, pass.out + pass.at(width, from.y.lo, from.x.lo),
                    pass.pitch(width), cell.output.data, cell.output.pitch,
                    pass.output.data + std::ptrdiff_t(y) * pass.output.pitch + x * width, pass.output.pitch, first,
                    pooled.pitch);
      cell.input = pooled;
    }
    if (cell.input.data && cells_.channels(next, kInput) > 0)
      proposal_.writes.push_back({cell.id, next, kInput, cell.input});
    const auto reached = [&](const Box& box) { return neural::pooled(dilated(box, 2, pass.plan->grid), pool, to); };
    if (!cell.support.empty()) cell.support = next >= plan_.first_whole ? to.all() : reached(cell.support);
    cell.extent = reached(cell.extent);
    cell.x = cell.y = cell.phi = cell.output = {};
  }
}

}  // namespace ncpm::neural
