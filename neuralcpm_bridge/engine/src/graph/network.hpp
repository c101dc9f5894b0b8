// The layers of a cell graph on rows of cells that lie side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/weights.hpp"

namespace ncpm::graph {

// Energies are integers as well, multiples of 2^-32: totals do not depend on the order of cells. Beyond 2^19 they are
// undefined.
inline constexpr std::int64_t kUndefined = INT64_MIN;
std::int64_t to_fixed(double energy);
double from_fixed(std::int64_t energy);  // not a number, if it is undefined

class Network {
 public:
  explicit Network(const Model& model) : weights(model), kernels(selected_kernels()) {}

  const Weights weights;
  const Kernels& kernels;

  int inputs() const { return weights.types - 1 + weights.inputs(); }  // of a cell, its type included

  void embed(int count, const float* inputs, float* features);
  void project(int round, int count, const float* features, float* rows);
  void send(int round, const Message* messages, std::size_t count);
  // From rows and sums of messages to the next features, or to what the energies are made of.
  void finish(int round, int count, const float* const* rows, const std::int32_t* sums, float* features);
  void energies(int count, const float* features, std::int64_t* out);  // [cell][member]

  std::uint64_t multiply_adds() const { return multiply_adds_; }

 private:
  template <class Base>
  void dense(const Layer& layer, int count, Rows in, Base base, RowsOut out);

  std::uint64_t multiply_adds_ = 0;
  std::vector<float> scratch_;
};

template <class Number>
void at_least(std::vector<Number>& values, std::size_t size) {
  if (values.size() < size) values.resize(size);
}

}  // namespace ncpm::graph
