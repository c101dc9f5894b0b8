// Layers whose grid is one Winograd tile: every proposal recomputes them as a whole, for the background and all cells.
// A cell then differs from the background everywhere, if only by rounding, so its support is the whole grid, always.
//
// They go through a convolution in batches, a matrix product per interpolation point. Between two convolutions an image
// stays in the core's own cache: what is not needed later is never written elsewhere.
#pragma once

#include "layer.hpp"
#include "outlet.hpp"

namespace ncpm::neural {

class TileLayer : public Layer {
 public:
  // gets_all: the layer in front hands on whole images, so that cells need not keep what they received before.
  TileLayer(const LayerShape& shape, const LayerMaps& maps, Workspace& workspace, Outlet& outlet, bool gets_all);

  LayerTiles tiles() const override;
  Frame frame(const Box& changed) const override;
  void propose(Pass& pass) final;
  void accept(const Pass& pass) override;

 protected:
  // From what is behind its first SiLU of the background, and Y of the cells, to the outlet.
  virtual void psi(Pass& pass);
  void show(Pass& pass);

 private:
  // Part of present_, in the slots 0, 1, ... of the points.
  struct Batch {
    Candidate* const* members;
    int slots;
  };
  template <class Work>
  void for_batches(Work work);

  void phi(Pass& pass, Batch batch);
  void complete_input(Candidate& cell);
  void inputs_to_points(const Pass& pass, Batch batch);
  void y_from_points(const Pass& pass, Batch batch);
  void activate_x(const Pass& pass, Batch batch);
  void add_phi(Pass& pass, Batch batch);
  void activate_y(const Pass& pass, Batch batch);
  void output_from_points(const Pass& pass, Batch batch);

  void to_points(const float* image, int channels, int slot);
  void from_points(int slot, float* image) const;
  // The background's images lie in frames.
  void background_to_points(const Pass& pass, const float* from, int channels, int slot);
  void background_from_points(const Pass& pass, int slot, const std::vector<float>& bias, float* to);
  int image_pitch() const { return shape_.grid.x.size * width(); }
  Window window() const { return {shape_.grid.y.size, image_pitch()}; }

  Outlet& outlet_;
  const bool gets_all_;
  const WinogradWeights first_phi_, first_psi_, second_phi_, second_psi_;
  const std::vector<float> first_phi_bias_, first_psi_bias_, output_bias_;
  const Packed skip_, cell_skip_;
  Array<float> h_;                   // the background's
  std::vector<Candidate*> present_;  // the background (null), then candidates with pixels
};

// The last layer of nh in front of no pooling, with an AllActivationsHead as its outlet.
class SummedTileLayer final : public TileLayer {
 public:
  using TileLayer::TileLayer;

 private:
  void psi(Pass& pass) override;
};

}  // namespace ncpm::neural
