#include "model.hpp"

#include <cmath>
#include <set>

#include "error.hpp"
#include "json.hpp"

namespace ncpm {
namespace {

constexpr int kFormat = 1;
constexpr std::int64_t kMaxSize = 1 << 15;  // of strides, widths, lattices: far beyond use, far from overflow

using json::entry;
using Shape = std::vector<std::int64_t>;

std::string text(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

int size(const json::Value& value, const std::string& what) {
  const std::int64_t number = value.as_integer(what);
  if (number < 1 || number > kMaxSize)
    throw Error("The metadata entry '" + what + "' is " + std::to_string(number) + ", but sizes lie between 1 and " +
                std::to_string(kMaxSize) + ": export the model again.");
  return static_cast<int>(number);
}

std::vector<int> sizes(const json::Value& value, const std::string& what) {
  std::vector<int> out;
  if (value.is_null()) return out;
  for (const json::Value& item : value.as_array(what)) out.push_back(size(item, what));
  return out;
}

NeuralSpec neural_spec(const json::Value& neural) {
  NeuralSpec spec;
  spec.kind = entry(neural, "kind").as_string("neural.kind");
  spec.stride = size(entry(neural, "stride"), "neural.stride");
  spec.widths = sizes(entry(neural, "widths"), "neural.widths");
  spec.pools = sizes(entry(neural, "pools"), "neural.pools");
  spec.mlp = sizes(entry(neural, "mlp"), "neural.mlp");
  const std::string& padding = entry(neural, "padding").as_string("neural.padding");
  if (padding != "zeros" && padding != "circular")
    throw Error("The padding of the network is '" + padding +
                "', but 'zeros' or 'circular' was expected: export the model again.");
  spec.circular = padding == "circular";
  if (spec.kind == "cnn" || spec.kind == "nh_cnn") return spec;  // ONNX Runtime's to compute and to check
  if (spec.kind != "nh" && spec.kind != "local_nh")
    throw Error("The network is of the unknown kind '" + spec.kind +
                "', but 'nh', 'local_nh', 'nh_cnn' or 'cnn' was expected: install a newer neuralcpm-bridge.");
  spec.project = size(entry(neural, "project"), "neural.project");
  if (spec.kind == "local_nh" && spec.pools.empty()) spec.pools.assign(spec.widths.size(), 1);
  if (spec.widths.empty() || spec.pools.size() != spec.widths.size())
    throw Error("The network has " + std::to_string(spec.widths.size()) + " widths and " +
                std::to_string(spec.pools.size()) +
                " pools, but one of each is needed for every layer: export the model again.");
  for (const int pool : spec.pools)
    if (spec.kind == "local_nh" && pool != 1)
      throw Error("A local network has a layer with pooling, which it cannot have: export the model again.");
  return spec;
}

// Ticks off the weights a model needs; what remains unticked is refused.
class Checklist {
 public:
  explicit Checklist(const Model& model) : model_(model) {}

  void need(const std::string& key, const Shape& shape) {
    const Tensor& tensor = model_.weight(key);
    if (tensor.shape != shape)
      throw Error("The weight '" + key + "' has the shape " + text(tensor.shape) + ", but " + text(shape) +
                  " was expected: export the model again.");
    seen_.insert(key);
  }

  void optional(const std::string& key, const Shape& shape) {
    if (model_.has(key)) need(key, shape);
  }

  void affine(const std::string& name, const Shape& weight) {
    need(name + ".weight", weight);
    need(name + ".bias", {weight[0]});
  }

  // All weights of one prefix have been asked for.
  void complete(const std::string& prefix) const {
    for (const auto& item : model_.weights)
      if (item.first.compare(0, prefix.size(), prefix) == 0 && !seen_.count(item.first))
        throw Error("The weight '" + item.first +
                    "' has no place in this model: install a newer neuralcpm-bridge or export the model again.");
  }

 private:
  const Model& model_;
  std::set<std::string> seen_;
};

void check_symbolic(Model& model, Checklist& list) {
  const std::int64_t types = model.types();
  list.optional("symbolic.weight", {});
  list.optional("symbolic.offset", {});
  if (model.has("symbolic.contact.J")) {
    list.need("symbolic.contact.J", {types, types});
    const std::vector<double>& J = model.weight("symbolic.contact.J").doubles;
    for (std::int64_t a = 0; a < types; ++a)
      for (std::int64_t b = 0; b < a; ++b)
        if (J[a * types + b] != J[b * types + a])
          throw Error("The contact energies J are not symmetric: J[" + std::to_string(a) + ", " + std::to_string(b) +
                      "] and its mirror differ, make them equal.");
    if (J[0] != 0.0)
      throw Error("The contact energy of the medium with itself is not 0, but it never counts: set J[0, 0] to 0.");
  }
  for (const std::string term : {"symbolic.volume", "symbolic.length", "symbolic.surface"}) {
    if (!model.has(term + ".strength") && !model.has(term + ".target")) continue;
    list.need(term + ".strength", {types});
    list.need(term + ".target", {types});
  }
  if (model.has("symbolic.volume_function.coefficients")) {
    const Shape& shape = model.weight("symbolic.volume_function.coefficients").shape;
    if (shape.size() != 2 || shape[1] < 1 || shape[1] > kMaxSize)
      throw Error("The volume function's coefficients have the shape " + text(shape) +
                  ", but [T, K] was expected: export the model again.");
    list.need("symbolic.volume_function.coefficients", {types, shape[1]});
    for (const std::string part : {"center", "low", "high", "stiffness"})
      list.need("symbolic.volume_function." + part, {types});
    const std::vector<double>& low = model.weight("symbolic.volume_function.low").doubles;
    const std::vector<double>& high = model.weight("symbolic.volume_function.high").doubles;
    for (std::int64_t type = 0; type < types; ++type)
      if (low[type] > high[type])
        throw Error("The volume function of type " + std::to_string(type) +
                    " ends before it begins: export the model again.");
  }
  if (model.has("symbolic.external.field") || model.has("symbolic.external.coupling")) {
    const Shape& shape = model.weight("symbolic.external.field").shape;
    if (shape.size() != 3 || shape[0] < 1 || shape[1] < 1 || shape[2] < 1 || shape[1] > kMaxSize || shape[2] > kMaxSize)
      throw Error("The external fields have the shape " + text(shape) +
                  ", but [K, H, W] was expected: export the model again.");
    list.need("symbolic.external.field", shape);
    list.need("symbolic.external.coupling", {types, shape[0]});
    model.fixed_height = static_cast<int>(shape[1]);
    model.fixed_width = static_cast<int>(shape[2]);
  }
  list.complete("symbolic.");
}

void check_neural(const Model& model, Checklist& list) {
  const NeuralSpec& spec = *model.neural;
  list.optional("neural.weight", {});
  if (!model.covered()) return;
  const std::int64_t first = spec.widths[0];
  list.affine("neural.embedding", {first, 1 + model.types(), spec.stride, spec.stride});
  std::int64_t in = first;
  for (std::size_t i = 0; i < spec.widths.size(); ++i) {
    const std::string layer = "neural.layers." + std::to_string(i);
    const std::int64_t width = spec.widths[i];
    list.affine(layer + ".reduce", {width, in, 1, 1});
    list.affine(layer + ".phi0", {width, width, 3, 3});
    list.affine(layer + ".phi1", {width, width, 3, 3});
    list.affine(layer + ".mix", {width, width, 1, 1});
    list.affine(layer + ".psi0", {width, in + width, 3, 3});
    list.affine(layer + ".psi1", {width, width, 3, 3});
    if (in != width) list.affine(layer + ".skip", {width, in, 1, 1});
    in = width;
  }
  if (spec.kind == "local_nh") {
    for (const std::string head : {"neural.cell_head", "neural.background_head"}) {
      list.affine(head + ".hidden", {spec.project, in});
      list.affine(head + ".out", {1, spec.project});
    }
  } else {
    list.affine("neural.project", {spec.project, in, 1, 1});
    in = spec.project;
    for (std::size_t i = 0; i < spec.mlp.size(); ++i) {
      const std::string name = "neural.mlp." + std::to_string(i);
      list.affine(name + ".linear", {spec.mlp[i], in});
      if (in != spec.mlp[i]) list.affine(name + ".skip", {spec.mlp[i], in});
      in = spec.mlp[i];
    }
    list.affine("neural.out", {1, in});
  }
  list.complete("neural.");
}

void check_values(const Weights& weights) {
  for (const auto& [name, tensor] : weights) {
    const bool expect_double = name.compare(0, 9, "symbolic.") == 0 || name == "neural.weight";
    if ((tensor.type == Tensor::Type::Double) != expect_double)
      throw Error("The weight '" + name + "' is of the wrong data type, " + (expect_double ? "DOUBLE" : "FLOAT") +
                  " was expected: export the model again.");
    bool finite = true;
    for (const float x : tensor.floats) finite = finite && std::isfinite(x);
    for (const double x : tensor.doubles) finite = finite && std::isfinite(x);
    if (!finite) throw Error("The weight '" + name + "' holds infinite or undefined numbers: train the model again.");
  }
}

}  // namespace

const Tensor& Model::weight(const std::string& key) const {
  const auto found = weights.find(key);
  if (found == weights.end()) throw Error("The weight '" + key + "' is missing from the model: export it again.");
  return found->second;
}

double Model::scalar(const std::string& key, double otherwise) const {
  return has(key) ? weight(key).doubles.at(0) : otherwise;
}

void check_format(std::int64_t version) {
  if (version < 1 || version > kFormat)
    throw Error("The model has format " + std::to_string(version) + ", but this engine reads formats up to " +
                std::to_string(kFormat) + ": install a newer neuralcpm-bridge.");
}

std::shared_ptr<const Model> make_model(const std::string& metadata_json, Weights weights) {
  const json::Value metadata = json::parse(metadata_json);
  auto model = std::make_shared<Model>();
  model->metadata = metadata_json;
  if (const json::Value& format = entry(metadata, "format"); !format.is_null())
    check_format(format.as_integer("format"));
  if (const json::Value& name = entry(metadata, "name"); !name.is_null()) model->name = name.as_string("name");
  for (const json::Value& name : entry(metadata, "types").as_array("types"))
    model->type_names.push_back(name.as_string("types"));
  if (model->type_names.empty() || model->types() > kMaxSize)
    throw Error("The model lists " + std::to_string(model->types()) +
                " cell types, but at least the medium is needed: export the model again.");
  const std::string& boundary = entry(metadata, "boundary").as_string("boundary");
  if (boundary != "periodic" && boundary != "free")
    throw Error("The boundary is '" + boundary + "', but 'periodic' or 'free' was expected: export the model again.");
  model->periodic = boundary == "periodic";
  if (const json::Value& t = entry(metadata, "temperature"); !t.is_null())
    model->temperature = t.as_number("temperature");
  if (const json::Value& x = entry(metadata, "extinction"); !x.is_null())
    model->forbids_extinction = x.as_bool("extinction");
  if (const json::Value& order = entry(metadata, "neighbor_order");
      !order.is_null() && order.as_integer("neighbor_order") != 2)
    throw Error("The model's neighbour order is " + std::to_string(order.as_integer("neighbor_order")) +
                ", but only 2 (Moore) is defined: export the model again.");
  if (const json::Value& fixed = entry(metadata, "fixed_lattice"); !fixed.is_null()) {
    const std::vector<int> shape = sizes(fixed, "fixed_lattice");
    if (shape.size() != 2) throw Error("The metadata entry 'fixed_lattice' is not [H, W]: export the model again.");
    model->fixed_height = shape[0];
    model->fixed_width = shape[1];
  }
  if (const json::Value& neural = entry(metadata, "neural"); !neural.is_null()) model->neural = neural_spec(neural);

  check_values(weights);
  model->weights = std::move(weights);
  for (const auto& item : model->weights) model->has_symbolic |= item.first.compare(0, 9, "symbolic.") == 0;
  Checklist list(*model);
  check_symbolic(*model, list);
  if (model->neural) check_neural(*model, list);
  else list.complete("neural.");
  return model;
}

}  // namespace ncpm
