#include "window_layer.hpp"

#include <cstring>

namespace ncpm::neural {

WindowLayer::WindowLayer(const LayerShape& shape, const LayerMaps& maps, Workspace& workspace, Outlet& outlet)
    : CellwiseLayer(shape, maps, workspace, outlet),
      first_phi_(pack(maps.first_phi)),
      first_psi_(pack(maps.first_psi)),
      first_phi_bias_(padded_bias(maps.first_phi_bias)),
      first_psi_bias_(padded_bias(maps.first_psi_bias)),
      output_bias_(output_bias(maps)),
      skip_(pack_skip(maps.skip)),
      cell_skip_(pack_skip(maps.cell_skip)),
      h_(new_cache(inputs())),
      x_(new_cache(width())),
      y_(new_cache(width())) {}

LayerTiles WindowLayer::tiles() const {
  LayerTiles tiles{shape_.grid, shape_.pool, shape_.whole};
  tiles.channels[kInput] = inputs();
  tiles.channels[kX] = tiles.channels[kY] = tiles.channels[kPhi] = width();
  return tiles;
}

void WindowLayer::accept(const Pass& pass) {
  store(pass, pass.h, inputs(), pass.frame.in(), h_);
  store(pass, pass.x, width(), pass.frame.first(), x_);
  store(pass, pass.y, width(), pass.frame.first(), y_);
  store(pass, pass.p, width(), pass.frame.phi(), p_);
  store(pass, pass.phi, width(), pass.frame.phi(), phi_);
  CellwiseLayer::accept(pass);
}

void WindowLayer::receive_input(Pass& pass) {
  receive(pass, h_);
  locate_cells(pass);
}

void WindowLayer::background_first(Pass& pass, const Rect& known) {
  const Rect first = pass.frame.first();
  fill_padding(pass, pass.h, inputs(), first.grown(1));
  load(pass, x_.data(), width(), known, pass.x);
  load(pass, y_.data(), width(), pass.frame.psi(), pass.y);
  fill_bias(pass, first, first_phi_bias_, pass.x);
  fill_bias(pass, first, first_psi_bias_, pass.y);
  convolve(pass, first_phi_, pass.h, first, pass.x);
  convolve(pass, first_psi_, pass.h, first, pass.y);
}

// Convolutions of a cell's input, where that is new.
bool WindowLayer::cell_first(Pass& pass, Candidate& cell) {
  if (!cell.input.data) return true;  // phi is new all the same: the background's is
  const Box changed = dilated(cell.input.at, 1, shape_.grid);
  const Rect rect = cell.at.near & Rect{pass.frame.y.locate(changed.y), pass.frame.x.locate(changed.x)};
  if (rect.empty()) return true;
  const Rect live = pass.frame.live(cell.at.own, cell.at.near, rect);
  cell.x = proposal().new_patch(pass.frame.sites(rect), width());
  cell.y = proposal().new_patch(pass.frame.sites(rect), width());
  if (live.empty()) {
    clear(cell.x);
    clear(cell.y);
  } else {
    const View input = view(pass, cell, kInput, cell.input, live);
    float* image = proposal().scratch.view.data();
    float* to = image + pass.at(inputs(), live);
    if (input.data != to)
      for (int row = 0; row < live.y.size(); ++row)
        std::memcpy(to + std::ptrdiff_t(row) * pass.pitch(inputs()), input.data + std::ptrdiff_t(row) * input.pitch,
                    sizeof(float) * inputs() * live.x.size());
    convolve_cell(pass, first_phi_, image, live, rect, cell.x, true);
    convolve_cell(pass, first_psi_, image, live, rect, cell.y, true);
  }
  proposal().writes.push_back({cell.id, shape_.index, kX, cell.x});
  proposal().writes.push_back({cell.id, shape_.index, kY, cell.y});
  return true;
}

void WindowLayer::activate_x(const Pass& pass, const Candidate& cell, const Rect& rect, float* to, int to_pitch) {
  const View x = view(pass, cell, kX, cell.x, rect);
  const std::ptrdiff_t at = pass.at(width(), rect);
  work_.kernels.silu_change({rect.y.size(), rect.x.size() * width()}, pass.x + at, pass.q + at, pass.pitch(width()),
                            x.data, x.pitch, to, to_pitch);
}

void WindowLayer::activate_y(const Pass& pass, const Candidate& cell, const Rect& rect, float* to, int to_pitch) {
  const View y = view(pass, cell, kY, cell.y, rect);
  const std::ptrdiff_t at = pass.at(width(), rect);
  work_.kernels.silu_change({rect.y.size(), rect.x.size() * width()}, pass.t + at, pass.g + at, pass.pitch(width()),
                            y.data, y.pitch, to, to_pitch);
}

void WindowLayer::background_output(Pass& pass) {
  convolve(pass, second_psi_, pass.g, pass.frame.output(), pass.out, &output_bias_);
  add_background_skip(pass, skip_);
}

void WindowLayer::add_cell_skip(const Pass& pass, const Candidate& cell) {
  const Rect &rect = cell.output_rect, own = cell.at.own & rect;
  if (own.empty()) return;
  const View input = view(pass, cell, kInput, cell.input, own);
  float* out =
      cell.output.data + std::ptrdiff_t(own.y.lo - rect.y.lo) * cell.output.pitch + (own.x.lo - rect.x.lo) * outputs();
  if (cell_skip_.empty())
    work_.kernels.add({own.y.size(), own.x.size() * outputs()}, input.data, input.pitch, out, cell.output.pitch);
  else
    work_.kernels.mix_channels({input.data, input.pitch, shape_.inputs, inputs(), out, cell.output.pitch, outputs(),
                                own.y.size(), own.x.size(), 0, 0, 0, 0, cell_skip_.weights.data()});
}

LayerTiles SummedWindowLayer::tiles() const {
  LayerTiles tiles = WindowLayer::tiles();
  tiles.channels[kG] = width();
  return tiles;
}

void SummedWindowLayer::psi(Pass& pass) {
  new_psi_images(pass);
  add_shared(pass);
  silu(pass, pass.t, pass.frame.psi(), pass.g);
  outlet_.take_background(pass);
  for (Candidate& cell : proposal().candidates) {
    if (!cell.support.empty()) cell_activation(pass, cell);
    outlet_.take_cell(pass, cell);
  }
  outlet_.end(pass);
}

// What is behind psi's first SiLU.
void SummedWindowLayer::cell_activation(const Pass& pass, Candidate& cell) {
  const Rect rect = cell.at.near & pass.frame.psi();
  if (rect.empty()) return;
  cell.output_rect = rect;
  cell.output = outlet_.room(pass, rect, width());
  activate_y(pass, cell, rect, cell.output.data, cell.output.pitch);
  proposal().writes.push_back({cell.id, shape_.index, kG, cell.output});
}

}  // namespace ncpm::neural
