#include "graph/kernels.hpp"

#define NCPM_ISA ncpm::graph::avx512
#include "neural/simd.hpp"
#include "graph/kernels_impl.hpp"

namespace ncpm::graph {

const Kernels& avx512_kernels() {
  static const Kernels kernels = avx512::graph_kernels<avx512::Vector<16>>();
  return kernels;
}

}  // namespace ncpm::graph
