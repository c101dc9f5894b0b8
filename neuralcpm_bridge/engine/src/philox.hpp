// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a random function of
// a seed and a counter. A chain is resumed by going on counting; chains never share a stream.
#pragma once

#include <array>
#include <cstdint>

namespace ncpm {

using Words = std::array<std::uint32_t, 4>;

inline Words philox(std::uint64_t seed, std::uint64_t counter, std::uint32_t stream = 0) {
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  Words x = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), stream, 0};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t(0xD2511F53u) * x[0];
    const std::uint64_t p1 = std::uint64_t(0xCD9E8D57u) * x[2];
    x = {static_cast<std::uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ x[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return x;
}

// Uniform on {0, …, n-1}; the bias, n / 2^32, is below a millionth for any side of a lattice.
inline int below(std::uint32_t word, int n) {
  return static_cast<int>((std::uint64_t(word) * static_cast<std::uint32_t>(n)) >> 32);
}

// Uniform on [0, 1) with all 53 bits of a double; the upper 11 bits of `high` are not used.
inline double unit(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((std::uint64_t(high & 0x1FFFFFu) << 32) | low) * 0x1p-53;
}

}  // namespace ncpm
