// The two ways from the last layer to an energy.
#pragma once

#include "incremental.hpp"

namespace ncpm::neural {

class LocalHead final : public Head {
 public:
  LocalHead(const Plan& plan, const Kernels& kernels);

  void reset() override;
  bool wants_output() const override { return true; }
  double propose(Proposal& proposal, const Pass& pass, const Cells& cells, double counted) override;
  void accept(const Proposal& proposal) override;
  double energy(double counted) const override;

 private:
  const Plan& plan_;
  const Kernels& kernels_;
  Array<float> background_energy_;  // by site
  Patch pending_background_;
  std::int64_t total_ = 0, pending_ = 0;  // in units of kFixedUnit
};

}  // namespace ncpm::neural
