// The arithmetic of the cell graph on short rows of floats, once per instruction set.
//
// A row holds the features of one cell (or edge) of all members of a committee, member by member, `width` floats each.
// Every output is computed by the same operations in the same order whatever else is computed beside it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ncpm::graph {

inline constexpr int kBlock = 16;  // widths are multiples of it

// Of a contact: length, distance of the middles, alignment, radius of the receiver and of the sender along the line.
inline constexpr int kEdgeInputs = 5;
inline constexpr int kRadii = 3;  // where the two radii begin: seen from the other side they change places

// Sums of messages are integers, multiples of 2^-22: they do not depend on the order of the neighbours.
inline constexpr float kMessageUnit = 1.0f / 4194304.0f;
inline constexpr float kLoudest = 255.0f, kLoudestTouch = 7.0f;
// A touch counts one half (docs/artifact.md); sums hold an eighth of that, for up to a thousand neighbours.
inline constexpr float kTouch = 1.0f / 16.0f, kTouchScale = 8.0f;

// A dense layer of every member: out = base + weight · in.
struct Dense {
  int members = 1, inputs = 0, outputs = 0;
  const float* weight = nullptr;  // [member][input][output]
};

// Where rows lie: so many floats between rows, and between the members' shares of one (0: all have the same).
struct Rows {
  const float* data;
  std::ptrdiff_t row, member;

  const float* at(std::ptrdiff_t number) const { return data + number * row; }
};

struct RowsOut {
  float* data;
  std::ptrdiff_t row, member;
};

// Rows here and there.
struct Scattered {
  const float* const* rows;
  std::ptrdiff_t first, member;  // the first float of a row that counts

  const float* at(std::ptrdiff_t number) const { return rows[number] + first; }
};

// One message: sum += trunc(weight · min(SiLU(own + edge · inputs + other), kLoudest) / kMessageUnit) for the first
// half of the entries, whose weights of all messages to a cell add up to less than 1, so that no sum overflows; `touch`
// and kLoudestTouch for the second half.
struct Message {
  const float* own;     // the receiver's row
  const float* other;   // the sender's row
  const float* before;  // the same as it was, if that message is taken out; else null
  const float* inputs;
  std::int32_t* sum;
  float weight, touch;
  bool swapped;  // the inputs are the sender's view of the contact
};

// Contacts side by side, number by number: entry i of every list belongs to contact i.
inline constexpr int kColumnRoom = 64;
struct ContactColumns {
  alignas(64) float way[3][kColumnRoom];   // z, y, x from middle to middle
  float here[7][kColumnRoom];              // form of the receiver: covariance zz, yy, xx, zy, zx, yx, and its trace
  float there[7][kColumnRoom];             // form of the sender; in 2D what has a z is not read
  float inputs[kEdgeInputs][kColumnRoom];  // given the first, the contact's length; found all, standardised
  int count, dimension;
  const float *mean, *inverse;  // of the training data, and 1 over their deviation, [kEdgeInputs]
};

struct Kernels {
  void (*dense)(const Dense& layer, int rows, Rows in, Rows base, RowsOut out);
  void (*dense_on)(const Dense& layer, int rows, Rows in, Scattered base, RowsOut out);
  void (*silu)(float* values, std::ptrdiff_t count);  // count is a multiple of kBlock
  void (*contacts)(ContactColumns& columns);
  // The members' shares of own and other are `member_stride` apart; edge: [member][kEdgeInputs][width].
  void (*messages)(int members, int width, std::ptrdiff_t member_stride, const float* edge, const Message* jobs,
                   std::ptrdiff_t count);
  void (*from_fixed)(const std::int32_t* sums, std::ptrdiff_t count, float* out);
  // Σ over outputs of weight · SiLU(row) of every member: out[row][member].
  void (*energies)(int members, int width, const float* weight, int rows, const float* in, float* out);
};

const Kernels& baseline_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& neon_kernels();
const Kernels& selected_kernels();  // of the instruction set that selected_isa() names

}  // namespace ncpm::graph
