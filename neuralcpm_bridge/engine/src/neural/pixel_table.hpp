// The first layer is linear in the pixels up to its first SiLU. Its sums are kept in 32-bit fixed point: integers add
// exactly, so a flip adds and subtracts table entries without any drift.
#pragma once

#include <cstdint>
#include <vector>

#include "linear.hpp"

namespace ncpm::neural {

// What every pixel adds to one quantity: X (in front of phi's first SiLU), Y (psi's) or S (the skip path).
struct PixelTable {
  int taps = 0;                     // 9: a pixel reaches its block and the eight around it; 1: its block
  int channels = 0;                 // padded
  int pixels = 0;                   // of a block
  float step = 1;                   // value of 1
  std::vector<std::int32_t> own;    // [pixel of block][tap][channel]
  std::vector<std::int32_t> type;   // [type][pixel of block][tap][channel]
  std::vector<std::int32_t> start;  // [border class][channel]: biases

  const std::int32_t* own_at(int pixel) const { return own.data() + std::size_t(pixel) * taps * channels; }
  const std::int32_t* type_at(int t, int pixel) const {
    return type.data() + (std::size_t(t) * pixels + pixel) * taps * channels;
  }
};

// Of `map` of the embedding, for own occupancy and every type. `biases` are those of the map without the embedding's,
// which is added here.
PixelTable pixel_table(const Model& model, const Linear& map, const BorderBiases& biases);

}  // namespace ncpm::neural
