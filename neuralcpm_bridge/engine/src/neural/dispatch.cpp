#include <cstdlib>
#include <string>

#include "error.hpp"
#include "kernels.hpp"
#include "neural_term.hpp"

namespace ncpm {
namespace neural {
namespace {

#if defined(NCPM_HAS_AVX)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}
#endif

const Kernels* kernels_of(const std::string& isa) {
  if (isa == "baseline") return &baseline_kernels();
#if defined(NCPM_HAS_AVX)
  if (isa == "avx2" && has_avx2()) return &avx2_kernels();
  if (isa == "avx512" && has_avx512()) return &avx512_kernels();
#elif defined(NCPM_HAS_NEON)
  if (isa == "neon") return &neon_kernels();
#endif
  return nullptr;
}

}  // namespace

const Kernels& selected_kernels() {
  const char* wish = std::getenv("NEURALCPM_ISA");
  if (wish && *wish) {
    const std::string isa = wish;
    if (isa != "baseline" && isa != "avx2" && isa != "avx512" && isa != "neon")
      throw Error("NEURALCPM_ISA is '" + isa +
                  "', but 'baseline', 'avx2', 'avx512' or 'neon' was expected: correct or unset it.");
    if (const Kernels* kernels = kernels_of(isa)) return *kernels;
    throw Error("NEURALCPM_ISA asks for '" + isa + "', which this CPU lacks: choose another or unset it.");
  }
  for (const char* isa : {"avx512", "avx2", "neon"})
    if (const Kernels* kernels = kernels_of(isa)) return *kernels;
  return baseline_kernels();
}

}  // namespace neural

std::string selected_isa() { return neural::selected_kernels().isa; }

}  // namespace ncpm
