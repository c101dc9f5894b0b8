// A network put together: the layers of a plan, each of its kind, and its head.
#pragma once

#include <memory>
#include <vector>

#include "heads.hpp"
#include "layer.hpp"
#include "pixel_layer.hpp"

namespace ncpm::neural {

class Network {
 public:
  Network(const Model& model, const Plan& plan, Workspace& workspace);

  Head& head() { return *head_; }
  const Head& head() const { return *head_; }
  PixelLayer& pixels() { return *pixels_; }  // the first layer
  const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }
  std::vector<LayerTiles> tiles() const;  // what the cells keep

 private:
  std::unique_ptr<Head> head_;
  std::vector<std::unique_ptr<HandOn>> between_;  // between a layer and the next
  std::vector<std::unique_ptr<Layer>> layers_;
  PixelLayer* pixels_ = nullptr;
};

}  // namespace ncpm::neural
