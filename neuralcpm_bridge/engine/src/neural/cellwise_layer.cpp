#include "cellwise_layer.hpp"

#include <cstring>

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

// Zeros in `need` outside `live`, as far as a convolution reads them.
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

}  // namespace

CellwiseLayer::CellwiseLayer(const LayerShape& shape, const LayerMaps& maps, Workspace& workspace, Outlet& outlet)
    : Layer(shape, maps, workspace),
      outlet_(outlet),
      second_phi_(pack(maps.second_phi)),
      second_psi_(pack(maps.second_psi)),
      cell_second_psi_(pack(maps.cell_second_psi)),
      p_(new_cache(width())),
      phi_(new_cache(width())),
      sum_(new_cache(width())),
      t_(new_cache(width())) {}

int CellwiseLayer::most_channels() const { return std::max(Layer::most_channels(), outputs()); }

void CellwiseLayer::propose(Pass& pass) {
  receive_input(pass);
  const Rect known = pass.frame.inputs_of(pass.frame.phi());
  for (float** image : {&pass.x, &pass.q, &pass.y}) *image = proposal().new_image(pass, width());
  background_first(pass, known);
  silu(pass, pass.x, known, pass.q);
  fill_padding(pass, pass.q, width(), pass.frame.phi().grown(1));
  background_phi(pass);
  new_sum(pass);
  for (Candidate& cell : proposal().candidates)
    if (!cell.support.empty() && cell_first(pass, cell)) cell_phi(pass, cell);
  sum_cells(pass);
  psi(pass);
}

void CellwiseLayer::accept(const Pass& pass) {
  store(pass, pass.sum, width(), pass.frame.phi(), sum_);
  store(pass, pass.t, width(), pass.frame.psi(), t_);
}

void CellwiseLayer::background_phi(Pass& pass) {
  const Rect rect = pass.frame.phi();
  pass.p = proposal().new_image(pass, width());
  pass.phi = proposal().new_image(pass, width());
  convolve(pass, second_phi_, pass.q, rect, pass.p, &second_phi_bias_);
  silu(pass, pass.p, rect, pass.phi);
}

// phi of a cell minus phi of the background.
void CellwiseLayer::cell_phi(Pass& pass, Candidate& cell) {
  const Rect rect = cell.at.reached & pass.frame.phi();
  if (rect.empty()) return;
  const Rect live = pass.frame.live(cell.at.near, cell.at.reached, rect);
  cell.phi = proposal().new_patch(pass.frame.sites(rect), width());
  if (live.empty()) {
    clear(cell.phi);
  } else {
    float* q = proposal().scratch.image.data();
    activate_x(pass, cell, live, q + pass.at(width(), live), pass.pitch(width()));
    convolve_cell(pass, second_phi_, q, live, rect, cell.phi, true);
  }
  const std::ptrdiff_t at = pass.at(width(), rect);
  work_.kernels.silu_change({rect.y.size(), rect.x.size() * width()}, pass.p + at, pass.phi + at, pass.pitch(width()),
                            cell.phi.data, cell.phi.pitch, cell.phi.data, cell.phi.pitch);
  proposal().writes.push_back({cell.id, shape_.index, kPhi, cell.phi});
}

void CellwiseLayer::new_sum(Pass& pass) {
  pass.sum = proposal().new_image(pass, width());
  load(pass, sum_.data(), width(), pass.frame.inputs_of(pass.frame.psi()), pass.sum);
  start_sum(pass);
}

// The cells' share of the sum, always in the order of ids: near ones from the proposal or from their tiles.
void CellwiseLayer::sum_cells(Pass& pass) {
  const Rect rect = pass.frame.phi();
  for (const Candidate& cell : proposal().candidates) {
    const Rect part = cell.at.reached & rect;
    if (part.empty()) continue;
    const View phi = cell.phi.data ? View{cell.phi.data, cell.phi.pitch} : view(pass, cell, kPhi, {}, part);
    work_.kernels.add({part.y.size(), part.x.size() * width()}, phi.data, phi.pitch, pass.sum + pass.at(width(), part),
                      pass.pitch(width()));
  }
}

void CellwiseLayer::psi(Pass& pass) {
  background_activation(pass);
  const Rect out = pass.frame.output();
  if (!out.empty()) {
    pass.out = proposal().new_image(pass, width());
    fill_padding(pass, pass.g, width(), out.grown(1));
    background_output(pass);
  }
  outlet_.take_background(pass);
  cell_outputs(pass);
  outlet_.end(pass);
}

void CellwiseLayer::background_activation(Pass& pass) {
  const Rect known = pass.frame.inputs_of(pass.frame.output());
  new_psi_images(pass);
  load(pass, t_.data(), width(), known, pass.t);
  add_shared(pass);
  silu(pass, pass.t, known, pass.g);
}

void CellwiseLayer::cell_outputs(Pass& pass) {
  for (Candidate& cell : proposal().candidates) {
    if (cell.support.empty()) continue;
    cell_output(pass, cell);
    outlet_.take_cell(pass, cell);
  }
}

Rect CellwiseLayer::output_rect(const Pass& pass, const Candidate& cell) const {
  const Frame& frame = pass.frame;
  const Rect rect = cell.at.reached & frame.output();
  return {aligned_out(rect.y, frame.y.y, shape_.pool), aligned_out(rect.x, frame.x.y, shape_.pool)};
}

// The layer's output of a cell minus the background's (before pooling), on pooling blocks.
void CellwiseLayer::cell_output(Pass& pass, Candidate& cell) {
  const Rect rect = output_rect(pass, cell);
  if (rect.empty()) return;
  const Rect live = pass.frame.live(cell.at.near, cell.at.reached, rect);
  cell.output_rect = rect;
  cell.output = outlet_.room(pass, rect, outputs());
  const bool skips = !(cell.at.own & rect).empty();
  if (skips || live.empty()) clear(cell.output);
  if (skips) add_cell_skip(pass, cell);
  if (live.empty()) return;
  float* g = proposal().scratch.image.data();
  activate_y(pass, cell, live, g + pass.at(width(), live), pass.pitch(width()));
  convolve_cell(pass, cell_second_psi_, g, live, rect, cell.output, !skips);
}

View CellwiseLayer::view(const Pass& pass, const Candidate& cell, Field field, const Patch& fresh, const Rect& rect) {
  const Cells& cells = work_.cells;
  const bool has_tiles = cells.has_tiles(cell.id);
  if (fresh.data) {
    const int y = run_in(fresh.at.y, pass.frame.y, rect.y), x = run_in(fresh.at.x, pass.frame.x, rect.x);
    if (y >= 0 && x >= 0) return {fresh.data + std::ptrdiff_t(y) * fresh.pitch + x * fresh.channels, fresh.pitch};
  } else if (has_tiles) {
    const Tile& tile = cells.tile(cell.id, shape_.index);
    const Box& box = tile.box(field);
    const int y = run_in(box.y, pass.frame.y, rect.y), x = run_in(box.x, pass.frame.x, rect.x);
    if (y >= 0 && x >= 0)
      return {tile.field[field] + std::ptrdiff_t(y) * tile.pitch(field) + x * (*tile.channels)[field],
              tile.pitch(field)};
  }
  const int channels = cells.channels(shape_.index, field), pitch = pass.pitch(channels);
  float* to = proposal().scratch.view.data() + pass.at(channels, rect);
  const Box at = pass.frame.sites(rect);
  for (int row = 0; row < rect.y.size(); ++row)
    std::memset(to + std::ptrdiff_t(row) * pitch, 0, sizeof(float) * channels * rect.x.size());
  if (has_tiles) {
    const Tile& tile = cells.tile(cell.id, shape_.index);
    copy_shared(at, to, pitch, tile.box(field), tile.field[field], tile.pitch(field), channels, shape_.grid);
  }
  if (fresh.data) copy_shared(at, to, pitch, fresh.at, fresh.data, fresh.pitch, channels, shape_.grid);
  return {to, pitch};
}

void CellwiseLayer::convolve_cell(const Pass& pass, const Packed& weights, float* in, const Rect& live,
                                  const Rect& rect, const Patch& out, bool fresh) {
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
  run({in + pass.at(channels, rect), pass.pitch(channels), weights.inputs, channels, out.data, out.pitch,
       weights.out_stride, rect.y.size(), rect.x.size(), valid.y.lo - rect.y.lo, valid.y.hi - rect.y.lo,
       valid.x.lo - rect.x.lo, valid.x.hi - rect.x.lo, weights.weights.data(), fresh},
      weights.outputs);
}

}  // namespace ncpm::neural
