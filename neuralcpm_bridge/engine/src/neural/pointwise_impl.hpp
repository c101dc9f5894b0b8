// Pixel-by-pixel kernels; see simd.hpp for how this file is included.

namespace NCPM_ISA {

template <class V, class Body>
inline void for_rows(Window window, Body body) {
  for (int row = 0; row < window.rows; ++row)
    for (int i = 0; i < window.row_floats; i += V::lanes) body(row, i);
}

template <class V>
void silu_window(Window window, const float* in, int in_pitch, float* out, int out_pitch) {
  for_rows<V>(window, [=](int row, int i) {
    V::store(out + row * out_pitch + i, silu<V>(V::load(in + row * in_pitch + i)));
  });
}

template <class V>
void silu_change(Window window, const float* base, const float* activation, int base_pitch, const float* delta,
                 int delta_pitch, float* out, int out_pitch) {
  for_rows<V>(window, [=](int row, int i) {
    const auto x = V::load(base + row * base_pitch + i) + V::load(delta + row * delta_pitch + i);
    V::store(out + row * out_pitch + i, silu<V>(x) - V::load(activation + row * base_pitch + i));
  });
}

template <class V>
void silu_change_fixed(Window window, const float* base, const float* activation, int base_pitch,
                       const std::int32_t* delta, int delta_pitch, float step, float* out, int out_pitch) {
  for_rows<V>(window, [=](int row, int i) {
    const auto change = V::from_ints(V::load(delta + row * delta_pitch + i));
    const auto x = V::fma(change, V::fill(step), V::load(base + row * base_pitch + i));
    V::store(out + row * out_pitch + i, silu<V>(x) - V::load(activation + row * base_pitch + i));
  });
}

template <class V>
void from_fixed(Window window, const std::int32_t* in, int in_pitch, float step, float* out, int out_pitch) {
  for_rows<V>(window, [=](int row, int i) {
    V::store(out + row * out_pitch + i, V::from_ints(V::load(in + row * in_pitch + i)) * step);
  });
}

template <class V>
void add(Window window, const float* in, int in_pitch, float* out, int out_pitch) {
  for_rows<V>(window, [=](int row, int i) {
    float* to = out + row * out_pitch + i;
    V::store(to, V::load(to) + V::load(in + row * in_pitch + i));
  });
}

// Adding 1.5·2^20 to a double leaves it as a multiple of 2^-32 in the low bits, which are summed as integers.
constexpr double kFixedShift = 1572864.0;
typedef double Doubles __attribute__((vector_size(32)));
typedef std::uint64_t Bits __attribute__((vector_size(32)));
typedef float FourFloats __attribute__((vector_size(16)));
typedef std::int32_t FourInts __attribute__((vector_size(16)));

inline std::uint64_t shift_bits() {
  std::uint64_t bits;
  std::memcpy(&bits, &kFixedShift, sizeof bits);
  return bits;
}

inline void add_four(FourFloats four, Bits& sums) {
  const Doubles shifted = __builtin_convertvector(four, Doubles) + kFixedShift;
  Bits bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  sums += bits;
}

inline void add_four(const float* from, Bits& sums) {
  FourFloats four;
  std::memcpy(&four, from, sizeof four);
  add_four(four, sums);
}

inline std::int64_t fixed_sum(int rows, int columns, const float* values, int pitch) {
  Bits sums = {};
  const FourInts lane = {0, 1, 2, 3};
  const int full = columns & ~3;
  const FourInts mask = lane < (columns - full);
  for (int row = 0; row < rows; ++row) {
    const float* value = values + std::ptrdiff_t(row) * pitch;
    for (int i = 0; i < full; i += 4) add_four(value + i, sums);
    if (full < columns) {  // zeros in place of what lies behind the row
      FourInts bits;
      std::memcpy(&bits, value + full, sizeof bits);
      bits &= mask;
      FourFloats four;
      std::memcpy(&four, &bits, sizeof four);
      add_four(four, sums);
    }
  }
  const std::uint64_t terms = std::uint64_t(rows) * std::uint64_t((columns + 3) & ~3);
  return static_cast<std::int64_t>(sums[0] + sums[1] + sums[2] + sums[3] - shift_bits() * terms);
}

// The sum of the lanes, halving: always the same tree.
template <class V>
inline float sum_of_lanes(typename V::Floats value) {
  float lane[V::lanes];
  V::store(lane, value);
  for (int half = V::lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

#if defined(__AVX2__)
template <>
inline float sum_of_lanes<Vector<8>>(Vector<8>::Floats value) {
  __m128 sum = _mm_add_ps(_mm256_castps256_ps128(__m256(value)), _mm256_extractf128_ps(__m256(value), 1));
  sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
  return _mm_cvtss_f32(_mm_add_ss(sum, _mm_shuffle_ps(sum, sum, 1)));
}
#endif

template <class V>
inline typename V::Floats pixel_energy(int channels, const float* base, const float* activation, const float* delta,
                                       const float* weight) {
  auto sum = (silu<V>(V::load(base) + V::load(delta)) - V::load(activation)) * V::load(weight);
  for (int c = V::lanes; c < channels; c += V::lanes)
    sum = V::fma(silu<V>(V::load(base + c) + V::load(delta + c)) - V::load(activation + c), V::load(weight + c), sum);
  return sum;
}

template <class V>
std::int64_t site_energies(int rows, int columns, int channels, const float* base, const float* activation, int base_pitch,
                           const float* delta, int delta_pitch, const float* weight, float* energy, int energy_pitch) {
  for (int row = 0; row < rows; ++row) {
    const float *b = base + std::ptrdiff_t(row) * base_pitch, *a = activation + std::ptrdiff_t(row) * base_pitch;
    const float* d = delta + std::ptrdiff_t(row) * delta_pitch;
    float* e = energy + std::ptrdiff_t(row) * energy_pitch;
    int column = 0;
#if defined(__AVX2__)
    // Four pixels at a time share the additions of their lanes; the same pairs are added as for one.
    if constexpr (V::lanes == 8)
      for (; column + 4 <= columns; column += 4, b += 4 * channels, a += 4 * channels, d += 4 * channels) {
        __m128 half[4];
        for (int k = 0; k < 4; ++k) {
          const auto sum = __m256(pixel_energy<V>(channels, b + k * channels, a + k * channels, d + k * channels, weight));
          half[k] = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
        }
        _MM_TRANSPOSE4_PS(half[0], half[1], half[2], half[3]);
        _mm_storeu_ps(e + column, _mm_add_ps(_mm_add_ps(half[0], half[2]), _mm_add_ps(half[1], half[3])));
      }
#endif
    for (; column < columns; ++column, b += channels, a += channels, d += channels)
      e[column] = sum_of_lanes<V>(pixel_energy<V>(channels, b, a, d, weight));
  }
  return fixed_sum(rows, columns, energy, energy_pitch);
}

inline void add_fixed(int rows, int columns, int channels, const float* values, int pitch, int sign, std::int64_t* sums) {
  const std::uint64_t shift = shift_bits() * std::uint64_t(rows) * std::uint64_t(columns);
  for (int c = 0; c < channels; c += 8) {
    Bits low = {}, high = {};
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column) {
        const float* value = values + row * pitch + column * channels + c;
        add_four(value, low);
        add_four(value + 4, high);
      }
    for (int i = 0; i < 4; ++i) {
      sums[c + i] += sign * std::int64_t(low[i] - shift);
      sums[c + 4 + i] += sign * std::int64_t(high[i] - shift);
    }
  }
}

}  // namespace NCPM_ISA
