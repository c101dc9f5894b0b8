#include "plan.hpp"

#include <string>

#include "error.hpp"
#include "winograd.hpp"

namespace ncpm::neural {
namespace {

bool one_tile(const Grid& grid) {
  const auto fits = [](Axis axis) { return !axis.circular && axis.size >= kLeastTile && axis.size <= kMostTile; };
  return fits(grid.y) && fits(grid.x);
}

// Deep layers of nh are often so small that every flip reaches all of them. `next`: the grid behind the layer.
Kind kind_of(const LayerShape& shape, const Grid& next, bool local, bool last) {
  if (shape.index == 0) return Kind::kPixels;
  if (local) return Kind::kWindow;
  const bool summed = last && shape.pool == 1;
  if (one_tile(shape.grid)) return summed ? Kind::kSummedTile : Kind::kTile;
  if (summed) return Kind::kSummedWindow;
  const bool holds_box = std::min(shape.grid.y.size, shape.grid.x.size) >= kBox;
  return !last && one_tile(next) && holds_box ? Kind::kBoxes : Kind::kWindow;
}

}  // namespace

Plan::Plan(const NeuralSpec& spec, const Lattice& lattice)
    : local(spec.kind == "local_nh"), stride(spec.stride), lattice_width(lattice.width) {
  blocks = {{lattice.height / stride, spec.circular}, {lattice.width / stride, spec.circular}};
  Grid grid = blocks;
  int inputs = spec.widths[0];
  for (std::size_t i = 0; i < spec.widths.size(); ++i) {
    LayerShape shape{int(i), Kind::kWindow, inputs, spec.widths[i], spec.pools[i], grid};
    grid.y.size /= shape.pool;
    grid.x.size /= shape.pool;
    shape.kind = kind_of(shape, grid, local, i + 1 == spec.widths.size());
    shape.whole = is_tile(shape.kind) || (i > 0 && layers.back().whole);
    layers.push_back(shape);
    inputs = shape.width;
  }
  output_grid = grid;
  if (grid.y.size < 1 || grid.x.size < 1)
    throw Error("The lattice of " + std::to_string(lattice.height) + " x " + std::to_string(lattice.width) +
                " sites is smaller than one block of the network's stride and pools: use a larger lattice.");
}

bool head_fused(const NeuralSpec& spec) { return spec.kind == "local_nh" && spec.project <= spec.widths.back(); }

LayerMaps fused_maps(const Model& model, const LayerShape& shape) {
  const std::string name = "neural.layers." + std::to_string(shape.index);
  const Linear reduce = read_linear(model, name + ".reduce"), phi0 = read_linear(model, name + ".phi0");
  const Linear mix = read_linear(model, name + ".mix"), psi0 = read_linear(model, name + ".psi0");
  const Linear shared = columns(psi0, shape.inputs, shape.width);
  LayerMaps maps;
  maps.first_phi = phi0 * reduce;
  maps.first_psi = columns(psi0, 0, shape.inputs);
  maps.first_phi_bias = border_biases(phi0, reduce.bias);
  maps.first_psi_bias = border_biases(shared, mix.bias);
  maps.second_phi = read_linear(model, name + ".phi1");
  maps.shared = shared * mix;
  maps.second_psi = maps.cell_second_psi = read_linear(model, name + ".psi1");
  if (shape.inputs != shape.width) maps.skip = maps.cell_skip = read_linear(model, name + ".skip");

  const bool last = std::size_t(shape.index) + 1 == model.neural->widths.size();
  if (last && head_fused(*model.neural)) {
    const Linear hidden = read_linear(model, "neural.cell_head.hidden");
    maps.cell_second_psi = hidden * maps.second_psi;
    maps.cell_skip = hidden * maps.skip.value_or(identity(shape.width));
  }
  return maps;
}

}  // namespace ncpm::neural
