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
void winograd_output(const float* points, std::ptrdiff_t point_stride, int channels, float* image, int pixel_stride) {
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
      for (int x = 0; x < W; ++x) V::store(image + (y * W + x) * pixel_stride + c, out[x]);
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
                         float* image, int pixel_stride) {
  using Kernel = void (*)(const float*, std::ptrdiff_t, int, float*, int);
  static constexpr Kernel kernels[3][3] = {
      {winograd_output<V, 3, 3>, winograd_output<V, 3, 4>, winograd_output<V, 3, 5>},
      {winograd_output<V, 4, 3>, winograd_output<V, 4, 4>, winograd_output<V, 4, 5>},
      {winograd_output<V, 5, 3>, winograd_output<V, 5, 4>, winograd_output<V, 5, 5>}};
  kernels[height - kLeastTile][width - kLeastTile](points, point_stride, channels, image, pixel_stride);
}

}  // namespace NCPM_ISA
