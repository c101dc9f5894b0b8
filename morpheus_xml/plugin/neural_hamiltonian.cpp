#include "neural_hamiltonian.h"

#include <cmath>
#include <stdexcept>

REGISTER_PLUGIN(NeuralHamiltonian);

NeuralHamiltonian::NeuralHamiltonian() {
  model.setXMLPath("model");
  registerPluginParameter(model);
  types.setXMLPath("types");
  registerPluginParameter(types);
  term.setXMLPath("term");
  term.setDefault("neural");
  registerPluginParameter(term);
  weight.setXMLPath("weight");
  weight.setDefault("1");
  registerPluginParameter(weight);
  library.setXMLPath("library");
  registerPluginParameter(library);
  check.setXMLPath("check");
  check.setDefault("0");
  registerPluginParameter(check);
  log.setXMLPath("log");
  registerPluginParameter(log);
  uncertain.setXMLPath("uncertain");
  uncertain.setDefault("warn");
  registerPluginParameter(uncertain);
  limit.setXMLPath("uncertainty-limit");
  limit.setDefault("1");
  registerPluginParameter(limit);
  outside_limit.setXMLPath("outside-limit");
  outside_limit.setDefault("0.1");
  registerPluginParameter(outside_limit);
}

void NeuralHamiltonian::init(const Scope* scope) {
  CPM_Energy::init(scope);
  if (weight.granularity() != Granularity::Global)
    throw MorpheusException(
        "The weight of NeuralHamiltonian differs from place to place or cell to cell, but "
        "it must be one number for all: use a global symbol.",
        stored_node);
  LearnedTerm::Settings settings;
  settings.model = model();
  settings.types = types.isDefined() ? types() : "";
  settings.term = term();
  settings.weight = weight.stringVal();
  settings.library = library.isDefined() ? library() : "";
  settings.check = check();
  settings.log = log.isDefined() ? log() : "";
  settings.limits.policy = uncertain();
  settings.limits.disagreement = limit();
  settings.limits.outside = outside_limit();
  try {
    learned_ = LearnedTerm::join(settings);
    for (const auto& property : learned_->add_carrier(scope->getCellType()->getID(), *scope))
      registerInputSymbol(property);
  } catch (const std::exception& error) {
    throw MorpheusException(error.what(), stored_node);
  }
}

double NeuralHamiltonian::delta(const SymbolFocus&, const CPM::Update& update) const {
  if (!learned_->answers(update)) return 0.0;
  try {
    const double factor = weight(SymbolFocus::global);
    if (!std::isfinite(factor))  // Morpheus would reject every copy and say nothing
      throw std::runtime_error("The weight is not a finite number: correct the attribute weight.");
    if (factor == 0.0) {  // and not 0 times the infinite energy of a copy that the model forbids
      learned_->rest();
      return 0.0;
    }
    return factor * learned_->delta(update);
  } catch (const std::exception& error) {
    throw MorpheusException(error.what(), stored_node);
  }
}

double NeuralHamiltonian::hamiltonian(CPM::CELL_ID) const { return 0.0; }

void NeuralHamiltonian::update_notify(CPM::CELL_ID, const CPM::Update& update) {
  // Cells are laid out before the plugins of later cell types are there: LearnedTerm reads the lattice afterwards.
  if (!learned_ || !learned_->answers(update)) return;
  try {
    learned_->commit(update);
  } catch (const std::exception& error) {
    throw MorpheusException(error.what(), stored_node);
  }
}
