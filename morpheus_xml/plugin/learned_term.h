// The learned energy of one model file, kept in step with Morpheus' lattice.
#ifndef LEARNED_TERM_H
#define LEARNED_TERM_H

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/simulation.h"
#include "ncpm_library.h"
#include "uncertainty.h"

// The engine's mirror follows cells by Morpheus' own numbers; this tells it what happens. Errors are
// std::runtime_error with one sentence.
class LearnedTerm {
 public:
  // The attributes of the element, which all elements of one model file must share.
  struct Settings {
    std::string model, types, term, weight, library, log;
    unsigned check = 0;  // Monte Carlo steps between two comparisons with a recomputed energy; 0: none
    Uncertainty::Limits limits;
    bool operator==(const Settings& other) const;
  };

  // The term of these settings, loaded by whoever asks first.
  static std::shared_ptr<LearnedTerm> join(const Settings& settings);
  ~LearnedTerm();

  // A cell type whose element takes part; the symbols in whose scope it has what the model reads of every cell.
  std::vector<SymbolAccessor<double>> add_carrier(unsigned celltype, const Scope& scope);

  // Whether the call at hand speaks for the whole copy: the new cell's type does, or the old one's where the new
  // one's (a medium) has no element.
  bool answers(const CPM::Update& update) const;

  double delta(const CPM::Update& update);
  void commit(const CPM::Update& update);
  void rest() { loaded_ = false; }  // nobody asks: the lattice is not followed until somebody does

 private:
  explicit LearnedTerm(const Settings& settings);

  void load();
  void match_types();
  void list_properties();
  void check_lattice() const;
  void watch();
  void create_mirror();

  double weakened();
  void synchronise();  // before a delta: first of all, then once per Monte Carlo step
  void require_carriers() const;
  void take_over();  // everything from Morpheus' lattice
  void follow();     // type changes and deaths, which notify nobody
  void compare();    // with Morpheus' lattice and an energy computed from scratch
  void look();       // at what the model does not know
  void keep_uncertain_lattice(std::int64_t mcs);
  void open_log();
  void write_log(char kind, const CPM::Update& update);

  // Ids and the model's types of all of Morpheus' cells; from then on they are known to the mirror.
  void list_cells();
  void announce(CPM::CELL_ID cell);  // a new cell, which divisions give pixels before it can be followed
  void note(CPM::CELL_ID cell);
  void set_properties(CPM::CELL_ID cell);  // as Morpheus has them now
  std::vector<std::int64_t> host_ids() const;
  std::int64_t site(const VINT& at) const { return (std::int64_t(at.z) * size_.y + at.y) * size_.x + at.x; }
  std::int32_t model_type(CPM::CELL_ID cell) const { return type_of_celltype_[CPM::getCellIndex(cell).celltype]; }

  Settings settings_;
  std::string label_;  // behind the names of its files
  std::unique_ptr<NcpmLibrary> library_;
  ncpm_model* model_ = nullptr;
  ncpm_mirror* mirror_ = nullptr;
  VINT size_;
  bool flat_ = true;     // a 2D lattice
  bool loaded_ = false;  // the mirror has Morpheus' lattice

  std::vector<std::string> properties_;                       // of cells, that the model reads
  std::vector<std::vector<SymbolAccessor<double>>> symbols_;  // of these, by Morpheus' cell type

  std::vector<bool> carriers_;                  // by Morpheus' cell type
  std::vector<std::int32_t> type_of_celltype_;  // the model's type; 0: seen as medium
  std::vector<bool> known_;                     // by Morpheus' cell id: the mirror has heard of it
  std::vector<std::int64_t> cells_;             // as listed before the present step, and those that appeared in it
  std::size_t listed_ = 0;
  std::vector<std::int32_t> types_;
  std::vector<double> values_;  // of cells by their ids, all properties of each

  std::int64_t asked_site_ = -1;  // the last copy that Morpheus asked for
  CPM::CELL_ID asked_cell_ = 0;
  double asked_weight_ = 1.0;  // what doubts left of its energy

  std::unique_ptr<Uncertainty> uncertainty_;
  unsigned uncertain_intervals_ = 0, kept_lattices_ = 0, keep_every_ = 1;

  double step_time_ = 1.0;  // that a Monte Carlo step takes
  double time_ = 0.0;       // of the Monte Carlo step that cells were last followed for
  unsigned long long steps_ = 0, comparisons_ = 0;
  double largest_difference_ = 0.0;
  std::ofstream log_;
};

#endif
