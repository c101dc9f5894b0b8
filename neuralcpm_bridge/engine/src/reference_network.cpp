#include "reference_network.hpp"

#include <algorithm>
#include <cmath>

#include "error.hpp"

namespace ncpm {
namespace {

double silu(double x) { return x / (1.0 + std::exp(-x)); }

struct Image {
  int channels, height, width;
  std::vector<double> data;

  Image(int c, int h, int w) : channels(c), height(h), width(w), data(std::size_t(c) * h * w, 0.0) {}
  double& at(int c, int y, int x) { return data[(std::size_t(c) * height + y) * width + x]; }
  double at(int c, int y, int x) const { return data[(std::size_t(c) * height + y) * width + x]; }
};

Image silu(Image image) {
  for (double& x : image.data) x = silu(x);
  return image;
}

Image operator+(Image a, const Image& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] += b.data[i];
  return a;
}

Image operator-(Image a, const Image& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] -= b.data[i];
  return a;
}

Image stack(const Image& a, const Image& b) {
  Image out(a.channels + b.channels, a.height, a.width);
  std::copy(b.data.begin(), b.data.end(), std::copy(a.data.begin(), a.data.end(), out.data.begin()));
  return out;
}

Image maxpool(const Image& image, int pool) {
  Image out(image.channels, image.height / pool, image.width / pool);
  for (int c = 0; c < out.channels; ++c)
    for (int y = 0; y < out.height; ++y)
      for (int x = 0; x < out.width; ++x) {
        double best = image.at(c, y * pool, x * pool);
        for (int dy = 0; dy < pool; ++dy)
          for (int dx = 0; dx < pool; ++dx) best = std::max(best, image.at(c, y * pool + dy, x * pool + dx));
        out.at(c, y, x) = best;
      }
  return out;
}

class Network {
 public:
  Network(const Model& model, const Tissue& tissue)
      : model_(model), spec_(*model.neural), tissue_(tissue), types_(model.types()) {}

  // nh: the sums run over every existing id, then the dense head.
  double nh() const {
    std::vector<Image> h;
    for (int id = 0; id < tissue_.cells(); ++id)
      if (tissue_.types[id] >= 0) h.push_back(embed(id));
    for (std::size_t i = 0; i < spec_.widths.size(); ++i) {
      const std::string layer = "neural.layers." + std::to_string(i);
      Image sum(spec_.widths[i], h[0].height, h[0].width);
      for (const Image& cell : h) sum = sum + phi(layer, cell);
      const Image mixed = conv(layer + ".mix", sum);
      for (Image& cell : h) cell = maxpool(psi(layer, cell, mixed), spec_.pools[i]);
    }
    std::vector<double> x(spec_.project, 0.0);
    for (const Image& cell : h) {
      const Image projected = conv("neural.project", cell);
      for (int c = 0; c < projected.channels; ++c)
        for (int y = 0; y < projected.height; ++y)
          for (int col = 0; col < projected.width; ++col) x[c] += projected.at(c, y, col);
    }
    for (std::size_t i = 0; i < spec_.mlp.size(); ++i) {
      const std::string entry = "neural.mlp." + std::to_string(i);
      std::vector<double> y = linear(entry + ".linear", x);
      const std::vector<double> skip = x.size() == y.size() ? x : linear(entry + ".skip", x);
      for (std::size_t k = 0; k < y.size(); ++k) y[k] = silu(y[k]) + skip[k];
      x = std::move(y);
    }
    return linear("neural.out", x)[0];
  }

  // local_nh: the medium is no cell, and every sum is relative to an absent cell, kept last in h.
  double local_nh() const {
    std::vector<Image> h;
    for (int id = 1; id < tissue_.cells(); ++id)
      if (tissue_.types[id] >= 0) h.push_back(embed(id));
    h.push_back(embed(-1));
    for (std::size_t i = 0; i < spec_.widths.size(); ++i) {
      const std::string layer = "neural.layers." + std::to_string(i);
      const Image absent = phi(layer, h.back());
      Image sum(spec_.widths[i], absent.height, absent.width);
      for (std::size_t c = 0; c + 1 < h.size(); ++c) sum = sum + (phi(layer, h[c]) - absent);
      const Image mixed = conv(layer + ".mix", sum);
      for (Image& cell : h) cell = psi(layer, cell, mixed);
    }
    double energy = 0.0;
    for (int y = 0; y < h[0].height; ++y)
      for (int x = 0; x < h[0].width; ++x) {
        const double absent = head("neural.cell_head", h.back(), y, x);
        for (std::size_t c = 0; c + 1 < h.size(); ++c) energy += head("neural.cell_head", h[c], y, x) - absent;
        energy += head("neural.background_head", h.back(), y, x);
      }
    return energy;
  }

 private:
  // Own occupancy and one-hot type of every site, in blocks of stride x stride; rest rows are unseen.
  Image embed(int id) const {
    const int s = spec_.stride;
    const std::vector<float>& weight = model_.weight("neural.embedding.weight").floats;
    const std::vector<float>& bias = model_.weight("neural.embedding.bias").floats;
    Image out(spec_.widths[0], tissue_.lattice.height / s, tissue_.lattice.width / s);
    for (int c = 0; c < out.channels; ++c)
      for (int y = 0; y < out.height; ++y)
        for (int x = 0; x < out.width; ++x) {
          double sum = bias[c];
          for (int dy = 0; dy < s; ++dy)
            for (int dx = 0; dx < s; ++dx) {
              const int site = (y * s + dy) * tissue_.lattice.width + x * s + dx;
              const auto tap = [&](int channel) {
                return double(weight[((c * (1 + types_) + channel) * s + dy) * s + dx]);
              };
              if (tissue_.ids[site] == id) sum += tap(0);
              sum += tap(1 + tissue_.type_at(site));
            }
          out.at(c, y, x) = sum;
        }
    return out;
  }

  Image phi(const std::string& layer, const Image& h) const {
    return silu(conv(layer + ".phi1", silu(conv(layer + ".phi0", conv(layer + ".reduce", h)))));
  }

  Image psi(const std::string& layer, const Image& h, const Image& mixed) const {
    const Image y = conv(layer + ".psi1", silu(conv(layer + ".psi0", stack(h, mixed))));
    return y + (h.channels == y.channels ? h : conv(layer + ".skip", h));
  }

  // 1x1 or 3x3, as the weight's shape says; zero or circular padding keeps the size.
  Image conv(const std::string& name, const Image& in) const {
    const Tensor& weight = model_.weight(name + ".weight");
    const std::vector<float>& bias = model_.weight(name + ".bias").floats;
    const int outputs = int(weight.shape[0]), kernel = int(weight.shape[2]), reach = kernel / 2;
    Image out(outputs, in.height, in.width);
    for (int o = 0; o < outputs; ++o)
      for (int y = 0; y < in.height; ++y)
        for (int x = 0; x < in.width; ++x) {
          double sum = bias[o];
          for (int c = 0; c < in.channels; ++c)
            for (int ky = 0; ky < kernel; ++ky)
              for (int kx = 0; kx < kernel; ++kx) {
                int row = y + ky - reach, col = x + kx - reach;
                if (spec_.circular) {
                  row = (row + in.height) % in.height;
                  col = (col + in.width) % in.width;
                } else if (row < 0 || row >= in.height || col < 0 || col >= in.width) {
                  continue;
                }
                sum += double(weight.floats[((o * in.channels + c) * kernel + ky) * kernel + kx]) * in.at(c, row, col);
              }
          out.at(o, y, x) = sum;
        }
    return out;
  }

  std::vector<double> linear(const std::string& name, const std::vector<double>& x) const {
    const std::vector<float>& weight = model_.weight(name + ".weight").floats;
    const std::vector<float>& bias = model_.weight(name + ".bias").floats;
    std::vector<double> y(bias.begin(), bias.end());
    for (std::size_t o = 0; o < y.size(); ++o)
      for (std::size_t i = 0; i < x.size(); ++i) y[o] += double(weight[o * x.size() + i]) * x[i];
    return y;
  }

  double head(const std::string& name, const Image& h, int y, int x) const {
    std::vector<double> features(h.channels);
    for (int c = 0; c < h.channels; ++c) features[c] = h.at(c, y, x);
    std::vector<double> hidden = linear(name + ".hidden", features);
    for (double& value : hidden) value = silu(value);
    return linear(name + ".out", hidden)[0];
  }

  const Model& model_;
  const NeuralSpec& spec_;
  const Tissue& tissue_;
  const int types_;
};

}  // namespace

double reference_energy(const Model& model, const Tissue& tissue) {
  if (!model.neural) return 0.0;
  const Network network(model, tissue);
  if (model.neural->kind == "nh") return network.nh();
  if (model.neural->kind == "local_nh") return network.local_nh();
  throw Error("The engine does not compute networks of kind '" + model.neural->kind +
              "', only 'nh' and 'local_nh': use the ONNX Runtime back end.");
}

}  // namespace ncpm
