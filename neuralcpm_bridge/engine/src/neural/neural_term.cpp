#include "neural_term.hpp"

#include <cstdlib>

#include "error.hpp"
#include "reference_network.hpp"

namespace ncpm {
namespace {

class FullRecompute final : public NeuralTerm {
 public:
  explicit FullRecompute(const Model& model) : model_(model) {}

  void rebuild(const Lattice& lattice) override { energy_ = reference_energy(model_, lattice); }
  double energy() const override { return energy_; }
  double delta(const Lattice& lattice, int site, std::int32_t new_id) override {
    return flipped(lattice, site, new_id) - energy_;
  }
  void commit(const Lattice& before, int site, std::int32_t new_id) override {
    energy_ = flipped(before, site, new_id);
  }
  void changed(const Lattice& after, const std::vector<int>&, const std::vector<std::int32_t>&) override {
    rebuild(after);
  }

 private:
  double flipped(Lattice lattice, int site, std::int32_t new_id) const {
    lattice.ids[site] = new_id;
    return reference_energy(model_, lattice);
  }

  const Model& model_;
  double energy_ = 0.0;
};

}  // namespace

std::unique_ptr<NeuralTerm> make_neural_term(const Model& model, const Lattice&) {
  if (!model.covered())
    throw Error("The engine does not compute networks of kind '" + model.neural->kind +
                "', only 'nh' and 'local_nh': use the ONNX Runtime back end.");
  return std::make_unique<FullRecompute>(model);
}

std::string selected_isa() { return "baseline"; }

}  // namespace ncpm
