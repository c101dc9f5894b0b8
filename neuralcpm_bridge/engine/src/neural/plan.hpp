// A network prepared for incremental evaluation: linear pieces fused, weights laid out for the kernels.
//
// Everything a cell computes is kept as its difference from an absent cell ∅ ("the background"). Convolutions
// are linear, so they act on differences without biases; only the background sees biases and padding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "geometry.hpp"
#include "kernels.hpp"
#include "tissue.hpp"
#include "memory.hpp"
#include "model.hpp"

namespace ncpm::neural {

// A matrix or kernel in double precision while fusing: [tap][out][in], taps 9 (3x3) or 1.
struct Linear {
  int taps = 0, outputs = 0, inputs = 0;
  std::vector<double> weight;
  std::vector<double> bias;  // [outputs]

  Linear() = default;
  Linear(int t, int o, int i) : taps(t), outputs(o), inputs(i), weight(std::size_t(t) * o * i), bias(o) {}
  double& at(int t, int o, int i) { return weight[(std::size_t(t) * outputs + o) * inputs + i]; }
  double at(int t, int o, int i) const { return weight[(std::size_t(t) * outputs + o) * inputs + i]; }
};

// Packed for the kernels.
struct Packed {
  int inputs = 0, outputs = 0;        // used channels
  int in_stride = 0, out_stride = 0;  // padded
  std::vector<float, Aligned<float>> weights;

  bool empty() const { return weights.empty(); }
};
Packed pack(const Linear& linear);
std::vector<float> padded_bias(const std::vector<double>& bias);

// Which neighbours of a site exist under zero padding, as four bits; 0 inside and under circular padding.
// A bias in front of a 3x3 convolution arrives through existing neighbours only: one bias per class.
enum BorderBit { kTop = 1, kBottom = 2, kLeft = 4, kRight = 8 };
inline constexpr int kBorderClasses = 16;
int border_class(const Grid& grid, int y, int x);
bool tap_exists(int border, int tap);

// The first layer is linear in the pixels up to its first SiLU. Its sums are kept in 32-bit fixed point:
// integers add exactly, so a flip adds and subtracts table entries without any drift. One table serves one
// quantity (X: in front of phi's first SiLU, Y: psi's, S: the skip path).
struct PixelTable {
  int taps = 0;                     // 9: a pixel reaches its block and the eight around it; 1: its block
  int channels = 0;                 // padded
  float step = 1;                   // value of 1
  std::vector<std::int32_t> own;    // [pixel of block][tap][channel]
  std::vector<std::int32_t> type;   // [type][pixel of block][tap][channel]
  std::vector<std::int32_t> start;  // [border class][channel]: biases

  const std::int32_t* own_at(int pixel) const { return own.data() + std::size_t(pixel) * taps * channels; }
  const std::int32_t* type_at(int t, int pixel, int pixels) const {
    return type.data() + (std::size_t(t) * pixels + pixel) * taps * channels;
  }
};

// A 3x3 convolution for images of one Winograd tile, or of a box: a packed matrix per interpolation point.
struct WinogradWeights {
  int inputs = 0, out_stride = 0;  // padded
  std::vector<float, Aligned<float>> weights;
};
WinogradWeights transform_weights(const Linear& linear, int height, int width);
WinogradWeights transform_box_weights(const Linear& linear);

struct LayerPlan {
  int inputs = 0, width = 0, pool = 1;
  bool last = false;
  // The grid is one Winograd tile, recomputed as a whole for all cells at once (nh only; winograd.hpp). These weights
  // are then in the place of the packed ones of the same names.
  bool compact = false;
  WinogradWeights compact_first_phi, compact_first_psi, compact_second_phi, compact_second_psi;
  bool gets_all = false;  // and the layer before is compact or boxed: every proposal brings the whole of its input
  // The next layer is compact: psi is recomputed as a whole here too, for most cells by one box each (winograd.hpp).
  bool boxed = false;
  WinogradWeights boxed_second_psi;
  Grid grid;                              // of the input
  Packed first_phi;                       // phi0 ∘ reduce: X (not in layer 0)
  Packed first_psi;                       // psi0's part on h: Y (not in layer 0)
  std::vector<float> phi_bias, psi_bias;  // of X and Y: [border class][padded width] (not in layer 0)
  Packed second_phi;
  std::vector<float> second_phi_bias;
  Packed shared;                       // psi0's part on the sum over cells ∘ mix; its biases are in Y
  Packed second_psi;                   // of the background
  std::vector<float> second_psi_bias;  // with the skip path's (in layer 0 the pixel table has both)
  Packed cell_second_psi;              // of a cell: fused with the head's first layer where that saves work
  Packed skip, cell_skip;              // empty: identity (and in layer 0, where the skip path is in the pixel tables)
  int cell_outputs = 0;                // channels of what a cell hands on, padded
};

// e(h) = out(SiLU(hidden(h))).
struct SiteHead {
  Packed hidden;
  std::vector<float> hidden_bias, out;  // padded
  float out_bias = 0;
};

struct Plan {
  bool local = false;
  int stride = 1, types = 0;
  Grid blocks;       // coarse lattice of the embedding
  Grid output_grid;  // of the last layer's output
  PixelTable x, y, skip, cell_skip;
  std::vector<LayerPlan> layers;
  int first_whole = 1 << 30;  // from this layer on a cell may differ from the background everywhere
  // local_nh
  bool head_fused = false;  // cells hand on the inputs of their head's SiLU
  SiteHead cell_head, background_head;

  Plan(const Model& model, const Tissue& tissue);
};

Linear read_linear(const Model& model, const std::string& name);
Linear operator*(const Linear& second, const Linear& first);  // composition; one of the two is 1x1, second's bias kept

}  // namespace ncpm::neural
