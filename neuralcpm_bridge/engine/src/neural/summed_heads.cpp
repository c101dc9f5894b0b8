// What the energy of nh sums: the last layer's output, or what is in front of its last convolution.
#include "heads.hpp"

namespace ncpm::neural {

OutputHead::OutputHead(const Model& model, const Plan& plan, Workspace& workspace)
    : GlobalHead(model, plan, workspace),
      output_{plan.output_grid, 1, plan.layers.back().whole},
      width_(plan.layers.back().width),
      pooling_(workspace) {
  sum(int(plan.layers.size()), kInput, plan.output_grid, padded(width_), 1);
}

std::vector<LayerTiles> OutputHead::tiles() const {
  LayerTiles tiles = output_;
  tiles.channels[kInput] = padded(width_);
  return {tiles};
}

void OutputHead::end(Pass& pass) {
  pooling_.end(pass);  // a cell's output is now its input of what would be the next layer
  start();
  replace_background(summed_[0], pass.output);
  replace_outputs();
}

void OutputHead::replace_outputs() {
  for (const Candidate& cell : work_.proposal.candidates) replace_cell(summed_[0], cell.input, cell.id);
}

void AllOutputsHead::replace_outputs() {
  const Patch sum = work_.proposal.new_patch(output_.grid.all(), padded(width_));
  clear(sum);
  for (const Candidate& cell : work_.proposal.candidates) {
    const Patch& part = cell.input;
    if (part.data)
      work_.kernels.add({part.at.y.length, part.at.x.length * part.channels}, part.data, part.pitch,
                        sum.data + part.at.y.start * sum.pitch + part.at.x.start * sum.channels, sum.pitch);
  }
  replace_cells(summed_[0], sum);
}

std::vector<double> OutputHead::features() const {
  std::vector<double> features(width_);
  for (int c = 0; c < width_; ++c) features[c] = total(summed_[0], 0, c);
  return features;
}

ActivationHead::ActivationHead(const Model& model, const Plan& plan, Workspace& workspace)
    : GlobalHead(model, plan, workspace), inputs_(plan.layers.back().inputs), width_(plan.layers.back().width) {
  const LayerShape& last = plan.layers.back();
  sum(last.index, kG, last.grid, padded(width_), last.grid.y.circular ? 1 : kBorderClasses);
  sum(last.index, kInput, last.grid, padded(inputs_), 1);
  const std::string name = "neural.layers." + std::to_string(last.index);
  const Linear second_psi = read_linear(model, name + ".psi1");
  second_psi_bias_ = second_psi.bias;
  for (int border = 0; border < summed_[kActivations].classes; ++border) {
    Linear reach(1, width_, width_);
    for (int tap = 0; tap < 9; ++tap) {
      if (!tap_exists(border, 8 - tap)) continue;  // from an input's point of view, taps are mirrored
      for (int o = 0; o < width_; ++o)
        for (int i = 0; i < width_; ++i) reach.at(0, o, i) += second_psi.at(tap, o, i);
    }
    reach_.emplace_back(reach);
  }
  if (inputs_ != width_) skip_ = Dense(read_linear(model, name + ".skip"));
}

Patch ActivationHead::room(const Pass& pass, const Rect& rect, int channels) {
  return work_.proposal.new_patch(pass.frame.sites(rect), channels);
}

void ActivationHead::take_background(Pass& pass) {
  const auto part = [&](float* image, int channels, const Rect& rect) {
    return Patch{pass.frame.sites(rect), image + pass.at(channels, rect), channels, pass.pitch(channels)};
  };
  start();
  replace_background(summed_[kActivations], part(pass.g, summed_[kActivations].channels, pass.frame.psi()));
  replace_background(summed_[kInputs], part(pass.h, summed_[kInputs].channels, pass.frame.in()));
}

void ActivationHead::take_cell(const Pass&, const Candidate& cell) {
  replace_cell(summed_[kActivations], cell.output, cell.id);
  replace_cell(summed_[kInputs], cell.input, cell.id);
}

void AllActivationsHead::take_background(Pass& pass) {
  ActivationHead::take_background(pass);
  const Summed &activations = summed_[kActivations], &inputs = summed_[kInputs];
  activations_ = {activations.grid.all(), work_.proposal.new_image(pass, activations.channels), activations.channels,
                  pass.pitch(activations.channels)};  // the kernel's pitch is that of the background
  inputs_ = work_.proposal.new_patch(inputs.grid.all(), inputs.channels);
  clear(activations_);
  clear(inputs_);
}

void AllActivationsHead::take_cell(const Pass& pass, const Candidate& cell) {
  const int channels = activations_.channels;
  const std::ptrdiff_t at = pass.at(channels, pass.frame.exists());
  work_.kernels.add_silu_change({activations_.at.y.length, activations_.at.x.length * channels}, pass.t + at,
                                pass.g + at, activations_.pitch, cell.y.data, cell.y.pitch, activations_.data);
  work_.kernels.add({inputs_.at.y.length, inputs_.pitch}, cell.input.data, cell.input.pitch, inputs_.data,
                    inputs_.pitch);
}

void AllActivationsHead::end(Pass&) {
  replace_cells(summed_[kActivations], activations_);
  replace_cells(summed_[kInputs], inputs_);
}

std::vector<double> ActivationHead::features() const {
  std::vector<double> input(inputs_);
  for (int c = 0; c < inputs_; ++c) input[c] = total(summed_[kInputs], 0, c);
  std::vector<double> features = skip_.empty() ? input : skip_(input, counted_sites());
  for (int o = 0; o < width_; ++o) features[o] += second_psi_bias_[o] * counted_sites();
  std::vector<double> value(width_);
  for (int border = 0; border < summed_[kActivations].classes; ++border) {
    bool any = false;
    for (int i = 0; i < width_; ++i) any |= (value[i] = total(summed_[kActivations], border, i)) != 0.0;
    if (!any) continue;
    const std::vector<double> part = reach_[border](value);
    for (int o = 0; o < width_; ++o) features[o] += part[o];
  }
  return features;
}

}  // namespace ncpm::neural
