#include "neural_term.hpp"

#include "error.hpp"
#include "incremental.hpp"

namespace ncpm {
namespace {

class IncrementalTerm final : public NeuralTerm {
 public:
  IncrementalTerm(const Model& model, const Tissue& tissue)
      : plan_(*model.neural, tissue.lattice), network_(model, plan_, neural::selected_kernels()) {}

  void rebuild(const Tissue& tissue) override {
    network_.rebuild(tissue);
    kept_site_ = -1;
  }

  double energy() const override { return network_.energy(); }

  std::uint64_t multiply_adds() const override { return network_.multiply_adds(); }

  double delta(const Tissue& tissue, int site, std::int32_t new_id) override {
    const std::optional<neural::Pixel> at = plan_.pixel_at(site);
    kept_site_ = site;
    flip_.new_id = new_id;
    if (!at) return 0.0;
    const std::int32_t old_id = tissue.ids[site];
    flip_ = {*at, old_id, new_id, tissue.types[old_id], tissue.types[new_id]};
    return network_.delta(flip_);
  }

  void commit(const Tissue& before, int site, std::int32_t new_id) override {
    if (kept_site_ != site || flip_.new_id != new_id) delta(before, site, new_id);
    kept_site_ = -1;
    network_.set_id(site, new_id);
    if (plan_.pixel_at(site)) network_.commit(flip_);
  }

  void changed(const Tissue& after, const std::vector<int>& sites, const std::vector<std::int32_t>&) override {
    kept_site_ = -1;
    network_.changed(after, sites);
  }

 private:
  const neural::Plan plan_;
  neural::Incremental network_;
  neural::PixelFlip flip_{};  // of the last delta
  int kept_site_ = -1;        // -1: what it computed is void
};

}  // namespace

std::unique_ptr<NeuralTerm> make_convolutional_term(const Model& model, const Tissue& tissue) {
  if (tissue.lattice.geometry != Geometry::Square)
    throw Error("The lattice is " + std::string(name_of(tissue.lattice.geometry)) + ", but a network of kind '" +
                model.neural->kind + "' is convolutional and serves square lattices only: use a square lattice, or a " +
                "cell graph.");
  return std::make_unique<IncrementalTerm>(model, tissue);
}

}  // namespace ncpm
