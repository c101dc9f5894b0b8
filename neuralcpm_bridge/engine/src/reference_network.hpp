// The networks of docs/artifact.md in plain loops and double precision: slow, short, and the ground truth
// that the incremental kernels are tested against.
#pragma once

#include "tissue.hpp"
#include "model.hpp"

namespace ncpm {

// H_NN of the whole state, without w_NN. Throws Error for kinds other than nh and local_nh.
double reference_energy(const Model& model, const Tissue& tissue);

}  // namespace ncpm
