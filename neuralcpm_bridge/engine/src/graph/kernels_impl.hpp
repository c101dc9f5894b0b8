// The kernels of the cell graph; included by kernels_<isa>.cpp behind ../neural/simd.hpp, in its namespace NCPM_ISA.

namespace NCPM_ISA {

using ncpm::graph::Dense;
using ncpm::graph::kBlock;
using ncpm::graph::kEdgeInputs;
using ncpm::graph::kLoudest;
using ncpm::graph::kMessageUnit;
using ncpm::graph::kRadii;
using ncpm::graph::Message;
using ncpm::graph::Rows;
using ncpm::graph::RowsOut;
using ncpm::graph::Scattered;

// Several rows side by side, so that no product waits for the one before it.
template <class V, int Count, class Base>
inline void dense_rows(const Dense& layer, int member, int block, int first, Rows in, const Base& base, RowsOut out) {
  constexpr int kVectors = kBlock / V::lanes;
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

template <class V, class Base>
void dense(const Dense& layer, int rows, Rows in, Base base, RowsOut out) {
  constexpr int kRows = V::lanes == 4 ? 2 : V::lanes == 8 ? 4 : 8;
  for (int member = 0; member < layer.members; ++member)
    for (int block = 0; block < layer.outputs; block += kBlock) {
      int row = 0;
      for (; row + kRows <= rows; row += kRows) dense_rows<V, kRows>(layer, member, block, row, in, base, out);
      if (row + kRows / 2 <= rows) {
        dense_rows<V, kRows / 2>(layer, member, block, row, in, base, out);
        row += kRows / 2;
      }
      for (; row < rows; ++row) dense_rows<V, 1>(layer, member, block, row, in, base, out);
    }
}

template <class V>
void silu_all(float* values, std::ptrdiff_t count) {
  for (std::ptrdiff_t i = 0; i < count; i += V::lanes) V::store(values + i, silu<V>(V::load(values + i)));
}

template <class V>
void messages(int members, int width, std::ptrdiff_t member_stride, const float* edge, const Message* jobs,
              std::ptrdiff_t count) {
  using I = typename V::Ints;
  for (const Message* job = jobs; job != jobs + count; ++job) {
    const float scale = job->weight * (1.0f / kMessageUnit);
    float inputs[kEdgeInputs];
    for (int k = 0; k < kRadii; ++k) inputs[k] = job->inputs[k];
    inputs[kRadii] = job->inputs[kRadii + job->swapped];
    inputs[kRadii + 1] = job->inputs[kRadii + 1 - job->swapped];
    for (int member = 0; member < members; ++member) {
      const float* own = job->own + member * member_stride;
      const float* other = job->other + member * member_stride;
      const float* weights = edge + std::ptrdiff_t(member) * kEdgeInputs * width;
      std::int32_t* sum = job->sum + member * width;
      for (int i = 0; i < width; i += V::lanes) {
        auto value = V::load(own + i) + V::load(other + i);
        for (int k = 0; k < kEdgeInputs; ++k)
          value = V::fma(V::fill(inputs[k]), V::load(weights + k * width + i), value);
        const auto scaled = V::clamp(silu<V>(value), -1.0f, kLoudest) * V::fill(scale);
        const I total = V::load(sum + i) + __builtin_convertvector(scaled, I);
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
  for (int row = 0; row < rows * members; ++row) {
    const float* values = in + std::ptrdiff_t(row) * width;
    const float* own = weight + std::ptrdiff_t(row % members) * width;
    auto sum = V::fill(0.0f);
    for (int i = 0; i < width; i += V::lanes) sum = V::fma(silu<V>(V::load(values + i)), V::load(own + i), sum);
    float total = 0.0f;
    for (int i = 0; i < V::lanes; ++i) total += sum[i];
    out[row] = total;
  }
}

template <class V>
constexpr ncpm::graph::Kernels graph_kernels() {
  return {dense<V, Rows>, dense<V, Scattered>, silu_all<V>, messages<V>, from_fixed_sums<V>, head_energies<V>};
}

}  // namespace NCPM_ISA
