#include <cmath>
#include <limits>

#include "heads.hpp"

namespace ncpm::neural {
namespace {

double silu(double x) { return x / (1.0 + std::exp(-x)); }

// Sites from this one on, of those left, that lie as it does with respect to the ends of an axis.
int same_border(int site, int size, int left) {
  return site == 0 || site == size - 1 ? 1 : std::min(left, size - 1 - site);
}

}  // namespace

Dense::Dense(const Linear& linear)
    : inputs(linear.inputs), outputs(linear.outputs), weight(linear.weight.size()), bias(linear.bias) {
  for (int i = 0; i < inputs; ++i)
    for (int o = 0; o < outputs; ++o) weight[std::size_t(i) * outputs + o] = linear.at(0, o, i);
}

std::vector<double> Dense::operator()(const std::vector<double>& x, double times) const {
  std::vector<double> y(outputs);
  for (int o = 0; o < outputs; ++o) y[o] = bias[o] * times;
  const double* from = weight.data();
  int i = 0;
  for (; i + 4 <= inputs; i += 4, from += 4 * outputs) {  // four at a time: the sums come and go less often
    const double *a = from, *b = a + outputs, *c = b + outputs, *d = c + outputs;
    for (int o = 0; o < outputs; ++o) y[o] += (a[o] * x[i] + b[o] * x[i + 1]) + (c[o] * x[i + 2] + d[o] * x[i + 3]);
  }
  for (; i < inputs; ++i, from += outputs)
    for (int o = 0; o < outputs; ++o) y[o] += from[o] * x[i];
  return y;
}

GlobalHead::GlobalHead(const Model& model, const Plan& plan, const Kernels& kernels)
    : plan_(plan), kernels_(kernels), wants_output_(plan.layers.size() == 1 || plan.layers.back().pool > 1) {
  const LayerPlan& last = plan.layers.back();
  const int layers = int(plan.layers.size());
  const std::string name = "neural.layers." + std::to_string(layers - 1);
  std::size_t size = 0;
  const auto sum = [&](int layer, Field field, const Grid& grid, int channels, int classes) {
    const std::size_t floats = std::size_t(grid.sites()) * channels;
    summed_.push_back({layer, field, grid, channels, classes, size, Array<float>(floats), {}});
    size += 2 * std::size_t(channels) * classes;
  };
  if (wants_output_) {
    sum(layers, kInput, plan.output_grid, padded(last.width), 1);
  } else {
    sum(layers - 1, kG, last.grid, padded(last.width), last.grid.y.circular ? 1 : kBorderClasses);
    sum(layers - 1, kInput, last.grid, padded(last.inputs), 1);
    const Linear second_psi = read_linear(model, name + ".psi1");
    second_psi_bias_ = second_psi.bias;
    for (int border = 0; border < summed_[0].classes; ++border) {
      Linear sum(1, last.width, last.width);
      for (int tap = 0; tap < 9; ++tap) {
        if (!tap_exists(border, 8 - tap)) continue;  // from an input's point of view, taps are mirrored
        for (int o = 0; o < last.width; ++o)
          for (int i = 0; i < last.width; ++i) sum.at(0, o, i) += second_psi.at(tap, o, i);
      }
      reach_.emplace_back(sum);
    }
    if (last.inputs != last.width) skip_ = Dense(read_linear(model, name + ".skip"));
  }
  sums_.assign(size, 0);
  project_ = Dense(read_linear(model, "neural.project"));
  for (std::size_t i = 0; i < model.neural->mlp.size(); ++i) {
    const std::string entry = "neural.mlp." + std::to_string(i);
    DenseLayer layer{Dense(read_linear(model, entry + ".linear")), {}};
    if (layer.linear.inputs != layer.linear.outputs) layer.skip = Dense(read_linear(model, entry + ".skip"));
    mlp_.push_back(std::move(layer));
  }
  out_ = Dense(read_linear(model, "neural.out"));
}

void GlobalHead::reset() {
  sums_.assign(sums_.size(), 0);
  in_range_ = true;
  for (Summed& of : summed_) of.background.clear();
}

// Adds or takes away a patch's values in the pending sums, by border class.
void GlobalHead::add(const Summed& of, const Patch& patch, bool background, int sign) {
  std::int64_t* to = pending_.data() + of.at + (background ? std::size_t(of.channels) * of.classes : 0);
  const int rows = patch.at.y.length, columns = patch.at.x.length;
  const auto add_part = [&](int row, int column, int height, int width, int border) {
    const float* from = patch.data + std::ptrdiff_t(row) * patch.pitch + column * of.channels;
    if (!kernels_.add_fixed(height, width, of.channels, from, patch.pitch, sign,
                            to + std::size_t(border) * of.channels))
      pending_in_range_ = false;
  };
  if (of.classes == 1) return add_part(0, 0, rows, columns, 0);
  for (int row = 0, height; row < rows; row += height) {
    const int y = patch.at.y.start + row;
    height = same_border(y, of.grid.y.size, rows - row);
    for (int column = 0, width; column < columns; column += width) {
      const int x = patch.at.x.start + column;
      width = same_border(x, of.grid.x.size, columns - column);
      add_part(row, column, height, width, border_class(of.grid, y, x));
    }
  }
}

// Puts fresh values in the place of the cached ones, in the pending sums.
void GlobalHead::replace_background(Summed& of, const Patch& fresh, Arena& arena) {
  of.pending = fresh;
  if (!fresh.data) return;
  const int pitch = fresh.at.x.length * of.channels;
  const Patch old{fresh.at, arena.take<float>(std::size_t(fresh.at.y.length) * pitch), of.channels, pitch};
  copy_shared(old.at, old.data, old.pitch, of.grid.all(), of.background.data(), of.grid.x.size * of.channels,
              of.channels, of.grid);
  add(of, old, true, -1);
  add(of, fresh, true, 1);
}

void GlobalHead::replace_cell(Summed& of, const Patch& fresh, const Cells& cells, int id, Arena& arena) {
  if (!fresh.data) return;
  add(of, fresh, false, 1);
  if (!cells.has_tiles(id)) return;
  const Tile& tile = cells.tile(id, of.layer);
  const Box& held = tile.box(of.field);
  if (held == fresh.at) return add(of, {held, tile.field[of.field], of.channels, tile.pitch(of.field)}, false, -1);
  const int pitch = fresh.at.x.length * of.channels;
  const Patch old{fresh.at, arena.take<float>(std::size_t(fresh.at.y.length) * pitch), of.channels, pitch};
  std::memset(old.data, 0, sizeof(float) * old.at.y.length * old.pitch);
  copy_shared(old.at, old.data, old.pitch, held, tile.field[of.field], tile.pitch(of.field), of.channels, of.grid);
  add(of, old, false, -1);
}

void GlobalHead::see_background(Proposal& proposal, const Pass& pass) {
  pending_ = sums_;
  pending_in_range_ = in_range_;
  const auto part = [&](float* image, int channels, const Rect& rect) {
    return Patch{pass.frame.sites(rect), image + pass.at(channels, rect.y.lo, rect.x.lo), channels,
                 pass.pitch(channels)};
  };
  if (wants_output_) return replace_background(summed_[0], pass.output, proposal.arena);
  replace_background(summed_[0], part(pass.g, summed_[0].channels, pass.frame.psi()), proposal.arena);
  replace_background(summed_[1], part(pass.h, summed_[1].channels, pass.frame.in()), proposal.arena);
}

void GlobalHead::see_cell(Proposal& proposal, const Pass&, const Cells& cells, const Candidate& cell) {
  if (wants_output_) return replace_cell(summed_[0], cell.input, cells, cell.id, proposal.arena);
  replace_cell(summed_[0], cell.output, cells, cell.id, proposal.arena);
  replace_cell(summed_[1], cell.input, cells, cell.id, proposal.arena);
}

void GlobalHead::replace_cells(const Summed& of, const Patch& fresh) {
  std::fill_n(pending_.begin() + of.at, std::size_t(of.channels) * of.classes, 0);
  add(of, fresh, false, 1);
}

void GlobalHead::see_cells(const Patch& outputs, const Patch& inputs) {
  if (wants_output_) return replace_cells(summed_[0], inputs);
  replace_cells(summed_[0], outputs);
  replace_cells(summed_[1], inputs);
}

double GlobalHead::change(double counted) {
  pending_energy_ = pending_in_range_ ? dense(pending_, counted) : std::numeric_limits<double>::quiet_NaN();
  return pending_energy_ - energy_;
}

void GlobalHead::accept(const Proposal&) {
  sums_ = pending_;
  in_range_ = pending_in_range_;
  energy_ = pending_energy_;
  for (Summed& of : summed_)
    if (of.pending.data)
      copy_shared(of.grid.all(), of.background.data(), of.grid.x.size * of.channels, of.pending.at, of.pending.data,
                  of.pending.pitch, of.channels, of.grid);
}

double GlobalHead::dense(const Sums& sums, double counted) const {
  // The sum of `of` over sites and cells: the cells' differences, and the background as often as there are cells.
  const auto total = [&](const Summed& of, int border, int channel) {
    const std::size_t at = of.at + std::size_t(border) * of.channels + channel;
    return (double(sums[at]) + counted * double(sums[at + std::size_t(of.channels) * of.classes])) * kFixedUnit;
  };
  const double sites = counted * plan_.output_grid.sites();
  const int width = plan_.layers.back().width, inputs = plan_.layers.back().inputs;
  std::vector<double> features(width);
  if (wants_output_) {
    for (int c = 0; c < width; ++c) features[c] = total(summed_[0], 0, c);
  } else {
    std::vector<double> input(inputs);
    for (int c = 0; c < inputs; ++c) input[c] = total(summed_[1], 0, c);
    features = skip_.empty() ? input : skip_(input, sites);
    for (int o = 0; o < width; ++o) features[o] += second_psi_bias_[o] * sites;
    std::vector<double> value(width);
    for (int border = 0; border < summed_[0].classes; ++border) {
      bool any = false;
      for (int i = 0; i < width; ++i) any |= (value[i] = total(summed_[0], border, i)) != 0.0;
      if (!any) continue;
      const std::vector<double> part = reach_[border](value);
      for (int o = 0; o < width; ++o) features[o] += part[o];
    }
  }
  std::vector<double> x = project_(features, sites);
  for (const DenseLayer& layer : mlp_) {
    std::vector<double> y = layer.linear(x);
    const std::vector<double> skip = layer.skip.empty() ? x : layer.skip(x);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = silu(y[i]) + skip[i];
    x = std::move(y);
  }
  return out_(x)[0];
}

}  // namespace ncpm::neural
