#include "packing.hpp"

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
  WinogradWeights out{height * width, padded(linear.inputs), padded(linear.outputs), {}};
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

WinogradWeights transform_weights(const Linear& linear, const Grid& tile) {
  const int height = tile.y.size, width = tile.x.size;
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

std::vector<float> padded_bias(const BorderBiases& biases) {
  std::vector<float> out;
  for (const std::vector<double>& bias : biases) {
    const std::vector<float> one = padded_bias(bias);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

}  // namespace ncpm::neural
