#include "protobuf.hpp"

#include "error.hpp"

namespace ncpm {
namespace {

[[noreturn]] void damaged() { throw Error("it is truncated, damaged or not an ONNX file"); }

}  // namespace

std::uint64_t ProtobufReader::take_varint(std::string_view& data) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (data.empty()) damaged();
    const auto byte = static_cast<std::uint8_t>(data.front());
    data.remove_prefix(1);
    if (shift == 63 && byte > 1) damaged();  // more than 64 bits
    value |= std::uint64_t(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  damaged();
}

std::string_view ProtobufReader::take(std::uint64_t size) {
  if (size > rest_.size()) damaged();
  const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(size));
  rest_.remove_prefix(taken.size());
  return taken;
}

bool ProtobufReader::next() {
  if (rest_.empty()) return false;
  const std::uint64_t key = take_varint(rest_);
  if (key >> 3 == 0 || key >> 3 > 0x1FFFFFFF) damaged();
  field_ = static_cast<std::uint32_t>(key >> 3);
  switch (key & 7) {
    case 0:
      wire_ = Wire::Varint;
      varint_ = take_varint(rest_);
      break;
    case 1:
      wire_ = Wire::Fixed64;
      take(8);
      break;
    case 2:
      wire_ = Wire::Bytes;
      bytes_ = take(take_varint(rest_));
      break;
    case 5:
      wire_ = Wire::Fixed32;
      take(4);
      break;
    default: damaged();  // groups: unknown to ONNX
  }
  return true;
}

std::uint64_t ProtobufReader::varint() const {
  if (wire_ != Wire::Varint) damaged();
  return varint_;
}

std::string_view ProtobufReader::bytes() const {
  if (wire_ != Wire::Bytes) damaged();
  return bytes_;
}

}  // namespace ncpm
