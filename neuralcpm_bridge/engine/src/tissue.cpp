#include "tissue.hpp"

#include "error.hpp"

namespace ncpm {

bool Tissue::alike(std::int32_t a, std::int32_t b) const {
  for (const std::vector<double>& values : properties)
    if (values[a] != values[b]) return false;
  return types[a] == types[b];
}

int Tissue::number_of(int order) const {
  for (std::size_t i = 0; i < neighbourhoods.size(); ++i)
    if (neighbourhoods[i].order() == order) return int(i);
  return -1;
}

int Tissue::look_at(int order) {
  if (const int known = number_of(order); known >= 0) return known;
  if (neighbourhoods.size() == kMostNeighbourhoods)
    throw Error("The model's terms look at more than " + std::to_string(kMostNeighbourhoods) +
                " different neighbourhoods: use fewer orders.");
  neighbourhoods.emplace_back(lattice, order);
  return int(neighbourhoods.size()) - 1;
}

}  // namespace ncpm
