#define NCPM_ISA ncpm::neural::neon
#define NCPM_NEON
#include "kernels_impl.hpp"

namespace ncpm::neural {

const Kernels& neon_kernels() {
  static const Kernels kernels = neon::kernels<neon::Vector<4>, neon::Vector<4>>("neon");
  return kernels;
}

}  // namespace ncpm::neural
