// The artifact of docs/artifact.md: one ONNX file with the weights and a JSON description.
#pragma once

#include <memory>
#include <string>

#include "model.hpp"

namespace ncpm {

struct Artifact {
  std::string metadata;  // the JSON of the entry `neuralcpm`
  Weights weights;       // initialisers named symbolic.* and neural.*
  std::string hash;      // of the weights, hex
  std::string seal;      // the hash of all of the file but this entry, as it states it; "": it does not
  std::string sealed;    // that hash as it is
};

// Reads the file; throws Error unless it is an artifact of a known format whose weights have the hash it states.
Artifact read_artifact(const std::string& path);

// Reads the file into a checked model; refuses it also if the description's symbolic numbers are not those of the
// weights, if, for models the engine covers, the stored examples do not come out, or if anything else was changed.
std::shared_ptr<const Model> load_model(const std::string& path);

// SHA-256 over the weights as docs/artifact.md defines it, hex.
std::string weights_hash(const Weights& weights);

}  // namespace ncpm
