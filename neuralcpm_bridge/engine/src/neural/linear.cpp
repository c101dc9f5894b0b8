#include "linear.hpp"

namespace ncpm::neural {

Linear read_linear(const Model& model, const std::string& name) {
  const Tensor& weight = model.weight(name + ".weight");
  const std::vector<float>& bias = model.weight(name + ".bias").floats;
  const int taps = weight.shape.size() == 4 ? int(weight.shape[2] * weight.shape[3]) : 1;
  Linear linear(taps, int(weight.shape[0]), int(weight.shape[1]));
  for (int out = 0; out < linear.outputs; ++out) {
    linear.bias[out] = bias[out];
    for (int in = 0; in < linear.inputs; ++in)
      for (int tap = 0; tap < taps; ++tap)
        linear.at(tap, out, in) = weight.floats[(std::size_t(out) * linear.inputs + in) * taps + tap];
  }
  return linear;
}

Linear identity(int channels) {
  Linear linear(1, channels, channels);
  for (int c = 0; c < channels; ++c) linear.at(0, c, c) = 1;
  return linear;
}

Linear columns(const Linear& linear, int from, int count) {
  Linear part(linear.taps, linear.outputs, count);
  part.bias = linear.bias;
  for (int tap = 0; tap < linear.taps; ++tap)
    for (int out = 0; out < linear.outputs; ++out)
      for (int in = 0; in < count; ++in) part.at(tap, out, in) = linear.at(tap, out, from + in);
  return part;
}

Linear operator*(const Linear& second, const Linear& first) {
  Linear product(second.taps * first.taps, second.outputs, first.inputs);
  product.bias = second.bias;
  for (int a = 0; a < second.taps; ++a)
    for (int b = 0; b < first.taps; ++b)
      for (int out = 0; out < product.outputs; ++out)
        for (int in = 0; in < product.inputs; ++in) {
          double sum = 0;
          for (int k = 0; k < second.inputs; ++k) sum += second.at(a, out, k) * first.at(b, k, in);
          product.at(a * first.taps + b, out, in) = sum;  // one factor has a single tap
        }
  return product;
}

int border_class(const Grid& grid, int y, int x) {
  int border = 0;
  if (!grid.y.circular) border |= (y == 0 ? kTop : 0) | (y == grid.y.size - 1 ? kBottom : 0);
  if (!grid.x.circular) border |= (x == 0 ? kLeft : 0) | (x == grid.x.size - 1 ? kRight : 0);
  return border;
}

bool tap_exists(int border, int tap) {
  const int ky = tap / 3, kx = tap % 3;
  return !((border & kTop && ky == 0) || (border & kBottom && ky == 2) || (border & kLeft && kx == 0) ||
           (border & kRight && kx == 2));
}

BorderBiases border_biases(const Linear& convolution, const std::vector<double>& inner) {
  BorderBiases biases(kBorderClasses, convolution.bias);
  for (int border = 0; border < kBorderClasses; ++border)
    for (int tap = 0; tap < convolution.taps; ++tap)
      if (convolution.taps == 1 || tap_exists(border, tap))
        for (int out = 0; out < convolution.outputs; ++out)
          for (int in = 0; in < convolution.inputs; ++in)
            biases[border][out] += convolution.at(tap, out, in) * inner[in];
  return biases;
}

}  // namespace ncpm::neural
