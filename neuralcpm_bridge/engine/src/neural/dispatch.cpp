#include <cstdlib>
#include <string>

#include "error.hpp"
#include "kernels.hpp"
#include "neural_term.hpp"

#if defined(NCPM_HAS_AVX)
#include <cpuid.h>
#endif

namespace ncpm {
namespace neural {
namespace {

#if defined(NCPM_HAS_AVX)
// What the operating system saves of a thread, as XCR0 has it; macOS adds AVX-512 when a program first uses it.
constexpr unsigned SAVES_AVX = 0x06;
#if defined(__APPLE__)
constexpr unsigned SAVES_AVX512 = SAVES_AVX;
#else
constexpr unsigned SAVES_AVX512 = 0xe6;
#endif

// Asked of the CPU itself: __builtin_cpu_supports wants a run-time library, which clang-cl does not link.
bool cpu_has(unsigned basic, unsigned extended, unsigned saved) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (basic | bit_OSXSAVE)) != (basic | bit_OSXSAVE)) return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & extended) != extended) return false;
  __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  return (a & saved) == saved;
}

bool has_avx2() { return cpu_has(bit_AVX | bit_FMA, bit_AVX2, SAVES_AVX); }
bool has_avx512() {
  return has_avx2() && cpu_has(0, bit_AVX512F | bit_AVX512VL | bit_AVX512DQ | bit_AVX512BW, SAVES_AVX512);
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
