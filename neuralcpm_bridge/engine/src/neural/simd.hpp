// Short vectors of floats for the kernels. Included by kernels_<isa>.cpp only, inside that file's own
// namespace NCPM_ISA: the same inline function compiled for two instruction sets must have two names, or the
// linker may keep the wrong one.
//
// Vectors are those of GCC and Clang; what an instruction set does better than the compiler knows is asked for by name.
// AVX is what the file is compiled for. NEON every 64-bit ARM has: kernels_neon.cpp asks for it with NCPM_NEON.

#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(NCPM_NEON)
#include <arm_neon.h>
#endif

namespace NCPM_ISA {

template <int Lanes>
struct Types;
#define NCPM_VECTOR_TYPES(LANES)                                                           \
  template <>                                                                              \
  struct Types<LANES> {                                                                    \
    typedef float Floats __attribute__((vector_size(LANES * 4)));                          \
    typedef std::int32_t Ints __attribute__((vector_size(LANES * 4)));                     \
    static Floats from_ints(Ints value) { return __builtin_convertvector(value, Floats); } \
  };
NCPM_VECTOR_TYPES(4)
#if defined(__AVX2__)
NCPM_VECTOR_TYPES(8)
#endif
#if defined(__AVX512F__)
NCPM_VECTOR_TYPES(16)
#endif
#undef NCPM_VECTOR_TYPES

template <int Lanes>
struct Vector : Types<Lanes> {
  static constexpr int lanes = Lanes;
  using typename Types<Lanes>::Floats;
  using typename Types<Lanes>::Ints;

  static Floats load(const float* from) {
    Floats out;
    std::memcpy(&out, from, sizeof out);
    return out;
  }
  static Ints load(const std::int32_t* from) {
    Ints out;
    std::memcpy(&out, from, sizeof out);
    return out;
  }
  static void store(float* to, Floats value) { std::memcpy(to, &value, sizeof value); }
  static Floats fill(float value) {
#if defined(__AVX512F__)
    if constexpr (Lanes == 16) return Floats(_mm512_set1_ps(value));
#endif
#if defined(__AVX__)
    if constexpr (Lanes == 8) return Floats(_mm256_set1_ps(value));
#endif
    if constexpr (Lanes == 4) return Floats{value, value, value, value};
    Floats out;
    for (int i = 0; i < Lanes; ++i) out[i] = value;
    return out;
  }

  // a * b + c, fused where the instruction set can. Nothing else may be fused: the build turns the compiler's
  // own contraction off, because one value must have one rounding wherever it is computed.
  static Floats fma(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
    if constexpr (Lanes == 16) return Floats(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
#endif
#if defined(__FMA__)
    if constexpr (Lanes == 8) return Floats(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#endif
#if defined(NCPM_NEON)
    if constexpr (Lanes == 4) return Floats(vfmaq_f32(float32x4_t(c), float32x4_t(a), float32x4_t(b)));
#endif
    return a * b + c;
  }

  static Floats sqrt(Floats value) {
#if defined(__AVX512F__)
    if constexpr (Lanes == 16) return Floats(_mm512_sqrt_ps(__m512(value)));
#endif
#if defined(__AVX__)
    if constexpr (Lanes == 8) return Floats(_mm256_sqrt_ps(__m256(value)));
#endif
#if defined(__SSE2__)
    if constexpr (Lanes == 4) return Floats(_mm_sqrt_ps(__m128(value)));
#endif
#if defined(NCPM_NEON)
    if constexpr (Lanes == 4) return Floats(vsqrtq_f32(float32x4_t(value)));
#endif
    for (int i = 0; i < Lanes; ++i) value[i] = __builtin_sqrtf(value[i]);
    return value;
  }

  // Of all lanes, those half of them apart first.
  static float sum(Floats value) {
    if constexpr (Lanes == 4) {
      return (value[0] + value[2]) + (value[1] + value[3]);
    } else {
      typename Vector<Lanes / 2>::Floats halves[2];
      std::memcpy(halves, &value, sizeof halves);
      return Vector<Lanes / 2>::sum(halves[0] + halves[1]);
    }
  }

  // What is no number becomes `low`, as the instructions of x86 have it.
  static Floats clamp(Floats value, float low, float high) {
#if defined(__AVX512F__)
    if constexpr (Lanes == 16)
      return Floats(_mm512_min_ps(_mm512_max_ps(__m512(value), _mm512_set1_ps(low)), _mm512_set1_ps(high)));
#endif
#if defined(__AVX__)
    if constexpr (Lanes == 8)
      return Floats(_mm256_min_ps(_mm256_max_ps(__m256(value), _mm256_set1_ps(low)), _mm256_set1_ps(high)));
#endif
#if defined(__SSE2__)
    if constexpr (Lanes == 4) return Floats(_mm_min_ps(_mm_max_ps(__m128(value), _mm_set1_ps(low)), _mm_set1_ps(high)));
#endif
#if defined(NCPM_NEON)
    if constexpr (Lanes == 4) return Floats(vminnmq_f32(vmaxnmq_f32(float32x4_t(value), fill(low)), fill(high)));
#endif
    value = value > low ? value : fill(low);
    return value < high ? value : fill(high);
  }
};

// SiLU(x) = x / (1 + exp(-x)). exp(-x) = 2^n · 2^f with f in [-1/2, 1/2] and a minimax polynomial (7.5e-8) for 2^f.
template <class V>
inline typename V::Floats silu(typename V::Floats x) {
  using F = typename V::Floats;
  using I = typename V::Ints;
  // Adding 1.5·2^23 leaves round(-x / ln 2) in the low bits; with 127 more they are the exponent of 2^n.
  constexpr float kRound = 12582912.0f + 127.0f;
  const F within = V::clamp(x, -87.0f, 87.0f);
  const F shifted = V::fma(within, V::fill(-1.44269504f), V::fill(kRound));
  const F f = V::fma(within, V::fill(-1.44269504f), kRound - shifted);
  F p = V::fill(0.0013276472f);
  p = V::fma(p, f, V::fill(0.009675541f));
  p = V::fma(p, f, V::fill(0.05550713f));
  p = V::fma(p, f, V::fill(0.2402212f));
  p = V::fma(p, f, V::fill(0.69314694f));
  p = V::fma(p, f, V::fill(1.0000001f));
  I bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits <<= 23;
  F power;
  std::memcpy(&power, &bits, sizeof power);
  return x / V::fma(p, power, V::fill(1.0f));
}

}  // namespace NCPM_ISA
