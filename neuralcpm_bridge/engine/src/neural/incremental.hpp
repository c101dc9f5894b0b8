// Exact incremental evaluation of a network of NH layers.
//
// Caches: for the background (an absent cell) every layer's quantities on the whole lattice, for the cells
// their differences from it in tiles (cells.hpp). propose() recomputes what a change reaches, layer by layer,
// into an arena; accept() copies it into the caches. Nothing is ever updated by adding floating-point
// differences, so the caches are always those of a fresh rebuild, bit for bit.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "bins.hpp"
#include "cells.hpp"
#include "plan.hpp"

namespace ncpm::neural {

// A pixel of block (y, x) goes from one cell to another.
struct Flip {
  int y, x, pixel;
  std::int32_t old_id, new_id, old_type, new_type;

  bool retypes() const { return old_type != new_type; }
};

// New values of a quantity on a box of its grid.
struct Patch {
  Box at;
  float* data = nullptr;
  int channels = 0;
  int pitch = 0;
};

inline void clear(const Patch& patch) { std::memset(patch.data, 0, sizeof(float) * patch.at.y.length * patch.pitch); }

// Values somewhere: in a tile, or put together for the moment.
struct View {
  const float* data;
  int pitch;
};

// A cell near the change, with its new values of the layer at hand where they change.
struct Candidate {
  std::int32_t id;
  Box support;   // where its input of this layer differs from the background's, before or after the change (hull)
  Box extent;    // where it does after the change
  Footprint at;  // of the support in the frame of this layer
  Patch input, x, y, phi, output;
  Rect output_rect;  // of `output` in the frame, before pooling
};

// A cell that goes through a boxed layer in a box: where what the convolution reads differs, and where the box begins.
struct BoxedCell {
  Candidate* cell;
  Rect near;
  int top, left;
};

// Where to put a patch if the proposal is accepted.
struct Write {
  std::int32_t id;
  int layer;
  Field field;
  Patch patch;
};

// One layer of a proposal: its frame, and the background's new values in it ([y][x][channel] over the frame).
struct Pass {
  int layer;
  const LayerPlan* plan;
  Frame frame;
  float *h = nullptr, *x = nullptr, *q = nullptr, *p = nullptr, *phi = nullptr;
  float *sum = nullptr, *y = nullptr, *t = nullptr, *g = nullptr, *out = nullptr;
  Patch output;  // pooled

  int pitch(int channels) const { return frame.x.length * channels; }
  std::ptrdiff_t at(int channels, int y, int x) const { return (std::ptrdiff_t(y) * frame.x.length + x) * channels; }
};

// The background's caches of one layer: [y][x][channel] over its grid.
struct Background {
  Array<std::int32_t> x_fixed, y_fixed, skip_fixed;  // layer 0
  Array<float> h, x, y;                              // other layers
  Array<float> p, phi, sum, t;
};

struct Proposal {
  Box blocks;                  // blocks whose pixels changed
  bool background = true;      // the background's input changed, not only that of the flip's two cells
  const Flip* flip = nullptr;  // null: the fixed-point caches already hold the change
  bool complete = true;        // it reaches the last layer; else it ends in sites that fill no pooling block
  Arena arena;
  std::vector<Pass> passes;
  std::vector<Candidate> candidates;  // ascending ids
  std::vector<Write> writes;
  Array<float> scratch[3];  // frame-sized, for one cell at a time
};

// What becomes of the last layer: the energy. A proposal shows it the background, then every cell, then asks. If the
// last layer is compact, all cells are new: it shows their sums instead.
class Head {
 public:
  virtual ~Head() = default;
  virtual void reset() = 0;
  virtual bool wants_output() const = 0;  // of the last layer; else what is behind psi's first SiLU
  virtual void see_background(Proposal& proposal, const Pass& last) = 0;
  virtual void see_cell(Proposal& proposal, const Pass& last, const Cells& cells, const Candidate& cell) = 0;
  virtual void see_cells(const Patch& outputs, const Patch& inputs) = 0;
  virtual double change(double counted) = 0;
  virtual void accept(const Proposal& proposal) = 0;
  virtual double energy() const = 0;
};

// A cell's values on `rect`: where they lie if they do so in one piece, in the `fresh` values of this proposal or
// in its tile; else put together in `scratch` (over the frame), fresh values on top.
View view_of(const Cells& cells, const Pass& pass, int id, Field field, const Patch& fresh, const Rect& rect,
             float* scratch);

class Incremental {
 public:
  Incremental(const Plan& plan, const Kernels& kernels, std::unique_ptr<Head> head);

  void rebuild(const Tissue& tissue);
  double energy() const { return head_->energy(); }
  double delta(const Flip& flip);
  void commit(const Flip& flip);  // the flip of the last delta
  void changed(const Tissue& after, const std::vector<int>& sites);
  void set_id(int site, std::int32_t id) { ids_[site] = id; }
  std::uint64_t multiply_adds() const { return multiply_adds_; }

 private:
  // incremental.cpp
  void propose(const Box& blocks, bool background, const Flip* flip);
  void accept();
  void find_candidates(bool far);
  void put_pixel(int y, int x, int pixel, std::int32_t id, std::int32_t type, int by);

  // background_pass.cpp
  void run(const Convolution& job, int outputs) const;
  void load(const Pass& pass, const float* cache, int channels, const Rect& rect, float* to) const;
  void store(const Pass& pass, const float* from, int channels, const Rect& rect, float* cache) const;
  void load_fixed(const Pass& pass, const PixelTable& table, const Array<std::int32_t>& cache, const Rect& rect,
                  float* to);
  void convolve(const Pass& pass, const Packed& weights, const float* in, const Rect& rect, float* out,
                const std::vector<float>* bias = nullptr) const;
  void background_first(Pass& pass);
  void background_phi(Pass& pass);
  void start_sum(Pass& pass);
  void sum_cells(Pass& pass);
  void background_psi(Pass& pass);
  void background_output(Pass& pass);
  void add_background_skip(Pass& pass);
  void accept_background(const Pass& pass);

  // read_ahead.cpp
  void read_background() const;
  void read_cells() const;

  // cell_pass.cpp
  View view(const Pass& pass, const Candidate& cell, Field field, const Patch& fresh, const Rect& rect,
            float* scratch) {
    return view_of(cells_, pass, cell.id, field, fresh, rect, scratch);
  }
  View view_fixed(const Pass& pass, const Candidate& cell, Field field, const PixelTable& table, const Rect& rect,
                  float* scratch);
  void convolve_cell(const Pass& pass, const Packed& weights, float* in, const Rect& live, const Rect& rect,
                     const Patch& out, bool fresh);
  Patch new_patch(const Pass& pass, const Rect& rect, int channels);
  Rect output_rect(const Pass& pass, const Candidate& cell) const;
  void add_cell_skip(const Pass& pass, const Candidate& cell);
  void cell_first(Pass& pass, Candidate& cell);
  void cell_phi(Pass& pass, Candidate& cell);
  void cell_psi(Pass& pass, Candidate& cell);
  void cell_activation(Pass& pass, Candidate& cell);
  void hand_on(Pass& pass);

  // compact_pass.cpp
  static constexpr int kBatch = 18;  // cells whose points stay in the cache together
  void make_points();
  void to_points(const Pass& pass, const float* image, int channels, int slot);
  void from_points(const Pass& pass, int channels, int slot, float* image) const;
  void multiply_points(int points, const WinogradWeights& weights, int slots);
  Patch whole_patch(const Pass& pass, int channels);
  void background_to_points(const Pass& pass, const float* from, int channels, int slot);
  void background_from_points(const Pass& pass, int slot, const std::vector<float>& bias, float* to);
  void whole_input(const Pass& pass, Candidate& cell);
  void compact_first_and_phi(Pass& pass);
  void compact_psi(Pass& pass);
  void show_activations(const Pass& pass);
  void show_outputs();

  // box_pass.cpp
  void box_activation(const Pass& pass, const BoxedCell& boxed, int slot);
  void box_output(const Pass& pass, const BoxedCell& boxed, int slot);
  void boxed_psi(Pass& pass);

  bool moved(const Candidate& cell) const {
    return proposal_.flip && (cell.id == proposal_.flip->old_id || cell.id == proposal_.flip->new_id);
  }

  const Plan& plan_;
  const Kernels& kernels_;
  std::unique_ptr<Head> head_;
  std::vector<Background> background_;
  Cells cells_;
  Bins bins_;
  int first_id_;        // smaller ids are no cells (local_nh: the medium)
  double counted_ = 0;  // nh: how many ids the sums run over
  // The state the caches belong to.
  int height_ = 0, width_ = 0;
  std::vector<std::int32_t> ids_, types_;
  Proposal proposal_;
  double delta_ = 0;
  mutable std::uint64_t multiply_adds_ = 0;  // of 3x3 convolutions, taps on zeros left out
  std::vector<std::int32_t> near_;
  // Of a batch of cells in a compact or boxed layer: their points in front of and behind a convolution.
  Array<float> points_in_, points_out_;
  std::vector<Candidate*> present_;  // in a compact layer: the background (null), then candidates with pixels
  std::vector<BoxedCell> boxed_;
};

// Local positions of the blocks a flip reaches: visit(tap, y, x) for those within `rect`.
template <class Visit>
void for_reached(const Frame& frame, const Flip& flip, int taps, const Rect& rect, Visit visit) {
  const auto local = [](const FrameAxis& a, int block, int step) {
    return a.whole ? wrapped(block + step, a.axis.size) + 1 : a.in.lo + step;
  };
  const int reach = taps == 9 ? 1 : 0;
  for (int dy = -reach, tap = 0; dy <= reach; ++dy)
    for (int dx = -reach; dx <= reach; ++dx, ++tap) {
      const int y = local(frame.y, flip.y, dy), x = local(frame.x, flip.x, dx);
      if (y >= rect.y.lo && y < rect.y.hi && x >= rect.x.lo && x < rect.x.hi) visit(tap, y, x);
    }
}

// to = bias, one for all sites or one per border class.
void fill_bias(const Pass& pass, const Rect& rect, const std::vector<float>& bias, float* to);
// Pads: zeros outside the lattice, or the far end where a circular axis is recomputed as a whole.
void fill_padding(const Pass& pass, float* image, int channels, const Rect& need);
// Zeros in `need` outside `live`, as far as a convolution reads them.
void clear_around(const Pass& pass, float* image, const Packed& convolution, const Rect& need, const Rect& live);

}  // namespace ncpm::neural
