// The weights of a cell graph, laid out for the kernels. docs/artifact.md has the formulas.
#pragma once

#include <vector>

#include "checklist.hpp"
#include "graph/kernels.hpp"
#include "graph/shape.hpp"
#include "model.hpp"

namespace ncpm::graph {

// Ticks off the weights of a cell graph.
void check_weights(const Model& model, Checklist& list);

// Means and deviations of inputs over the training data: x ↦ z / sqrt(1 + z²/9), z = (x - mean) / deviation. Between -3
// and 3, smooth, hardly changed near the data.
struct Standard {
  std::vector<float> mean, inverse;

  Standard(const Tensor& means, const Tensor& deviations);
  void apply(float* values) const;  // in place, as many as there are means
};

// A dense layer that owns its weights.
struct Layer {
  std::vector<float> weight, bias;  // [member][input][output], [member][output]
  Dense dense;
};

struct Round {
  Layer project;              // features to [own | other | psi | carry] of every member
  std::vector<float> edge;    // [member][kEdgeInputs][width]
  std::vector<float> medium;  // the medium's row: like a projected one of which only `other` is used
  Layer gather, finish;  // psi + gather · sums; carry + finish · SiLU(that): the next features, or the head's input
};

struct Weights {
  explicit Weights(const Model& model);

  int types, rounds, width, members, properties, knots;
  Standard cell, edge;
  float surface;  // a typical one: what contacts are measured in
  Layer embed, embed_more;
  std::vector<Round> round;
  std::vector<float> out;            // [member][width]
  std::vector<float> constant;       // [member]
  std::vector<float> low, high;      // [types][inputs]: what the training data cover
  double knot_distance = 0.0;        // from knot to knot of energies of pairs, if there are any
  std::vector<float> pair_energies;  // [member][pair of types][knot]

  int inputs() const { return kCellInputs + properties; }  // of a cell, besides its type
  int type_pairs() const { return types * (types - 1) / 2; }
  int features() const { return members * width; }  // of a row
  int projected() const { return 4 * features(); }  // of a projected row
  int share() const { return 4 * width; }           // of one member in it
};

}  // namespace ncpm::graph
