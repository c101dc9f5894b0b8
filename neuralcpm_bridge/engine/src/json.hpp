// A strict reader for JSON (RFC 8259): no extensions, no duplicate keys, bounded depth.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ncpm::json {

// Deeper nesting than any metadata has; bounds the recursion on hostile input.
inline constexpr int kMaxDepth = 32;

// One JSON value. Accessors throw Error naming `what` when the value is of another kind.
class Value {
 public:
  enum class Kind { Null, Bool, Number, String, Array, Object };

  Kind kind = Kind::Null;
  bool boolean = false;
  double number = 0.0;
  std::string text;
  std::vector<Value> items;
  std::vector<std::pair<std::string, Value>> members;  // in the order of the text

  bool is_null() const { return kind == Kind::Null; }
  const Value* find(std::string_view key) const;  // nullptr if this is no object or lacks the key

  bool as_bool(const std::string& what) const;
  double as_number(const std::string& what) const;
  std::int64_t as_integer(const std::string& what) const;
  const std::string& as_string(const std::string& what) const;
  const std::vector<Value>& as_array(const std::string& what) const;
};

// A member of an object, or null where there is none: absent and null mean the same in a description.
const Value& entry(const Value& object, std::string_view key);

// Parses the whole text; throws Error saying at which byte it stops being JSON.
Value parse(std::string_view text);

}  // namespace ncpm::json
