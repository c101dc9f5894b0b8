// Contacts between cells, and what the network is told about them.
#pragma once

#include "graph/kernels.hpp"
#include "graph/shape.hpp"
#include "graph/weights.hpp"

namespace ncpm::graph {

// A contact as one of the two cells sees it.
struct Contact {
  std::int32_t id;
  std::int32_t pairs;  // of neighbouring sites
  float inputs[kEdgeInputs];
  // Not 0: along some ring the middles lie exactly opposite each other. Of two equally short ways both cells then take
  // the positive one, so that they do not see the same way; else one sees what the other does, radii changed over.
  std::int32_t tied;
};

// Computes inputs of contacts, many side by side.
class Relations {
 public:
  Relations(const Lattice& lattice, const Standard& standard, float pair_weight, const Kernels& kernels);

  // Notes the contact of a cell with another; its inputs come with the next compute(). Whether it is tied is known at
  // once.
  void add(Contact& contact, const Shape& here, const Shape& there);
  void compute();

 private:
  const Lattice lattice_;
  const float pair_weight_;
  const Kernels& kernels_;
  ContactColumns columns_;
  Contact* contacts_[kColumnRoom];
};

}  // namespace ncpm::graph
