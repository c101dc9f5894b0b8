#include "box_layer.hpp"

#include <cstring>

#include "winograd.hpp"

namespace ncpm::neural {
namespace {

// The first of the kBox positions that hold `near`.
int box_start(Span near, Span exists) { return std::max(exists.lo, std::min(near.lo, exists.hi - kBox)); }

}  // namespace

BoxLayer::BoxLayer(const LayerShape& shape, const LayerMaps& maps, Workspace& workspace, Outlet& outlet)
    : WindowLayer(shape, maps, workspace, outlet), box_second_psi_(transform_box_weights(maps.second_psi)) {
  workspace.points.reserve(box_second_psi_);
}

Frame BoxLayer::frame(const Box& changed) const { return Frame::with_all_psi(changed, shape_.grid, shape_.pool); }

void BoxLayer::background_activation(Pass& pass) {
  new_psi_images(pass);
  add_shared(pass);
  silu(pass, pass.t, pass.frame.psi(), pass.g);
}

void BoxLayer::cell_outputs(Pass& pass) {
  const Rect exists = pass.frame.exists();
  boxed_.clear();
  for (Candidate& cell : proposal().candidates) {
    if (cell.support.empty()) continue;
    const Rect near = pass.frame.footprint(cell.extent).near;
    if (near.y.size() <= kBox && near.x.size() <= kBox) {
      boxed_.push_back({&cell, near, box_start(near.y, exists.y), box_start(near.x, exists.x)});
    } else {
      cell_output(pass, cell);
      outlet_.take_cell(pass, cell);
    }
  }
  const int count = int(boxed_.size());
  for (int start = 0; start < count; start += PointBatch::kSlots) {
    const int slots = std::min(PointBatch::kSlots, count - start);
    for (int slot = 0; slot < slots; ++slot) activation_to_points(pass, boxed_[start + slot], slot);
    work_.multiply_points(box_second_psi_, slots);
    for (int slot = 0; slot < slots; ++slot) {
      output_from_points(pass, boxed_[start + slot], slot);
      outlet_.take_cell(pass, *boxed_[start + slot].cell);
    }
  }
}

// What is behind psi's first SiLU, at the points.
void BoxLayer::activation_to_points(const Pass& pass, const Boxed& boxed, int slot) {
  const Rect& near = boxed.near;
  float* image = proposal().scratch.image.data();
  if (near.y.size() < kBox || near.x.size() < kBox) std::memset(image, 0, sizeof(float) * kBox * kBox * width());
  if (!near.empty())
    activate_y(pass, *boxed.cell, near, image + ((near.y.lo - boxed.top) * kBox + near.x.lo - boxed.left) * width(),
               kBox * width());
  work_.kernels.box_to_points(image, width(), width(), work_.points.in(slot, width()),
                              PointBatch::point_stride(width()));
}

void BoxLayer::output_from_points(const Pass& pass, const Boxed& boxed, int slot) {
  Candidate& cell = *boxed.cell;
  const Rect rect = output_rect(pass, cell);
  if (rect.empty()) return;
  float* image = proposal().scratch.image.data();
  work_.kernels.box_from_points(work_.points.out(slot, width()), PointBatch::point_stride(width()), width(), image,
                                width());
  cell.output_rect = rect;
  cell.output = outlet_.room(pass, rect, width());
  clear(cell.output);
  if (!boxed.near.empty()) {  // beyond what the cell reaches, the box holds zeros but for rounding
    const Rect filled = rect & boxed.near.grown(1);
    const float* from = image + ((filled.y.lo - boxed.top + 1) * kBoxPoints + filled.x.lo - boxed.left + 1) * width();
    float* to = cell.output.data + std::ptrdiff_t(filled.y.lo - rect.y.lo) * cell.output.pitch +
                (filled.x.lo - rect.x.lo) * width();
    work_.kernels.add({filled.y.size(), filled.x.size() * width()}, from, kBoxPoints * width(), to, cell.output.pitch);
  }
  add_cell_skip(pass, cell);
}

}  // namespace ncpm::neural
