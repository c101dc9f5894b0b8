#include "pixel_table.hpp"

#include <algorithm>
#include <cmath>

#include "kernels.hpp"

namespace ncpm::neural {
namespace {

// map ∘ embedding of single pixels, in double precision.
struct Contributions {
  int channels, pixels, taps, outputs;  // channels of the embedding: own occupancy, then one per type
  std::vector<double> value;            // [channel][pixel][tap][output]

  double at(int channel, int pixel, int tap, int out) const {
    return value[((std::size_t(channel) * pixels + pixel) * taps + tap) * outputs + out];
  }
};

Contributions contributions(const Model& model, const Linear& map) {
  const int pixels = model.neural->stride * model.neural->stride, channels = 1 + model.types();
  const std::vector<float>& weight = model.weight("neural.embedding.weight").floats;
  Contributions of{channels, pixels, map.taps, map.outputs, {}};
  for (int channel = 0; channel < channels; ++channel)
    for (int pixel = 0; pixel < pixels; ++pixel)
      for (int tap = 0; tap < map.taps; ++tap)
        for (int out = 0; out < map.outputs; ++out) {
          // A pixel of block u reaches block u + (ky - 1, kx - 1) through the opposite tap of the convolution.
          double value = 0;
          for (int c = 0; c < map.inputs; ++c)
            value += map.at(map.taps - 1 - tap, out, c) *
                     double(weight[(std::size_t(c) * channels + channel) * pixels + pixel]);
          of.value.push_back(value);
        }
  return of;
}

// The largest sum that any state can reach.
double largest_sum(const Contributions& of, const BorderBiases& start) {
  double bound = 1e-30;
  for (int out = 0; out < of.outputs; ++out) {
    double most = 0;
    for (const std::vector<double>& bias : start) most = std::max(most, std::abs(bias[out]));
    for (int pixel = 0; pixel < of.pixels; ++pixel)
      for (int tap = 0; tap < of.taps; ++tap) {
        double type = 0;
        for (int channel = 1; channel < of.channels; ++channel)
          type = std::max(type, std::abs(of.at(channel, pixel, tap, out)));
        most += type + std::abs(of.at(0, pixel, tap, out));
      }
    bound = std::max(bound, most);
  }
  return bound;
}

}  // namespace

PixelTable pixel_table(const Model& model, const Linear& map, const BorderBiases& biases) {
  const Contributions of = contributions(model, map);
  const std::vector<float>& embedding_bias = model.weight("neural.embedding.bias").floats;
  const BorderBiases embedded = border_biases(map, {embedding_bias.begin(), embedding_bias.end()});
  BorderBiases start = biases;
  for (int border = 0; border < kBorderClasses; ++border)
    for (int out = 0; out < map.outputs; ++out) start[border][out] += embedded[border][out] - map.bias[out];

  const double scale = std::exp2(std::floor(30 - std::log2(largest_sum(of, start))));  // 2^30 steps cover any sum
  const auto fixed = [&](double value) { return std::int32_t(std::llrint(value * scale)); };
  PixelTable table;
  table.taps = map.taps;
  table.channels = padded(map.outputs);
  table.pixels = of.pixels;
  table.step = float(1 / scale);
  const auto fill = [&](int channel, std::int32_t* to) {
    for (int pixel = 0; pixel < of.pixels; ++pixel)
      for (int tap = 0; tap < map.taps; ++tap, to += table.channels)
        for (int out = 0; out < map.outputs; ++out) to[out] = fixed(of.at(channel, pixel, tap, out));
  };
  const std::size_t entries = std::size_t(of.pixels) * map.taps * table.channels;
  table.own.assign(entries, 0);
  table.type.assign(entries * model.types(), 0);
  table.start.assign(std::size_t(kBorderClasses) * table.channels, 0);
  fill(0, table.own.data());
  for (int t = 0; t < model.types(); ++t) fill(1 + t, table.type.data() + t * entries);
  for (int border = 0; border < kBorderClasses; ++border)
    for (int out = 0; out < map.outputs; ++out)
      table.start[std::size_t(border) * table.channels + out] = fixed(start[border][out]);
  return table;
}

}  // namespace ncpm::neural
