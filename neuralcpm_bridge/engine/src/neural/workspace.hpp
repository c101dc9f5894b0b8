// What all layers of a network and its head work with.
#pragma once

#include "kernels.hpp"
#include "packing.hpp"
#include "proposal.hpp"

namespace ncpm::neural {

// Images on their way through a Winograd convolution (winograd.hpp), as many at a time as stay in the core's cache:
// their values at the interpolation points in front of it and behind it.
class PointBatch {
 public:
  static constexpr int kSlots = 18;

  void reserve(const WinogradWeights& weights) {
    const std::size_t slots = std::size_t(weights.points) * kSlots;
    if (in_.size() < slots * weights.inputs) in_ = Array<float>(slots * weights.inputs);
    if (out_.size() < slots * weights.out_stride) out_ = Array<float>(slots * weights.out_stride);
  }
  float* in(int slot, int channels) { return in_.data() + slot * channels; }
  const float* out(int slot, int channels) const { return out_.data() + slot * channels; }
  static std::ptrdiff_t point_stride(int channels) { return kSlots * channels; }

  PointProducts products(const WinogradWeights& weights, int slots) {
    return {weights.points,         slots,      kSlots, weights.inputs, weights.out_stride, in_.data(),
            weights.weights.data(), out_.data()};
  }

 private:
  Array<float> in_, out_;
};

struct Workspace {
  const Kernels& kernels;
  Cells cells;
  Proposal proposal;
  PointBatch points;
  // How often the background itself counts in the sums over cells. nh: once for every id, since an id without pixels
  // is a cell too; local_nh: never, its sums are relative to an absent cell.
  double counted = 0;
  std::uint64_t multiply_adds = 0;  // of 3x3 convolutions, taps on zeros left out

  explicit Workspace(const Kernels& selected) : kernels(selected) {}

  void multiply_points(const WinogradWeights& weights, int slots) {
    kernels.multiply_points(points.products(weights, slots));
    multiply_adds += std::uint64_t(weights.points) * slots * weights.inputs * weights.out_stride;
  }
};

}  // namespace ncpm::neural
