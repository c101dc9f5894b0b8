#define NCPM_ISA ncpm::neural::avx2
#include "kernels_impl.hpp"

namespace ncpm::neural {

const Kernels& avx2_kernels() {
  static const Kernels kernels = avx2::kernels<avx2::Vector<8>, avx2::Vector<8>>("avx2");
  return kernels;
}

}  // namespace ncpm::neural
