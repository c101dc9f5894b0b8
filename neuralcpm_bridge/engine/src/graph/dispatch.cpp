#include <string>

#include "graph/kernels.hpp"
#include "neural_term.hpp"

namespace ncpm::graph {

const Kernels& selected_kernels() {
  const std::string isa = selected_isa();
#if defined(NCPM_HAS_AVX)
  if (isa == "avx512") return avx512_kernels();
  if (isa == "avx2") return avx2_kernels();
#elif defined(NCPM_HAS_NEON)
  if (isa == "neon") return neon_kernels();
#endif
  return baseline_kernels();
}

}  // namespace ncpm::graph
