// The example states stored in an artifact: every loader recomputes them before it trusts itself.
#pragma once

#include <memory>

#include "json.hpp"
#include "model.hpp"

namespace ncpm {

// `examples` is the metadata's list, or null. Throws Error if an energy or a flip does not come out.
void check_examples(const std::shared_ptr<const Model>& model, const json::Value& examples);

}  // namespace ncpm
