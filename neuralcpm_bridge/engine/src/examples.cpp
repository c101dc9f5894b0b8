#include "examples.hpp"

#include <cmath>
#include <string>

#include "error.hpp"
#include "state.hpp"

namespace ncpm {
namespace {

using json::entry;

int small(const json::Value& value, const char* what) {
  const std::int64_t number = value.as_integer(what);
  if (number < -1 || number > 1 << 24)
    throw Error("an example holds the number " + std::to_string(number) + " where it cannot be");
  return static_cast<int>(number);
}

// [[id, length], …] row by row.
std::vector<std::int32_t> expand(const json::Value& runs, std::size_t sites) {
  std::vector<std::int32_t> ids;
  for (const json::Value& run : runs.as_array("examples.runs")) {
    if (run.items.size() != 2) throw Error("an example's run is not [id, length]");
    const int id = small(run.items[0], "examples.runs"), length = small(run.items[1], "examples.runs");
    if (length < 1 || ids.size() + length > sites) throw Error("an example's runs do not fill its lattice");
    ids.insert(ids.end(), length, id);
  }
  return ids;
}

void compare(double found, const json::Value& expected, double scale, const std::string& what) {
  const double value = expected.as_number("examples." + what);
  if (!(std::abs(found - value) <= 1e-4 + 1e-5 * scale))
    throw Error("the " + what + " of a stored example is computed as " + std::to_string(found) + " but stated as " +
                std::to_string(value));
}

// Format 2 names a flip's site, format 1 its row and column on a square lattice.
int site_of(const json::Value& flip, const State& state) {
  if (flip.items.size() == 3) return state.site(small(flip.items[0], "examples.flips"));
  if (flip.items.size() != 4 || state.lattice().geometry != Geometry::Square)
    throw Error("an example's flip is not [site, id, ΔH]");
  const int row = small(flip.items[0], "examples.flips"), col = small(flip.items[1], "examples.flips");
  if (row < 0 || row >= state.lattice().height || col < 0 || col >= state.lattice().width)
    throw Error("an example's flip lies outside of its lattice");
  return state.lattice().site({0, row, col});
}

// {name: [a value per id]}; what the example does not say has the means of the training data.
Properties properties_of(const Model& model, const json::Value& example) {
  Properties properties;
  const json::Value& given = entry(example, "properties");
  if (given.is_null()) return properties;
  for (const std::string& name : model.properties()) {
    properties.emplace_back();
    for (const json::Value& value : entry(given, name.c_str()).as_array("examples.properties"))
      properties.back().push_back(value.as_number("examples.properties"));
  }
  return properties;
}

void check_example(const std::shared_ptr<const Model>& model, const json::Value& example) {
  std::vector<std::int64_t> shape;
  std::int64_t sites = 1;
  for (const json::Value& size : entry(example, "shape").as_array("examples.shape")) {
    shape.push_back(small(size, "examples.shape"));
    if (shape.back() < 1 || (sites *= shape.back()) > 1 << 24)
      throw Error("an example's lattice has an impossible size");
  }
  std::vector<std::int32_t> types;
  for (const json::Value& type : entry(example, "types").as_array("examples.types"))
    types.push_back(small(type, "examples.types"));
  const Lattice lattice = Lattice::make(model->geometry, Layout::Axes, shape, model->periodic);
  State state(model, lattice, expand(entry(example, "runs"), std::size_t(sites)), types, {},
              properties_of(*model, example));
  const Energy energy = state.energy();
  const double scale = std::abs(energy.symbolic) + std::abs(energy.neural);
  compare(energy.symbolic, entry(example, "symbolic"), scale, "symbolic");
  compare(energy.neural, entry(example, "neural"), scale, "neural");
  compare(energy.symbolic + energy.neural, entry(example, "energy"), scale, "energy");
  for (const json::Value& flip : entry(example, "flips").as_array("examples.flips")) {
    const int site = site_of(flip, state);
    const Energy change = state.delta_parts(site, small(flip.items[flip.items.size() - 2], "examples.flips"));
    compare(change.symbolic + change.neural, flip.items.back(), scale, "flips");
  }
}

}  // namespace

void check_examples(const std::shared_ptr<const Model>& model, const json::Value& examples) {
  if (examples.is_null()) return;
  for (const json::Value& example : examples.as_array("examples")) check_example(model, example);
}

}  // namespace ncpm
