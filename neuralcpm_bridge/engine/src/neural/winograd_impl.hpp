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

template <class V, int M>
inline void to_points(const typename V::Floats* pixels, typename V::Floats* points) {
  if constexpr (M == 5) {  // row p of Bt is Π over the other points r of (x - r): (x + 2), x² - 1, x² - 1/4 are shared
    typename V::Floats two[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) two[i] = V::fma(pixels[i], V::fill(2.0f), pixels[i + 1]);
    const auto quarter0 = V::fma(two[0], V::fill(-0.25f), two[2]), quarter1 = V::fma(two[1], V::fill(-0.25f), two[3]);
    const auto one0 = two[2] - two[0], one1 = two[3] - two[1];
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

template <class V, int M>
inline void to_pixels(const typename V::Floats* points, typename V::Floats* pixels) {
  if constexpr (M == 5) {  // points come in pairs ±p: their sum and difference serve all pixels
    const auto sum1 = points[1] + points[2], difference1 = points[1] - points[2];
    const auto sum2 = points[3] + points[4], difference2 = points[3] - points[4];
    pixels[0] = (points[0] + sum1) + (sum2 + points[5]);
    pixels[1] = V::fma(points[5], V::fill(-2.0f), V::fma(difference2, V::fill(0.5f), difference1));
    pixels[2] = V::fma(points[5], V::fill(4.0f), V::fma(sum2, V::fill(0.25f), sum1));
    pixels[3] = V::fma(points[5], V::fill(-8.0f), V::fma(difference2, V::fill(0.125f), difference1));
    pixels[4] = V::fma(points[5], V::fill(16.0f), V::fma(sum2, V::fill(0.0625f), sum1)) + points[6];
  } else {
    multiply<V, M, M + 2, 0>(Winograd<M>::At, points, pixels);
  }
}

template <class V, int H, int W>
void winograd_input(const float* image, int channels, float* points, std::ptrdiff_t point_stride) {
  constexpr int P = H + 2, Q = W + 2;
  for (int c = 0; c < channels; c += V::lanes) {
    typename V::Floats half[P][W];
    for (int x = 0; x < W; ++x) {
      typename V::Floats column[H], out[P];
      for (int y = 0; y < H; ++y) column[y] = V::load(image + (y * W + x) * channels + c);
      to_points<V, H>(column, out);
      for (int p = 0; p < P; ++p) half[p][x] = out[p];
    }
    for (int p = 0; p < P; ++p) {
      typename V::Floats row[W], out[Q];
      for (int x = 0; x < W; ++x) row[x] = half[p][x];
      to_points<V, W>(row, out);
      for (int q = 0; q < Q; ++q) V::store(points + (p * Q + q) * point_stride + c, out[q]);
    }
  }
}

template <class V, int H, int W>
void winograd_output(const float* points, std::ptrdiff_t point_stride, int channels, float* image) {
  constexpr int P = H + 2, Q = W + 2;
  for (int c = 0; c < channels; c += V::lanes) {
    typename V::Floats half[H][Q];
    for (int q = 0; q < Q; ++q) {
      typename V::Floats column[P], out[H];
      for (int p = 0; p < P; ++p) column[p] = V::load(points + (p * Q + q) * point_stride + c);
      to_pixels<V, H>(column, out);
      for (int y = 0; y < H; ++y) half[y][q] = out[y];
    }
    for (int y = 0; y < H; ++y) {
      typename V::Floats row[Q], out[W];
      for (int q = 0; q < Q; ++q) row[q] = half[y][q];
      to_pixels<V, W>(row, out);
      for (int x = 0; x < W; ++x) V::store(image + (y * W + x) * channels + c, out[x]);
    }
  }
}

template <class V>
void winograd_input_any(int height, int width, const float* image, int channels, float* points,
                        std::ptrdiff_t point_stride) {
  using Kernel = void (*)(const float*, int, float*, std::ptrdiff_t);
  static constexpr Kernel kernels[3][3] = {
      {winograd_input<V, 3, 3>, winograd_input<V, 3, 4>, winograd_input<V, 3, 5>},
      {winograd_input<V, 4, 3>, winograd_input<V, 4, 4>, winograd_input<V, 4, 5>},
      {winograd_input<V, 5, 3>, winograd_input<V, 5, 4>, winograd_input<V, 5, 5>}};
  kernels[height - kLeastTile][width - kLeastTile](image, channels, points, point_stride);
}

template <class V>
void winograd_output_any(int height, int width, const float* points, std::ptrdiff_t point_stride, int channels,
                         float* image) {
  using Kernel = void (*)(const float*, std::ptrdiff_t, int, float*);
  static constexpr Kernel kernels[3][3] = {
      {winograd_output<V, 3, 3>, winograd_output<V, 3, 4>, winograd_output<V, 3, 5>},
      {winograd_output<V, 4, 3>, winograd_output<V, 4, 4>, winograd_output<V, 4, 5>},
      {winograd_output<V, 5, 3>, winograd_output<V, 5, 4>, winograd_output<V, 5, 5>}};
  kernels[height - kLeastTile][width - kLeastTile](points, point_stride, channels, image);
}

template <class V>
inline void to_box_points(const typename V::Floats* x, typename V::Floats* points) {
  const auto pair = [](auto even, auto odd, float at, typename V::Floats* to) {
    to[0] = V::fma(odd, V::fill(at), even);
    to[1] = V::fma(odd, V::fill(-at), even);
  };
  const auto even1 = x[0] + (x[2] + x[4]), odd1 = x[1] + (x[3] + x[5]);
  points[0] = x[0];
  points[1] = even1 + odd1;
  points[2] = even1 - odd1;
  pair(V::fma(x[4], V::fill(16.0f), V::fma(x[2], V::fill(4.0f), x[0])),
       V::fma(x[5], V::fill(16.0f), V::fma(x[3], V::fill(4.0f), x[1])), 2.0f, points + 3);
  pair(V::fma(x[4], V::fill(0.0625f), V::fma(x[2], V::fill(0.25f), x[0])),
       V::fma(x[5], V::fill(0.0625f), V::fma(x[3], V::fill(0.25f), x[1])), 0.5f, points + 5);
  points[7] = x[5];
}

template <class V>
inline void from_box_points(const typename V::Floats* points, typename V::Floats* y) {
  const auto even1 = points[1] + points[2], odd1 = points[1] - points[2];
  const auto even2 = points[3] + points[4], odd2 = points[3] - points[4];
  const auto even3 = points[5] + points[6], odd3 = points[5] - points[6];
  const auto first = points[0], last = points[7];
  y[0] = first;
  y[1] = V::fma(odd2 + odd3, V::fill(2.0f), odd1 * -1.0f) - last;
  y[2] = V::fma(even3, V::fill(4.0f), V::fma(first, V::fill(-5.25f), even2 - even1));
  y[3] = V::fma(odd1, V::fill(4.25f), V::fma(odd2, V::fill(-10.0f), V::fma(odd3, V::fill(-2.5f), last * 5.25f)));
  y[4] = V::fma(even1, V::fill(4.25f), V::fma(even2 + even3, V::fill(-5.0f), first * 5.25f));
  y[5] = V::fma(odd2, V::fill(8.0f), V::fma(odd3, V::fill(0.5f), V::fma(last, V::fill(-5.25f), odd1 * -1.0f)));
  y[6] = V::fma(even2, V::fill(4.0f), (even3 - even1) - first);
  y[7] = last;
}

template <class V>
void box_input(const float* image, int channels, float* points, std::ptrdiff_t point_stride) {
  constexpr int P = kBoxPoints;
  for (int c = 0; c < channels; c += V::lanes) {
    typename V::Floats half[P][kBox];
    for (int x = 0; x < kBox; ++x) {
      typename V::Floats column[kBox], out[P];
      for (int y = 0; y < kBox; ++y) column[y] = V::load(image + (y * kBox + x) * channels + c);
      to_box_points<V>(column, out);
      for (int p = 0; p < P; ++p) half[p][x] = out[p];
    }
    for (int p = 0; p < P; ++p) {
      typename V::Floats out[P];
      to_box_points<V>(half[p], out);
      for (int q = 0; q < P; ++q) V::store(points + (p * P + q) * point_stride + c, out[q]);
    }
  }
}

template <class V>
void box_output(const float* points, std::ptrdiff_t point_stride, int channels, float* image) {
  constexpr int P = kBoxPoints;
  for (int c = 0; c < channels; c += V::lanes) {
    typename V::Floats half[P][P];
    for (int q = 0; q < P; ++q) {
      typename V::Floats column[P], out[P];
      for (int p = 0; p < P; ++p) column[p] = V::load(points + (p * P + q) * point_stride + c);
      from_box_points<V>(column, out);
      for (int y = 0; y < P; ++y) half[y][q] = out[y];
    }
    for (int y = 0; y < P; ++y) {
      typename V::Floats out[P];
      from_box_points<V>(half[y], out);
      for (int x = 0; x < P; ++x) V::store(image + (y * P + x) * channels + c, out[x]);
    }
  }
}

// Pixels slots x one group of channels of a point's product. Slots lie Stride floats apart (0: job.inputs); two inputs
// at a time, since every instruction beside the sums counts where a core is shared.
template <class V, int Group, int Stride, int Pixels>
__attribute__((always_inline)) inline void multiply_block(const float* in, int inputs, const float* weights, float* out,
                                                          std::ptrdiff_t out_stride) {
  constexpr int N = Group / V::lanes;
  const std::ptrdiff_t stride = Stride ? Stride : inputs;
  typename V::Floats sum[Pixels][N];
  for (int p = 0; p < Pixels; ++p)
    for (int n = 0; n < N; ++n) sum[p][n] = V::fill(0.0f);
  const float* const end = in + inputs;
  do {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      if constexpr (Pixels < N) {  // the fewer operands wait in registers for the others
        typename V::Floats value[Pixels];
        for (int p = 0; p < Pixels; ++p) value[p] = V::fill(in[p * stride + i]);
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) {
          const auto w = V::load(weights + i * Group + n * V::lanes);
          for (int p = 0; p < Pixels; ++p) sum[p][n] = V::fma(value[p], w, sum[p][n]);
        }
      } else {
        typename V::Floats w[N];
        for (int n = 0; n < N; ++n) w[n] = V::load(weights + i * Group + n * V::lanes);
#pragma GCC unroll 8
        for (int p = 0; p < Pixels; ++p) {
          const auto value = V::fill(in[p * stride + i]);
          for (int n = 0; n < N; ++n) sum[p][n] = V::fma(value, w[n], sum[p][n]);
        }
      }
    }
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
  constexpr int kSums = 12, N = Group / V::lanes, Most = larger(1, kSums / N);
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
