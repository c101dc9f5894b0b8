// The kernels of the cell graph; included by kernels_<isa>.cpp behind ../neural/simd.hpp, in its namespace NCPM_ISA.

namespace NCPM_ISA {

using ncpm::graph::ContactColumns;
using ncpm::graph::Dense;
using ncpm::graph::kBlock;
using ncpm::graph::kEdgeInputs;
using ncpm::graph::kLoudest;
using ncpm::graph::kLoudestTouch;
using ncpm::graph::kMessageUnit;
using ncpm::graph::kRadii;
using ncpm::graph::Message;
using ncpm::graph::Rows;
using ncpm::graph::RowsOut;
using ncpm::graph::Scattered;

// Several rows and blocks of outputs side by side, so that no product waits for the one before it.
template <class V, int Count, int Blocks, class Base>
inline void dense_tile(const Dense& layer, int member, int block, int first, Rows in, const Base& base, RowsOut out) {
  constexpr int kVectors = Blocks * kBlock / V::lanes;
  using F = typename V::Floats;
  F sums[Count][kVectors];
  for (int row = 0; row < Count; ++row)
    for (int v = 0; v < kVectors; ++v)
      sums[row][v] = V::load(base.at(first + row) + member * base.member + block + v * V::lanes);
  const float* weight = layer.weight + std::ptrdiff_t(member) * layer.inputs * layer.outputs + block;
  const float* from = in.at(first) + member * in.member;
  for (int k = 0; k < layer.inputs; ++k, weight += layer.outputs) {
    F columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = V::load(weight + v * V::lanes);
    for (int row = 0; row < Count; ++row) {
      const F value = V::fill(from[row * in.row + k]);
      for (int v = 0; v < kVectors; ++v) sums[row][v] = V::fma(value, columns[v], sums[row][v]);
    }
  }
  float* to = out.data + first * out.row + member * out.member + block;
  for (int row = 0; row < Count; ++row)
    for (int v = 0; v < kVectors; ++v) V::store(to + row * out.row + v * V::lanes, sums[row][v]);
}

// All rows of some blocks of outputs, by tiles of Count rows and smaller ones for the rest.
template <class V, int Count, int Blocks, class Base>
inline void dense_rows(const Dense& layer, int member, int block, int first, int rows, Rows in, const Base& base,
                       RowsOut out) {
  for (; first + Count <= rows; first += Count)
    dense_tile<V, Count, Blocks>(layer, member, block, first, in, base, out);
  if constexpr (Count > 1) {
    if (first < rows) dense_rows<V, Count / 2, Blocks>(layer, member, block, first, rows, in, base, out);
  }
}

template <class V, class Base>
void dense(const Dense& layer, int rows, Rows in, Base base, RowsOut out) {
  // Sums that registers hold beside what they are made of: 8 vectors.
  constexpr int kRows = V::lanes == 4 ? 2 : V::lanes == 8 ? 4 : 8;
  constexpr int kWide = V::lanes == 4 ? 1 : V::lanes == 8 ? 2 : 4;
  for (int member = 0; member < layer.members; ++member) {
    int block = 0;
    for (; block + kWide * kBlock <= layer.outputs; block += kWide * kBlock)
      dense_rows<V, kRows / kWide, kWide>(layer, member, block, 0, rows, in, base, out);
    for (; block < layer.outputs; block += kBlock)
      dense_rows<V, kRows, 1>(layer, member, block, 0, rows, in, base, out);
  }
}

template <class V>
void silu_all(float* values, std::ptrdiff_t count) {
  for (std::ptrdiff_t i = 0; i < count; i += V::lanes) V::store(values + i, silu<V>(V::load(values + i)));
}

// -- contacts ---------------------------------------------------------------------------------------------

// A symmetric matrix times a direction from both sides.
template <class V, bool Solid>
inline typename V::Floats along(const typename V::Floats* form, const typename V::Floats* way) {
  auto off = way[1] * way[2] * form[5];
  auto sum = V::fma(way[1] * way[1], form[1], way[2] * way[2] * form[2]);
  if constexpr (Solid) {
    off = V::fma(way[0] * way[1], form[3], V::fma(way[0] * way[2], form[4], off));
    sum = V::fma(way[0] * way[0], form[0], sum);
  }
  return V::fma(V::fill(2.0f), off, sum);
}

// The sum over all entries of the product, entry by entry, of two symmetric matrices.
template <class V, bool Solid>
inline typename V::Floats product(const typename V::Floats* a, const typename V::Floats* b) {
  auto off = a[5] * b[5];
  auto sum = a[1] * b[1] + a[2] * b[2];
  if constexpr (Solid) {
    off = off + a[3] * b[3] + a[4] * b[4];
    sum = sum + a[0] * b[0];
  }
  return V::fma(V::fill(2.0f), off, sum);
}

template <class V, bool Solid>
inline void relate(ContactColumns& columns, int at) {
  using F = typename V::Floats;
  constexpr int kForm = 7, kTrace = 6;
  const F zero = V::fill(0.0f), one = V::fill(1.0f);
  F way[3], here[kForm], there[kForm];
  for (int axis = Solid ? 0 : 1; axis < 3; ++axis) way[axis] = V::load(columns.way[axis] + at);
  for (int k = 0; k < kForm; ++k) {
    here[k] = V::load(columns.here[k] + at);
    there[k] = V::load(columns.there[k] + at);
  }
  F squared = V::fma(way[1], way[1], way[2] * way[2]);
  if constexpr (Solid) squared = V::fma(way[0], way[0], squared);
  const F distance = V::sqrt(squared);
  const auto apart = squared > zero;
  const F inverse = one / (apart ? distance : one);
  for (int axis = Solid ? 0 : 1; axis < 3; ++axis) way[axis] = way[axis] * inverse;
  const F share = V::fill(Solid ? 1.0f / 3.0f : 0.5f);
  const auto radius = [&](const F* form) {  // without a direction between them: the mean over all
    const F square = apart ? along<V, Solid>(form, way) : form[kTrace] * share;
    return V::sqrt(square > zero ? square : zero);
  };
  const F traces = here[kTrace] * there[kTrace];
  const auto extended = traces > zero;
  const F alignment = product<V, Solid>(here, there) / (extended ? traces : one);
  const F found[kEdgeInputs] = {V::load(columns.inputs[0] + at), distance, extended ? alignment : zero, radius(here),
                                radius(there)};
  for (int k = 0; k < kEdgeInputs; ++k) {
    const F z = (found[k] - V::fill(columns.mean[k])) * V::fill(columns.inverse[k]);
    V::store(columns.inputs[k] + at, z / V::sqrt(V::fma(z * z, V::fill(1.0f / 9.0f), one)));
  }
}

template <class V>
void contacts(ContactColumns& columns) {
  for (int at = 0; at < columns.count; at += V::lanes)
    if (columns.dimension == 3) relate<V, true>(columns, at);
    else relate<V, false>(columns, at);
}

// -- messages ---------------------------------------------------------------------------------------------

// Of entries from `first` on: 0 in the first half of a message, 1 in the second.
template <class V>
inline typename V::Floats second_half(int first, int half) {
  static constexpr float step[3 * kBlock] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
                                             1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const int ahead = half - first;
  return V::load(step + kBlock - (ahead < -kBlock ? -kBlock : ahead > kBlock ? kBlock : ahead));
}

template <class V>
inline typename V::Ints heard(typename V::Floats value, typename V::Floats loudest, typename V::Floats scale) {
  const auto loud = V::clamp(silu<V>(value), -1.0f, kLoudest);
  return __builtin_convertvector((loud < loudest ? loud : loudest) * scale, typename V::Ints);
}

template <class V>
void messages(int members, int width, std::ptrdiff_t member_stride, const float* edge, const Message* jobs,
              std::ptrdiff_t count) {
  for (const Message* job = jobs; job != jobs + count; ++job) {
    const float share = job->weight * (1.0f / kMessageUnit), touch = job->touch * (1.0f / kMessageUnit);
    typename V::Floats inputs[kEdgeInputs];
    for (int k = 0; k < kRadii; ++k) inputs[k] = V::fill(job->inputs[k]);
    inputs[kRadii] = V::fill(job->inputs[kRadii + job->swapped]);
    inputs[kRadii + 1] = V::fill(job->inputs[kRadii + 1 - job->swapped]);
    for (int member = 0; member < members; ++member) {
      const std::ptrdiff_t from = member * member_stride;
      const float* weights = edge + std::ptrdiff_t(member) * kEdgeInputs * width;
      std::int32_t* sum = job->sum + member * width;
      for (int i = 0; i < width; i += V::lanes) {
        const auto counts = second_half<V>(i, width / 2);
        const auto loudest = V::fma(counts, V::fill(kLoudestTouch - kLoudest), V::fill(kLoudest));
        const auto scale = counts > V::fill(0.0f) ? V::fill(touch) : V::fill(share);
        auto value = V::load(job->own + from + i);
        for (int k = 0; k < kEdgeInputs; ++k) value = V::fma(inputs[k], V::load(weights + k * width + i), value);
        auto total = V::load(sum + i) + heard<V>(value + V::load(job->other + from + i), loudest, scale);
        if (job->before) total -= heard<V>(value + V::load(job->before + from + i), loudest, scale);
        std::memcpy(sum + i, &total, sizeof total);
      }
    }
  }
}

template <class V>
void from_fixed_sums(const std::int32_t* sums, std::ptrdiff_t count, float* out) {
  for (std::ptrdiff_t i = 0; i < count; i += V::lanes)
    V::store(out + i, V::from_ints(V::load(sums + i)) * V::fill(kMessageUnit));
}

template <class V>
void head_energies(int members, int width, const float* weight, int rows, const float* in, float* out) {
  for (int row = 0; row < rows; ++row)
    for (int member = 0; member < members; ++member, in += width) {
      const float* own = weight + std::ptrdiff_t(member) * width;
      auto sum = V::fill(0.0f);
      for (int i = 0; i < width; i += V::lanes) sum = V::fma(silu<V>(V::load(in + i)), V::load(own + i), sum);
      *out++ = V::sum(sum);
    }
}

template <class V>
constexpr ncpm::graph::Kernels graph_kernels() {
  return {dense<V, Rows>, dense<V, Scattered>, silu_all<V>,     contacts<V>,
          messages<V>,    from_fixed_sums<V>,  head_energies<V>};
}

}  // namespace NCPM_ISA
