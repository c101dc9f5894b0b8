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

void check_example(const std::shared_ptr<const Model>& model, const json::Value& example) {
  const auto& shape = entry(example, "shape").as_array("examples.shape");
  if (shape.size() != 2) throw Error("an example's shape is not [H, W]");
  const int height = small(shape[0], "examples.shape"), width = small(shape[1], "examples.shape");
  if (height < 1 || width < 1 || std::int64_t(height) * width > 1 << 24)
    throw Error("an example's lattice has an impossible size");
  std::vector<std::int32_t> types;
  for (const json::Value& type : entry(example, "types").as_array("examples.types"))
    types.push_back(small(type, "examples.types"));
  State state(model, height, width, expand(entry(example, "runs"), std::size_t(height) * width), types, {});
  const Energy energy = state.energy();
  const double scale = std::abs(energy.symbolic) + std::abs(energy.neural);
  compare(energy.symbolic, entry(example, "symbolic"), scale, "symbolic");
  compare(energy.neural, entry(example, "neural"), scale, "neural");
  compare(energy.symbolic + energy.neural, entry(example, "energy"), scale, "energy");
  for (const json::Value& flip : entry(example, "flips").as_array("examples.flips")) {
    if (flip.items.size() != 4) throw Error("an example's flip is not [row, col, id, ΔH]");
    const int site = state.site(small(flip.items[0], "examples.flips"), small(flip.items[1], "examples.flips"));
    const Energy change = state.delta_parts(site, small(flip.items[2], "examples.flips"));
    compare(change.symbolic + change.neural, flip.items[3], scale, "flips");
  }
}

}  // namespace

void check_examples(const std::shared_ptr<const Model>& model, const json::Value& examples) {
  if (examples.is_null()) return;
  for (const json::Value& example : examples.as_array("examples")) check_example(model, example);
}

}  // namespace ncpm
