#include <cstdint>
#include <cstring>
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

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
