// Exact incremental evaluation of a network of NH layers.
//
// Caches: for the background (an absent cell) every layer's quantities on the whole lattice (layer.hpp), for the cells
// their differences from it in tiles (cells.hpp). A proposal recomputes what a change reaches, layer by layer, into an
// arena; accept() copies it into the caches. Nothing is ever updated by adding floating-point differences, so the
// caches are always those of a fresh rebuild, bit for bit.
#pragma once

#include <vector>

#include "bins.hpp"
#include "network.hpp"

namespace ncpm::neural {

class Incremental {
 public:
  Incremental(const Model& model, const Plan& plan, const Kernels& kernels);
  Incremental(const Incremental&) = delete;  // its layers refer to it

  void rebuild(const Tissue& tissue);
  double energy() const { return network_.head().energy(); }
  double delta(const PixelFlip& flip);
  void commit(const PixelFlip& flip);  // the flip of the last delta
  void changed(const Tissue& after, const std::vector<int>& sites);
  void set_id(int site, std::int32_t id) { ids_[site] = id; }
  std::uint64_t multiply_adds() const { return work_.multiply_adds; }

 private:
  // What changes if the pixels of these blocks do: computed, kept, and, of the energy, returned.
  double propose(const Box& blocks, const PixelFlip* flip);
  void accept();
  void frame_layers(const Box& blocks);
  Box reach() const;
  void find_candidates(const Box& blocks);
  void add_candidate(std::int32_t id, const Box& blocks, const Box& reach);

  double count_ids(const std::vector<std::int32_t>& types) const;
  template <class Visit>
  void for_pixels(Visit visit) const;
  void place_cells();
  std::vector<std::int32_t> put_pixels(const Tissue& after, const std::vector<int>& sites);
  template <class Update>
  void update_supports(const std::vector<std::int32_t>& cells, Update update);

  const Plan& plan_;
  Workspace work_;
  Network network_;
  Bins bins_;
  std::vector<std::int32_t> near_;
  // The state the caches belong to.
  std::vector<std::int32_t> ids_, types_;
};

}  // namespace ncpm::neural
