// The one exception of the engine: a sentence a user can act on.
#pragma once

#include <stdexcept>
#include <string>

namespace ncpm {

// what() says what was found, what was expected and what to do, in one sentence.
// Everything that crosses into Python or the C ABI is turned into this text.
class Error : public std::runtime_error {
 public:
  // A sentence may quote a damaged file: bytes that are no UTF-8 become question marks.
  explicit Error(const std::string& sentence);
};

}  // namespace ncpm
