// The two ways from the last layer to an energy. Both keep their sums over sites and cells as integers, in
// units of kFixedUnit: adding and taking away is exact. Weights so large that a value or a sum leaves the range of
// these integers make the energy undefined (NaN), and it stays so until the next rebuild.
#pragma once

#include "incremental.hpp"

namespace ncpm::neural {

// local_nh: a small network on every site and cell, summed.
class LocalHead final : public Head {
 public:
  LocalHead(const Plan& plan, const Kernels& kernels);

  void reset() override;
  bool wants_output() const override { return true; }
  void see_background(Proposal& proposal, const Pass& pass) override;
  void see_cell(Proposal& proposal, const Pass& pass, const Cells& cells, const Candidate& cell) override;
  void see_cells(const Patch&, const Patch&) override {}  // its layers are never compact
  double change(double counted) override;
  void accept(const Proposal& proposal) override;
  double energy() const override;

 private:
  template <class Visit>
  void for_energies(const Box& box, const Grid& grid, Visit visit);

  const Plan& plan_;
  const Kernels& kernels_;
  Array<std::int64_t> site_energy_;                // of the background and all cells, in units of kFixedUnit
  std::vector<Patch> pending_energies_;            // of the background, then of cells
  float *base_ = nullptr, *activation_ = nullptr;  // of the cells' head for the background, in the window
  std::int64_t total_ = 0, pending_ = 0;           // or kOutOfRange
};

// A matrix with the weights of one input side by side: the sums of all outputs grow together.
struct Dense {
  int inputs = 0, outputs = 0;
  std::vector<double> weight, bias;

  Dense() = default;
  explicit Dense(const Linear& linear);
  bool empty() const { return weight.empty(); }
  // bias · times + weight · x
  std::vector<double> operator()(const std::vector<double>& x, double times = 1.0) const;
};

// nh: features summed over sites and cells, then a dense network in double precision.
//
// The sum over sites of a convolution needs no convolution: every input counts with the sum of the taps that
// reach a site from it, which depends on its border class alone. So the last layer's second convolution is
// replaced by sums of its input by border class, unless pooling follows it.
class GlobalHead final : public Head {
 public:
  GlobalHead(const Model& model, const Plan& plan, const Kernels& kernels);

  void reset() override;
  bool wants_output() const override { return wants_output_; }
  void see_background(Proposal& proposal, const Pass& pass) override;
  void see_cell(Proposal& proposal, const Pass& pass, const Cells& cells, const Candidate& cell) override;
  void see_cells(const Patch& outputs, const Patch& inputs) override;
  double change(double counted) override;
  void accept(const Proposal& proposal) override;
  double energy() const override { return energy_; }

 private:
  using Sums = std::vector<std::int64_t>;

  // One summed quantity: a field of the cells' tiles, and the background's values of it.
  struct Summed {
    int layer;
    Field field;
    Grid grid;
    int channels;    // padded
    int classes;     // border classes told apart: 1 or kBorderClasses
    std::size_t at;  // of its sums for the cells, followed by those for the background
    Array<float> background;
    Patch pending;  // of the background
  };

  void add(const Summed& of, const Patch& patch, bool background, int sign);
  void replace_background(Summed& of, const Patch& fresh, Arena& arena);
  void replace_cells(const Summed& of, const Patch& fresh);
  void replace_cell(Summed& of, const Patch& fresh, const Cells& cells, int id, Arena& arena);
  double dense(const Sums& sums, double counted) const;

  const Plan& plan_;
  const Kernels& kernels_;
  const bool wants_output_;
  std::vector<Summed> summed_;  // the output; or what is behind psi's first SiLU, and the layer's input
  Sums sums_, pending_;
  bool in_range_ = true, pending_in_range_ = true;
  double energy_ = 0, pending_energy_ = 0;
  std::vector<Dense> reach_;  // by border class: the sum of the taps of psi's second convolution that hit a site
  std::vector<double> second_psi_bias_;
  Dense skip_, project_, out_;
  struct DenseLayer {
    Dense linear, skip;
  };
  std::vector<DenseLayer> mlp_;
};

}  // namespace ncpm::neural
