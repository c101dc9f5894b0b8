#define NCPM_ISA ncpm::neural::baseline
#include "kernels_impl.hpp"

namespace ncpm::neural {

const Kernels& baseline_kernels() {
  static const Kernels kernels = baseline::kernels<baseline::Vector<4>, baseline::Vector<4>>("baseline");
  return kernels;
}

}  // namespace ncpm::neural
