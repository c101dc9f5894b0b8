#include "graph/network.hpp"

#include <cmath>
#include <limits>

namespace ncpm::graph {
namespace {

constexpr double kEnergyUnit = 1.0 / 4294967296.0;

}  // namespace

std::int64_t to_fixed(double energy) {
  return std::abs(energy) < 524288.0 ? std::llrint(energy / kEnergyUnit) : kUndefined;
}

double from_fixed(std::int64_t energy) {
  return energy == kUndefined ? std::numeric_limits<double>::quiet_NaN() : double(energy) * kEnergyUnit;
}

template <class Base>
void Network::dense(const Layer& layer, int count, Rows in, Base base, RowsOut out) {
  multiply_adds_ += std::uint64_t(count) * layer.weight.size();
  if constexpr (std::is_same_v<Base, Rows>) kernels.dense(layer.dense, count, in, base, out);
  else kernels.dense_on(layer.dense, count, in, base, out);
}

void Network::embed(int count, const float* given, float* features) {
  const int width = weights.width, row = weights.features();
  at_least(scratch_, std::size_t(count) * row);
  dense(weights.embed, count, {given, inputs(), 0}, Rows{weights.embed.bias.data(), 0, width},
        {scratch_.data(), row, width});
  kernels.silu(scratch_.data(), std::ptrdiff_t(count) * row);
  dense(weights.embed_more, count, {scratch_.data(), row, width}, Rows{weights.embed_more.bias.data(), 0, width},
        {features, row, width});
}

void Network::project(int round, int count, const float* features, float* rows) {
  const Layer& layer = weights.round[round].project;
  const int share = weights.share();
  dense(layer, count, {features, weights.features(), weights.width}, Rows{layer.bias.data(), 0, share},
        {rows, weights.projected(), share});
}

void Network::send(int round, const Message* messages, std::size_t count) {
  multiply_adds_ += count * kEdgeInputs * weights.features();
  kernels.messages(weights.members, weights.width, weights.share(), weights.round[round].edge.data(), messages,
                   std::ptrdiff_t(count));
}

void Network::finish(int round, int count, const float* const* rows, const std::int32_t* sums, float* features) {
  const int width = weights.width, row = weights.features(), share = weights.share();
  at_least(scratch_, 2 * std::size_t(count) * row);
  float* gathered = scratch_.data();
  float* hidden = gathered + std::size_t(count) * row;
  kernels.from_fixed(sums, std::ptrdiff_t(count) * row, gathered);
  dense(weights.round[round].gather, count, {gathered, row, width}, Scattered{rows, 2 * width, share},
        {hidden, row, width});
  kernels.silu(hidden, std::ptrdiff_t(count) * row);
  dense(weights.round[round].finish, count, {hidden, row, width}, Scattered{rows, 3 * width, share},
        {features, row, width});
}

void Network::energies(int count, const float* features, std::int64_t* out) {
  const int members = weights.members;
  at_least(scratch_, std::size_t(count) * members);
  kernels.energies(members, weights.width, weights.out.data(), count, features, scratch_.data());
  const float* energy = scratch_.data();
  for (int i = 0; i < count; ++i)
    for (const float constant : weights.constant) *out++ = to_fixed(double(*energy++) + double(constant));
}

}  // namespace ncpm::graph
