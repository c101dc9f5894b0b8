#include "artifact.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "error.hpp"
#include "examples.hpp"
#include "json.hpp"
#include "protobuf.hpp"
#include "sha256.hpp"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Artifacts hold little-endian numbers, which are read as they are."
#endif

namespace ncpm {
namespace {

using json::entry;

// Field numbers of onnx.proto.
constexpr std::uint32_t kModelGraph = 7, kModelMetadata = 14;
constexpr std::uint32_t kEntryKey = 1, kEntryValue = 2;
constexpr std::uint32_t kGraphInitializer = 5;
constexpr std::uint32_t kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorRaw = 9, kTensorLocation = 14;

constexpr std::string_view kDescription = "neuralcpm", kSeal = "neuralcpm.sha256";  // keys of the entries

constexpr std::uintmax_t kMaxFile = std::uintmax_t(1) << 31;  // protobuf's own limit

std::string read_file(const std::string& path) {
  const std::filesystem::path file = std::filesystem::u8path(path);
  std::error_code failure;
  if (!std::filesystem::is_regular_file(file, failure))
    throw Error("The model file '" + path + "' does not exist or is not a file: give the path of a model.onnx.");
  const std::uintmax_t size = std::filesystem::file_size(file, failure);
  if (failure || size > kMaxFile)
    throw Error("The model file '" + path +
                "' cannot be a model, its size is beyond 2 GiB: give the path of a model.onnx.");
  std::string content(static_cast<std::size_t>(size), '\0');
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(content.data(), static_cast<std::streamsize>(size)) && size > 0)
    throw Error("The model file '" + path + "' could not be read: check its permissions.");
  return content;
}

// Errors of this file are clauses that need the file's name; those of other modules are whole sentences.
[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  if (why.back() == '.') throw Error("In the model file '" + path + "': " + why);
  throw Error("The file '" + path + "' cannot be used, " + why + ": export the model again.");
}

bool is_weight(std::string_view name) { return name.substr(0, 9) == "symbolic." || name.substr(0, 7) == "neural."; }

template <typename Number>
std::vector<Number> numbers(std::string_view raw) {
  std::vector<Number> values(raw.size() / sizeof(Number));
  if (!raw.empty()) std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

struct RawTensor {
  std::string_view name, raw;
  std::vector<std::int64_t> shape;
  std::uint64_t type = 0, location = 0;
};

RawTensor read_tensor(std::string_view message) {
  RawTensor tensor;
  for (ProtobufReader reader(message); reader.next();) {
    switch (reader.field()) {
      case kTensorName: tensor.name = reader.bytes(); break;
      case kTensorRaw: tensor.raw = reader.bytes(); break;
      case kTensorType: tensor.type = reader.varint(); break;
      case kTensorLocation: tensor.location = reader.varint(); break;
      case kTensorDims:  // repeated, packed or not
        if (reader.wire() == ProtobufReader::Wire::Varint) {
          tensor.shape.push_back(static_cast<std::int64_t>(reader.varint()));
        } else {
          for (std::string_view packed = reader.bytes(); !packed.empty();)
            tensor.shape.push_back(static_cast<std::int64_t>(ProtobufReader::take_varint(packed)));
        }
        break;
      default: break;
    }
  }
  return tensor;
}

Tensor decode(const RawTensor& found) {
  const std::string name(found.name);
  if (found.location != 0)
    throw Error("its weight '" + name + "' lies in another file, where all weights must be inside");
  if (found.type != 1 && found.type != 11)
    throw Error("its weight '" + name + "' has the ONNX data type " + std::to_string(found.type) +
                " where 1 (FLOAT) or 11 (DOUBLE) was expected");
  const std::uint64_t width = found.type == 1 ? sizeof(float) : sizeof(double);
  if (found.shape.size() > 8) throw Error("its weight '" + name + "' has more than 8 dimensions");
  std::uint64_t count = 1;
  for (const std::int64_t dim : found.shape) {
    // Comparing with the data at hand keeps the product far from overflow.
    if (dim < 0 || std::uint64_t(dim) > kMaxFile || (count *= std::uint64_t(dim)) > kMaxFile)
      throw Error("its weight '" + name + "' has an impossible shape");
  }
  if (count * width != found.raw.size())
    throw Error("its weight '" + name + "' holds " + std::to_string(found.raw.size()) +
                " bytes where its shape needs " + std::to_string(count * width));
  Tensor tensor;
  tensor.type = static_cast<Tensor::Type>(found.type);
  tensor.shape = found.shape;
  if (tensor.type == Tensor::Type::Float) tensor.floats = numbers<float>(found.raw);
  else tensor.doubles = numbers<double>(found.raw);
  return tensor;
}

void read_graph(std::string_view message, Weights& weights) {
  for (ProtobufReader reader(message); reader.next();) {
    if (reader.field() != kGraphInitializer) continue;
    const RawTensor found = read_tensor(reader.bytes());
    if (!is_weight(found.name)) continue;
    if (!weights.emplace(std::string(found.name), decode(found)).second)
      throw Error("its weight '" + std::string(found.name) + "' occurs twice");
  }
}

// True for the description's own copy of a weight: nested lists of numbers, as long and as deep as its shape says.
bool same_numbers(const json::Value& value, const Tensor& expected, std::size_t axis, std::size_t& at) {
  if (axis < expected.shape.size()) {
    if (value.kind != json::Value::Kind::Array || value.items.size() != std::size_t(expected.shape[axis])) return false;
    for (const json::Value& item : value.items)
      if (!same_numbers(item, expected, axis + 1, at)) return false;
    return true;
  }
  if (value.kind != json::Value::Kind::Number || at >= expected.doubles.size()) return false;
  const double reference = expected.doubles[at++];
  return std::abs(value.number - reference) <= 1e-9 * (1.0 + std::abs(reference));
}

void compare(const json::Value& value, const Model& model, const std::string& key) {
  std::size_t at = 0;
  const bool given = !value.is_null();
  if (given != model.has(key) || (given && !same_numbers(value, model.weight(key), 0, at)))
    throw Error("its description of '" + key + "' differs from the weights");
}

// The description repeats the symbolic numbers for people and host writers: they must be the ones computed with.
// The fields themselves are left out of it; their number stands in their place, and a neighbour order is no weight.
void compare_symbolic(const json::Value& metadata, const Model& model) {
  const json::Value& symbolic = entry(metadata, "symbolic");
  const json::Value& terms = entry(symbolic, "terms");
  compare(entry(symbolic, "weight"), model, "symbolic.weight");
  compare(entry(symbolic, "offset"), model, "symbolic.offset");
  if (const json::Value& weight = entry(entry(metadata, "neural"), "weight"); !weight.is_null())
    compare(weight, model, "neural.weight");
  for (const auto& [term, numbers] : terms.members)
    for (const auto& [name, value] : numbers.members)
      if (name != "fields" && name != "order") compare(value, model, "symbolic." + term + "." + name);
  for (const auto& item : model.weights) {
    const std::string& key = item.first;
    const std::size_t dot = key.find('.', 9);
    if (key.compare(0, 9, "symbolic.") != 0 || dot == std::string::npos || key == "symbolic.external.field") continue;
    compare(entry(entry(terms, key.substr(9, dot - 9)), key.substr(dot + 1)), model, key);
  }
}

}  // namespace

std::string weights_hash(const Weights& weights) {
  Sha256 hash;
  for (const auto& [name, tensor] : weights) {
    hash.update(name.c_str(), name.size() + 1);  // with its zero byte
    const std::uint8_t head[2] = {static_cast<std::uint8_t>(tensor.type),
                                  static_cast<std::uint8_t>(tensor.shape.size())};
    hash.update(head, 2);
    for (const std::int64_t dim : tensor.shape) hash.update(&dim, sizeof dim);
    if (tensor.type == Tensor::Type::Float) hash.update(tensor.floats.data(), tensor.floats.size() * sizeof(float));
    else hash.update(tensor.doubles.data(), tensor.doubles.size() * sizeof(double));
  }
  return hash.hex();
}

namespace {

std::string hash_without(std::string_view content, std::size_t begin, std::size_t end) {
  Sha256 hash;
  hash.update(content.data(), begin);
  hash.update(content.data() + end, content.size() - end);
  return hash.hex();
}

Artifact read_content(std::string_view content) {
  Artifact artifact;
  bool described = false;
  std::size_t begin = 0;  // of the field
  for (ProtobufReader model(content); model.next(); begin = content.size() - model.rest()) {
    if (model.field() == kModelGraph) read_graph(model.bytes(), artifact.weights);
    if (model.field() != kModelMetadata) continue;
    std::string_view key, value;
    for (ProtobufReader entry(model.bytes()); entry.next();) {
      if (entry.field() == kEntryKey) key = entry.bytes();
      if (entry.field() == kEntryValue) value = entry.bytes();
    }
    if (key == kSeal) {
      artifact.seal = value;
      artifact.sealed = hash_without(content, begin, content.size() - model.rest());
    }
    if (key != kDescription) continue;
    if (described) throw Error("its entry 'neuralcpm' occurs twice");
    described = true;
    artifact.metadata = value;
  }
  if (!described) throw Error("it has no entry 'neuralcpm', so it is not an exported Hamiltonian");
  return artifact;
}

// The format first: of a newer file nothing else can be expected to make sense.
void check_identity(const json::Value& metadata, const Artifact& artifact) {
  check_format(entry(metadata, "format").as_integer("format"));
  const std::string& stated = entry(metadata, "weights_hash").as_string("weights_hash");
  if (stated != artifact.hash)
    throw Error("its weights have the hash " + artifact.hash.substr(0, 12) + "… but it states " + stated.substr(0, 12) +
                "…, so it was changed after its export");
}

}  // namespace

Artifact read_artifact(const std::string& path) {
  const std::string content = read_file(path);
  try {
    Artifact artifact = read_content(content);
    artifact.hash = weights_hash(artifact.weights);
    check_identity(json::parse(artifact.metadata), artifact);
    return artifact;
  } catch (const Error& error) {
    refuse(path, error.what());
  }
}

std::shared_ptr<const Model> load_model(const std::string& path) {
  Artifact artifact = read_artifact(path);
  try {
    const std::shared_ptr<const Model> model = make_model(artifact.metadata, std::move(artifact.weights));
    const json::Value metadata = json::parse(artifact.metadata);
    compare_symbolic(metadata, *model);
    if (model->covered()) check_examples(model, entry(metadata, "examples"));
    if (artifact.seal != artifact.sealed)  // last: what is wrong in particular says more
      throw Error("its content has the hash " + artifact.sealed.substr(0, 12) + "… but it states " +
                  artifact.seal.substr(0, 12) + "…, so it was changed after its export");
    return model;
  } catch (const Error& error) {
    refuse(path, error.what());
  }
}

}  // namespace ncpm
