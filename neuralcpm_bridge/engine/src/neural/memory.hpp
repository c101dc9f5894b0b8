// Aligned memory: arrays that live as long as the lattice, and an arena that lives as long as a proposal.
#pragma once

#include <cstddef>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace ncpm::neural {

inline constexpr std::size_t kAlignment = 64;

inline std::size_t rounded_up(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Release {
  void operator()(void* memory) const { ::operator delete(memory, std::align_val_t(kAlignment)); }
};

template <class T>
class Array {  // zero-initialised, aligned to cache lines, with some more readable memory behind it
 public:
  Array() = default;
  explicit Array(std::size_t size) : size_(size) {
    if (size == 0) return;
    data_.reset(static_cast<T*>(::operator new(rounded_up(size * sizeof(T)) + kAlignment, std::align_val_t(kAlignment))));
    clear();
  }
  void clear() { if (size_) std::memset(static_cast<void*>(data_.get()), 0, rounded_up(size_ * sizeof(T)) + kAlignment); }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }
  std::size_t size() const { return size_; }

 private:
  std::unique_ptr<T, Release> data_;
  std::size_t size_ = 0;
};

// Hands out uninitialised memory until reset. Keeps what it has, so that a steady state never allocates.
class Arena {
 public:
  template <class T>
  T* take(std::size_t count) {
    const std::size_t bytes = rounded_up(count * sizeof(T));
    if (used_ + bytes > chunk_bytes()) {
      spent_ += used_;
      chunks_.emplace_back(std::max(bytes, 2 * chunk_bytes() + kSmallest));
      used_ = 0;
    }
    char* memory = chunks_.back().data() + used_;
    used_ += bytes;
    return reinterpret_cast<T*>(memory);
  }

  void reset() {
    if (chunks_.size() > 1) {  // next time everything fits one chunk
      const std::size_t total = spent_ + used_;
      chunks_.clear();
      chunks_.emplace_back(total + total / 4 + kSmallest);
    }
    used_ = spent_ = 0;
  }

  void release() {
    chunks_.clear();
    used_ = spent_ = 0;
  }

 private:
  static constexpr std::size_t kSmallest = 1 << 16;
  std::size_t chunk_bytes() const { return chunks_.empty() ? 0 : chunks_.back().size(); }

  std::vector<Array<char>> chunks_;
  std::size_t used_ = 0, spent_ = 0;
};

}  // namespace ncpm::neural
