// What Morpheus' own energies charge for every attempted copy, written to a file.
//
//   <EnergyProbe log="charges.txt"><Interaction …/><VolumeConstraint …/>…</EnergyProbe>   in every CellType, media too
//
// The elements inside are Morpheus' own, made a second time; their energies count nothing. Preloaded into a Morpheus
// that exports its symbols. Lines: `d x y z cell` begins a copy, `e name charge` follows for each energy that has its
// say about it, `c x y z cell` says that a site was written.
#include <fstream>
#include <iomanip>
#include <memory>
#include <vector>

#include "core/celltype.h"
#include "core/interaction_energy.h"
#include "core/interfaces.h"

class EnergyProbe : public CPM_Energy, public Cell_Update_Listener {
 public:
  DECLARE_PLUGIN("EnergyProbe");

  EnergyProbe() {
    log_.setXMLPath("log");
    registerPluginParameter(log_);
  }

  void loadFromXML(const XMLNode node, Scope* scope) override {
    Plugin::loadFromXML(node, scope);
    for (int number = 0; number < node.nChildNode(); ++number) {
      const XMLNode child = node.getChildNode(number);
      const std::string name = child.getName();
      if (name == "Interaction") {
        interaction_ = std::make_shared<InteractionEnergy>();
        interaction_->loadFromXML(child, scope);
        continue;
      }
      const auto energy = std::dynamic_pointer_cast<CPM_Energy>(Plugin::CreateInstance(name));
      if (!energy) throw string("EnergyProbe: " + name + " is no energy");
      energy->loadFromXML(child, scope);
      energies_.emplace_back(name, energy);
    }
  }

  void init(const Scope* scope) override {
    CPM_Energy::init(scope);
    if (interaction_) interaction_->init(scope);
    for (auto& energy : energies_) energy.second->init(scope);
  }

  // The new cell's type is asked first (ADD), then the old one's (REMOVE).
  double delta(const SymbolFocus& focus, const CPM::Update& update) const override {
    if (update.opAdd()) {
      begin('d', update);
      if (interaction_) file() << "e Interaction " << interaction_->delta(update) << '\n';
    }
    for (const auto& energy : energies_)
      file() << "e " << energy.first << ' ' << energy.second->delta(focus, update) << '\n';
    return 0.0;
  }

  double hamiltonian(CPM::CELL_ID) const override { return 0.0; }

  void update_notify(CPM::CELL_ID, const CPM::Update& update) override {
    if (update.opAdd() && stream().is_open()) begin('c', update);
  }

 private:
  void begin(char kind, const CPM::Update& update) const {
    const VINT at = update.focus().pos();
    file() << kind << ' ' << at.x << ' ' << at.y << ' ' << at.z << ' ' << update.focusStateAfter().cell_id << '\n';
  }

  // One for all types, opened at the first copy: by then the cells are laid out and Morpheus is in its output folder.
  std::ofstream& file() const {
    if (!stream().is_open()) {
      stream().open(log_());
      stream() << std::setprecision(17);
    }
    return stream();
  }

  static std::ofstream& stream() {
    static std::ofstream instance;
    return instance;
  }

  mutable PluginParameter2<string, XMLValueReader, RequiredPolicy> log_;
  std::shared_ptr<InteractionEnergy> interaction_;
  std::vector<std::pair<std::string, std::shared_ptr<CPM_Energy>>> energies_;
};

REGISTER_PLUGIN(EnergyProbe);
