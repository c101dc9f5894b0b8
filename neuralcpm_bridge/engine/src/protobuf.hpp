// The protobuf wire format, read in place: just enough to walk an ONNX file, every length checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ncpm {

// Iterates over the fields of one message. Throws Error as soon as a length leaves the message, so
// no byte outside the buffer is ever read.
class ProtobufReader {
 public:
  enum class Wire { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  // Advances to the next field; false at the end of the message.
  bool next();

  std::uint32_t field() const { return field_; }
  Wire wire() const { return wire_; }
  // Bytes behind the field.
  std::size_t rest() const { return rest_.size(); }
  std::uint64_t varint() const;    // the value of a Varint field
  std::string_view bytes() const;  // the value of a Bytes field: text, raw data or a message

  // Reads one varint off the front of `data`: packed repeated integers.
  static std::uint64_t take_varint(std::string_view& data);

 private:
  std::string_view take(std::uint64_t size);

  std::string_view rest_;
  std::uint32_t field_ = 0;
  Wire wire_ = Wire::Varint;
  std::uint64_t varint_ = 0;
  std::string_view bytes_;
};

}  // namespace ncpm
