#include "model.hpp"

#include <cmath>

#include "checklist.hpp"
#include "error.hpp"
#include "graph/weights.hpp"
#include "json.hpp"
#include "term.hpp"

namespace ncpm {
namespace {

constexpr int kFormat = 2;

using json::entry;

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

NeuralSpec graph_spec(const json::Value& neural, NeuralSpec spec) {
  spec.rounds = size(entry(neural, "rounds"), "neural.rounds");
  spec.width = size(entry(neural, "width"), "neural.width");
  spec.members = size(entry(neural, "members"), "neural.members");
  spec.order = size(entry(neural, "order"), "neural.order");
  if (const json::Value& knots = entry(neural, "knots"); !knots.is_null() && knots.as_integer("neural.knots") != 0)
    spec.knots = size(knots, "neural.knots");
  if (const json::Value& names = entry(neural, "properties"); !names.is_null())
    for (const json::Value& name : names.as_array("neural.properties"))
      spec.properties.push_back(name.as_string("neural.properties"));
  return spec;
}

NeuralSpec neural_spec(const json::Value& neural) {
  NeuralSpec spec;
  spec.kind = entry(neural, "kind").as_string("neural.kind");
  if (spec.is_graph()) return graph_spec(neural, std::move(spec));
  for (const char* key : {"members", "properties"})
    if (!entry(neural, key).is_null())
      throw Error(
          "The network of the kind '" + spec.kind + "' has the entry '" + key + "', but cell graphs alone have " +
          (std::string(key) == "members" ? "committees" : "named properties of cells") + ": export the model again.");
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
    throw Error(
        "The network is of the unknown kind '" + spec.kind +
        "', but 'cell_graph', 'nh', 'local_nh', 'nh_cnn' or 'cnn' was expected: install a newer neuralcpm-bridge.");
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

void check_symbolic(const Model& model, Checklist& list) {
  list.optional("symbolic.weight", {});
  list.optional("symbolic.offset", {});
  for (const TermRow& row : term_rows())
    if (model.has_term(row.name)) row.check(model, list);
  list.complete("symbolic.");
}

void check_neural(const Model& model, Checklist& list) {
  const NeuralSpec& spec = *model.neural;
  list.optional("neural.weight", {});
  if (!model.covered()) return;
  if (spec.is_graph()) {
    graph::check_weights(model, list);
    list.complete("neural.");
    return;
  }
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

bool is_periodic(const std::string& word) {
  if (word != "periodic" && word != "free")
    throw Error("The boundary is '" + word + "', but 'periodic' or 'free' was expected: export the model again.");
  return word == "periodic";
}

// Format 2 has an object {geometry, boundary}; format 1, square always, one word for both axes.
void read_lattice(const json::Value& metadata, Model& model) {
  const json::Value& lattice = entry(metadata, "lattice");
  const bool described = lattice.kind == json::Value::Kind::Object;
  if (described) model.geometry = geometry_named(entry(lattice, "geometry").as_string("lattice.geometry"));
  const std::size_t axes = dimension_of(model.geometry);
  const json::Value& boundary = entry(described ? lattice : metadata, "boundary");
  model.periodic.clear();
  if (boundary.kind == json::Value::Kind::Array)
    for (const json::Value& word : boundary.items) model.periodic.push_back(is_periodic(word.as_string("boundary")));
  else model.periodic.assign(axes, is_periodic(boundary.as_string("boundary")));
  if (model.periodic.size() != axes)
    throw Error("The model states " + std::to_string(model.periodic.size()) + " boundaries, but a " +
                name_of(model.geometry) + " lattice has " + std::to_string(axes) + " axes: export the model again.");
  for (const auto& [term, numbers] : entry(entry(metadata, "symbolic"), "terms").members)
    if (const json::Value& order = entry(numbers, "order"); !order.is_null()) {
      model.orders[term] = size(order, "symbolic.terms." + term + ".order");
      offsets_of(model.geometry, model.orders[term]);  // refuses orders that do not exist
    }
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

bool Model::has_term(const std::string& name) const {
  const std::string prefix = "symbolic." + name + ".";
  const auto first = weights.lower_bound(prefix);
  return first != weights.end() && first->first.compare(0, prefix.size(), prefix) == 0;
}

bool Model::knows_range() const {
  if (!has("neural.high")) return false;
  const Tensor& high = weight("neural.high");  // [types, inputs]; the first input is the volume
  for (int type = 1; type < types(); ++type)
    if (high.floats[std::size_t(type) * high.shape[1]] > 0) return true;
  return false;
}

int Model::order(const std::string& term) const {
  const auto found = orders.find(term);
  return found == orders.end() ? moore_order(geometry) : found->second;
}

double Model::scalar(const std::string& key, double otherwise) const {
  return has(key) ? weight(key).doubles.at(0) : otherwise;
}

const std::vector<std::string>& Model::properties() const {
  static const std::vector<std::string> none;
  return neural ? neural->properties : none;
}

double Model::property_mean(int number) const {
  const std::vector<float>& means = weight("neural.cell_mean").floats;
  return means[means.size() - neural->properties.size() + number];
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
  read_lattice(metadata, *model);
  if (const json::Value& t = entry(metadata, "temperature"); !t.is_null())
    model->temperature = t.as_number("temperature");
  if (const json::Value& x = entry(metadata, "extinction"); !x.is_null())
    model->forbids_extinction = x.as_bool("extinction");
  if (const json::Value& fixed = entry(metadata, "fixed_lattice"); !fixed.is_null()) {
    model->fixed_shape = sizes(fixed, "fixed_lattice");
    if (model->fixed_shape.size() != model->periodic.size())
      throw Error("The metadata entry 'fixed_lattice' has not one size per axis: export the model again.");
  }
  if (const json::Value& neural = entry(metadata, "neural"); !neural.is_null()) model->neural = neural_spec(neural);
  if (model->neural && model->neural->is_graph()) offsets_of(model->geometry, model->neural->order);
  else if (model->neural && model->geometry != Geometry::Square)
    throw Error("The model has a convolutional network ('" + model->neural->kind + "') on a " +
                name_of(model->geometry) +
                " lattice, but convolutions are for 2D square lattices: use a cell graph or an analytic model there.");

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
