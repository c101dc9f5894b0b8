#include "graph/kernels.hpp"

#define NCPM_ISA ncpm::graph::baseline
#include "neural/simd.hpp"
#include "graph/kernels_impl.hpp"

namespace ncpm::graph {

const Kernels& baseline_kernels() {
  static const Kernels kernels = baseline::graph_kernels<baseline::Vector<4>>();
  return kernels;
}

}  // namespace ncpm::graph
