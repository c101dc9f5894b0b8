// What the network is told about a cell, from whole numbers kept by the lattice.
#pragma once

#include "moments.hpp"

namespace ncpm::graph {

// Volume, anisotropy, gyration radius, surface, prolateness; named properties follow.
inline constexpr int kCellInputs = 5;
inline constexpr int kForm = 7;  // covariance zz, yy, xx, zy, zx, yx in space, then its trace

// A cell as its contacts see it.
struct Shape {
  std::int64_t sums[3] = {0, 0, 0};  // of its sites' coordinates along the geometry's axes, the cell in one piece
  std::int32_t sites = 0;
  float form[kForm] = {};

  Shape() = default;
  Shape(const Lattice& lattice, const Moments& moments, int reference);  // of at least one site

  float trace() const { return form[kForm - 1]; }
  float anisotropy(int dimension) const;  // 0: round, 1: a rod
  float prolateness() const;              // of 3D, the anisotropy with a sign: negative of discs
  float radius() const;                   // of gyration
};

}  // namespace ncpm::graph
