// Text as every host and Python take it.
#pragma once

#include <cstddef>
#include <string_view>

namespace ncpm {

// Length of the UTF-8 character at `at`; 0 if there is none.
std::size_t utf8_character(std::string_view text, std::size_t at);

}  // namespace ncpm
