#include "graph/kernels.hpp"

#define NCPM_ISA ncpm::graph::neon
#define NCPM_NEON
#include "neural/simd.hpp"
#include "graph/kernels_impl.hpp"

namespace ncpm::graph {

const Kernels& neon_kernels() {
  static const Kernels kernels = neon::graph_kernels<neon::Vector<4>>();
  return kernels;
}

}  // namespace ncpm::graph
