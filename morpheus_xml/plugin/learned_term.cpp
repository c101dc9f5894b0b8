#include "learned_term.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <map>
#include <stdexcept>

#include "core/celltype.h"
#include "library_path.h"

namespace {

constexpr std::int32_t MEDIUM = 0;

constexpr unsigned MOST_LATTICES = 32;  // uncertain ones that are kept before every second one is left out

// Terms in use, by model file. Cell types own them; the last one to go takes the term with it.
std::map<std::string, std::weak_ptr<LearnedTerm>>& terms() {
  static std::map<std::string, std::weak_ptr<LearnedTerm>> instance;
  return instance;
}

// Behind the names of a term's files: nothing of the first, 2 of the second, and so on.
std::string next_label() {
  static int made = 0;
  return ++made > 1 ? std::to_string(made) : "";
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
                               "' of types was not understood: write types=\"ct1=A;ct2=B\", Morpheus' name first.");
    pairs.emplace_back(trimmed(entry.substr(0, equals)), trimmed(entry.substr(equals + 1)));
  }
  return pairs;
}

// One axis of Morpheus' lattice and its two sides.
struct Axis {
  int VINT::* size;
  Boundary::Codes begin, end;
};

// Rows, columns; in 3D planes, rows, columns.
std::vector<Axis> axes_of(const Lattice& lattice) {
  std::vector<Axis> axes = {{&VINT::y, Boundary::my, Boundary::py}, {&VINT::x, Boundary::mx, Boundary::px}};
  if (lattice.getDimensions() == 3) axes.insert(axes.begin(), {&VINT::z, Boundary::mz, Boundary::pz});
  return axes;
}

template <class Number>
void put(std::ostream& out, const std::vector<Number>& numbers) {
  out.write(reinterpret_cast<const char*>(numbers.data()), std::streamsize(numbers.size() * sizeof(Number)));
}

}  // namespace

bool LearnedTerm::Settings::operator==(const Settings& other) const {
  return model == other.model && types == other.types && term == other.term && weight == other.weight &&
         library == other.library && log == other.log && check == other.check && limits == other.limits;
}

std::shared_ptr<LearnedTerm> LearnedTerm::join(const Settings& settings) {
  std::shared_ptr<LearnedTerm> term = terms()[settings.model].lock();
  if (!term) {
    term.reset(new LearnedTerm(settings));
    term->load();
    terms()[settings.model] = term;
  } else if (!(term->settings_ == settings)) {
    throw std::runtime_error("The NeuralHamiltonian elements of " + settings.model +
                             " differ in their attributes, but they are one energy: write the same element into every "
                             "CellType.");
  }
  return term;
}

LearnedTerm::LearnedTerm(const Settings& settings) : settings_(settings), label_(next_label()) {}

LearnedTerm::~LearnedTerm() {
  try {
    time_ += step_time_;  // the last step is over, and no other will begin
    if (loaded_) look();
  } catch (const std::exception&) {  // there is no one left to tell
  }
  if (comparisons_ > 0)
    std::cout << "NeuralHamiltonian: " << comparisons_ << " comparisons with a recomputed energy, largest difference "
              << std::scientific << largest_difference_ << std::endl;
  if (mirror_) library_->free_mirror(mirror_);
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
  if (*NCPM_LIBRARY_PATH) candidates.push_back(NCPM_LIBRARY_PATH);
  candidates.push_back(NcpmLibrary::file_name());
  library_.reset(new NcpmLibrary(candidates));
  model_ = library_->load(settings_.model.c_str());
  if (!model_) throw std::runtime_error(library_->last_error());
  check_lattice();
  watch();
  match_types();
  list_properties();
  carriers_.assign(type_of_celltype_.size(), false);
  symbols_.resize(type_of_celltype_.size());
  create_mirror();
}

void LearnedTerm::check_lattice() const {
  const Lattice& lattice = SIM::lattice();
  std::int32_t geometry = 0;
  library_->check(library_->geometry(model_, &geometry));
  const std::string trained[] = {"square", "hexagonal", "cubic"};
  if (lattice.getXMLName() != trained[geometry])
    throw std::runtime_error("The lattice is " + lattice.getXMLName() + ", but the model is for " + trained[geometry] +
                             " ones: use class=\"" + trained[geometry] + "\" or another model.");
}

void LearnedTerm::watch() {
  std::int32_t members = 0;
  double temperature = 0.0;
  library_->check(library_->member_count(model_, &members));
  library_->check(library_->temperature(model_, &temperature));
  uncertainty_.reset(new Uncertainty(settings_.limits, members, temperature, label_));
}

void LearnedTerm::create_mirror() {
  const Lattice& lattice = SIM::lattice();
  size_ = lattice.size();
  flat_ = lattice.getDimensions() == 2;
  ncpm_lattice made = {};
  for (const Axis& axis : axes_of(lattice)) {
    made.shape[made.dimension] = size_.*axis.size;
    made.periodic[made.dimension++] = lattice.get_boundary_type(axis.end) == Boundary::periodic;
  }
  made.layout = NCPM_AXES;
  const ncpm_options options = {settings_.term == "neural" ? NCPM_PART_NEURAL : NCPM_PART_FULL, 0};
  mirror_ = library_->mirror_create(model_, &made, &options);
  if (!mirror_) throw std::runtime_error(library_->last_error());
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
                               "', which this model does not have: name one of its CellTypes before '='.");
    if (!known.count(pair.second))
      throw std::runtime_error("types maps '" + pair.first + "' to '" + pair.second +
                               "', but the learned model knows " + names + ": use one of these behind '='.");
    if (named.count(pair.first))
      throw std::runtime_error("types maps '" + pair.first + "' twice: keep one of the two entries.");
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
        throw std::runtime_error("The cell type '" + name + "' is not known to the learned model, which knows " +
                                 names + ": map it in types=\"" + name + "=…\".");
    }
    type_of_celltype_.push_back(type);
  }
}

void LearnedTerm::list_properties() {
  std::int32_t count = 0;
  library_->check(library_->property_count(model_, &count));
  for (std::int32_t number = 0; number < count; ++number)
    properties_.push_back(library_->property_name(model_, number));
}

std::vector<SymbolAccessor<double>> LearnedTerm::add_carrier(unsigned celltype, const Scope& scope) {
  if (carriers_[celltype])
    throw std::runtime_error("The cell type '" + scope.getCellType()->getName() + "' has two NeuralHamiltonian " +
                             "elements of one model, whose energy would count twice: keep one of them.");
  carriers_[celltype] = true;
  std::vector<SymbolAccessor<double>>& symbols = symbols_[celltype];
  if (type_of_celltype_[celltype] == MEDIUM) return symbols;
  for (const std::string& name : properties_) {
    SymbolAccessor<double> symbol;
    try {
      symbol = scope.findSymbol<double>(name);
      // Not of this cell type, but of others: what Morpheus finds elsewhere, if anything.
      if (const auto composite = std::dynamic_pointer_cast<const CompositeSymbol<double>>(symbol))
        symbol = composite->defaultSymbol();
    } catch (const SymbolError&) {
    }
    if (!symbol)
      throw std::runtime_error("The cell type '" + scope.getCellType()->getName() + "' has no property '" + name +
                               "', which the learned model reads of every cell: add <Property symbol=\"" + name +
                               "\" value=\"…\"/> to it.");
    symbols.push_back(symbol);
    const Granularity granularity = symbol->granularity();
    if (granularity != Granularity::Cell && granularity != Granularity::Global)
      throw std::runtime_error("The symbol '" + name +
                               "' differs within a cell, but the learned model reads one number of every cell: define "
                               "it as a Property of the cell type, for example with a Mapper.");
  }
  return symbols;
}

bool LearnedTerm::answers(const CPM::Update& update) const {
  if (update.opAdd()) return true;
  return update.opRemove() && !carriers_[update.focusUpdated().celltype()];
}

double LearnedTerm::delta(const CPM::Update& update) {
  synchronise();
  const CPM::CELL_ID cell = update.focusStateAfter().cell_id;
  announce(cell);
  double delta = 0.0;
  asked_site_ = site(update.focus().pos());
  asked_cell_ = cell;
  library_->check(library_->mirror_delta(mirror_, asked_site_, cell, &delta));
  uncertainty_->asked();
  asked_weight_ = 1.0;
  if (uncertainty_->shrinks()) delta -= weakened();
  if (std::isnan(delta))
    throw std::runtime_error(
        "The learned energy became undefined (not a number): the model file is unusable, train it again.");
  if (log_.is_open()) {
    write_log('d', update);
    log_ << ' ' << delta << '\n';
  }
  return delta;
}

// What doubts take off the energy of the copy asked for.
double LearnedTerm::weakened() {
  double neural = 0.0, spread = 0.0, outside = 0.0;
  library_->check(library_->mirror_opinion(mirror_, asked_site_, asked_cell_, &neural, &spread));
  library_->check(library_->mirror_outside(mirror_, asked_site_, asked_cell_, &outside));
  asked_weight_ = uncertainty_->weight(spread, outside);
  return (1.0 - asked_weight_) * neural;
}

void LearnedTerm::commit(const CPM::Update& update) {
  if (!loaded_) return;  // the first delta reads the whole lattice
  const CPM::CELL_ID cell = update.focusStateAfter().cell_id;
  announce(cell);
  const std::int64_t changed = site(update.focus().pos());
  if (asked_site_ == changed && asked_cell_ == cell) {  // else a division, a death
    double spread = 0.0;
    if (uncertainty_->committee()) library_->check(library_->mirror_delta_spread(mirror_, changed, cell, &spread));
    uncertainty_->accepted(spread, asked_weight_);
  }
  asked_site_ = -1;
  library_->check(library_->mirror_commit(mirror_, changed, cell));
  if (log_.is_open()) {
    write_log('c', update);
    log_ << '\n';
  }
}

void LearnedTerm::synchronise() {
  const double now = SIM::getTime();
  if (!loaded_) {
    require_carriers();
    open_log();
    step_time_ = CPM::getMCSDuration();
    take_over();
    std::int64_t cells = 0, outside = 0;
    library_->check(library_->mirror_range(mirror_, &cells, &outside));
    uncertainty_->begin(std::llround(now / step_time_), outside >= 0);
  } else if (now != time_) {
    time_ = now;
    follow();
    look();
    uncertainty_->enforce();
    ++steps_;
    if (settings_.check > 0 && steps_ % settings_.check == 0) compare();
  }
  time_ = now;
}

void LearnedTerm::look() {
  const std::int64_t mcs = std::llround(time_ / step_time_);
  if (!uncertainty_->is_due(mcs)) return;
  std::int64_t cells = 0, outside = 0;
  library_->check(library_->mirror_range(mirror_, &cells, &outside));
  if (uncertainty_->look(mcs, cells, outside) && uncertain_intervals_++ % keep_every_ == 0) keep_uncertain_lattice(mcs);
}

// A line that says how much follows, and then, in the machine's own numbers, cells, their types, their properties,
// sites. What reads them keeps a few, evenly spaced, for retraining (morpheus_xml/uncertain.py).
void LearnedTerm::keep_uncertain_lattice(std::int64_t mcs) {
  // After the last step there may be daughters whose properties nobody can ask for any more.
  if (!properties_.empty() && cells_.size() > listed_) return;
  if (++kept_lattices_ % MOST_LATTICES == 0) keep_every_ *= 2;
  const std::vector<std::int64_t> ids = host_ids();
  std::vector<double> properties;  // as they were read last: after the last step Morpheus has them no more
  for (const std::int64_t cell : cells_)
    for (std::size_t number = 0; number < properties_.size(); ++number)
      properties.push_back(values_[std::size_t(cell) * properties_.size() + number]);
  const std::string file = "uncertain" + label_ + ".lattices";
  std::ofstream out(file, std::ios::binary | (kept_lattices_ == 1 ? std::ios::trunc : std::ios::app));
  out << "lattice " << mcs << ' ' << uncertainty_->disagreement() << ' ' << uncertainty_->outside() << ' '
      << cells_.size() << ' ' << properties_.size() << ' ' << ids.size() << '\n';
  put(out, cells_);
  put(out, types_);
  put(out, properties);
  put(out, ids);
  if (!out && kept_lattices_ == 1)
    std::cout << "NeuralHamiltonian: " << file << " cannot be written: uncertain lattices are not kept." << std::endl;
}

void LearnedTerm::require_carriers() const {
  for (const auto& entry : CPM::getCellTypes()) {
    const auto celltype = entry.lock();
    if (!celltype->isMedium() && !carriers_[celltype->getID()])
      throw std::runtime_error("The cell type '" + celltype->getName() +
                               "' has no NeuralHamiltonian, but the energy needs to follow all cells: write the same "
                               "element into every CellType.");
  }
}

// Not before the first delta: by then Morpheus has gone to its output folder.
void LearnedTerm::open_log() {
  if (settings_.log.empty() || log_.is_open()) return;
  log_.open(settings_.log);
  if (!log_) throw std::runtime_error("The log " + settings_.log + " cannot be written: name another file.");
  log_ << std::setprecision(17);
}

void LearnedTerm::write_log(char kind, const CPM::Update& update) {
  const VINT at = update.focus().pos();
  log_ << kind << ' ' << at.x << ' ' << at.y << ' ';
  if (!flat_) log_ << at.z << ' ';
  log_ << update.focusStateAfter().cell_id;
}

void LearnedTerm::take_over() {
  list_cells();
  library_->check(
      library_->mirror_load(mirror_, host_ids().data(), std::int64_t(cells_.size()), cells_.data(), types_.data()));
  loaded_ = true;
  for (const std::int64_t cell : cells_) set_properties(CPM::CELL_ID(cell));
}

void LearnedTerm::follow() {
  list_cells();
  std::int32_t followed = 0;
  library_->check(library_->mirror_follow(mirror_, std::int64_t(cells_.size()), cells_.data(), types_.data(), 0,
                                          nullptr, nullptr, &followed));
  if (!followed) return take_over();  // the pixels of a cell leave or enter the model's sight
  for (const std::int64_t cell : cells_) set_properties(CPM::CELL_ID(cell));
}

void LearnedTerm::set_properties(CPM::CELL_ID cell) {
  const std::vector<SymbolAccessor<double>>& symbols = symbols_[CPM::getCellIndex(cell).celltype];
  for (std::size_t number = 0; number < symbols.size(); ++number) {
    const double value = symbols[number]->get(SymbolFocus(cell));
    if (!std::isfinite(value))
      throw std::runtime_error("The property '" + properties_[number] + "' of cell " + std::to_string(cell) +
                               " is not a finite number, but the learned model reads it: give it a value.");
    library_->check(library_->mirror_set_property(mirror_, cell, std::int32_t(number), value));
    values_[std::size_t(cell) * properties_.size() + number] = value;
    if (log_.is_open()) log_ << "p " << properties_[number] << ' ' << cell << ' ' << value << '\n';
  }
}

void LearnedTerm::compare() {
  std::int64_t differing = 0;
  double symbolic = 0.0, neural = 0.0, drift = 0.0;
  library_->check(library_->mirror_compare(mirror_, host_ids().data(), &differing, &symbolic, &neural, &drift));
  largest_difference_ = std::max(largest_difference_, drift);
  ++comparisons_;
  if (differing || !(drift <= 1e-4 + 1e-5 * std::max(std::abs(symbolic), std::abs(neural))))
    throw std::runtime_error("The learned energy no longer agrees with the lattice (" + std::to_string(differing) +
                             " sites differ, the energy by " + std::to_string(drift) +
                             "): this is a fault of the plugin, please report it with the model.");
}

void LearnedTerm::list_cells() {
  cells_.clear();
  types_.clear();
  known_.assign(known_.size(), false);
  for (const auto& entry : CPM::getCellTypes())
    for (const CPM::CELL_ID cell : entry.lock()->getCellIDs()) {
      cells_.push_back(cell);
      types_.push_back(model_type(cell));
      note(cell);
    }
  listed_ = cells_.size();
}

void LearnedTerm::announce(CPM::CELL_ID cell) {
  if (cell < known_.size() && known_[cell]) return;
  note(cell);
  cells_.push_back(cell);
  types_.push_back(model_type(cell));
  std::int32_t followed = 0;
  library_->check(library_->mirror_appear(mirror_, cell, types_.back(), &followed));
  if (followed) set_properties(cell);
  else take_over();
}

void LearnedTerm::note(CPM::CELL_ID cell) {
  if (cell >= known_.size()) {
    known_.resize(std::size_t(cell) + 64, false);
    values_.resize(known_.size() * properties_.size());
  }
  known_[cell] = true;
}

std::vector<std::int64_t> LearnedTerm::host_ids() const {
  std::vector<std::int64_t> ids;
  ids.reserve(std::size_t(size_.x) * size_.y * size_.z);
  const Domain& domain = SIM::lattice().getDomain();  // beyond it there is medium
  VINT at;
  for (at.z = 0; at.z < size_.z; ++at.z)
    for (at.y = 0; at.y < size_.y; ++at.y)
      for (at.x = 0; at.x < size_.x; ++at.x) ids.push_back(domain.inside(at) ? CPM::getNode(at).cell_id : MEDIUM);
  return ids;
}
