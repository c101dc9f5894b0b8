// Weights as the kernels read them.
#pragma once

#include <vector>

#include "kernels.hpp"
#include "linear.hpp"
#include "memory.hpp"

namespace ncpm::neural {

// A convolution, 3x3 or 1x1.
struct Packed {
  int inputs = 0, outputs = 0;        // used channels
  int in_stride = 0, out_stride = 0;  // padded
  std::vector<float, Aligned<float>> weights;

  bool empty() const { return weights.empty(); }
};
Packed pack(const Linear& linear);

// A 3x3 convolution for images of one Winograd tile, or of a box: a packed matrix per interpolation point.
struct WinogradWeights {
  int points = 0;
  int inputs = 0, out_stride = 0;  // padded
  std::vector<float, Aligned<float>> weights;
};
WinogradWeights transform_weights(const Linear& linear, const Grid& tile);
WinogradWeights transform_box_weights(const Linear& linear);

// Biases, padded: one for all sites, or one per border class.
std::vector<float> padded_bias(const std::vector<double>& bias);
std::vector<float> padded_bias(const BorderBiases& biases);

}  // namespace ncpm::neural
