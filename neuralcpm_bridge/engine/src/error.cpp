#include "error.hpp"

#include "utf8.hpp"

namespace ncpm {
namespace {

std::string readable(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_character(text, at);
    if (length) out.append(text, at, length);
    else out += '?';
    at += length ? length : 1;
  }
  return out;
}

}  // namespace

Error::Error(const std::string& sentence) : std::runtime_error(readable(sentence)) {}

}  // namespace ncpm
