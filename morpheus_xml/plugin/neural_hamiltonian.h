// A learned Hamiltonian as an energy of Morpheus' cellular Potts model.
//
//   <NeuralHamiltonian model="model.onnx" types="ct1=A;ct2=B" term="neural" weight="1"/>   in every CellType
//
// All elements of one model share one learned state (LearnedTerm), which follows the lattice copy by copy.
#ifndef NEURAL_HAMILTONIAN_H
#define NEURAL_HAMILTONIAN_H

#include <memory>

#include "core/celltype.h"
#include "core/interfaces.h"
#include "learned_term.h"

/** \defgroup ML_NeuralHamiltonian NeuralHamiltonian
\ingroup ML_CellType
\ingroup CellShapePlugins
\ingroup CPM_EnergyPlugins
\brief Energy learned from images of tissues, read from a model file (ONNX)

- \b model: the model file
- \b types: names of this model's cell types and, behind '=', the model file's, separated by ';'
- \b term: \b neural (the network only; contacts and volumes stay with Morpheus) or \b full
- \b weight: factor of the energy; 1 at the temperature of training
- \b library: the engine's library; else the environment variable NEURALCPM_LIBRARY, else beside the model file
- \b check: every so many Monte Carlo steps, compare the energy kept up to date with a recomputed one; 0: never
- \b log: file for every energy difference asked for (d x y new-cell difference), every copy (c x y new-cell) and every
  property of a cell that was read (p name cell value)
- \b uncertain: \b warn, \b stop or \b shrink (the network's energy, where the members of a committee disagree or cells
  are unlike those of the training data)
- \b uncertainty-limit: of the members' disagreement on accepted copies, in units of the temperature of training
- \b outside-limit: share of the cells that may be unlike those of the training data

A model may read properties of cells (an age, a concentration): symbols of these names in the cell type.
*/
class NeuralHamiltonian : public CPM_Energy, public Cell_Update_Listener {
 public:
  NeuralHamiltonian();
  DECLARE_PLUGIN("NeuralHamiltonian");

  void init(const Scope* scope) override;

  // Morpheus asks the new cell's type (ADD), then the old one's (REMOVE): one of them answers for the whole copy.
  double delta(const SymbolFocus& cell_focus, const CPM::Update& update) const override;
  // The learned energy is no sum over cells, and Morpheus does not ask for it.
  double hamiltonian(CPM::CELL_ID cell_id) const override;

  void update_notify(CPM::CELL_ID cell_id, const CPM::Update& update) override;

 private:
  PluginParameter2<string, XMLValueReader, RequiredPolicy> model;
  PluginParameter2<string, XMLValueReader, OptionalPolicy> types;
  PluginParameter2<string, XMLValueReader, DefaultValPolicy> term;
  PluginParameter2<double, XMLEvaluator, DefaultValPolicy> weight;
  PluginParameter2<string, XMLValueReader, OptionalPolicy> library;
  PluginParameter2<uint, XMLValueReader, DefaultValPolicy> check;
  PluginParameter2<string, XMLValueReader, OptionalPolicy> log;
  PluginParameter2<string, XMLValueReader, DefaultValPolicy> uncertain;
  PluginParameter2<double, XMLValueReader, DefaultValPolicy> limit;
  PluginParameter2<double, XMLValueReader, DefaultValPolicy> outside_limit;

  std::shared_ptr<LearnedTerm> learned_;
};

#endif
