#include "tile_layer.hpp"

#include <cstring>

namespace ncpm::neural {

TileLayer::TileLayer(const LayerShape& shape, const LayerMaps& maps, Workspace& workspace, Outlet& outlet,
                     bool gets_all)
    : Layer(shape, maps, workspace),
      outlet_(outlet),
      gets_all_(gets_all),
      first_phi_(transform_weights(maps.first_phi, shape.grid)),
      first_psi_(transform_weights(maps.first_psi, shape.grid)),
      second_phi_(transform_weights(maps.second_phi, shape.grid)),
      second_psi_(transform_weights(maps.second_psi, shape.grid)),
      first_phi_bias_(padded_bias(maps.first_phi_bias)),
      first_psi_bias_(padded_bias(maps.first_psi_bias)),
      output_bias_(output_bias(maps)),
      skip_(pack_skip(maps.skip)),
      cell_skip_(pack_skip(maps.cell_skip)),
      h_(new_cache(inputs())) {
  for (const WinogradWeights* weights : {&first_phi_, &first_psi_, &second_phi_, &second_psi_})
    workspace.points.reserve(*weights);
}

LayerTiles TileLayer::tiles() const {
  LayerTiles tiles{shape_.grid, shape_.pool, shape_.whole};
  tiles.channels[kInput] = gets_all_ ? 0 : inputs();  // all else is recomputed every time
  return tiles;
}

Frame TileLayer::frame(const Box&) const { return Frame(shape_.grid.all(), shape_.grid, shape_.pool); }

template <class Work>
void TileLayer::for_batches(Work work) {
  const int count = int(present_.size());
  for (int start = 0; start < count; start += PointBatch::kSlots)
    work(Batch{present_.data() + start, std::min(PointBatch::kSlots, count - start)});
}

void TileLayer::propose(Pass& pass) {
  receive(pass, h_);
  present_.assign(1, nullptr);
  for (Candidate& cell : proposal().candidates)
    if (!cell.support.empty()) present_.push_back(&cell);
  for (float** image : {&pass.x, &pass.q, &pass.y, &pass.p, &pass.phi, &pass.sum})
    *image = proposal().new_image(pass, width());
  for_batches([&](Batch batch) { phi(pass, batch); });
  new_psi_images(pass);
  add_shared(pass);
  silu(pass, pass.t, pass.frame.psi(), pass.g);
  psi(pass);
}

void TileLayer::accept(const Pass& pass) { store(pass, pass.h, inputs(), pass.frame.in(), h_); }

// X, Y and phi of the background, Y of the cells, and the sum of their phi. One convolution after the other: the points
// in front of it, its weights and the points behind it fit the cache.
void TileLayer::phi(Pass& pass, Batch batch) {
  inputs_to_points(pass, batch);
  work_.multiply_points(first_psi_, batch.slots);
  y_from_points(pass, batch);
  work_.multiply_points(first_phi_, batch.slots);
  activate_x(pass, batch);
  work_.multiply_points(second_phi_, batch.slots);
  add_phi(pass, batch);
}

void TileLayer::inputs_to_points(const Pass& pass, Batch batch) {
  for (int slot = 0; slot < batch.slots; ++slot) {
    if (Candidate* cell = batch.members[slot]) {
      complete_input(*cell);
      to_points(cell->input.data, inputs(), slot);
    } else {
      background_to_points(pass, pass.h, inputs(), slot);
    }
  }
}

// A cell's new input on the whole grid, with what it keeps around it.
void TileLayer::complete_input(Candidate& cell) {
  if (gets_all_ && cell.input.data) return;
  const Patch input = proposal().new_patch(shape_.grid.all(), inputs());
  if (!gets_all_ && work_.cells.has_tiles(cell.id))
    std::memcpy(input.data, work_.cells.tile(cell.id, shape_.index).field[kInput],
                sizeof(float) * shape_.grid.sites() * inputs());
  else clear(input);
  if (cell.input.data)
    copy_shared(input.at, input.data, input.pitch, cell.input.at, cell.input.data, cell.input.pitch, inputs(),
                shape_.grid);
  cell.input = input;
}

void TileLayer::y_from_points(const Pass& pass, Batch batch) {
  for (int slot = 0; slot < batch.slots; ++slot) {
    if (Candidate* cell = batch.members[slot]) {
      cell->y = proposal().new_patch(shape_.grid.all(), width());
      from_points(slot, cell->y.data);
    } else {
      background_from_points(pass, slot, first_psi_bias_, pass.y);
    }
  }
}

void TileLayer::activate_x(const Pass& pass, Batch batch) {
  const Rect all = pass.frame.exists();
  const std::ptrdiff_t at = pass.at(width(), all);
  float* image = proposal().scratch.view.data();
  for (int slot = 0; slot < batch.slots; ++slot) {
    if (batch.members[slot]) {
      from_points(slot, image);
      work_.kernels.silu_change(window(), pass.x + at, pass.q + at, pass.pitch(width()), image, image_pitch(), image,
                                image_pitch());
      to_points(image, width(), slot);
    } else {
      background_from_points(pass, slot, first_phi_bias_, pass.x);
      silu(pass, pass.x, all, pass.q);
      background_to_points(pass, pass.q, width(), slot);
    }
  }
}

void TileLayer::add_phi(Pass& pass, Batch batch) {
  const Rect all = pass.frame.exists();
  const std::ptrdiff_t at = pass.at(width(), all);
  float* image = proposal().scratch.view.data();
  for (int slot = 0; slot < batch.slots; ++slot) {
    if (batch.members[slot]) {
      from_points(slot, image);
      work_.kernels.add_silu_change(window(), pass.p + at, pass.phi + at, pass.pitch(width()), image, image_pitch(),
                                    pass.sum + at);
    } else {
      background_from_points(pass, slot, second_phi_bias_, pass.p);
      silu(pass, pass.p, all, pass.phi);
      start_sum(pass);
    }
  }
}

void TileLayer::psi(Pass& pass) {
  pass.out = proposal().new_image(pass, width());
  for_batches([&](Batch batch) {
    activate_y(pass, batch);
    work_.multiply_points(second_psi_, batch.slots);
    output_from_points(pass, batch);
  });
  show(pass);
}

void TileLayer::show(Pass& pass) {
  outlet_.take_background(pass);
  for (const Candidate* cell : present_)
    if (cell) outlet_.take_cell(pass, *cell);
  outlet_.end(pass);
}

void TileLayer::activate_y(const Pass& pass, Batch batch) {
  const std::ptrdiff_t at = pass.at(width(), pass.frame.exists());
  for (int slot = 0; slot < batch.slots; ++slot) {
    if (const Candidate* cell = batch.members[slot]) {
      work_.kernels.silu_change(window(), pass.t + at, pass.g + at, pass.pitch(width()), cell->y.data, image_pitch(),
                                cell->y.data, image_pitch());
      to_points(cell->y.data, width(), slot);
    } else {
      background_to_points(pass, pass.g, width(), slot);
    }
  }
}

void TileLayer::output_from_points(const Pass& pass, Batch batch) {
  const Rect seen = pass.frame.output();
  for (int slot = 0; slot < batch.slots; ++slot) {
    Candidate* cell = batch.members[slot];
    if (!cell) {
      background_from_points(pass, slot, output_bias_, pass.out);
      add_background_skip(pass, skip_);
      continue;
    }
    cell->output = {pass.frame.sites(seen), cell->y.data, width(), image_pitch()};  // psi's activation has served
    cell->output_rect = seen;
    from_points(slot, cell->output.data);
    if (cell_skip_.empty())
      work_.kernels.add(window(), cell->input.data, cell->input.pitch, cell->output.data, image_pitch());
    else
      work_.kernels.mix_channels({cell->input.data, 0, shape_.inputs, inputs(), cell->output.data, 0, width(), 1,
                                  shape_.grid.sites(), 0, 0, 0, 0, cell_skip_.weights.data()});
  }
}

void TileLayer::to_points(const float* image, int channels, int slot) {
  work_.kernels.tile_to_points(shape_.grid.y.size, shape_.grid.x.size, image, channels, channels,
                               work_.points.in(slot, channels), PointBatch::point_stride(channels));
}

void TileLayer::from_points(int slot, float* image) const {
  work_.kernels.tile_from_points(shape_.grid.y.size, shape_.grid.x.size, work_.points.out(slot, width()),
                                 PointBatch::point_stride(width()), width(), image, width());
}

void TileLayer::background_to_points(const Pass& pass, const float* from, int channels, int slot) {
  const Rect all = pass.frame.exists();
  float* image = proposal().scratch.view.data();
  const int row_floats = all.x.size() * channels;
  for (int row = 0; row < all.y.size(); ++row)
    std::memcpy(image + row * row_floats, from + pass.at(channels, all.y.lo + row, all.x.lo),
                sizeof(float) * row_floats);
  to_points(image, channels, slot);
}

void TileLayer::background_from_points(const Pass& pass, int slot, const std::vector<float>& bias, float* to) {
  const Rect all = pass.frame.exists();
  float* image = proposal().scratch.view.data();
  from_points(slot, image);
  fill_bias(pass, all, bias, to);
  work_.kernels.add(window(), image, image_pitch(), to + pass.at(width(), all), pass.pitch(width()));
}

void SummedTileLayer::psi(Pass& pass) { show(pass); }

}  // namespace ncpm::neural
