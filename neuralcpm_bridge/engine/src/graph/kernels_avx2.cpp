#include "graph/kernels.hpp"

#define NCPM_ISA ncpm::graph::avx2
#include "neural/simd.hpp"
#include "graph/kernels_impl.hpp"

namespace ncpm::graph {

const Kernels& avx2_kernels() {
  static const Kernels kernels = avx2::graph_kernels<avx2::Vector<8>>();
  return kernels;
}

}  // namespace ncpm::graph
