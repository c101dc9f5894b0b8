// What the network is told about cells and contacts, from whole numbers kept by the lattice.
#pragma once

#include "moments.hpp"

namespace ncpm::graph {

inline constexpr int kCellInputs = 4;  // volume, anisotropy, gyration radius, surface; named properties follow

// A cell as its contacts see it.
struct Shape {
  Moments moments;
  int reference = 0;    // the site its moments are relative to
  float covariance[6];  // zz, yy, xx, zy, zx, yx in space
  float trace = 0.0f;

  Shape() = default;
  Shape(Geometry geometry, const Moments& of, int relative_to);

  float anisotropy(int dimension) const;  // 0: round, 1: a rod
  float radius() const;                   // of gyration
};

// How two cells lie to each other: distance of their middles, radii of gyration of both along the line between them,
// and how much their shapes are aligned. Independent of the lattice's axes and of references.
struct Relation {
  float distance, radius_here, radius_there, alignment;

  Relation(const Lattice& lattice, const Shape& here, const Shape& there);
};

}  // namespace ncpm::graph
