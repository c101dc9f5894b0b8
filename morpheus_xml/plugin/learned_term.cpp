#include "learned_term.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <map>
#include <stdexcept>

#include "core/celltype.h"

namespace {

constexpr std::int32_t NO_SLOT = -1, NO_CELL = -1, MEDIUM = 0;

// Terms in use, by model file. Cell types own them; the last one to go takes the term with it.
std::map<std::string, std::weak_ptr<LearnedTerm>>& terms() {
  static std::map<std::string, std::weak_ptr<LearnedTerm>> instance;
  return instance;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// "ct1=A; ct2=B" as (Morpheus' name, model's name).
std::vector<std::pair<std::string, std::string>> pairs_of(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    const std::string entry = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (entry.empty()) continue;
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos)
      throw std::runtime_error("The entry '" + entry +
                               "' of types was not understood: write "
                               "types=\"ct1=A;ct2=B\", Morpheus' name first.");
    pairs.emplace_back(trimmed(entry.substr(0, equals)), trimmed(entry.substr(equals + 1)));
  }
  return pairs;
}

}  // namespace

bool LearnedTerm::Settings::operator==(const Settings& other) const {
  return model == other.model && types == other.types && term == other.term && weight == other.weight &&
         library == other.library && log == other.log && check == other.check;
}

std::shared_ptr<LearnedTerm> LearnedTerm::join(const Settings& settings) {
  std::shared_ptr<LearnedTerm> term = terms()[settings.model].lock();
  if (!term) {
    term.reset(new LearnedTerm(settings));
    term->load();
    terms()[settings.model] = term;
  } else if (!(term->settings_ == settings)) {
    throw std::runtime_error("The NeuralHamiltonian elements of " + settings.model +
                             " differ in their "
                             "attributes, but they are one energy: write the same element into every CellType.");
  }
  return term;
}

LearnedTerm::LearnedTerm(const Settings& settings) : settings_(settings) {}

LearnedTerm::~LearnedTerm() {
  if (comparisons_ > 0)
    std::cout << "NeuralHamiltonian: " << comparisons_ << " comparisons with a recomputed energy, largest difference "
              << std::scientific << largest_difference_ << std::endl;
  if (state_) library_->free_state(state_);
  if (model_) library_->free_model(model_);
}

void LearnedTerm::load() {
  if (settings_.term != "neural" && settings_.term != "full")
    throw std::runtime_error("The term is '" + settings_.term +
                             "', but 'neural' (the network only) or 'full' is expected.");
  std::vector<std::string> candidates;
  if (!settings_.library.empty()) candidates.push_back(settings_.library);
  if (const char* named = std::getenv("NEURALCPM_LIBRARY")) candidates.push_back(named);
  candidates.push_back(directory_of(settings_.model) + NcpmLibrary::file_name());
  candidates.push_back(NcpmLibrary::file_name());
  library_.reset(new NcpmLibrary(candidates));
  model_ = library_->load(settings_.model.c_str());
  if (!model_) throw std::runtime_error(library_->last_error());
  check_lattice();
  match_types();
  carriers_.assign(type_of_celltype_.size(), false);
  width_ = SIM::lattice().size().x;
  height_ = SIM::lattice().size().y;
}

void LearnedTerm::check_lattice() const {
  const Lattice& lattice = SIM::lattice();
  if (lattice.getStructure() != Lattice::square)
    throw std::runtime_error(
        "The lattice is not square and two-dimensional, but the learned energy is defined "
        "on such a lattice only: use class=\"square\".");
  if (lattice.getDomain().domainType() != Domain::none)
    throw std::runtime_error(
        "The lattice has a domain, but the learned energy is defined on a full rectangle "
        "only: remove the Domain.");
  std::int32_t periodic = 0;
  library_->check(library_->is_periodic(model_, &periodic));
  for (const Boundary::Codes side : {Boundary::mx, Boundary::px, Boundary::my, Boundary::py}) {
    if ((lattice.get_boundary_type(side) == Boundary::periodic) == (periodic != 0)) continue;
    const std::string found = periodic ? " is not periodic, but the model was" : " is periodic, but the model was not";
    throw std::runtime_error("The boundary " + Boundary::code_to_name(side) + found +
                             " trained so: change BoundaryConditions or use another model.");
  }
}

void LearnedTerm::match_types() {
  std::int32_t count = 0;
  library_->check(library_->type_count(model_, &count));
  std::map<std::string, std::int32_t> known;
  std::string names;
  for (std::int32_t type = 0; type < count; ++type) {
    known[library_->type_name(model_, type)] = type;
    names += (type ? ", " : "") + std::string(library_->type_name(model_, type));
  }
  const auto celltypes = CPM::getCellTypesMap();
  std::map<std::string, std::int32_t> named;
  for (const auto& pair : pairs_of(settings_.types)) {
    if (!celltypes.count(pair.first))
      throw std::runtime_error("types names the cell type '" + pair.first +
                               "', which this model does not have: "
                               "name one of its CellTypes before '='.");
    if (!known.count(pair.second))
      throw std::runtime_error("types maps '" + pair.first + "' to '" + pair.second +
                               "', but the learned model "
                               "knows " +
                               names + ": use one of these behind '='.");
    named[pair.first] = known[pair.second];
  }
  for (const auto& entry : CPM::getCellTypes()) {
    const auto celltype = entry.lock();
    const std::string& name = celltype->getName();
    std::int32_t type = MEDIUM;
    if (!celltype->isMedium()) {
      if (named.count(name)) type = named[name];
      else if (known.count(name)) type = known[name];
      else
        throw std::runtime_error("The cell type '" + name +
                                 "' is not known to the learned model, which "
                                 "knows " +
                                 names + ": map it in types=\"" + name + "=…\".");
    }
    type_of_celltype_.push_back(type);
  }
}

void LearnedTerm::add_carrier(unsigned celltype) { carriers_[celltype] = true; }

bool LearnedTerm::answers(const CPM::Update& update) const {
  if (update.opAdd()) return true;
  return update.opRemove() && !carriers_[update.focusUpdated().celltype()];
}

double LearnedTerm::delta(const CPM::Update& update) {
  synchronise();
  const std::int32_t now = slot(update.focusStateBefore().cell_id), then = slot(update.focusStateAfter().cell_id);
  const VINT& at = update.focus().pos();
  double delta = 0.0;
  if (now != then) library_->check(library_->delta(state_, at.y, at.x, then, &delta));
  if (std::isnan(delta))
    throw std::runtime_error(
        "The learned energy became undefined (not a number): the "
        "model file is unusable, train it again.");
  if (log_.is_open())
    log_ << "d " << at.x << ' ' << at.y << ' ' << update.focusStateAfter().cell_id << ' ' << delta << '\n';
  return delta;
}

void LearnedTerm::commit(const CPM::Update& update) {
  if (!state_) return;  // the first delta reads the whole lattice
  const std::int32_t then = slot(update.focusStateAfter().cell_id);
  const VINT& at = update.focus().pos();
  library_->check(library_->commit(state_, at.y, at.x, then));
  if (log_.is_open()) log_ << "c " << at.x << ' ' << at.y << ' ' << update.focusStateAfter().cell_id << '\n';
}

void LearnedTerm::synchronise() {
  const double now = SIM::getTime();
  if (!state_) {
    for (const auto& entry : CPM::getCellTypes()) {
      const auto celltype = entry.lock();
      if (!celltype->isMedium() && !carriers_[celltype->getID()])
        throw std::runtime_error("The cell type '" + celltype->getName() +
                                 "' has no NeuralHamiltonian, but the "
                                 "energy needs to follow all cells: write the same element into every CellType.");
    }
    rebuild();
    open_log();
  } else if (now != time_) {
    follow_cells();
    ++steps_;
    if (settings_.check > 0 && steps_ % settings_.check == 0) compare();
  }
  time_ = now;
}

// Not before the first delta: by then Morpheus has gone to its output folder.
void LearnedTerm::open_log() {
  if (settings_.log.empty()) return;
  log_.open(settings_.log);
  if (!log_) throw std::runtime_error("The log " + settings_.log + " cannot be written: name another file.");
  log_ << std::setprecision(17);
}

void LearnedTerm::rebuild() {
  if (state_) library_->free_state(state_);
  state_ = nullptr;
  slot_of_cell_.clear();
  cells_.clear();
  free_slots_.clear();
  types_.assign(1, MEDIUM);
  state_ = create();
}

ncpm_state* LearnedTerm::create() {
  std::vector<std::int32_t> ids(std::size_t(width_) * height_);
  for (int y = 0; y < height_; ++y)
    for (int x = 0; x < width_; ++x) ids[std::size_t(y) * width_ + x] = slot(CPM::getNode(VINT(x, y, 0)).cell_id);
  const ncpm_options options = {settings_.term == "neural" ? NCPM_TERM_NEURAL : NCPM_TERM_FULL, 0};
  ncpm_state* state =
      library_->create(model_, height_, width_, ids.data(), std::int32_t(types_.size()), types_.data(), &options);
  if (!state) throw std::runtime_error(library_->last_error());
  return state;
}

void LearnedTerm::follow_cells() {
  std::vector<CPM::CELL_ID> alive;
  for (const CPM::CELL_ID cell : cells_) {
    const std::int32_t slot = slot_of_cell_[cell];
    if (!CPM::cellExists(cell)) {
      slot_of_cell_[cell] = NO_SLOT;
      if (slot == MEDIUM) continue;
      library_->check(library_->set_type(state_, slot, NO_CELL));
      types_[slot] = NO_CELL;
      free_slots_.push_back(slot);
      continue;
    }
    const std::int32_t type = model_type(CPM::getCellIndex(cell).celltype);
    if ((type == MEDIUM) != (slot == MEDIUM)) return rebuild();  // its pixels leave or enter the model's sight
    if (type != types_[slot]) {
      library_->check(library_->set_type(state_, slot, type));
      types_[slot] = type;
    }
    alive.push_back(cell);
  }
  cells_ = std::move(alive);
}

void LearnedTerm::compare() {
  ncpm_state* fresh = create();
  const double kept = energy(state_), recomputed = energy(fresh);
  std::vector<std::int32_t> ids(std::size_t(width_) * height_), expected(ids.size());
  library_->check(library_->get_ids(state_, ids.data()));
  library_->check(library_->get_ids(fresh, expected.data()));
  library_->free_state(fresh);
  const double difference = std::abs(kept - recomputed);
  largest_difference_ = std::max(largest_difference_, difference);
  ++comparisons_;
  if (ids != expected || !(difference <= 1e-4 + 1e-5 * std::abs(recomputed)))
    throw std::runtime_error("The learned energy " + std::to_string(kept) +
                             " no longer agrees with the lattice, whose "
                             "energy is " +
                             std::to_string(recomputed) +
                             ": this is a fault of the plugin, please report it with the model.");
}

double LearnedTerm::energy(ncpm_state* state) const {
  double symbolic = 0.0, neural = 0.0;
  library_->check(library_->energy(state, &symbolic, &neural));
  return settings_.term == "neural" ? neural : symbolic + neural;
}

std::int32_t LearnedTerm::slot(CPM::CELL_ID cell) {
  if (cell >= slot_of_cell_.size()) slot_of_cell_.resize(std::size_t(cell) + 64, NO_SLOT);
  if (slot_of_cell_[cell] == NO_SLOT) assign_slot(cell, model_type(CPM::getCellIndex(cell).celltype));
  return slot_of_cell_[cell];
}

void LearnedTerm::assign_slot(CPM::CELL_ID cell, std::int32_t type) {
  cells_.push_back(cell);
  if (type == MEDIUM) {
    slot_of_cell_[cell] = MEDIUM;
    return;
  }
  std::int32_t slot = std::int32_t(types_.size());
  if (free_slots_.empty()) {
    types_.push_back(type);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    types_[slot] = type;
  }
  slot_of_cell_[cell] = slot;
  if (state_) library_->check(library_->set_type(state_, slot, type));
}
