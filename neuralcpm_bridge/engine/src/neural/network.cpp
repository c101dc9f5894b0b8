#include "network.hpp"

#include "box_layer.hpp"
#include "tile_layer.hpp"
#include "window_layer.hpp"

namespace ncpm::neural {
namespace {

bool hands_on_whole_images(Kind kind) { return is_tile(kind) || kind == Kind::kBoxes; }

std::unique_ptr<Head> make_head(const Model& model, const Plan& plan, Workspace& workspace) {
  if (plan.local) return std::make_unique<LocalHead>(model, plan, workspace);
  switch (plan.layers.back().kind) {
    case Kind::kSummedWindow: return std::make_unique<ActivationHead>(model, plan, workspace);
    case Kind::kSummedTile: return std::make_unique<AllActivationsHead>(model, plan, workspace);
    case Kind::kTile: return std::make_unique<AllOutputsHead>(model, plan, workspace);
    default: return std::make_unique<OutputHead>(model, plan, workspace);
  }
}

std::unique_ptr<HandOn> make_hand_on(Kind from, Workspace& workspace) {
  if (from == Kind::kBoxes) return std::make_unique<HandOnWhole>(workspace);
  return std::make_unique<HandOn>(workspace);
}

}  // namespace

Network::Network(const Model& model, const Plan& plan, Workspace& workspace)
    : head_(make_head(model, plan, workspace)) {
  for (const LayerShape& shape : plan.layers) {
    const LayerMaps maps = fused_maps(model, shape);
    if (shape.index + 1 < int(plan.layers.size())) between_.push_back(make_hand_on(shape.kind, workspace));
    Outlet& outlet = shape.index < int(between_.size()) ? *between_.back() : head_->outlet();
    const bool gets_all = shape.index > 0 && hands_on_whole_images(plan.layers[shape.index - 1].kind);
    const auto add = [&](auto layer) { layers_.push_back(std::move(layer)); };
    switch (shape.kind) {
      case Kind::kPixels: add(std::make_unique<PixelLayer>(model, plan, maps, workspace, outlet)); break;
      case Kind::kWindow: add(std::make_unique<WindowLayer>(shape, maps, workspace, outlet)); break;
      case Kind::kSummedWindow: add(std::make_unique<SummedWindowLayer>(shape, maps, workspace, outlet)); break;
      case Kind::kBoxes: add(std::make_unique<BoxLayer>(shape, maps, workspace, outlet)); break;
      case Kind::kTile: add(std::make_unique<TileLayer>(shape, maps, workspace, outlet, gets_all)); break;
      case Kind::kSummedTile: add(std::make_unique<SummedTileLayer>(shape, maps, workspace, outlet, gets_all)); break;
    }
  }
  pixels_ = static_cast<PixelLayer*>(layers_.front().get());
}

std::vector<LayerTiles> Network::tiles() const {
  std::vector<LayerTiles> tiles;
  for (const std::unique_ptr<Layer>& layer : layers_) tiles.push_back(layer->tiles());
  for (const LayerTiles& output : head_->tiles()) tiles.push_back(output);
  return tiles;
}

}  // namespace ncpm::neural
