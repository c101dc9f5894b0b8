// The arithmetic of the networks on small windows, once per instruction set.
//
// Images are [row][column][channel], channels innermost and padded with zeros to a multiple of kChannelBlock;
// a pitch is the distance of two rows in floats. Every output value is computed by the same operations in the
// same order whatever the window around it: values from different windows are bit-equal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ncpm::neural {

inline constexpr int kChannelBlock = 8;
inline int padded(int channels) { return (channels + kChannelBlock - 1) / kChannelBlock * kChannelBlock; }

// out += 3x3 convolution of `in`, or out = where nothing is there yet. `in` points at the pixel under the first
// output pixel; its neighbours are read too, but only rows and columns of [live_y), [live_x) may differ from
// zero, and reading is kept to them where that saves work. Pixels read outside them must be zero.
struct Convolution {
  const float* in;
  int in_pitch;
  int in_channels, in_stride;  // how many are used, how many lie between pixels
  float* out;
  int out_pitch;
  int out_stride;  // padded number of output channels = floats between pixels
  int rows, columns;
  int live_y0, live_y1, live_x0, live_x1;  // relative to the first output pixel
  const float* weights;                    // as pack (packing.cpp) lays them out
  bool fresh = false;                      // out = instead of out +=
  const float* bias = nullptr;             // what a fresh output starts from, padded; null: zero
};

// Whether dead columns, up to two on a side, are never read by a convolution between so many (padded) channels.
inline bool skips_columns(int in_stride, int out_stride) {
  return in_stride == 8 || ((in_stride == 16 || in_stride == 32) && out_stride % 16 == 0);
}

// A matrix product per interpolation point (winograd.hpp): out[point][slot] = in[point][slot] · weights[point].
struct PointProducts {
  int points, slots, batch;  // slots that are used, and that lie between two points
  int inputs, out_stride;    // padded numbers of channels = floats between slots
  const float* in;
  const float* weights;  // by point: groups of 32 channels, a rest of 16, a rest of 8, each [in][channel]
  float* out;
};

struct Window {
  int rows, row_floats;  // row_floats = columns * padded channels
};

struct Kernels {
  const char* isa;

  void (*convolve)(const Convolution&);
  // out += (or out =) 1x1 convolution; live_* are ignored.
  void (*mix_channels)(const Convolution&);
  // An image of height x width pixels (winograd.hpp) to its values at the interpolation points, and back; so many
  // floats lie between pixels and between points. In between, a convolution is multiply_points.
  void (*tile_to_points)(int height, int width, const float* image, std::ptrdiff_t pixel_stride, int channels,
                         float* points, std::ptrdiff_t point_stride);
  void (*tile_from_points)(int height, int width, const float* points, std::ptrdiff_t point_stride, int channels,
                           float* image, std::ptrdiff_t pixel_stride);
  // The same for the whole convolution of a box of kBox x kBox pixels; its image then is two wider and higher.
  void (*box_to_points)(const float* image, std::ptrdiff_t pixel_stride, int channels, float* points,
                        std::ptrdiff_t point_stride);
  void (*box_from_points)(const float* points, std::ptrdiff_t point_stride, int channels, float* image,
                          std::ptrdiff_t pixel_stride);
  void (*multiply_points)(const PointProducts&);
  // out = SiLU(in)
  void (*silu)(Window, const float* in, int in_pitch, float* out, int out_pitch);
  // out = SiLU(base + delta) - activation, activation being SiLU(base); exactly 0 where delta is 0.
  void (*silu_change)(Window, const float* base, const float* activation, int base_pitch, const float* delta,
                      int delta_pitch, float* out, int out_pitch);
  // sum += the same; `sum` has the pitch of `base`.
  void (*add_silu_change)(Window, const float* base, const float* activation, int base_pitch, const float* delta,
                          int delta_pitch, float* sum);
  // out = the same with delta in fixed point, delta * step.
  void (*silu_change_fixed)(Window, const float* base, const float* activation, int base_pitch,
                            const std::int32_t* delta, int delta_pitch, float step, float* out, int out_pitch);
  // out = in * step
  void (*from_fixed)(Window, const std::int32_t* in, int in_pitch, float step, float* out, int out_pitch);
  // out += in
  void (*add)(Window, const float* in, int in_pitch, float* out, int out_pitch);
  // out = max(base), or max(base + delta) - less, over blocks of pool x pool pixels; the window is that of `out`.
  void (*pool)(Window, int channels, int pool, const float* base, int base_pitch, const float* delta, int delta_pitch,
               const float* less, int less_pitch, float* out, int out_pitch);
  // energy[row][column] = Σ over channels weight · (SiLU(base + delta) - activation); returns their fixed_sum.
  std::int64_t (*site_energies)(int rows, int columns, int channels, const float* base, const float* activation,
                                int base_pitch, const float* delta, int delta_pitch, const float* weight, float* energy,
                                int energy_pitch);
  // Σ of the values, each rounded to a multiple of 2^-32: integers, so the order of summation is immaterial.
  // kOutOfRange if a value is no number below 2^19 or the sum none below 2^31.
  // May read (not use) up to three values behind a row.
  std::int64_t (*fixed_sum)(int rows, int columns, const float* values, int pitch);
  // The same for every channel: sums[channel] += sign · Σ over pixels; false if something is out of range.
  bool (*add_fixed)(int rows, int columns, int channels, const float* values, int pitch, int sign, std::int64_t* sums);
};

inline constexpr double kFixedUnit = 1.0 / 4294967296.0;
// Added to a double, 1.5·2^20 leaves it as a multiple of kFixedUnit in the low bits, as long as sign and exponent stay
// those of 1.5·2^20: up to 2^19.
inline constexpr double kFixedShift = 1572864.0;
inline constexpr std::int64_t kOutOfRange = INT64_MIN;  // in place of a sum that does not fit

const Kernels& baseline_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& neon_kernels();

// The best the CPU has, or what the environment variable NEURALCPM_ISA asks for.
const Kernels& selected_kernels();

}  // namespace ncpm::neural
