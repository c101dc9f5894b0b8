// Linear maps of the network in double precision, while they are taken from the model and fused.
#pragma once

#include <string>
#include <vector>

#include "geometry.hpp"
#include "model.hpp"

namespace ncpm::neural {

// A matrix or kernel: [tap][out][in], taps 9 (3x3) or 1.
struct Linear {
  int taps = 0, outputs = 0, inputs = 0;
  std::vector<double> weight;
  std::vector<double> bias;  // [outputs]

  Linear() = default;
  Linear(int t, int o, int i) : taps(t), outputs(o), inputs(i), weight(std::size_t(t) * o * i), bias(o) {}
  double& at(int t, int o, int i) { return weight[(std::size_t(t) * outputs + o) * inputs + i]; }
  double at(int t, int o, int i) const { return weight[(std::size_t(t) * outputs + o) * inputs + i]; }
};

Linear read_linear(const Model& model, const std::string& name);
Linear identity(int channels);
Linear columns(const Linear& linear, int from, int count);    // the part that acts on these inputs
Linear operator*(const Linear& second, const Linear& first);  // composition; one of the two is 1x1, second's bias kept

// Which neighbours of a site exist under zero padding, as four bits; 0 inside and under circular padding.
// A bias in front of a 3x3 convolution arrives through existing neighbours only: one bias per class.
enum BorderBit { kTop = 1, kBottom = 2, kLeft = 4, kRight = 8 };
inline constexpr int kBorderClasses = 16;
int border_class(const Grid& grid, int y, int x);
bool tap_exists(int border, int tap);

using BorderBiases = std::vector<std::vector<double>>;  // [border class][channel]

// The bias of convolution(x + inner) at a site of each border class.
BorderBiases border_biases(const Linear& convolution, const std::vector<double>& inner);

}  // namespace ncpm::neural
