#include "outlet.hpp"

namespace ncpm::neural {

Patch HandOn::room(const Pass& pass, const Rect& rect, int channels) {
  return work_.proposal.new_patch(pass.frame.sites(rect), channels);
}

void HandOn::take_background(Pass& pass) {
  const int pool = pass.shape->pool, width = padded(pass.shape->width);
  const Rect rect = pass.frame.output();
  if (rect.empty()) return;
  float* out = pass.out + pass.at(width, rect);
  pass.output = {pass.frame.out(), out, width, pass.pitch(width)};
  if (pool == 1) return;
  pass.output = work_.proposal.new_patch(pass.frame.out(), width);
  work_.kernels.pool({pass.output.at.y.length, pass.output.pitch}, width, pool, out, pass.pitch(width), nullptr, 0,
                     nullptr, 0, pass.output.data, pass.output.pitch);
}

HandOn::Place HandOn::place(const Box& at, const Grid&, int channels) {
  const Patch patch = work_.proposal.new_patch(at, channels);
  return {patch, patch.data};
}

HandOn::Place HandOnWhole::place(const Box& at, const Grid& to, int channels) {
  const Patch patch = work_.proposal.new_patch(to.all(), channels);
  if (at.y.length < to.y.size || at.x.length < to.x.size) clear(patch);
  return {patch, patch.data + at.y.start * patch.pitch + at.x.start * channels};
}

// A cell's output, pooled together with the background's.
Patch HandOn::pooled(const Pass& pass, const Candidate& cell) {
  const int pool = pass.shape->pool, width = padded(pass.shape->width);
  if (pool == 1 || !cell.output.data) return cell.output;
  const Grid& to = work_.cells.grid(pass.shape->index + 1);
  const Rect rect = pass.frame.output(), from = cell.output_rect;
  const int y = (from.y.lo - rect.y.lo) / pool, x = (from.x.lo - rect.x.lo) / pool;
  const Box at{{wrapped(pass.output.at.y.start + y, to.y.size), from.y.size() / pool},
               {wrapped(pass.output.at.x.start + x, to.x.size), from.x.size() / pool}};
  const Place place_of = place(at, to, width);
  work_.kernels.pool({at.y.length, at.x.length * width}, width, pool, pass.out + pass.at(width, from),
                     pass.pitch(width), cell.output.data, cell.output.pitch,
                     pass.output.data + std::ptrdiff_t(y) * pass.output.pitch + x * width, pass.output.pitch,
                     place_of.first, place_of.patch.pitch);
  return place_of.patch;
}

void HandOn::end(Pass& pass) {
  const int layer = pass.shape->index, next = layer + 1;
  const bool kept = work_.cells.channels(next, kInput) > 0;
  for (Candidate& cell : work_.proposal.candidates) {
    cell.input = pooled(pass, cell);
    if (kept && cell.input.data) work_.proposal.writes.push_back({cell.id, next, kInput, cell.input});
    cell.support = work_.cells.handed_on(cell.support, layer);
    cell.extent = work_.cells.handed_on(cell.extent, layer);
    cell.x = cell.y = cell.phi = cell.output = {};
  }
}

}  // namespace ncpm::neural
