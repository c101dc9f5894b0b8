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

// Morpheus numbers cells upwards for ever and gives every division two new numbers, the engine has one slot per
// cell: slots are given to cells as they come and taken back when they are gone. Slot 0 is the medium.
// Errors are std::runtime_error with one sentence.
class LearnedTerm {
 public:
  // The attributes of the element, which all elements of one model file must share.
  struct Settings {
    std::string model, types, term, weight, library, log;
    unsigned check = 0;  // Monte Carlo steps between two comparisons with a recomputed energy; 0: none
    bool operator==(const Settings& other) const;
  };

  // The term of these settings, loaded by whoever asks first.
  static std::shared_ptr<LearnedTerm> join(const Settings& settings);
  ~LearnedTerm();

  // A cell type whose element takes part.
  void add_carrier(unsigned celltype);

  // Whether the call at hand speaks for the whole copy: the new cell's type does, or the old one's where the new
  // one's (a medium) has no element.
  bool answers(const CPM::Update& update) const;

  double delta(const CPM::Update& update);
  void commit(const CPM::Update& update);

 private:
  explicit LearnedTerm(const Settings& settings);

  void load();
  void match_types();
  void check_lattice() const;

  void synchronise();   // before a delta: first of all, then once per Monte Carlo step
  void rebuild();       // everything from Morpheus' lattice
  void follow_cells();  // type changes and deaths, which notify nobody
  void compare();       // against an energy computed from scratch
  double energy(ncpm_state* state) const;
  ncpm_state* create();  // a state of Morpheus' lattice
  void open_log();

  std::int32_t slot(CPM::CELL_ID cell);  // gives one to a new cell
  void assign_slot(CPM::CELL_ID cell, std::int32_t type);
  std::int32_t model_type(unsigned celltype) const { return type_of_celltype_[celltype]; }

  Settings settings_;
  std::unique_ptr<NcpmLibrary> library_;
  ncpm_model* model_ = nullptr;
  ncpm_state* state_ = nullptr;
  int width_ = 0, height_ = 0;

  std::vector<bool> carriers_;                  // by Morpheus' cell type
  std::vector<std::int32_t> type_of_celltype_;  // the model's type; 0: treated as medium
  std::vector<std::int32_t> slot_of_cell_;      // by Morpheus' cell id; -1: none yet
  std::vector<CPM::CELL_ID> cells_;             // Morpheus' cells that have a slot, that of the medium included
  std::vector<std::int32_t> types_;             // by slot; -1: free
  std::vector<std::int32_t> free_slots_;

  double time_ = 0.0;  // of the Monte Carlo step that cells were last followed for
  unsigned long long steps_ = 0, comparisons_ = 0;
  double largest_difference_ = 0.0;
  std::ofstream log_;
};

#endif
