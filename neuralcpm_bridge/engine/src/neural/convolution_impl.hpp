// 3x3 and 1x1 convolutions on small windows; see simd.hpp for how this file is included.
//
// A block of Rows x Columns output pixels of one group of channels stays in registers. The order of summation of
// an output (ky, input channel, kx for groups of 8; ky, kx, input channel for groups of 16) is the same in all.

namespace NCPM_ISA {

// std::min would be one function for all instruction sets.
constexpr int smaller(int a, int b) { return a < b ? a : b; }
constexpr int larger(int a, int b) { return a > b ? a : b; }

// Vectors per pixel and group, and the most pixels that fit the registers beside weights and broadcasts.
template <class V, int Group>
struct Blocking {
  static constexpr int vectors = Group / V::lanes;
  static constexpr int registers = vectors == 1 ? 10 : 12;  // one vector per pixel keeps three weights as well
  static constexpr int pixels = registers / vectors > 0 ? registers / vectors : 1;
};

// SkipLeft, SkipRight: so many of the outermost input columns on that side are zero: two at the edge of a cell's
// support, one at the lattice's.
template <class V, int Group, int Stride, int Rows, int Columns, int SkipLeft, int SkipRight>
__attribute__((always_inline)) inline void convolve_block(const Convolution& job, int row, int column, int group) {
  constexpr int N = Blocking<V, Group>::vectors;
  const std::ptrdiff_t stride = Stride ? Stride : job.in_stride, in_pitch = job.in_pitch;
  const std::ptrdiff_t out_pitch = job.out_pitch, out_stride = job.out_stride;
  const int in_channels = job.in_channels;
  const bool fresh = job.fresh;
  float* const out = job.out + row * out_pitch + column * out_stride + group;
  typename V::Floats start[N], sum[Rows][Columns][N];
  for (int n = 0; n < N; ++n) start[n] = job.bias ? V::load(job.bias + group + n * V::lanes) : V::fill(0.0f);
  // Rows of taps that meet live input; the block's first row reads input row `row + ky - 1`.
  const int first = larger(0, job.live_y0 - row - Rows + 2), last = smaller(3, job.live_y1 - row + 1);
  if (first >= last) {
    if (fresh)
      for (int r = 0; r < Rows; ++r)
        for (int c = 0; c < Columns; ++c)
          for (int n = 0; n < N; ++n) V::store(out + r * out_pitch + c * out_stride + n * V::lanes, start[n]);
    return;
  }
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < Columns; ++c)
      for (int n = 0; n < N; ++n) sum[r][c][n] = start[n];
  const float* weights = job.weights + (std::size_t(group) * 3 + first * Group) * 3 * in_channels;
  const float* in = job.in + (row + first - 1) * in_pitch + column * stride;
  int ky = first;  // loops that run at least once leave the sums in registers all the way
  do {
    if constexpr (Group == 8) {  // an input is broadcast once and used for its three taps
      int i = 0;
      do {
        typename V::Floats w[3][N];
        for (int kx = 0; kx < 3; ++kx)
          for (int n = 0; n < N; ++n) w[kx][n] = V::load(weights + kx * Group + n * V::lanes);
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
          for (int x = SkipLeft - 1; x < Columns + 1 - SkipRight; ++x) {
            const auto value = V::fill(in[r * in_pitch + x * stride + i]);
#pragma GCC unroll 3
            for (int kx = 0; kx < 3; ++kx)
              if (const int c = x + 1 - kx; c >= 0 && c < Columns)
                for (int n = 0; n < N; ++n) sum[r][c][n] = V::fma(value, w[kx][n], sum[r][c][n]);
          }
        weights += 3 * Group;
      } while (++i < in_channels);
    } else {  // wide pixels: one tap at a time leaves the registers to the sums
#pragma GCC unroll 3
      for (int kx = 0; kx < 3; ++kx) {
        int i = 0;
        do {
          typename V::Floats w[N];
          for (int n = 0; n < N; ++n) w[n] = V::load(weights + n * V::lanes);
#pragma GCC unroll 8
          for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
            for (int c = 0; c < Columns; ++c) {
              const int x = c + kx - 1;
              if (x < SkipLeft - 1 || x >= Columns + 1 - SkipRight) continue;
              const auto value = V::fill(in[r * in_pitch + x * stride + i]);
#pragma GCC unroll 4
              for (int n = 0; n < N; ++n) sum[r][c][n] = V::fma(value, w[n], sum[r][c][n]);
            }
          weights += Group;
        } while (++i < in_channels);
      }
    }
    in += in_pitch;
  } while (++ky < last);
  if (fresh) {
    for (int r = 0; r < Rows; ++r)
      for (int c = 0; c < Columns; ++c)
        for (int n = 0; n < N; ++n) V::store(out + r * out_pitch + c * out_stride + n * V::lanes, sum[r][c][n]);
  } else {
    for (int r = 0; r < Rows; ++r)
      for (int c = 0; c < Columns; ++c)
        for (int n = 0; n < N; ++n) {
          float* to = out + r * out_pitch + c * out_stride + n * V::lanes;
          V::store(to, V::load(to) + sum[r][c][n]);
        }
  }
}

// All full blocks from `row` on; returns the first row left over.
template <class V, int Group, int Stride, int Rows, int Columns, int SkipLeft, int SkipRight>
int convolve_blocks(const Convolution& job, int row, int column, int group) {
  for (; row + Rows <= job.rows; row += Rows)
    convolve_block<V, Group, Stride, Rows, Columns, SkipLeft, SkipRight>(job, row, column, group);
  return row;
}

using BlockKernel = int (*)(const Convolution&, int row, int column, int group);

constexpr int kMaxColumns = 6, kMaxRows = 4;

constexpr int kSkips = 3;

template <class V, int Group, int Stride>
struct BlockTable {
  BlockKernel kernel[kMaxRows][kMaxColumns][kSkips][kSkips] = {};  // by rows - 1, columns - 1, skip left, skip right

  BlockTable() { fill<1, 1>(); }

  static int most_rows(int columns) { return larger(1, smaller(kMaxRows, Blocking<V, Group>::pixels / columns)); }
  static int most_columns() { return smaller(kMaxColumns, larger(3, Blocking<V, Group>::pixels)); }

 private:
  template <int Rows, int Columns>
  void fill() {
    if constexpr (Rows == 1 || Rows * Columns <= Blocking<V, Group>::pixels) fill_skips<Rows, Columns, 0, 0>();
    if constexpr (Columns < kMaxColumns) fill<Rows, Columns + 1>();
    else if constexpr (Rows < kMaxRows) fill<Rows + 1, 1>();
  }
  template <int Rows, int Columns, int Left, int Right>
  void fill_skips() {
    // Rare strides read the zeros.
    kernel[Rows - 1][Columns - 1][Left][Right] = convolve_blocks < V, Group, Stride, Rows, Columns, Stride ? Left : 0,
                               Stride ? Right : 0 > ;
    if constexpr (Right + 1 < kSkips) fill_skips<Rows, Columns, Left, Right + 1>();
    else if constexpr (Left + 1 < kSkips) fill_skips<Rows, Columns, Left + 1, 0>();
  }
};

template <class V, int Group, int Stride>
void convolve_group(const Convolution& job, int group) {
  static const BlockTable<V, Group, Stride> table;
  const int most = table.most_columns();
  for (int column = 0, columns; column < job.columns; column += columns) {
    // One vector per pixel: as even chunks as possible. Two: full ones first, so that few blocks wait for their sums.
    const int rest = job.columns - column, chunks = (rest + most - 1) / most;
    columns = Blocking<V, Group>::vectors == 1 ? (rest + chunks - 1) / chunks : smaller(most, rest);
    const int left = smaller(kSkips - 1, larger(0, job.live_x0 - (column - 1)));
    const int right = smaller(kSkips - 1, larger(0, column + columns + 1 - job.live_x1));
    const int rows_at_once = table.most_rows(columns);
    for (int row = 0; row < job.rows;) {
      const int rows = smaller(rows_at_once, job.rows - row);
      row = table.kernel[rows - 1][columns - 1][left][right](job, row, column, group);
    }
  }
}

// Channels in groups of 16, a rest of 8. VG: the vector type for a group of that width.
template <class V16, class V8>
void convolve(const Convolution& job) {
  int group = 0;
  for (; group + 16 <= job.out_stride; group += 16) {
    if (job.in_stride == 8) convolve_group<V16, 16, 8>(job, group);
    else if (job.in_stride == 16) convolve_group<V16, 16, 16>(job, group);
    else if (job.in_stride == 32) convolve_group<V16, 16, 32>(job, group);
    else convolve_group<V16, 16, 0>(job, group);
  }
  if (group < job.out_stride) {
    if (job.in_stride == 8) convolve_group<V8, 8, 8>(job, group);
    else convolve_group<V8, 8, 0>(job, group);
  }
}

// One input channel's share of a matrix product: Pixels x one group of output channels.
template <class V, int Pixels, int N>
__attribute__((always_inline)) inline void add_products(const float* in, std::ptrdiff_t in_stride, const float* weights,
                                                        typename V::Floats (&sum)[Pixels][N]) {
  if constexpr (Pixels < N) {  // the fewer operands wait in registers for the others
    typename V::Floats value[Pixels];
    for (int p = 0; p < Pixels; ++p) value[p] = V::fill(in[p * in_stride]);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      const auto w = V::load(weights + n * V::lanes);
      for (int p = 0; p < Pixels; ++p) sum[p][n] = V::fma(value[p], w, sum[p][n]);
    }
  } else {
    typename V::Floats w[N];
    for (int n = 0; n < N; ++n) w[n] = V::load(weights + n * V::lanes);
#pragma GCC unroll 8
    for (int p = 0; p < Pixels; ++p) {
      const auto value = V::fill(in[p * in_stride]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[p][n] = V::fma(value, w[n], sum[p][n]);
    }
  }
}

// Pixels x one group of channels of a matrix product.
template <class V, int Group, int Pixels>
void mix_block(const Convolution& job, const float* in, float* out, int group) {
  constexpr int N = Blocking<V, Group>::vectors;
  const std::ptrdiff_t in_stride = job.in_stride, out_stride = job.out_stride;
  typename V::Floats sum[Pixels][N];
  // What the sums start from: the output so far, or the bias for every pixel, or zero.
  const float* start = job.fresh ? (job.bias ? job.bias + group : nullptr) : out;
  const std::ptrdiff_t start_stride = job.fresh ? 0 : out_stride;
  if (start) {
#pragma GCC unroll 8
    for (int p = 0; p < Pixels; ++p)
      for (int n = 0; n < N; ++n) sum[p][n] = V::load(start + p * start_stride + n * V::lanes);
  } else {
#pragma GCC unroll 8
    for (int p = 0; p < Pixels; ++p)
      for (int n = 0; n < N; ++n) sum[p][n] = V::fill(0.0f);
  }
  const float* weights = job.weights + std::ptrdiff_t(group) * job.in_channels;
  int i = 0;
  do {
    add_products<V>(in + i, in_stride, weights, sum);
    weights += Group;
  } while (++i < job.in_channels);
  for (int p = 0; p < Pixels; ++p)
    for (int n = 0; n < N; ++n) V::store(out + p * out_stride + n * V::lanes, sum[p][n]);
}

template <class V, int Group>
void mix_group(const Convolution& job, int group) {
  for (int row = 0; row < job.rows; ++row) {
    const float* in = job.in + std::ptrdiff_t(row) * job.in_pitch;
    float* out = job.out + std::ptrdiff_t(row) * job.out_pitch + group;
    // As even blocks as possible: a short one would wait for its own sums.
    for (int blocks = (job.columns + 5) / 6, left = job.columns; blocks > 0; --blocks) {
      const int pixels = (left + blocks - 1) / blocks;
      switch (pixels) {
        case 6: mix_block<V, Group, 6>(job, in, out, group); break;
        case 5: mix_block<V, Group, 5>(job, in, out, group); break;
        case 4: mix_block<V, Group, 4>(job, in, out, group); break;
        case 3: mix_block<V, Group, 3>(job, in, out, group); break;
        case 2: mix_block<V, Group, 2>(job, in, out, group); break;
        default: mix_block<V, Group, 1>(job, in, out, group);
      }
      left -= pixels;
      in += pixels * job.in_stride;
      out += pixels * job.out_stride;
    }
  }
}

template <class V16, class V8>
void mix_channels(const Convolution& job) {
  int group = 0;
  for (; group + 16 <= job.out_stride; group += 16) mix_group<V16, 16>(job, group);
  if (group < job.out_stride) mix_group<V8, 8>(job, group);
}

}  // namespace NCPM_ISA
