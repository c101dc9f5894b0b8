// The state of a cellular Potts model: which cell owns each site, and what type each cell has.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lattice.hpp"
#include "moments.hpp"

namespace ncpm {

using Properties = std::vector<std::vector<double>>;  // a list for each property, with an entry per id

// Plain data with its invariants kept by State (state.hpp), the only writer:
//   ids[site]   in [0, cells()); 0 is the medium
//   types[id]   in [0, T), or -1: there is no such cell (then volumes[id] == 0); types[0] == 0
//   volumes[id] number of sites with that id, the medium included; may be 0 for an existing cell
//   properties[number][id] of the named ones that the model reads; the training data's mean for the medium and where
//               there is no such cell
struct Tissue {
  Lattice lattice;
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> types;
  std::vector<std::int64_t> volumes;
  Properties properties;
  std::vector<Neighbourhood> neighbourhoods;  // those that terms look at, each order once
  std::optional<CellMoments> moments;         // followed where a term looks at shapes

  int sites() const { return static_cast<int>(ids.size()); }
  int cells() const { return static_cast<int>(types.size()); }  // number of ids, medium included
  double property(std::int32_t id, int number) const { return properties[number][id]; }
  bool alike(std::int32_t a, std::int32_t b) const;  // nothing that the model reads tells the two cells apart
  int type_at(int site) const { return types[ids[site]]; }

  // The number of a neighbourhood in `neighbourhoods`, which it joins if it is new there.
  int look_at(int order);
  int number_of(int order) const;  // of one that has joined, else -1
  void look_at_shapes() { moments.emplace(); }

  // Whether shapes are of no interest, or that of a cell is still defined when it gets a site.
  bool has_shape(std::int32_t id, int site) { return !moments || id == 0 || moments->fits(lattice, ids, id, site); }
};

inline constexpr int kMostNeighbourhoods = 4;  // that the terms of one model look at

}  // namespace ncpm
