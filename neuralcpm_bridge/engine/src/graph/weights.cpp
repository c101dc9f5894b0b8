#include "graph/weights.hpp"

#include <cmath>

#include "error.hpp"

namespace ncpm::graph {
namespace {

std::string member_name(int member) { return "neural.members." + std::to_string(member); }
std::string round_name(int member, int round) { return member_name(member) + ".rounds." + std::to_string(round); }

using Matrix = std::vector<double>;  // [output][input]

Matrix doubles(const Tensor& tensor) { return {tensor.floats.begin(), tensor.floats.end()}; }

// [rows][inner] · [inner][columns]
Matrix multiplied(const Matrix& a, const Matrix& b, int rows, int inner, int columns) {
  Matrix out(std::size_t(rows) * columns, 0.0);
  for (int i = 0; i < rows; ++i)
    for (int k = 0; k < inner; ++k)
      for (int j = 0; j < columns; ++j) out[i * columns + j] += a[i * inner + k] * b[k * columns + j];
  return out;
}

Layer make_layer(int members, int inputs, int outputs) {
  Layer layer;
  layer.weight.resize(std::size_t(members) * inputs * outputs);
  layer.bias.resize(std::size_t(members) * outputs);
  layer.dense = {members, inputs, outputs, nullptr};
  return layer;
}

// Puts a matrix [n][inputs of it] into one member's outputs from `first` on; columns from `skip` on are taken.
void place(Layer& layer, int member, int first, const Matrix& matrix, int columns, int skip = 0) {
  const Dense& dense = layer.dense;
  for (std::size_t row = 0; row * columns < matrix.size(); ++row)
    for (int k = 0; k < dense.inputs; ++k)
      layer.weight[(std::size_t(member) * dense.inputs + k) * dense.outputs + first + row] =
          float(matrix[row * columns + skip + k]);
}

void place_bias(Layer& layer, int member, int first, const Matrix& bias) {
  for (std::size_t i = 0; i < bias.size(); ++i)
    layer.bias[std::size_t(member) * layer.dense.outputs + first + i] = float(bias[i]);
}

Layer plain_layer(const Model& model, int members, int inputs, int outputs, const std::string& name) {
  Layer layer = make_layer(members, inputs, outputs);
  for (int member = 0; member < members; ++member) {
    place(layer, member, 0, doubles(model.weight(member_name(member) + name + ".weight")), inputs);
    place_bias(layer, member, 0, doubles(model.weight(member_name(member) + name + ".bias")));
  }
  return layer;
}

Round make_round(const Model& model, const Weights& sizes, int number) {
  const int width = sizes.width, members = sizes.members;
  const bool last = number + 1 == sizes.rounds;
  Round round;
  round.project = make_layer(members, width, 4 * width);
  round.gather = make_layer(members, width, width);
  round.finish = make_layer(members, width, width);
  round.edge.resize(std::size_t(members) * kEdgeInputs * width);
  round.medium.assign(sizes.projected(), 0.0f);
  for (int member = 0; member < members; ++member) {
    const std::string name = round_name(member, number);
    place(round.project, member, 0, doubles(model.weight(name + ".own.weight")), width);
    place_bias(round.project, member, 0, doubles(model.weight(name + ".own.bias")));
    place(round.project, member, width, doubles(model.weight(name + ".other.weight")), width);
    Matrix psi = doubles(model.weight(name + ".psi0.weight"));
    for (std::size_t i = 0; i < psi.size(); ++i)
      if (int(i % (2 * width)) >= width + width / 2) psi[i] *= kTouchScale;  // sums hold less of a touch
    place(round.project, member, 2 * width, psi, 2 * width);
    place_bias(round.project, member, 2 * width, doubles(model.weight(name + ".psi0.bias")));
    place(round.gather, member, 0, psi, 2 * width, width);

    const Matrix second = doubles(model.weight(name + ".psi1.weight"));
    const Matrix shift = doubles(model.weight(name + ".psi1.bias"));
    if (last) {  // the head's first layer is linear in the features: it is folded into what makes them
      const Matrix head = doubles(model.weight(member_name(member) + ".hidden.weight"));
      Matrix bias = doubles(model.weight(member_name(member) + ".hidden.bias"));
      const Matrix moved = multiplied(head, shift, width, width, 1);
      for (int i = 0; i < width; ++i) bias[i] += moved[i];
      place(round.project, member, 3 * width, head, width);
      place_bias(round.project, member, 3 * width, bias);
      place(round.finish, member, 0, multiplied(head, second, width, width, width), width);
    } else {
      Matrix identity(std::size_t(width) * width, 0.0);
      for (int i = 0; i < width; ++i) identity[i * width + i] = 1.0;
      place(round.project, member, 3 * width, identity, width);
      place_bias(round.project, member, 3 * width, shift);
      place(round.finish, member, 0, second, width);
    }
    const std::vector<float>& edge = model.weight(name + ".edge.weight").floats;  // [width][kEdgeInputs]
    for (int i = 0; i < width; ++i)
      for (int k = 0; k < kEdgeInputs; ++k)
        round.edge[(std::size_t(member) * kEdgeInputs + k) * width + i] = edge[i * kEdgeInputs + k];
    const std::vector<float>& medium = model.weight(name + ".medium").floats;
    for (int i = 0; i < width; ++i) round.medium[member * 4 * width + width + i] = medium[i];
  }
  return round;
}

}  // namespace

void check_weights(const Model& model, Checklist& list) {
  const NeuralSpec& spec = *model.neural;
  const std::int64_t width = spec.width, types = model.types();
  const std::int64_t inputs = kCellInputs + std::int64_t(spec.properties.size());
  if (spec.width % kBlock)
    throw Error("The cell graph has " + std::to_string(spec.width) + " features per cell, but a multiple of " +
                std::to_string(kBlock) + " is needed: export the model again.");
  for (const char* name : {"neural.cell_mean", "neural.cell_deviation"}) list.need(name, {inputs});
  for (const char* name : {"neural.edge_mean", "neural.edge_deviation"}) list.need(name, {kEdgeInputs});
  for (const char* name : {"neural.low", "neural.high"}) list.need(name, {types, inputs});
  list.need("neural.surface", {});
  for (const char* name : {"neural.cell_deviation", "neural.edge_deviation", "neural.surface"})
    for (const float value : model.weight(name).floats)
      if (!(value > 0.0f))
        throw Error(std::string("The weight '") + name +
                    "' holds a number that is not positive: export the model again.");
  for (const char* name : {"neural.edge_mean", "neural.edge_deviation"}) {
    const std::vector<float>& values = model.weight(name).floats;
    if (values[kRadii] != values[kRadii + 1])
      throw Error(std::string("The weight '") + name +
                  "' differs for the two cells of a contact, which are cells alike: export the model again.");
  }
  if (spec.knots == 1)
    throw Error("Energies of pairs of cells have 1 knot, but at least 2 are needed: export the model again.");
  if (spec.knots) {
    list.need("neural.reach", {});
    if (!(model.weight("neural.reach").floats[0] > 0.0f))
      throw Error("The weight 'neural.reach' is not positive: export the model again.");
  }
  for (int member = 0; member < spec.members; ++member) {
    const std::string name = member_name(member);
    list.affine(name + ".embed", {width, types - 1 + inputs});
    list.affine(name + ".embed_more", {width, width});
    for (int number = 0; number < spec.rounds; ++number) {
      const std::string round = round_name(member, number);
      list.affine(round + ".own", {width, width});
      list.need(round + ".other.weight", {width, width});
      list.need(round + ".edge.weight", {width, kEdgeInputs});
      list.need(round + ".medium", {width});
      list.affine(round + ".psi0", {width, 2 * width});
      list.affine(round + ".psi1", {width, width});
    }
    list.affine(name + ".hidden", {width, width});
    list.affine(name + ".out", {1, width});
    if (spec.knots) list.need(name + ".pairs", {types * (types - 1) / 2, spec.knots});
  }
}

Standard::Standard(const Tensor& means, const Tensor& deviations) : mean(means.floats) {
  for (const float deviation : deviations.floats) inverse.push_back(1.0f / deviation);
}

void Standard::apply(float* values) const {
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const float z = (values[i] - mean[i]) * inverse[i];
    values[i] = z / std::sqrt(1.0f + z * z * (1.0f / 9.0f));
  }
}

Weights::Weights(const Model& model)
    : types(model.types()),
      rounds(model.neural->rounds),
      width(model.neural->width),
      members(model.neural->members),
      properties(int(model.neural->properties.size())),
      knots(model.neural->knots),
      cell(model.weight("neural.cell_mean"), model.weight("neural.cell_deviation")),
      edge(model.weight("neural.edge_mean"), model.weight("neural.edge_deviation")),
      surface(model.weight("neural.surface").floats[0]),
      low(model.weight("neural.low").floats),
      high(model.weight("neural.high").floats) {
  embed = plain_layer(model, members, types - 1 + inputs(), width, ".embed");
  embed_more = plain_layer(model, members, width, width, ".embed_more");
  for (int number = 0; number < rounds; ++number) round.push_back(make_round(model, *this, number));
  for (int member = 0; member < members; ++member) {
    const std::vector<float>& weight = model.weight(member_name(member) + ".out.weight").floats;
    out.insert(out.end(), weight.begin(), weight.end());
    constant.push_back(model.weight(member_name(member) + ".out.bias").floats[0]);
    if (knots == 0) continue;
    const std::vector<float>& pairs = model.weight(member_name(member) + ".pairs").floats;
    pair_energies.insert(pair_energies.end(), pairs.begin(), pairs.end());
  }
  if (knots) knot_distance = double(model.weight("neural.reach").floats[0]) / (knots - 1);
  // Only now: the vectors have found their places.
  for (Layer* layer : {&embed, &embed_more}) layer->dense.weight = layer->weight.data();
  for (Round& one : round)
    for (Layer* layer : {&one.project, &one.gather, &one.finish}) layer->dense.weight = layer->weight.data();
}

}  // namespace ncpm::graph
