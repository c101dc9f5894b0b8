#include "json.hpp"

#include <cmath>
#include <locale>
#include <sstream>

#include "error.hpp"
#include "utf8.hpp"

namespace ncpm::json {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Value document() {
    Value value = parse_value(0);
    skip_space();
    if (at_ != text_.size()) fail("text after the end of the value");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error("The model's metadata is not valid JSON (" + what + " at byte " + std::to_string(at_) +
                "): the file is damaged, export it again.");
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool digit() const { return peek() >= '0' && peek() <= '9'; }

  void skip_space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }

  void expect(char c) {
    if (peek() != c) fail(std::string("'") + c + "' is missing");
    ++at_;
  }

  void word(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) fail("an unknown word");
    at_ += expected.size();
  }

  Value parse_value(int depth) {
    if (depth > kMaxDepth) fail("nesting too deep");
    skip_space();
    Value value;
    switch (peek()) {
      case '{': return parse_object(depth);
      case '[': return parse_array(depth);
      case '"':
        value.kind = Value::Kind::String;
        value.text = parse_string();
        return value;
      case 't':
        word("true");
        value.kind = Value::Kind::Bool;
        value.boolean = true;
        return value;
      case 'f':
        word("false");
        value.kind = Value::Kind::Bool;
        return value;
      case 'n': word("null"); return value;
      default: return parse_number();
    }
  }

  Value parse_object(int depth) {
    Value value;
    value.kind = Value::Kind::Object;
    expect('{');
    skip_space();
    if (peek() == '}') return ++at_, value;
    while (true) {
      skip_space();
      std::string key = parse_string();
      if (value.find(key)) fail("the key '" + key + "' twice");
      skip_space();
      expect(':');
      value.members.emplace_back(std::move(key), parse_value(depth + 1));
      skip_space();
      if (peek() != ',') break;
      ++at_;
    }
    expect('}');
    return value;
  }

  Value parse_array(int depth) {
    Value value;
    value.kind = Value::Kind::Array;
    expect('[');
    skip_space();
    if (peek() == ']') return ++at_, value;
    while (true) {
      value.items.push_back(parse_value(depth + 1));
      skip_space();
      if (peek() != ',') break;
      ++at_;
    }
    expect(']');
    return value;
  }

  Value parse_number() {
    const std::size_t start = at_;
    if (peek() == '-') ++at_;
    if (!digit()) fail("no value");
    if (peek() == '0') ++at_;
    else
      while (digit()) ++at_;
    if (peek() == '.') {
      ++at_;
      if (!digit()) fail("an incomplete number");
      while (digit()) ++at_;
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digit()) fail("an incomplete number");
      while (digit()) ++at_;
    }
    // A stream of the classic locale: a host program may have set one with a decimal comma.
    std::istringstream stream{std::string(text_.substr(start, at_ - start))};
    stream.imbue(std::locale::classic());
    Value value;
    value.kind = Value::Kind::Number;
    if (!(stream >> value.number) || !std::isfinite(value.number)) fail("a number out of range");
    return value;
  }

  unsigned hex4() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      if (c >= '0' && c <= '9') code = code * 16 + unsigned(c - '0');
      else if (c >= 'a' && c <= 'f') code = code * 16 + unsigned(c - 'a' + 10);
      else if (c >= 'A' && c <= 'F') code = code * 16 + unsigned(c - 'A' + 10);
      else fail("a bad \\u escape");
    }
    return code;
  }

  void append_utf8(std::string& out, unsigned code) {
    const auto tail = [&](int shift) { out += char(0x80 | ((code >> shift) & 0x3F)); };
    if (code < 0x80) out += char(code);
    else if (code < 0x800) out += char(0xC0 | (code >> 6)), tail(0);
    else if (code < 0x10000) out += char(0xE0 | (code >> 12)), tail(6), tail(0);
    else out += char(0xF0 | (code >> 18)), tail(12), tail(6), tail(0);
  }

  std::string parse_string() {
    expect('"');
    std::string out;
    while (true) {
      if (at_ >= text_.size()) fail("an unfinished string");
      const char c = text_[at_++];
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
      if (c != '\\') {
        const std::size_t length = utf8_character(text_, at_ - 1);
        if (length == 0) fail("bytes that are no UTF-8 in a string");
        out.append(text_.substr(at_ - 1, length));
        at_ += length - 1;
        continue;
      }
      const char escape = peek();
      ++at_;
      switch (escape) {
        case '"':
        case '\\':
        case '/': out += escape; break;
        case 'b': out += '\b'; break;
        case 'f': out += '\f'; break;
        case 'n': out += '\n'; break;
        case 'r': out += '\r'; break;
        case 't': out += '\t'; break;
        case 'u': {
          unsigned code = hex4();
          if (code >= 0xD800 && code < 0xDC00) {
            word("\\u");
            const unsigned low = hex4();
            if (low < 0xDC00 || low >= 0xE000) fail("half a surrogate pair");
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          } else if (code >= 0xDC00 && code < 0xE000) {
            fail("half a surrogate pair");
          }
          append_utf8(out, code);
          break;
        }
        default: fail("an unknown escape");
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

[[noreturn]] void wrong_kind(const std::string& what, const char* expected) {
  throw Error("The metadata entry '" + what + "' is missing or not " + expected +
              ": the model's description is damaged, export it again.");
}

}  // namespace

const Value* Value::find(std::string_view key) const {
  for (const auto& member : members)
    if (member.first == key) return &member.second;
  return nullptr;
}

bool Value::as_bool(const std::string& what) const {
  if (kind != Kind::Bool) wrong_kind(what, "true or false");
  return boolean;
}

double Value::as_number(const std::string& what) const {
  if (kind != Kind::Number) wrong_kind(what, "a number");
  return number;
}

std::int64_t Value::as_integer(const std::string& what) const {
  if (kind != Kind::Number || number != std::floor(number) || std::abs(number) > 9e15) wrong_kind(what, "an integer");
  return static_cast<std::int64_t>(number);
}

const std::string& Value::as_string(const std::string& what) const {
  if (kind != Kind::String) wrong_kind(what, "a text");
  return text;
}

const std::vector<Value>& Value::as_array(const std::string& what) const {
  if (kind != Kind::Array) wrong_kind(what, "a list");
  return items;
}

const Value& entry(const Value& object, std::string_view key) {
  static const Value none;
  const Value* found = object.find(key);
  return found ? *found : none;
}

Value parse(std::string_view text) { return Parser(text).document(); }

}  // namespace ncpm::json
