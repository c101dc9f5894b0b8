// A Hamiltonian as data: types, lattice, terms and their weights, exactly as docs/artifact.md has them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lattice.hpp"

namespace ncpm {

inline constexpr std::int64_t kMaxSize = 1 << 15;  // of strides, widths, axes: far beyond use, far from overflow

struct Tensor {
  // ONNX data types; `symbolic.*` and `neural.weight` are Double, all other `neural.*` are Float.
  enum class Type : std::uint8_t { Float = 1, Double = 11 };

  Type type = Type::Float;
  std::vector<std::int64_t> shape;  // row-major; empty for a scalar
  std::vector<float> floats;        // filled if type == Float
  std::vector<double> doubles;      // filled if type == Double

  std::size_t size() const { return type == Type::Float ? floats.size() : doubles.size(); }
};

using Weights = std::map<std::string, Tensor>;  // ascending bytes of the name: the hash's order

// The network's sizes. Shapes of all its weights were checked against them when the Model was made.
struct NeuralSpec {
  std::string kind;  // "cell_graph", "nh", "local_nh", "nh_cnn" or "cnn"; the engine computes the first three
  int stride = 1;
  std::vector<int> widths;  // one per NH layer; layer 0 receives widths[0] channels from the embedding
  std::vector<int> pools;   // one per NH layer; all 1 for local_nh
  bool circular = false;    // padding of the 3x3 convolutions on the coarse lattice, else zeros
  int project = 0;          // P: channels of `project` (nh), hidden units of the heads (local_nh)
  std::vector<int> mlp;     // sizes of the dense head's entries (nh)

  // Of a cell graph: rounds of messages, features per cell, members of the committee, neighbour order of contacts,
  // knots of the energies of pairs by their distance (0: none), and the named properties of cells that it reads.
  int rounds = 0, width = 0, members = 1, order = 0, knots = 0;
  std::vector<std::string> properties;

  bool is_graph() const { return kind == "cell_graph"; }
};

struct Model {
  std::string metadata;  // the JSON text it came with
  std::string name;
  std::vector<std::string> type_names;  // the first is the medium
  Geometry geometry = Geometry::Square;
  std::vector<bool> periodic = {true, true};  // per axis, as in training; a State may override
  bool forbids_extinction = false;            // as in training; a State may override
  double temperature = 1.0;                   // of training
  std::vector<int> fixed_shape;               // empty: any lattice
  std::map<std::string, int> orders;          // neighbour orders of terms that are not the geometry's own
  bool has_symbolic = false;
  std::optional<NeuralSpec> neural;
  Weights weights;

  int types() const { return static_cast<int>(type_names.size()); }

  // A weight by its full name, such as "neural.layers.0.phi0.weight". Throws Error where it is missing.
  const Tensor& weight(const std::string& key) const;
  bool has(const std::string& key) const { return weights.count(key) != 0; }
  bool has_term(const std::string& name) const;  // any of its weights
  int order(const std::string& term) const;      // of the neighbours it looks at
  double scalar(const std::string& key, double otherwise) const;
  const std::vector<std::string>& properties() const;  // named ones of cells that it reads
  double property_mean(int number) const;              // over the training data, of a named property of cells

  bool knows_range() const;  // whether it says what the cells of its training data were like

  // Whether the engine itself can compute the neural part (none, cell_graph, nh or local_nh).
  bool covered() const { return !neural || neural->is_graph() || neural->kind == "nh" || neural->kind == "local_nh"; }
};

// Throws Error for a format this engine does not know.
void check_format(std::int64_t version);

// Reads and checks the description and the weights; throws Error with one sentence.
std::shared_ptr<const Model> make_model(const std::string& metadata_json, Weights weights);

}  // namespace ncpm
