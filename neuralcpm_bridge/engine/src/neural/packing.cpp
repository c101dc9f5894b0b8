#include "plan.hpp"
#include "winograd.hpp"

namespace ncpm::neural {

// Groups of 16 output channels, each [ky][kx][in][channel of the group], and a rest of 8: [ky][in][kx][channel].
// What a kernel reads for one group lies in one piece.
Packed pack(const Linear& linear) {
  Packed packed;
  packed.inputs = linear.inputs;
  packed.outputs = linear.outputs;
  packed.in_stride = padded(linear.inputs);
  packed.out_stride = padded(linear.outputs);
  packed.weights.assign(std::size_t(linear.taps) * linear.inputs * packed.out_stride, 0.0f);
  const auto value = [&](int tap, int out, int in) {
    return out < linear.outputs ? float(linear.at(tap, out, in)) : 0.0f;
  };
  float* to = packed.weights.data();
  const int side = linear.taps == 9 ? 3 : 1;
  for (int group = 0; group < packed.out_stride;) {
    const int size = group + 16 <= packed.out_stride ? 16 : 8;
    for (int ky = 0; ky < side; ++ky)
      for (int step = 0; step < side * linear.inputs; ++step) {
        const int kx = size == 16 ? step / linear.inputs : step % side;
        const int in = size == 16 ? step % linear.inputs : step / side;
        for (int k = 0; k < size; ++k) *to++ = value(ky * side + kx, group + k, in);
      }
    group += size;
  }
  return packed;
}

namespace {

using FilterWeight = double (*)(int point, int tap);

template <int M>
double filter_weight(int point, int tap) {
  return Winograd<M>::G[point][tap];
}

double box_filter_weight(int point, int tap) { return kBoxFilter[point][2 - tap]; }

WinogradWeights at_points(const Linear& linear, FilterWeight along_y, int height, FilterWeight along_x, int width) {
  WinogradWeights out{padded(linear.inputs), padded(linear.outputs), {}};
  Linear at_point(1, linear.outputs, out.inputs);
  for (int p = 0; p < height; ++p)
    for (int q = 0; q < width; ++q) {
      for (int o = 0; o < linear.outputs; ++o)
        for (int in = 0; in < linear.inputs; ++in) {
          double& sum = at_point.at(0, o, in) = 0;
          for (int tap = 0; tap < 9; ++tap) sum += along_y(p, tap / 3) * along_x(q, tap % 3) * linear.at(tap, o, in);
        }
      for (int group = 0, size; group < out.out_stride; group += size) {
        size = group + 32 <= out.out_stride ? 32 : (group + 16 <= out.out_stride ? 16 : 8);
        for (int in = 0; in < out.inputs; ++in)
          for (int o = group; o < group + size; ++o)
            out.weights.push_back(o < linear.outputs ? float(at_point.at(0, o, in)) : 0.0f);
      }
    }
  return out;
}

}  // namespace

WinogradWeights transform_weights(const Linear& linear, int height, int width) {
  static constexpr FilterWeight filters[] = {filter_weight<3>, filter_weight<4>, filter_weight<5>};
  return at_points(linear, filters[height - kLeastTile], height + 2, filters[width - kLeastTile], width + 2);
}

WinogradWeights transform_box_weights(const Linear& linear) {
  return at_points(linear, box_filter_weight, kBoxPoints, box_filter_weight, kBoxPoints);
}

std::vector<float> padded_bias(const std::vector<double>& bias) {
  std::vector<float> out(padded(int(bias.size())), 0.0f);
  for (std::size_t i = 0; i < bias.size(); ++i) out[i] = float(bias[i]);
  return out;
}

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

}  // namespace ncpm::neural
