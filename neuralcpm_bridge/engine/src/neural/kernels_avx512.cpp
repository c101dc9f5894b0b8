#define NCPM_ISA ncpm::neural::avx512
#include "kernels_impl.hpp"

namespace ncpm::neural {

const Kernels& avx512_kernels() {
  static const Kernels kernels = avx512::kernels<avx512::Vector<16>, avx512::Vector<8>>("avx512");
  return kernels;
}

}  // namespace ncpm::neural
