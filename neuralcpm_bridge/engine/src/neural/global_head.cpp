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

GlobalHead::GlobalHead(const Model& model, const Plan& plan, Workspace& workspace)
    : work_(workspace), output_sites_(plan.output_grid.sites()) {
  project_ = Dense(read_linear(model, "neural.project"));
  for (std::size_t i = 0; i < model.neural->mlp.size(); ++i) {
    const std::string entry = "neural.mlp." + std::to_string(i);
    DenseLayer layer{Dense(read_linear(model, entry + ".linear")), {}};
    if (layer.linear.inputs != layer.linear.outputs) layer.skip = Dense(read_linear(model, entry + ".skip"));
    mlp_.push_back(std::move(layer));
  }
  out_ = Dense(read_linear(model, "neural.out"));
}

void GlobalHead::sum(int layer, Field field, const Grid& grid, int channels, int classes) {
  const std::size_t floats = std::size_t(grid.sites()) * channels;
  summed_.push_back({layer, field, grid, channels, classes, sums_.size(), Array<float>(floats), {}});
  sums_.resize(sums_.size() + 2 * std::size_t(channels) * classes, 0);
}

void GlobalHead::reset() {
  sums_.assign(sums_.size(), 0);
  in_range_ = true;
  for (Summed& of : summed_) of.background.clear();
}

void GlobalHead::start() {
  pending_ = sums_;
  pending_in_range_ = in_range_;
}

// Adds or takes away a patch's values in the pending sums, by border class.
void GlobalHead::add(const Summed& of, const Patch& patch, bool background, int sign) {
  std::int64_t* to = pending_.data() + of.at + (background ? std::size_t(of.channels) * of.classes : 0);
  const int rows = patch.at.y.length, columns = patch.at.x.length;
  const auto add_part = [&](int row, int column, int height, int width, int border) {
    const float* from = patch.data + std::ptrdiff_t(row) * patch.pitch + column * of.channels;
    if (!work_.kernels.add_fixed(height, width, of.channels, from, patch.pitch, sign,
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

void GlobalHead::replace_background(Summed& of, const Patch& fresh) {
  of.pending = fresh;
  if (!fresh.data) return;
  const Patch old = work_.proposal.new_patch(fresh.at, of.channels);
  copy_shared(old.at, old.data, old.pitch, of.grid.all(), of.background.data(), of.grid.x.size * of.channels,
              of.channels, of.grid);
  add(of, old, true, -1);
  add(of, fresh, true, 1);
}

void GlobalHead::replace_cell(const Summed& of, const Patch& fresh, int id) {
  if (!fresh.data) return;
  add(of, fresh, false, 1);
  if (!work_.cells.has_tiles(id)) return;
  const Tile& tile = work_.cells.tile(id, of.layer);
  const Box& held = tile.box(of.field);
  if (held == fresh.at) return add(of, {held, tile.field[of.field], of.channels, tile.pitch(of.field)}, false, -1);
  const Patch old = work_.proposal.new_patch(fresh.at, of.channels);
  clear(old);
  copy_shared(old.at, old.data, old.pitch, held, tile.field[of.field], tile.pitch(of.field), of.channels, of.grid);
  add(of, old, false, -1);
}

void GlobalHead::replace_cells(const Summed& of, const Patch& fresh) {
  std::fill_n(pending_.begin() + of.at, std::size_t(of.channels) * of.classes, 0);
  add(of, fresh, false, 1);
}

double GlobalHead::total(const Summed& of, int border, int channel) const {
  const std::size_t at = of.at + std::size_t(border) * of.channels + channel;
  return (double(pending_[at]) + work_.counted * double(pending_[at + std::size_t(of.channels) * of.classes])) *
         kFixedUnit;
}

double GlobalHead::change() {
  pending_energy_ = pending_in_range_ ? dense(features()) : std::numeric_limits<double>::quiet_NaN();
  return pending_energy_ - energy_;
}

void GlobalHead::accept() {
  sums_ = pending_;
  in_range_ = pending_in_range_;
  energy_ = pending_energy_;
  for (Summed& of : summed_)
    if (of.pending.data)
      copy_shared(of.grid.all(), of.background.data(), of.grid.x.size * of.channels, of.pending.at, of.pending.data,
                  of.pending.pitch, of.channels, of.grid);
}

double GlobalHead::dense(const std::vector<double>& features) const {
  std::vector<double> x = project_(features, counted_sites());
  for (const DenseLayer& layer : mlp_) {
    std::vector<double> y = layer.linear(x);
    const std::vector<double> skip = layer.skip.empty() ? x : layer.skip(x);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = silu(y[i]) + skip[i];
    x = std::move(y);
  }
  return out_(x)[0];
}

}  // namespace ncpm::neural
