// Aligned memory: arrays that live as long as the lattice, a pool for the cells' tiles, and an arena that lives
// as long as a proposal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace ncpm::neural {

inline constexpr std::size_t kAlignment = 64;
inline constexpr std::size_t kHugePage = std::size_t(1) << 21;

inline std::size_t rounded_up(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Reads a value for the sake of having it in the CPU's caches.
template <class T>
void read(const T& value) {
  static_cast<void>(*static_cast<const volatile T*>(&value));
}

struct Release {
  std::size_t alignment = kAlignment;
  void operator()(void* memory) const { ::operator delete(memory, std::align_val_t(alignment)); }
};

// For vectors that start at a cache line: no load of a kernel then straddles two.
template <class T>
struct Aligned {
  using value_type = T;

  Aligned() = default;
  template <class U>
  Aligned(const Aligned<U>&) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(kAlignment)));
  }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, std::align_val_t(kAlignment)); }
  bool operator==(const Aligned&) const { return true; }
  bool operator!=(const Aligned&) const { return false; }
};

// Zero-initialised, aligned to cache lines, with some more readable memory behind it. Large ones ask for huge
// pages: proposals jump about in them, and every small page would be a miss of its own.
template <class T>
class Array {
 public:
  Array() = default;
  explicit Array(std::size_t size) : size_(size) {
    if (size == 0) return;
    const Release release{bytes() >= kHugePage ? kHugePage : kAlignment};
    void* memory = ::operator new(bytes(), std::align_val_t(release.alignment));
#if defined(__linux__)
    if (release.alignment == kHugePage) madvise(memory, bytes(), MADV_HUGEPAGE);
#endif
    data_ = std::unique_ptr<T, Release>(static_cast<T*>(memory), release);
    clear();
  }
  void clear() {
    if (size_) std::memset(static_cast<void*>(data_.get()), 0, bytes());
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const {
    const std::size_t needed = rounded_up(size_ * sizeof(T)) + kAlignment;
    return needed < kHugePage ? needed : (needed + kHugePage - 1) / kHugePage * kHugePage;
  }

 private:
  std::unique_ptr<T, Release> data_;
  std::size_t size_ = 0;
};

// Blocks of floats cut from a few large pieces; returned blocks are used again for requests of their size.
class Pool {
 public:
  // Zeroed, and readable a little beyond its end.
  float* take(std::size_t floats) {
    const std::size_t size = block(floats);
    std::vector<float*>& free = free_[size];
    float* memory;
    if (!free.empty()) {
      memory = free.back();
      free.pop_back();
    } else {
      if (pieces_.empty() || used_ + size > pieces_.back().size()) {
        const std::size_t next = pieces_.empty() ? kFirstPiece : std::min(kLargestPiece, 2 * pieces_.back().size());
        pieces_.emplace_back(std::max(size, next));
        bytes_ += pieces_.back().bytes();
        used_ = 0;
      }
      memory = pieces_.back().data() + used_;
      used_ += size;
    }
    std::memset(memory, 0, size * sizeof(float));
    return memory;
  }

  void give_back(float* memory, std::size_t floats) {
    if (memory) free_[block(floats)].push_back(memory);
  }

  void clear() {
    pieces_.clear();
    free_.clear();
    used_ = bytes_ = 0;
  }

  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kStep = 256;  // floats; sizes that differ less share their blocks
  static constexpr std::size_t kFirstPiece = std::size_t(1) << 16, kLargestPiece = std::size_t(1) << 21;

  static std::size_t block(std::size_t floats) { return (floats + 16 + kStep - 1) / kStep * kStep; }

  std::vector<Array<float>> pieces_;
  std::size_t used_ = 0, bytes_ = 0;
  std::map<std::size_t, std::vector<float*>> free_;
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
