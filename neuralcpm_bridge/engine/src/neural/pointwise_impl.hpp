// Pixel-by-pixel kernels; see simd.hpp for how this file is included.

namespace NCPM_ISA {

// store(row, i, value(row, i)) for every vector of a window. Several are computed before they are stored: each waits
// for itself only, and not for what might lie in the same place.
template <class V, class Value, class Store>
inline void for_vectors(Window window, Value value, Store store) {
  constexpr int kAtOnce = 4;
  for (int row = 0; row < window.rows; ++row) {
    int i = 0;
    for (; i + kAtOnce * V::lanes <= window.row_floats; i += kAtOnce * V::lanes) {
      typename V::Floats values[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) values[k] = value(row, i + k * V::lanes);
      for (int k = 0; k < kAtOnce; ++k) store(row, i + k * V::lanes, values[k]);
    }
    for (; i < window.row_floats; i += V::lanes) store(row, i, value(row, i));
  }
}

template <class V>
auto store_to(float* out, int pitch) {
  return [=](int row, int i, typename V::Floats value) { V::store(out + row * pitch + i, value); };
}

template <class V>
void silu_window(Window window, const float* in, int in_pitch, float* out, int out_pitch) {
  for_vectors<V>(
      window, [=](int row, int i) { return silu<V>(V::load(in + row * in_pitch + i)); }, store_to<V>(out, out_pitch));
}

template <class V>
void silu_change(Window window, const float* base, const float* activation, int base_pitch, const float* delta,
                 int delta_pitch, float* out, int out_pitch) {
  for_vectors<V>(
      window,
      [=](int row, int i) {
        const int at = row * base_pitch + i;
        return silu<V>(V::load(base + at) + V::load(delta + row * delta_pitch + i)) - V::load(activation + at);
      },
      store_to<V>(out, out_pitch));
}

template <class V>
void add_silu_change(Window window, const float* base, const float* activation, int base_pitch, const float* delta,
                     int delta_pitch, float* sum) {
  for_vectors<V>(
      window,
      [=](int row, int i) {
        const int at = row * base_pitch + i;
        const auto change =
            silu<V>(V::load(base + at) + V::load(delta + row * delta_pitch + i)) - V::load(activation + at);
        return V::load(sum + at) + change;
      },
      store_to<V>(sum, base_pitch));
}

template <class V>
void silu_change_fixed(Window window, const float* base, const float* activation, int base_pitch,
                       const std::int32_t* delta, int delta_pitch, float step, float* out, int out_pitch) {
  for_vectors<V>(
      window,
      [=](int row, int i) {
        const int at = row * base_pitch + i;
        const auto change = V::from_ints(V::load(delta + row * delta_pitch + i));
        return silu<V>(V::fma(change, V::fill(step), V::load(base + at))) - V::load(activation + at);
      },
      store_to<V>(out, out_pitch));
}

template <class V>
void from_fixed(Window window, const std::int32_t* in, int in_pitch, float step, float* out, int out_pitch) {
  for_vectors<V>(
      window, [=](int row, int i) { return V::from_ints(V::load(in + row * in_pitch + i)) * step; },
      store_to<V>(out, out_pitch));
}

template <class V>
void add(Window window, const float* in, int in_pitch, float* out, int out_pitch) {
  for_vectors<V>(
      window, [=](int row, int i) { return V::load(out + row * out_pitch + i) + V::load(in + row * in_pitch + i); },
      store_to<V>(out, out_pitch));
}

// The maximum of the values seen; undefined if one of them is infinite or undefined, which comparisons would lose.
template <class V>
struct Maximum {
  typename V::Floats most = V::fill(-__builtin_inff()), strange = V::fill(0.0f);

  void see(typename V::Floats value) {
    most = most < value ? value : most;
    strange = strange + (value - value);
  }
  typename V::Floats value() const { return most + strange; }
};

// A vector of channels at a time.
template <class V>
void pool(Window window, int channels, int pool, const float* base, int base_pitch, const float* delta, int delta_pitch,
          const float* less, int less_pitch, float* out, int out_pitch) {
  for (int row = 0; row < window.rows; ++row)
    for (int pixel = 0; pixel < window.row_floats; pixel += channels)
      for (int c = 0; c < channels; c += V::lanes) {
        const float* b = base + std::ptrdiff_t(row) * pool * base_pitch + pixel * pool + c;
        float* to = out + std::ptrdiff_t(row) * out_pitch + pixel + c;
        Maximum<V> maximum;
        if (delta) {
          const float* d = delta + std::ptrdiff_t(row) * pool * delta_pitch + pixel * pool + c;
          for (int y = 0; y < pool; ++y, b += base_pitch, d += delta_pitch)
            for (int x = 0; x < pool * channels; x += channels) maximum.see(V::load(b + x) + V::load(d + x));
          V::store(to, maximum.value() - V::load(less + std::ptrdiff_t(row) * less_pitch + pixel + c));
        } else {
          for (int y = 0; y < pool; ++y, b += base_pitch)
            for (int x = 0; x < pool * channels; x += channels) maximum.see(V::load(b + x));
          V::store(to, maximum.value());
        }
      }
}

// Values with kFixedShift are summed as integers; 4096 of them fit 64 bits.
constexpr int kMostTerms = 4096;
typedef double Doubles __attribute__((vector_size(32)));
typedef std::uint64_t Bits __attribute__((vector_size(32)));
typedef float FourFloats __attribute__((vector_size(16)));
typedef std::int32_t FourInts __attribute__((vector_size(16)));

inline std::uint64_t shift_bits() {
  std::uint64_t bits;
  std::memcpy(&bits, &kFixedShift, sizeof bits);
  return bits;
}

struct FixedSums {
  Bits sums = {};     // with kFixedShift once per value
  Bits changed = {};  // bits in which any value's sum with kFixedShift differs from kFixedShift

  void add(FourFloats four) {
    const Doubles shifted = __builtin_convertvector(four, Doubles) + kFixedShift;
    Bits bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    sums += bits;
    changed |= bits ^ shift_bits();
  }
  void add(const float* from) {
    FourFloats four;
    std::memcpy(&four, from, sizeof four);
    add(four);
  }
  bool in_range() const { return ((changed[0] | changed[1] | changed[2] | changed[3]) >> 52) == 0; }
};

inline std::int64_t fixed_sum(int rows, int columns, const float* values, int pitch) {
  if (rows * columns > kMostTerms) {
    const bool by_rows = rows > 1;
    const int half = (by_rows ? rows : columns) / 2;
    const std::int64_t first = fixed_sum(by_rows ? half : 1, by_rows ? columns : half, values, pitch);
    const std::int64_t second = fixed_sum(by_rows ? rows - half : 1, by_rows ? columns : columns - half,
                                          values + (by_rows ? std::ptrdiff_t(half) * pitch : half), pitch);
    std::int64_t sum;
    const bool lost = first == kOutOfRange || second == kOutOfRange || __builtin_add_overflow(first, second, &sum);
    return lost ? kOutOfRange : sum;
  }
  FixedSums fixed;
  const FourInts lane = {0, 1, 2, 3};
  const int full = columns & ~3;
  const FourInts mask = lane < (columns - full);
  for (int row = 0; row < rows; ++row) {
    const float* value = values + std::ptrdiff_t(row) * pitch;
    for (int i = 0; i < full; i += 4) fixed.add(value + i);
    if (full < columns) {  // zeros in place of what lies behind the row
      FourInts bits;
      std::memcpy(&bits, value + full, sizeof bits);
      bits &= mask;
      FourFloats four;
      std::memcpy(&four, &bits, sizeof four);
      fixed.add(four);
    }
  }
  if (!fixed.in_range()) return kOutOfRange;
  const std::uint64_t terms = std::uint64_t(rows) * std::uint64_t((columns + 3) & ~3);
  return static_cast<std::int64_t>(fixed.sums[0] + fixed.sums[1] + fixed.sums[2] + fixed.sums[3] -
                                   shift_bits() * terms);
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
std::int64_t site_energies(int rows, int columns, int channels, const float* base, const float* activation,
                           int base_pitch, const float* delta, int delta_pitch, const float* weight, float* energy,
                           int energy_pitch) {
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
          const auto sum =
              __m256(pixel_energy<V>(channels, b + k * channels, a + k * channels, d + k * channels, weight));
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

inline bool add_fixed(int rows, int columns, int channels, const float* values, int pitch, int sign,
                      std::int64_t* sums) {
  if (rows * columns > kMostTerms) {
    const bool by_rows = rows > 1;
    const int half = (by_rows ? rows : columns) / 2;
    const float* rest = values + (by_rows ? std::ptrdiff_t(half) * pitch : std::ptrdiff_t(half) * channels);
    const bool first = add_fixed(by_rows ? half : 1, by_rows ? columns : half, channels, values, pitch, sign, sums);
    return add_fixed(by_rows ? rows - half : 1, by_rows ? columns : columns - half, channels, rest, pitch, sign,
                     sums) &&
           first;
  }
  const std::uint64_t shift = shift_bits() * std::uint64_t(rows) * std::uint64_t(columns);
  bool in_range = true;
  Bits overflow = {};
  const auto add = [&](const FixedSums& fixed, std::int64_t* to) {
    Bits before, change = sign > 0 ? fixed.sums - shift : shift - fixed.sums;
    std::memcpy(&before, to, sizeof before);
    const Bits after = before + change;
    overflow |= (before ^ after) & (change ^ after);  // the sign bit: two numbers of one sign made one of the other
    std::memcpy(to, &after, sizeof after);
    in_range = in_range && fixed.in_range();
  };
  for (int c = 0; c < channels; c += 8) {
    FixedSums low, high;
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column) {
        const float* value = values + std::ptrdiff_t(row) * pitch + column * channels + c;
        low.add(value);
        high.add(value + 4);
      }
    add(low, sums + c);
    add(high, sums + c + 4);
  }
  return in_range && ((overflow[0] | overflow[1] | overflow[2] | overflow[3]) >> 63) == 0;
}

}  // namespace NCPM_ISA
