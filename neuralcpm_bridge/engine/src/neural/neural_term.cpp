#include "neural_term.hpp"

#include "error.hpp"
#include "heads.hpp"
#include "incremental.hpp"

namespace ncpm {
namespace {

using namespace neural;

std::unique_ptr<Head> make_head(const Model& model, const Plan& plan) {
  if (plan.local) return std::make_unique<LocalHead>(plan, selected_kernels());
  return std::make_unique<GlobalHead>(model, plan, selected_kernels());
}

class IncrementalTerm final : public NeuralTerm {
 public:
  IncrementalTerm(const Model& model, const Tissue& tissue)
      : plan_(model, tissue), network_(plan_, selected_kernels(), make_head(model, plan_)) {}

  void rebuild(const Tissue& tissue) override {
    network_.rebuild(tissue);
    kept_site_ = -1;
  }

  double energy() const override { return network_.energy(); }

  std::uint64_t multiply_adds() const override { return network_.multiply_adds(); }

  double delta(const Tissue& tissue, int site, std::int32_t new_id) override {
    kept_site_ = site;
    flip_.new_id = new_id;
    return seen(tissue, site, new_id) ? network_.delta(flip_) : 0.0;
  }

  void commit(const Tissue& before, int site, std::int32_t new_id) override {
    if (kept_site_ != site || flip_.new_id != new_id) delta(before, site, new_id);
    kept_site_ = -1;
    network_.set_id(site, new_id);
    if (seen(before, site, new_id)) network_.commit(flip_);
  }

  void changed(const Tissue& after, const std::vector<int>& sites, const std::vector<std::int32_t>&) override {
    kept_site_ = -1;
    network_.changed(after, sites);
  }

 private:
  // Fills flip_; false if the site is in no block of the embedding.
  bool seen(const Tissue& tissue, int site, std::int32_t new_id) {
    const int row = site / tissue.lattice.width, column = site % tissue.lattice.width, stride = plan_.stride;
    flip_.y = row / stride;
    flip_.x = column / stride;
    flip_.pixel = row % stride * stride + column % stride;
    flip_.old_id = tissue.ids[site];
    flip_.new_id = new_id;
    flip_.old_type = tissue.types[flip_.old_id];
    flip_.new_type = tissue.types[new_id];
    return flip_.y < plan_.blocks.y.size && flip_.x < plan_.blocks.x.size;
  }

  const Plan plan_;
  Incremental network_;
  Flip flip_{};
  int kept_site_ = -1;
};

}  // namespace

std::unique_ptr<NeuralTerm> make_neural_term(const Model& model, const Tissue& tissue) {
  if (!model.covered())
    throw Error("The engine does not compute networks of kind '" + model.neural->kind +
                "', only 'nh' and 'local_nh': use the ONNX Runtime back end.");
  return std::make_unique<IncrementalTerm>(model, tissue);
}

}  // namespace ncpm
