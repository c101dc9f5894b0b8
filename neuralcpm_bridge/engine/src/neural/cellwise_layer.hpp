// A layer that is recomputed in a window around the change, one cell after the other.
#pragma once

#include "layer.hpp"
#include "outlet.hpp"

namespace ncpm::neural {

// Values somewhere: in a tile, in a patch, or put together for the moment.
struct View {
  const float* data;
  int pitch;
};

class CellwiseLayer : public Layer {
 public:
  CellwiseLayer(const LayerShape& shape, const LayerMaps& maps, Workspace& workspace, Outlet& outlet);

  int most_channels() const override;
  void propose(Pass& pass) final;
  void accept(const Pass& pass) override;

 protected:
  // Its input, if it has one besides the pixels.
  virtual void receive_input(Pass& pass) = 0;
  // The background's X on `known`, and Y where psi is recomputed.
  virtual void background_first(Pass& pass, const Rect& known) = 0;
  virtual void background_phi(Pass& pass);
  // A cell's X and Y; whether its phi is new too.
  virtual bool cell_first(Pass& pass, Candidate& cell) = 0;
  // to = how the SiLU of X (or of T, through Y) of the cell on `rect` differs from the background's.
  virtual void activate_x(const Pass& pass, const Candidate& cell, const Rect& rect, float* to, int to_pitch) = 0;
  virtual void activate_y(const Pass& pass, const Candidate& cell, const Rect& rect, float* to, int to_pitch) = 0;
  // From the sum over cells to what is handed on.
  virtual void psi(Pass& pass);
  virtual void background_activation(Pass& pass);  // T and its SiLU, as far as the output needs them
  virtual void background_output(Pass& pass) = 0;
  virtual void cell_outputs(Pass& pass);  // of all cells
  virtual void add_cell_skip(const Pass& pass, const Candidate& cell) = 0;

  // A cell's values on `rect`: where they lie if they do so in one piece, in the `fresh` values of this proposal or
  // in its tile; else put together in the scratch image, fresh values on top.
  View view(const Pass& pass, const Candidate& cell, Field field, const Patch& fresh, const Rect& rect);
  // out += (fresh: out =) convolution of `in` (over the frame, valid in `live`) on `rect`.
  void convolve_cell(const Pass& pass, const Packed& weights, float* in, const Rect& live, const Rect& rect,
                     const Patch& out, bool fresh);
  // Where a cell's output differs from the background's, on pooling blocks.
  Rect output_rect(const Pass& pass, const Candidate& cell) const;
  void cell_output(Pass& pass, Candidate& cell);

  int outputs() const { return cell_second_psi_.out_stride; }  // channels of what a cell hands on, padded

  Outlet& outlet_;
  const Packed second_phi_, second_psi_, cell_second_psi_;
  Array<float> p_, phi_, sum_, t_;  // the background's

 private:
  void new_sum(Pass& pass);
  void cell_phi(Pass& pass, Candidate& cell);
  void sum_cells(Pass& pass);
};

}  // namespace ncpm::neural
