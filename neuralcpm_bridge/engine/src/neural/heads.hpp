// The ways from the last layer to an energy. All keep their sums over sites and cells as integers, in units of
// kFixedUnit: adding and taking away is exact. Weights so large that a value or a sum leaves the range of these
// integers make the energy undefined (NaN), and it stays so until the next rebuild.
#pragma once

#include "outlet.hpp"

namespace ncpm::neural {

// It is the last layer's outlet: a proposal that reaches the last layer shows it what is new, then asks for the change.
class Head {
 public:
  virtual ~Head() = default;
  virtual void reset() = 0;
  virtual double change() = 0;
  virtual void accept() = 0;
  virtual double energy() const = 0;
  virtual Outlet& outlet() = 0;
  // What it wants the cells to keep of the last layer's output, one entry or none.
  virtual std::vector<LayerTiles> tiles() const { return {}; }
};

// e(h) = out(SiLU(hidden(h))).
struct SiteHead {
  Packed hidden;
  std::vector<float> hidden_bias, out;  // padded
  float out_bias = 0;
};

// local_nh: a small network on every site and cell, summed. It takes every cell as soon as it is there, while its
// output is in the core's cache.
class LocalHead final : public Head, private Outlet {
 public:
  LocalHead(const Model& model, const Plan& plan, Workspace& workspace);

  void reset() override;
  double change() override;
  void accept() override;
  double energy() const override;
  Outlet& outlet() override { return *this; }

 private:
  Patch room(const Pass& pass, const Rect& rect, int channels) override;
  void take_background(Pass& pass) override;
  void take_cell(const Pass& pass, const Candidate& cell) override;
  void end(Pass&) override {}

  void hidden_layer(const Pass& pass, const SiteHead& head, float* to) const;
  template <class Visit>
  void for_energies(const Box& box, Visit visit);

  Workspace& work_;
  const Grid grid_;
  const SiteHead cell_head_, background_head_;
  const bool fused_;                               // cells hand on the inputs of their head's SiLU
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

// nh: features summed over sites and cells, then a dense network in double precision. What is summed is the
// difference between its two forms.
class GlobalHead : public Head {
 public:
  GlobalHead(const Model& model, const Plan& plan, Workspace& workspace);

  void reset() override;
  double change() override;
  void accept() override;
  double energy() const override { return energy_; }

 protected:
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

  void sum(int layer, Field field, const Grid& grid, int channels, int classes);
  // In the sums of the proposal, fresh values in the place of the cached ones.
  void start();
  void replace_background(Summed& of, const Patch& fresh);
  void replace_cell(const Summed& of, const Patch& fresh, int id);
  void replace_cells(const Summed& of, const Patch& fresh);  // the sum of all cells
  // The sum of `of` over sites and cells: the cells' differences, and the background as often as there are cells.
  double total(const Summed& of, int border, int channel) const;
  double counted_sites() const { return work_.counted * output_sites_; }
  // The sum of the last layer's output over sites and cells, from the pending sums.
  virtual std::vector<double> features() const = 0;

  Workspace& work_;
  std::vector<Summed> summed_;

 private:
  void add(const Summed& of, const Patch& patch, bool background, int sign);
  double dense(const std::vector<double>& features) const;

  const int output_sites_;
  Sums sums_, pending_;
  bool in_range_ = true, pending_in_range_ = true;
  double energy_ = 0, pending_energy_ = 0;
  struct DenseLayer {
    Dense linear, skip;
  };
  std::vector<DenseLayer> mlp_;
  Dense project_, out_;
};

// Sums the last layer's output, cell by cell.
class OutputHead : public GlobalHead, private Outlet {
 public:
  OutputHead(const Model& model, const Plan& plan, Workspace& workspace);

  Outlet& outlet() override { return *this; }
  std::vector<LayerTiles> tiles() const override;

 protected:
  virtual void replace_outputs();

  const LayerTiles output_;  // where the output is; nothing of it is kept
  const int width_;

 private:
  Patch room(const Pass& pass, const Rect& rect, int channels) override { return pooling_.room(pass, rect, channels); }
  void take_background(Pass& pass) override { pooling_.take_background(pass); }
  void take_cell(const Pass&, const Candidate&) override {}
  void end(Pass& pass) override;
  std::vector<double> features() const override;

  HandOn pooling_;
};

// The same behind a tile, where all cells are new: they keep nothing.
class AllOutputsHead final : public OutputHead {
 public:
  using OutputHead::OutputHead;
  std::vector<LayerTiles> tiles() const override { return {output_}; }

 private:
  void replace_outputs() override;
};

// The sum over sites of a convolution needs no convolution: every input counts with the sum of the taps that reach a
// site from it, which depends on its border class alone. So the last layer's second convolution is replaced by sums of
// its input by border class. Takes what is behind psi's first SiLU (as a cell's output), and the layer's input.
class ActivationHead : public GlobalHead, protected Outlet {
 public:
  ActivationHead(const Model& model, const Plan& plan, Workspace& workspace);

  Outlet& outlet() override { return *this; }

 protected:
  Patch room(const Pass& pass, const Rect& rect, int channels) override;
  void take_background(Pass& pass) override;
  void take_cell(const Pass& pass, const Candidate& cell) override;
  void end(Pass&) override {}

  enum { kActivations, kInputs };  // in summed_

 private:
  std::vector<double> features() const override;

  const int inputs_, width_;
  std::vector<Dense> reach_;  // by border class: the sum of the taps of psi's second convolution that hit a site
  std::vector<double> second_psi_bias_;
  Dense skip_;
};

// The same behind a tile, where all cells are new. Takes a cell in front of psi's first SiLU, which it applies while it
// adds.
class AllActivationsHead final : public ActivationHead {
 public:
  using ActivationHead::ActivationHead;

 private:
  void take_background(Pass& pass) override;
  void take_cell(const Pass& pass, const Candidate& cell) override;
  void end(Pass& pass) override;

  Patch activations_, inputs_;  // summed over cells
};

}  // namespace ncpm::neural
