// SHA-256 (FIPS 180-4), for the hash of a model's weights.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ncpm {

class Sha256 {
 public:
  void update(const void* data, std::size_t size);
  std::string hex();  // finishes the hash; the object is used up

 private:
  void block(const std::uint8_t* bytes);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> pending_{};
  std::uint64_t length_ = 0;  // bytes so far
};

}  // namespace ncpm
