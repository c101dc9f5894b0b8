// One layer of the network: the caches of its background, its weights, and how a proposal goes through it.
//
// A layer makes of its cells' inputs h
//   phi = SiLU(P),  P = second convolution of SiLU(X),  X = first convolution of h
//   sum = Σ over cells of phi
//   output = skip path + second convolution of SiLU(T),  T = Y + shared convolution of sum,  Y = first convolution of h
// for the background as it is, for the cells as differences from the background. How much of it a proposal recomputes,
// and how, is the difference between the kinds (plan.hpp):
//
//   Layer
//     CellwiseLayer               one cell after the other, in a window
//       PixelLayer
//       WindowLayer
//         SummedWindowLayer
//         BoxLayer
//     TileLayer                   the whole grid, all cells at once
//       SummedTileLayer
#pragma once

#include "workspace.hpp"

namespace ncpm::neural {

class Layer {
 public:
  Layer(const LayerShape& shape, const LayerMaps& maps, Workspace& workspace);
  virtual ~Layer() = default;

  const LayerShape& shape() const { return shape_; }
  virtual LayerTiles tiles() const = 0;           // what it wants the cells to keep
  virtual int most_channels() const;              // of an image on its way through
  virtual Frame frame(const Box& changed) const;  // in which it is recomputed if its input changes there
  virtual void propose(Pass& pass) = 0;           // computes everything that is new, and hands it on
  virtual void accept(const Pass& pass) = 0;      // makes the background's new values the cached ones

 protected:
  int width() const { return padded(shape_.width); }
  int inputs() const { return padded(shape_.inputs); }
  Proposal& proposal() { return work_.proposal; }
  Array<float> new_cache(int channels) const { return Array<float>(std::size_t(shape_.grid.sites()) * channels); }

  // Between a cache of the whole grid and an image over the frame.
  void load(const Pass& pass, const float* cache, int channels, const Rect& rect, float* to) const;
  void store(const Pass& pass, const float* from, int channels, const Rect& rect, Array<float>& cache) const;

  // out += (with a bias: out = bias +) convolution of `in`, both over the frame.
  void convolve(const Pass& pass, const Packed& weights, const float* in, const Rect& rect, float* out,
                const std::vector<float>* bias = nullptr);
  void run(const Convolution& job, int outputs);  // counted
  void silu(const Pass& pass, const float* in, const Rect& rect, float* out) const;
  // to = bias, one for all sites or one per border class.
  void fill_bias(const Pass& pass, const Rect& rect, const std::vector<float>& bias, float* to) const;

  // The background's input: what the layer in front has handed on, among what is kept.
  void receive(Pass& pass, const Array<float>& kept);
  // Where the candidates are in the frame.
  void locate_cells(const Pass& pass);
  // The background's share of Σ phi.
  void start_sum(Pass& pass);
  // Room for T and its SiLU.
  void new_psi_images(Pass& pass);
  // T where psi is recomputed, from Y and the sum.
  void add_shared(Pass& pass);
  // out += the skip path of the background.
  void add_background_skip(const Pass& pass, const Packed& skip) const;

  const LayerShape shape_;
  Workspace& work_;
  const Packed shared_;
  const std::vector<float> second_phi_bias_;
};

// Pads: zeros outside the lattice, or the far end where a circular axis is recomputed as a whole.
void fill_padding(const Pass& pass, float* image, int channels, const Rect& need);

// Of layers behind the first, second_psi's bias with that of the skip path.
std::vector<float> output_bias(const LayerMaps& maps);
Packed pack_skip(const std::optional<Linear>& skip);  // empty: the identity

}  // namespace ncpm::neural
