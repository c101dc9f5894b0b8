#include "neural_term.hpp"

#include "error.hpp"

namespace ncpm {

// Each in a folder of its own: neural/ and graph/.
std::unique_ptr<NeuralTerm> make_convolutional_term(const Model& model, const Tissue& tissue);
std::unique_ptr<NeuralTerm> make_graph_term(const Model& model, const Tissue& tissue);

std::unique_ptr<NeuralTerm> make_neural_term(const Model& model, const Tissue& tissue) {
  if (!model.covered())
    throw Error("The engine does not compute networks of kind '" + model.neural->kind +
                "': use the ONNX Runtime back end.");
  return model.neural->is_graph() ? make_graph_term(model, tissue) : make_convolutional_term(model, tissue);
}

}  // namespace ncpm
