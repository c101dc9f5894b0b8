// A proposed copy, with what terms ask about its surroundings.
#pragma once

#include <cstdint>

#include "tissue.hpp"

namespace ncpm {

// A site and the id copied into it, with the ids around it that terms ask for. old_id != new_id.
struct Flip {
  struct Around {
    int count;
    std::int32_t ids[kMostNeighbours];
  };

  int site;
  std::int32_t old_id, new_id;
  Around around[kMostNeighbourhoods];  // as in tissue.neighbourhoods; the rest is not filled

  Flip(const Tissue& tissue, int at, std::int32_t id) : site(at), old_id(tissue.ids[at]), new_id(id) {
    for (std::size_t i = 0; i < tissue.neighbourhoods.size(); ++i)
      around[i].count = tissue.neighbourhoods[i].ids_around(tissue.lattice, site, tissue.ids.data(), around[i].ids);
  }
};

}  // namespace ncpm
