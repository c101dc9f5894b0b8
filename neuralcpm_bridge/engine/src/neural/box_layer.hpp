// The layer in front of the tiles, where every proposal reaches all of psi too. Most cells differ from the background
// in so few sites that one box holds what psi's second convolution reads: the cells go through it in batches, by a
// matrix product per interpolation point (winograd.hpp). A cell's box is a function of its extent alone, so that a
// value is the same whatever led to it. Larger cells, and the medium, are convolved directly.
#pragma once

#include "window_layer.hpp"

namespace ncpm::neural {

class BoxLayer final : public WindowLayer {
 public:
  BoxLayer(const LayerShape& shape, const LayerMaps& maps, Workspace& workspace, Outlet& outlet);

  Frame frame(const Box& changed) const override;

 private:
  // A cell that fits: where what the convolution reads differs, and where the box begins.
  struct Boxed {
    Candidate* cell;
    Rect near;
    int top, left;
  };

  void background_activation(Pass& pass) override;
  void cell_outputs(Pass& pass) override;
  void activation_to_points(const Pass& pass, const Boxed& boxed, int slot);
  void output_from_points(const Pass& pass, const Boxed& boxed, int slot);

  const WinogradWeights box_second_psi_;
  std::vector<Boxed> boxed_;
};

}  // namespace ncpm::neural
