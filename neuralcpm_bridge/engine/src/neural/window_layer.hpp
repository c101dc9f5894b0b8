// Layers behind the first that are recomputed in a window: X and Y are convolutions of what the layer in front handed
// on.
#pragma once

#include "cellwise_layer.hpp"

namespace ncpm::neural {

class WindowLayer : public CellwiseLayer {
 public:
  WindowLayer(const LayerShape& shape, const LayerMaps& maps, Workspace& workspace, Outlet& outlet);

  LayerTiles tiles() const override;
  void accept(const Pass& pass) override;

 protected:
  void receive_input(Pass& pass) override;
  void background_first(Pass& pass, const Rect& known) override;
  bool cell_first(Pass& pass, Candidate& cell) override;
  void activate_x(const Pass& pass, const Candidate& cell, const Rect& rect, float* to, int to_pitch) override;
  void activate_y(const Pass& pass, const Candidate& cell, const Rect& rect, float* to, int to_pitch) override;
  void background_output(Pass& pass) override;
  void add_cell_skip(const Pass& pass, const Candidate& cell) override;

 private:
  const Packed first_phi_, first_psi_;
  const std::vector<float> first_phi_bias_, first_psi_bias_, output_bias_;
  const Packed skip_, cell_skip_;
  Array<float> h_, x_, y_;  // the background's
};

// The last layer of nh in front of no pooling, with an ActivationHead as its outlet: the sum over sites of its output
// needs no more than what is in front of the last convolution.
class SummedWindowLayer final : public WindowLayer {
 public:
  using WindowLayer::WindowLayer;

  LayerTiles tiles() const override;

 private:
  void psi(Pass& pass) override;
  void cell_activation(const Pass& pass, Candidate& cell);
};

}  // namespace ncpm::neural
