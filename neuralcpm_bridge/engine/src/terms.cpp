#include "term.hpp"

namespace ncpm {

// Each in a file of its own in terms/.
extern const TermRow kContactTerm, kVolumeTerm, kVolumeFunctionTerm, kSurfaceTerm, kLengthTerm, kExternalTerm;

const std::vector<TermRow>& term_rows() {
  static const std::vector<TermRow> rows = {
      kContactTerm, kVolumeTerm, kVolumeFunctionTerm, kSurfaceTerm, kLengthTerm, kExternalTerm,
  };
  return rows;
}

std::vector<std::unique_ptr<Term>> make_terms(const Model& model, Tissue& tissue) {
  std::vector<std::unique_ptr<Term>> terms;
  for (const TermRow& row : term_rows())
    if (model.has_term(row.name)) terms.push_back(row.make(model, tissue));
  return terms;
}

}  // namespace ncpm
