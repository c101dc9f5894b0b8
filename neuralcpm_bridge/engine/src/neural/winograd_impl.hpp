// Winograd transforms of small images; see simd.hpp for how this file is included.

namespace NCPM_ISA {

// to[0..To) = Matrix · from[0..From), where the matrix's columns First.. belong to `from`. Zeros cost nothing.
template <class V, int To, int From, int First, class Matrix>
inline void transform(const typename V::Floats* from, int step, typename V::Floats* to, int to_step, const Matrix& matrix) {
#pragma GCC unroll 8
  for (int i = 0; i < To; ++i) {
    typename V::Floats sum = V::fill(0.0f);
    bool first = true;
#pragma GCC unroll 8
    for (int j = 0; j < From; ++j) {
      const double weight = matrix[i][First + j];
      if (weight == 0) continue;
      if (first) sum = weight == 1 ? from[j * step] : from[j * step] * float(weight);
      else if (weight == 1) sum = sum + from[j * step];
      else if (weight == -1) sum = sum - from[j * step];
      else sum = V::fma(from[j * step], V::fill(float(weight)), sum);
      first = false;
    }
    to[i * to_step] = sum;
  }
}

template <class V, int H, int W>
void winograd_input(const float* image, int channels, float* points, std::ptrdiff_t point_stride) {
  constexpr int P = H + 2, Q = W + 2;
  for (int c = 0; c < channels; c += V::lanes) {
    typename V::Floats in[H * W], half[P * W], out[P * Q];
    for (int i = 0; i < H * W; ++i) in[i] = V::load(image + i * channels + c);
    for (int x = 0; x < W; ++x) transform<V, P, H, 1>(in + x, W, half + x, W, Winograd<H>::Bt);
    for (int p = 0; p < P; ++p) transform<V, Q, W, 1>(half + p * W, 1, out + p * Q, 1, Winograd<W>::Bt);
    for (int i = 0; i < P * Q; ++i) V::store(points + i * point_stride + c, out[i]);
  }
}

template <class V, int H, int W>
void winograd_output(const float* points, std::ptrdiff_t point_stride, int channels, float* image, int pixel_stride) {
  constexpr int P = H + 2, Q = W + 2;
  for (int c = 0; c < channels; c += V::lanes) {
    typename V::Floats in[P * Q], half[H * Q], out[H * W];
    for (int i = 0; i < P * Q; ++i) in[i] = V::load(points + i * point_stride + c);
    for (int q = 0; q < Q; ++q) transform<V, H, P, 0>(in + q, Q, half + q, Q, Winograd<H>::At);
    for (int y = 0; y < H; ++y) transform<V, W, Q, 0>(half + y * Q, 1, out + y * W, 1, Winograd<W>::At);
    for (int i = 0; i < H * W; ++i) V::store(image + i * pixel_stride + c, out[i]);
  }
}

template <class V>
void winograd_input_any(int height, int width, const float* image, int channels, float* points, std::ptrdiff_t point_stride) {
  using Kernel = void (*)(const float*, int, float*, std::ptrdiff_t);
  static constexpr Kernel kernels[3][3] = {
      {winograd_input<V, 3, 3>, winograd_input<V, 3, 4>, winograd_input<V, 3, 5>},
      {winograd_input<V, 4, 3>, winograd_input<V, 4, 4>, winograd_input<V, 4, 5>},
      {winograd_input<V, 5, 3>, winograd_input<V, 5, 4>, winograd_input<V, 5, 5>}};
  kernels[height - kLeastTile][width - kLeastTile](image, channels, points, point_stride);
}

template <class V>
void winograd_output_any(int height, int width, const float* points, std::ptrdiff_t point_stride, int channels, float* image,
                         int pixel_stride) {
  using Kernel = void (*)(const float*, std::ptrdiff_t, int, float*, int);
  static constexpr Kernel kernels[3][3] = {
      {winograd_output<V, 3, 3>, winograd_output<V, 3, 4>, winograd_output<V, 3, 5>},
      {winograd_output<V, 4, 3>, winograd_output<V, 4, 4>, winograd_output<V, 4, 5>},
      {winograd_output<V, 5, 3>, winograd_output<V, 5, 4>, winograd_output<V, 5, 5>}};
  kernels[height - kLeastTile][width - kLeastTile](points, point_stride, channels, image, pixel_stride);
}

}  // namespace NCPM_ISA
