// Winograd transforms of small images; see simd.hpp for how this file is included.

namespace NCPM_ISA {

// to[0..To) = Matrix · from[0..From), where the matrix's columns First.. belong to `from`. Zeros cost nothing.
template <class V, int To, int From, int First, class Matrix>
inline void multiply(const Matrix& matrix, const typename V::Floats* from, typename V::Floats* to) {
#pragma GCC unroll 8
  for (int i = 0; i < To; ++i) {
    typename V::Floats sum = V::fill(0.0f);
    bool first = true;
#pragma GCC unroll 8
    for (int j = 0; j < From; ++j) {
      const double weight = matrix[i][First + j];
      if (weight == 0) continue;
      if (first) sum = weight == 1 ? from[j] : from[j] * float(weight);
      else if (weight == 1) sum = sum + from[j];
      else if (weight == -1) sum = sum - from[j];
      else sum = V::fma(from[j], V::fill(float(weight)), sum);
      first = false;
    }
    to[i] = sum;
  }
}

// Maps of the values along one axis: apply(from[kFrom], to[kTo]).
template <class V, int M>
struct ToPoints {
  static constexpr int kFrom = M, kTo = M + 2;
  using F = typename V::Floats;

  static void apply(const F* pixels, F* points) {
    if constexpr (M ==
                  5) {  // row p of Bt is Π over the other points r of (x - r): (x + 2), x² - 1, x² - 1/4 are shared
      F two[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) two[i] = V::fma(pixels[i], V::fill(2.0f), pixels[i + 1]);
      const F quarter0 = V::fma(two[0], V::fill(-0.25f), two[2]), quarter1 = V::fma(two[1], V::fill(-0.25f), two[3]);
      const F one0 = two[2] - two[0], one1 = two[3] - two[1];
      points[0] = V::fma(pixels[0], V::fill(0.25f), V::fma(two[1], V::fill(-1.25f), two[3]));
      points[1] = quarter1 + quarter0;
      points[2] = quarter1 - quarter0;
      points[3] = V::fma(one0, V::fill(0.5f), one1);
      points[4] = V::fma(one0, V::fill(-0.5f), one1);
      points[5] = V::fma(pixels[0], V::fill(0.25f), V::fma(pixels[2], V::fill(-1.25f), pixels[4]));
      points[6] = V::fma(two[0], V::fill(0.25f), V::fma(two[2], V::fill(-1.25f), pixels[4] + pixels[4]));
    } else {
      multiply<V, M + 2, M, 1>(Winograd<M>::Bt, pixels, points);
    }
  }
};

template <class V, int M>
struct ToPixels {
  static constexpr int kFrom = M + 2, kTo = M;
  using F = typename V::Floats;

  static void apply(const F* points, F* pixels) {
    if constexpr (M == 5) {  // points come in pairs ±p: their sum and difference serve all pixels
      const F sum1 = points[1] + points[2], difference1 = points[1] - points[2];
      const F sum2 = points[3] + points[4], difference2 = points[3] - points[4];
      pixels[0] = (points[0] + sum1) + (sum2 + points[5]);
      pixels[1] = V::fma(points[5], V::fill(-2.0f), V::fma(difference2, V::fill(0.5f), difference1));
      pixels[2] = V::fma(points[5], V::fill(4.0f), V::fma(sum2, V::fill(0.25f), sum1));
      pixels[3] = V::fma(points[5], V::fill(-8.0f), V::fma(difference2, V::fill(0.125f), difference1));
      pixels[4] = V::fma(points[5], V::fill(16.0f), V::fma(sum2, V::fill(0.0625f), sum1)) + points[6];
    } else {
      multiply<V, M, M + 2, 0>(Winograd<M>::At, points, pixels);
    }
  }
};

template <class V>
struct ToBoxPoints {
  static constexpr int kFrom = kBox, kTo = kBoxPoints;
  using F = typename V::Floats;

  static void apply(const F* x, F* points) {
    const auto pair = [](F even, F odd, float at, F* to) {
      to[0] = V::fma(odd, V::fill(at), even);
      to[1] = V::fma(odd, V::fill(-at), even);
    };
    const F even1 = x[0] + (x[2] + x[4]), odd1 = x[1] + (x[3] + x[5]);
    points[0] = x[0];
    points[1] = even1 + odd1;
    points[2] = even1 - odd1;
    pair(V::fma(x[4], V::fill(16.0f), V::fma(x[2], V::fill(4.0f), x[0])),
         V::fma(x[5], V::fill(16.0f), V::fma(x[3], V::fill(4.0f), x[1])), 2.0f, points + 3);
    pair(V::fma(x[4], V::fill(0.0625f), V::fma(x[2], V::fill(0.25f), x[0])),
         V::fma(x[5], V::fill(0.0625f), V::fma(x[3], V::fill(0.25f), x[1])), 0.5f, points + 5);
    points[7] = x[5];
  }
};

template <class V>
struct FromBoxPoints {
  static constexpr int kFrom = kBoxPoints, kTo = kBoxPoints;
  using F = typename V::Floats;

  static void apply(const F* points, F* y) {
    const F even1 = points[1] + points[2], odd1 = points[1] - points[2];
    const F even2 = points[3] + points[4], odd2 = points[3] - points[4];
    const F even3 = points[5] + points[6], odd3 = points[5] - points[6];
    const F first = points[0], last = points[7];
    y[0] = first;
    y[1] = V::fma(odd2 + odd3, V::fill(2.0f), odd1 * -1.0f) - last;
    y[2] = V::fma(even3, V::fill(4.0f), V::fma(first, V::fill(-5.25f), even2 - even1));
    y[3] = V::fma(odd1, V::fill(4.25f), V::fma(odd2, V::fill(-10.0f), V::fma(odd3, V::fill(-2.5f), last * 5.25f)));
    y[4] = V::fma(even1, V::fill(4.25f), V::fma(even2 + even3, V::fill(-5.0f), first * 5.25f));
    y[5] = V::fma(odd2, V::fill(8.0f), V::fma(odd3, V::fill(0.5f), V::fma(last, V::fill(-5.25f), odd1 * -1.0f)));
    y[6] = V::fma(even2, V::fill(4.0f), (even3 - even1) - first);
    y[7] = last;
  }
};

// Both axes of an image, a vector of channels at a time. Loops stay loops: all kernels of a proposal together hardly
// fit the cache of instructions.
template <class V, class AlongY, class AlongX>
void transform(const float* from, std::ptrdiff_t from_stride, int channels, float* to, std::ptrdiff_t to_stride) {
  for (int c = 0; c < channels; c += V::lanes) {
    typename V::Floats half[AlongY::kTo][AlongX::kFrom];
#pragma GCC unroll 1
    for (int x = 0; x < AlongX::kFrom; ++x) {
      typename V::Floats column[AlongY::kFrom], out[AlongY::kTo];
      for (int y = 0; y < AlongY::kFrom; ++y) column[y] = V::load(from + (y * AlongX::kFrom + x) * from_stride + c);
      AlongY::apply(column, out);
      for (int y = 0; y < AlongY::kTo; ++y) half[y][x] = out[y];
    }
#pragma GCC unroll 1
    for (int y = 0; y < AlongY::kTo; ++y) {
      typename V::Floats out[AlongX::kTo];
      AlongX::apply(half[y], out);
      for (int x = 0; x < AlongX::kTo; ++x) V::store(to + (y * AlongX::kTo + x) * to_stride + c, out[x]);
    }
  }
}

template <class V, template <class, int> class Map>
void transform_tile(int height, int width, const float* from, std::ptrdiff_t from_stride, int channels, float* to,
                    std::ptrdiff_t to_stride) {
  using Kernel = void (*)(const float*, std::ptrdiff_t, int, float*, std::ptrdiff_t);
  static constexpr Kernel kernels[3][3] = {
      {transform<V, Map<V, 3>, Map<V, 3>>, transform<V, Map<V, 3>, Map<V, 4>>, transform<V, Map<V, 3>, Map<V, 5>>},
      {transform<V, Map<V, 4>, Map<V, 3>>, transform<V, Map<V, 4>, Map<V, 4>>, transform<V, Map<V, 4>, Map<V, 5>>},
      {transform<V, Map<V, 5>, Map<V, 3>>, transform<V, Map<V, 5>, Map<V, 4>>, transform<V, Map<V, 5>, Map<V, 5>>}};
  kernels[height - kLeastTile][width - kLeastTile](from, from_stride, channels, to, to_stride);
}

// Pixels slots x one group of channels of a point's product. Slots lie Stride floats apart (0: job.inputs); two inputs
// at a time, since every instruction beside the sums counts where a core is shared.
template <class V, int Group, int Stride, int Pixels>
__attribute__((always_inline)) inline void multiply_block(const float* in, int inputs, const float* weights, float* out,
                                                          std::ptrdiff_t out_stride) {
  constexpr int N = Blocking<V, Group>::vectors;
  const std::ptrdiff_t stride = Stride ? Stride : inputs;
  typename V::Floats sum[Pixels][N];
  for (int p = 0; p < Pixels; ++p)
    for (int n = 0; n < N; ++n) sum[p][n] = V::fill(0.0f);
  const float* const end = in + inputs;
  do {
    add_products<V>(in, stride, weights, sum);
    add_products<V>(in + 1, stride, weights + Group, sum);
    in += 2;
    weights += 2 * Group;
  } while (in < end);
  for (int p = 0; p < Pixels; ++p)
    for (int n = 0; n < N; ++n) V::store(out + p * out_stride + n * V::lanes, sum[p][n]);
}

// A group of channels of one point; blocks of as many slots as fill the registers with their sums, then the rest.
template <class V, int Group, int Stride>
__attribute__((always_inline)) inline void multiply_group(const PointProducts& job, const float* in,
                                                          const float* weights, float* out) {
  constexpr int Most = Blocking<V, Group>::pixels;
  const std::ptrdiff_t stride = Stride ? Stride : job.inputs, out_stride = job.out_stride;
  const int inputs = job.inputs;
  int left = job.slots;
  for (; left >= Most; left -= Most, in += Most * stride, out += Most * out_stride)
    multiply_block<V, Group, Stride, Most>(in, inputs, weights, out, out_stride);
  if constexpr (Most > 3)
    for (; left >= 3; left -= 3, in += 3 * stride, out += 3 * out_stride)
      multiply_block<V, Group, Stride, 3>(in, inputs, weights, out, out_stride);
  for (; left > 0; --left, in += stride, out += out_stride)
    multiply_block<V, Group, Stride, 1>(in, inputs, weights, out, out_stride);
}

template <class V16, class V8, int Stride>
void multiply_points_of(const PointProducts& job) {
  const float *in = job.in, *weights = job.weights;
  float* out = job.out;
  for (int point = 0; point < job.points; ++point, in += job.batch * job.inputs, out += job.batch * job.out_stride) {
    int group = 0;
    for (; group + 32 <= job.out_stride; group += 32, weights += 32 * job.inputs)
      multiply_group<V16, 32, Stride>(job, in, weights, out + group);
    for (; group + 16 <= job.out_stride; group += 16, weights += 16 * job.inputs)
      multiply_group<V16, 16, Stride>(job, in, weights, out + group);
    if (group < job.out_stride) {
      multiply_group<V8, 8, Stride>(job, in, weights, out + group);
      weights += 8 * job.inputs;
    }
  }
}

template <class V16, class V8>
void multiply_points(const PointProducts& job) {
  if (job.inputs == 16) multiply_points_of<V16, V8, 16>(job);
  else if (job.inputs == 32) multiply_points_of<V16, V8, 32>(job);
  else if (job.inputs == 64) multiply_points_of<V16, V8, 64>(job);
  else multiply_points_of<V16, V8, 0>(job);
}

}  // namespace NCPM_ISA
