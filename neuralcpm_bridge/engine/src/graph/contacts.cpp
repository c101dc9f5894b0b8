#include "graph/contacts.hpp"

#include "graph/way.hpp"

namespace ncpm::graph {

Relations::Relations(const Lattice& lattice, const Standard& standard, float pair_weight, const Kernels& kernels)
    : lattice_(lattice), pair_weight_(pair_weight), kernels_(kernels), columns_{} {
  columns_.dimension = lattice.dimension();
  columns_.mean = standard.mean.data();
  columns_.inverse = standard.inverse.data();
}

void Relations::add(Contact& contact, const Shape& here, const Shape& there) {
  if (columns_.count == kColumnRoom) compute();
  const int at = columns_.count++;
  const bool solid = columns_.dimension == 3;
  const Way way = way_between(lattice_, here, there);
  columns_.way[1][at] = float(way.y);
  columns_.way[2][at] = float(way.x);
  if (solid) columns_.way[0][at] = float(way.z);
  const auto copy = [&](int k) {
    columns_.here[k][at] = here.form[k];
    columns_.there[k][at] = there.form[k];
  };
  for (const int k : {1, 2, 5, 6}) copy(k);  // what there is in 2D
  if (solid)
    for (const int k : {0, 3, 4}) copy(k);
  columns_.inputs[0][at] = float(contact.pairs) * pair_weight_;
  contact.tied = way.tied;
  contacts_[at] = &contact;
}

void Relations::compute() {
  kernels_.contacts(columns_);
  for (int at = 0; at < columns_.count; ++at)
    for (int k = 0; k < kEdgeInputs; ++k) contacts_[at]->inputs[k] = columns_.inputs[k][at];
  columns_.count = 0;
}

}  // namespace ncpm::graph
