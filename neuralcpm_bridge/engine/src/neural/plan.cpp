#include "plan.hpp"

#include <cmath>

#include "error.hpp"
#include "winograd.hpp"

namespace ncpm::neural {
namespace {

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

// The bias of convolution(x + inner) at a site of each border class.
std::vector<std::vector<double>> border_biases(const Linear& convolution, const std::vector<double>& inner) {
  std::vector<std::vector<double>> biases(kBorderClasses, convolution.bias);
  for (int border = 0; border < kBorderClasses; ++border)
    for (int tap = 0; tap < convolution.taps; ++tap)
      if (convolution.taps == 1 || tap_exists(border, tap))
        for (int out = 0; out < convolution.outputs; ++out)
          for (int in = 0; in < convolution.inputs; ++in)
            biases[border][out] += convolution.at(tap, out, in) * inner[in];
  return biases;
}

std::vector<std::vector<double>> sum(std::vector<std::vector<double>> a, const std::vector<std::vector<double>>& b,
                                     const std::vector<double>& minus) {
  for (std::size_t border = 0; border < a.size(); ++border)
    for (std::size_t c = 0; c < a[border].size(); ++c) a[border][c] += b[border][c] - minus[c];
  return a;
}

std::vector<float> flat(const std::vector<std::vector<double>>& biases) {
  std::vector<float> out;
  for (const std::vector<double>& bias : biases) {
    const std::vector<float> one = padded_bias(bias);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

bool one_tile(const Grid& grid) {
  const auto fits = [](Axis axis) { return !axis.circular && axis.size >= kLeastTile && axis.size <= kMostTile; };
  return fits(grid.y) && fits(grid.x);
}

// What one pixel adds to `map` of the embedding, for own occupancy and every type, in fixed point.
// `biases` per border class are without the embedding's, which is added here.
PixelTable pixel_table(const Model& model, const Linear& map, const std::vector<std::vector<double>>& biases) {
  const int stride = model.neural->stride, types = model.types(), pixels = stride * stride;
  const std::vector<float>& weight = model.weight("neural.embedding.weight").floats;
  const std::vector<float>& bias = model.weight("neural.embedding.bias").floats;
  const auto embedding = [&](int c, int channel, int pixel) {
    return double(weight[(std::size_t(c) * (1 + types) + channel) * pixels + pixel]);
  };

  PixelTable table;
  table.taps = map.taps;
  table.channels = padded(map.outputs);
  // A pixel of block u reaches block u + (ky - 1, kx - 1) through the opposite tap of the convolution.
  const auto reach = [&](int channel, int pixel, int tap, int out) {
    double value = 0;
    for (int c = 0; c < map.inputs; ++c) value += map.at(map.taps - 1 - tap, out, c) * embedding(c, channel, pixel);
    return value;
  };
  std::vector<std::vector<double>> start = biases;
  const std::vector<double> inner(bias.begin(), bias.end());
  start = sum(start, border_biases(map, inner), map.bias);

  // The largest sum any state can reach decides the step: 2^30 steps cover it.
  double bound = 1e-30;
  for (int out = 0; out < map.outputs; ++out) {
    double most = 0;
    for (const auto& one : start) most = std::max(most, std::abs(one[out]));
    for (int pixel = 0; pixel < pixels; ++pixel)
      for (int tap = 0; tap < map.taps; ++tap) {
        double type = 0;
        for (int t = 0; t < types; ++t) type = std::max(type, std::abs(reach(1 + t, pixel, tap, out)));
        most += type + std::abs(reach(0, pixel, tap, out));
      }
    bound = std::max(bound, most);
  }
  const double scale = std::exp2(std::floor(30 - std::log2(bound)));
  table.step = float(1 / scale);
  const auto fixed = [&](double value) { return std::int32_t(std::llrint(value * scale)); };

  const auto fill = [&](int channel, std::int32_t* to) {
    for (int pixel = 0; pixel < pixels; ++pixel)
      for (int tap = 0; tap < map.taps; ++tap)
        for (int out = 0; out < map.outputs; ++out)
          to[(std::size_t(pixel) * map.taps + tap) * table.channels + out] = fixed(reach(channel, pixel, tap, out));
  };
  const std::size_t entries = std::size_t(pixels) * map.taps * table.channels;
  table.own.assign(entries, 0);
  table.type.assign(entries * types, 0);
  table.start.assign(std::size_t(kBorderClasses) * table.channels, 0);
  fill(0, table.own.data());
  for (int t = 0; t < types; ++t) fill(1 + t, table.type.data() + t * entries);
  for (int border = 0; border < kBorderClasses; ++border)
    for (int out = 0; out < map.outputs; ++out)
      table.start[std::size_t(border) * table.channels + out] = fixed(start[border][out]);
  return table;
}

SiteHead site_head(const Model& model, const std::string& name) {
  const Linear hidden = read_linear(model, name + ".hidden"), out = read_linear(model, name + ".out");
  SiteHead head;
  head.hidden = pack(hidden);
  head.hidden_bias = padded_bias(hidden.bias);
  head.out = padded_bias(out.weight);
  head.out_bias = float(out.bias[0]);
  return head;
}

}  // namespace

Plan::Plan(const Model& model, const Tissue& tissue) {
  const NeuralSpec& spec = *model.neural;
  local = spec.kind == "local_nh";
  stride = spec.stride;
  types = model.types();
  blocks = {{tissue.lattice.height / stride, spec.circular}, {tissue.lattice.width / stride, spec.circular}};
  Grid grid = blocks;
  int inputs = spec.widths[0];
  for (std::size_t i = 0; i < spec.widths.size(); ++i) {
    if (grid.y.size < 1 || grid.x.size < 1)
      throw Error("The lattice of " + std::to_string(tissue.lattice.height) + " x " + std::to_string(tissue.lattice.width) +
                  " sites is smaller than one block of the network's stride and pools: use a larger lattice.");
    const std::string name = "neural.layers." + std::to_string(i);
    const int width = spec.widths[i];
    LayerPlan layer;
    layer.inputs = inputs;
    layer.width = width;
    layer.pool = spec.pools[i];
    layer.last = i + 1 == spec.widths.size();
    layer.grid = grid;
    layer.compact = !local && i > 0 && one_tile(grid);
    layer.gets_all = layer.compact && (layers[i - 1].compact || layers[i - 1].boxed);

    const Linear reduce = read_linear(model, name + ".reduce"), phi0 = read_linear(model, name + ".phi0");
    const Linear phi1 = read_linear(model, name + ".phi1"), mix = read_linear(model, name + ".mix");
    const Linear psi0 = read_linear(model, name + ".psi0"), psi1 = read_linear(model, name + ".psi1");
    const Linear skip_path = inputs == width ? identity(width) : read_linear(model, name + ".skip");
    const Linear first_phi_map = phi0 * reduce, first_psi_map = columns(psi0, 0, inputs);
    const Linear shared_map = columns(psi0, inputs, width);
    const auto x_biases = border_biases(phi0, reduce.bias);
    const auto y_biases = border_biases(shared_map, mix.bias);

    layer.second_phi_bias = padded_bias(phi1.bias);
    layer.shared = pack(shared_map * mix);
    layer.second_psi_bias = padded_bias(psi1.bias);

    // A cell's output is only looked at by its head's first layer: apply that at once, unless it is wider.
    Linear cell_psi1 = psi1, cell_skip_path = skip_path;
    if (local && layer.last && spec.project <= width) {
      head_fused = true;
      const Linear hidden = read_linear(model, "neural.cell_head.hidden");
      cell_psi1 = hidden * psi1;
      cell_skip_path = hidden * skip_path;
    }
    layer.cell_outputs = padded(cell_psi1.outputs);

    if (i == 0) {
      x = pixel_table(model, first_phi_map, x_biases);
      y = pixel_table(model, first_psi_map, y_biases);
      std::vector<double> output_bias = skip_path.bias;
      for (int c = 0; c < width; ++c) output_bias[c] += psi1.bias[c];
      skip = pixel_table(model, skip_path, std::vector<std::vector<double>>(kBorderClasses, output_bias));
      cell_skip =
          pixel_table(model, cell_skip_path, std::vector<std::vector<double>>(kBorderClasses, cell_skip_path.bias));
    } else {
      layer.phi_bias = flat(x_biases);
      layer.psi_bias = flat(y_biases);
      const bool same = inputs == width;
      if (!same) layer.skip = pack(skip_path);
      if (!same || (local && layer.last && head_fused)) layer.cell_skip = pack(cell_skip_path);
      for (int c = 0; c < width; ++c) layer.second_psi_bias[c] += float(skip_path.bias[c]);
    }
    if (layer.compact) {
      first_whole = std::min(first_whole, int(i));
      layer.compact_first_phi = transform_weights(first_phi_map, grid.y.size, grid.x.size);
      layer.compact_first_psi = transform_weights(first_psi_map, grid.y.size, grid.x.size);
      layer.compact_second_phi = transform_weights(phi1, grid.y.size, grid.x.size);
      layer.compact_second_psi = transform_weights(psi1, grid.y.size, grid.x.size);
    } else {
      if (i > 0) {
        layer.first_phi = pack(first_phi_map);
        layer.first_psi = pack(first_psi_map);
      }
      layer.second_phi = pack(phi1);
      layer.second_psi = pack(psi1);
      layer.cell_second_psi = pack(cell_psi1);
    }
    inputs = width;
    grid.y.size /= spec.pools[i];
    grid.x.size /= spec.pools[i];
    layer.boxed = !local && i > 0 && !layer.last && !layer.compact && one_tile(grid) &&
                  std::min(layer.grid.y.size, layer.grid.x.size) >= kBox;
    if (layer.boxed) layer.boxed_second_psi = transform_box_weights(psi1);
    layers.push_back(std::move(layer));
  }
  if (grid.y.size < 1 || grid.x.size < 1)
    throw Error("The lattice of " + std::to_string(tissue.lattice.height) + " x " + std::to_string(tissue.lattice.width) +
                " sites is smaller than one block of the network's stride and pools: use a larger lattice.");
  output_grid = grid;
  if (local) {
    cell_head = site_head(model, "neural.cell_head");
    background_head = site_head(model, "neural.background_head");
  }
}

}  // namespace ncpm::neural
