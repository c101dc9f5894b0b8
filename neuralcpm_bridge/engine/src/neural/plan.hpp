// How a network will be evaluated on a lattice of given size: the shape and kind of every layer, and its linear pieces
// fused.
//
// Everything a cell computes is kept as its difference from an absent cell ∅ ("the background"). Convolutions
// are linear, so they act on differences without biases; only the background sees biases and padding.
#pragma once

#include <optional>
#include <vector>

#include "geometry.hpp"
#include "linear.hpp"
#include "tissue.hpp"

namespace ncpm::neural {

// What is done when a change reaches a layer. One class each.
enum class Kind {
  kPixels,        // the first layer: sums of table entries in fixed point, in a window around the change
  kWindow,        // recomputed in a window around the change, cell by cell
  kSummedWindow,  // the same, as the last layer of nh in front of no pooling: sums replace its last convolution
  kBoxes,         // in front of a tile: phi in a window, psi everywhere, for small cells by one box each
  kTile,          // the grid is one Winograd tile: recomputed as a whole, all cells at once
  kSummedTile,    // the same, as the last layer of nh in front of no pooling
};

inline bool is_tile(Kind kind) { return kind == Kind::kTile || kind == Kind::kSummedTile; }

struct LayerShape {
  int index = 0;
  Kind kind = Kind::kWindow;
  int inputs = 0, width = 0, pool = 1;
  Grid grid;           // of the input
  bool whole = false;  // a tile or behind one: a cell differs from the background everywhere, if only by rounding
};

// A site as the network sees it: its block, and its place in it.
struct Pixel {
  int y, x, pixel;
};

struct Plan {
  bool local = false;  // local_nh; else nh
  int stride = 1, lattice_width = 0;
  Grid blocks;       // coarse lattice of the embedding
  Grid output_grid;  // of the last layer's output
  std::vector<LayerShape> layers;

  std::optional<Pixel> pixel_at(int site) const {  // none where a site is in no block
    const int row = site / lattice_width, column = site % lattice_width;
    const Pixel at{row / stride, column / stride, row % stride * stride + column % stride};
    if (at.y >= blocks.y.size || at.x >= blocks.x.size) return std::nullopt;
    return at;
  }
  int first_id() const { return local ? 1 : 0; }  // local_nh: the medium is no cell

  // Throws Error if the lattice is too small for one block of the network's stride and pools.
  Plan(const NeuralSpec& spec, const Lattice& lattice);
};

// local_nh: a cell's output is only looked at by its head's first layer. The last layer applies that at once, unless
// it is wider.
bool head_fused(const NeuralSpec& spec);

// One layer's linear pieces. The biases of the two first convolutions differ near the border and stand apart.
struct LayerMaps {
  Linear first_phi;             // phi0 ∘ reduce: X
  Linear first_psi;             // psi0's part on h: Y
  BorderBiases first_phi_bias;  // of X
  BorderBiases first_psi_bias;  // of Y, with that of the shared part
  Linear second_phi;
  Linear shared;                          // psi0's part on the sum over cells ∘ mix; its biases are in Y's
  Linear second_psi, cell_second_psi;     // of the background, and of a cell: with the head's first layer if fused
  std::optional<Linear> skip, cell_skip;  // none: the identity
};
LayerMaps fused_maps(const Model& model, const LayerShape& shape);

}  // namespace ncpm::neural
