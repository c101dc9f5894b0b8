// The model's copy of a host's tissue, kept in step with it.
//
// Hosts number cells as they like and hardly ever reuse a number; the model numbers them compactly. A cell whose type
// is mapped to the medium has the model's id 0, like the medium itself.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "state.hpp"

namespace ncpm {

// One cell as a host knows it; its type is the model's, 0: seen as medium.
struct HostCell {
  std::int64_t id;
  std::int32_t type;
};

// The model's ids of a host's cells.
class IdMap {
 public:
  // A cell of the model gets a type; -1: its id is free again.
  struct Change {
    std::int32_t id, type;
  };

  // fixed_ids: the number of ids, medium included, that a model is bound to; 0: any number.
  explicit IdMap(int fixed_ids = 0) : fixed_ids_(fixed_ids) {}

  // Takes over all cells, numbered in the order of the host's ids. The types of the model's ids.
  std::vector<std::int32_t> load(std::vector<HostCell> cells);

  // Cells that are new or have changed their type. False: a cell became or ceased to be medium, and only a whole load
  // can tell where its pixels are.
  bool take(const std::vector<HostCell>& cells, std::vector<Change>& changes);

  // Forgets the cells that are not among the living. False: one of them still has pixels, by the model's `volumes`.
  bool bury(const std::vector<HostCell>& living, const std::vector<std::int64_t>& volumes,
            std::vector<Change>& changes);

  bool knows(std::int64_t host_id) const { return index_of_.count(host_id) != 0; }
  std::int32_t at(std::int64_t host_id) const;  // throws Error for a stranger
  std::vector<std::int32_t> translate(const std::int64_t* host_ids, std::size_t count) const;

 private:
  [[noreturn]] void too_many() const;

  int fixed_ids_;
  std::int32_t next_ = 1;  // the smallest id never given
  std::unordered_map<std::int64_t, std::int32_t> index_of_ = {{0, 0}};
  std::unordered_map<std::int64_t, std::int32_t> type_of_;
  std::vector<std::int32_t> free_;
};

// What a comparison with the host's lattice and with a recomputed energy found.
struct Comparison {
  std::int64_t differing;  // sites
  Energy energy;           // recomputed
  double drift;            // largest |cached - recomputed| part of the energy
};

// A state that answers for a host's cells by the host's ids. Used by one thread at a time.
class Mirror {
 public:
  // A cell graph sees the host's lattice as it is; a convolution continues it as it did in training. Throws Error where
  // that would be another tissue.
  Mirror(std::shared_ptr<const Model> model, const Lattice& lattice, StateOptions options);

  // Takes over a whole lattice: a host id per site, and all cells.
  void load(const std::int64_t* host_ids, std::vector<HostCell> cells);

  // Follows all cells there are now, and pixels written outside of the Metropolis algorithm. False: load again.
  bool follow(const std::vector<HostCell>& cells, const std::vector<int>& sites,
              const std::vector<std::int64_t>& host_ids);

  // A cell that no one has mentioned yet, or one that has changed its type. False: load again.
  bool appear(HostCell cell);

  double delta(std::int64_t site, std::int64_t host_id) { return state().delta(state().site(site), ids_.at(host_id)); }
  void commit(std::int64_t site, std::int64_t host_id) { state().commit(state().site(site), ids_.at(host_id)); }

  // What the members of a committee say about a copy in the mean, and how far they disagree; cheap directly after its
  // delta.
  struct Opinion {
    double mean, spread;
  };
  Opinion opinion(std::int64_t site, std::int64_t host_id);
  // Share of a copy's cells, the one that is there and the one to come, without medium, that are unlike those of the
  // training data; 0 where nobody knows.
  double outside(std::int64_t site, std::int64_t host_id);
  // How many cells are seen, and how many of them are unlike those of the training data; -1: nobody knows.
  struct Range {
    std::int64_t cells = 0, outside = 0;
  };
  Range range();

  void set_property(std::int64_t host_id, int number, double value) {
    if (const std::int32_t id = ids_.at(host_id)) state().set_property(id, number, value);
  }

  // Where the lattices differ the host's is taken over.
  Comparison compare(const std::int64_t* host_ids);

  bool loaded() const { return state_ != nullptr; }
  State& state();  // throws Error before the first load
  const Lattice& lattice() const { return lattice_; }

 private:
  void check_types(const std::vector<HostCell>& cells) const;
  void apply(const std::vector<IdMap::Change>& changes);

  std::shared_ptr<const Model> model_;
  bool knows_range_;
  Lattice lattice_;
  StateOptions options_;
  IdMap ids_;
  std::unique_ptr<State> state_;
};

}  // namespace ncpm
