#include "pixel_layer.hpp"

#include <cstring>

namespace ncpm::neural {
namespace {

Linear linear(const std::optional<Linear>& skip, const LayerShape& shape) {
  return skip.value_or(identity(shape.width));
}

// The skip path's bias with that of the second convolution.
BorderBiases with_output_bias(const LayerMaps& maps, const LayerShape& shape) {
  std::vector<double> bias = linear(maps.skip, shape).bias;
  for (std::size_t c = 0; c < bias.size(); ++c) bias[c] += maps.second_psi.bias[c];
  return BorderBiases(kBorderClasses, bias);
}

void add_entries(std::int32_t* sum, const std::int32_t* entries, int channels, int by) {
  for (int c = 0; c < channels; ++c) sum[c] += by * entries[c];
}

// Local positions of the blocks a flip reaches: visit(tap, y, x) for those within `rect`.
template <class Visit>
void for_reached(const Frame& frame, const PixelFlip& flip, int taps, const Rect& rect, Visit visit) {
  const auto local = [](const FrameAxis& a, int block, int step) {
    return a.whole ? wrapped(block + step, a.axis.size) + 1 : a.in.lo + step;
  };
  const int reach = taps == 9 ? 1 : 0;
  for (int dy = -reach, tap = 0; dy <= reach; ++dy)
    for (int dx = -reach; dx <= reach; ++dx, ++tap) {
      const int y = local(frame.y, flip.at.y, dy), x = local(frame.x, flip.at.x, dx);
      if (y >= rect.y.lo && y < rect.y.hi && x >= rect.x.lo && x < rect.x.hi) visit(tap, y, x);
    }
}

}  // namespace

PixelLayer::PixelLayer(const Model& model, const Plan& plan, const LayerMaps& maps, Workspace& workspace,
                       Outlet& outlet)
    : CellwiseLayer(plan.layers.front(), maps, workspace, outlet),
      first_id_(plan.first_id()),
      x_table_(pixel_table(model, maps.first_phi, maps.first_phi_bias)),
      y_table_(pixel_table(model, maps.first_psi, maps.first_psi_bias)),
      skip_table_(pixel_table(model, linear(maps.skip, shape_), with_output_bias(maps, shape_))),
      cell_skip_table_(pixel_table(model, linear(maps.cell_skip, shape_),
                                   BorderBiases(kBorderClasses, linear(maps.cell_skip, shape_).bias))),
      x_(std::size_t(shape_.grid.sites()) * x_table_.channels),
      y_(std::size_t(shape_.grid.sites()) * y_table_.channels),
      skip_(std::size_t(shape_.grid.sites()) * skip_table_.channels) {}

LayerTiles PixelLayer::tiles() const {
  LayerTiles tiles{shape_.grid, shape_.pool, shape_.whole};
  tiles.channels[kX] = tiles.channels[kY] = tiles.channels[kPhi] = width();
  tiles.channels[kSkip] = outputs();
  return tiles;
}

void PixelLayer::accept(const Pass& pass) {
  if (proposal().retypes()) {
    store(pass, pass.p, width(), pass.frame.phi(), p_);
    store(pass, pass.phi, width(), pass.frame.phi(), phi_);
  }
  CellwiseLayer::accept(pass);
}

void PixelLayer::reset() {
  const Grid& grid = shape_.grid;
  const auto start = [](const PixelTable& table, int border, std::size_t site, Fixed& sums) {
    std::memcpy(sums.data() + site * table.channels, table.start.data() + border * table.channels,
                sizeof(std::int32_t) * table.channels);
  };
  for (int y = 0; y < grid.y.size; ++y)
    for (int x = 0; x < grid.x.size; ++x) {
      const std::size_t site = std::size_t(y) * grid.x.size + x;
      const int border = border_class(grid, y, x);
      start(x_table_, border, site, x_);
      start(y_table_, border, site, y_);
      start(skip_table_, border, site, skip_);
    }
}

void PixelLayer::put_pixel(int y, int x, int pixel, std::int32_t id, std::int32_t type, int by) {
  if (id >= first_id_) {
    work_.cells.make_room(id, {{y, 1}, {x, 1}});
    work_.cells.count(id, y, x, by);
    put_cell(y, x, x_table_, pixel, id, kX, by);
    put_cell(y, x, y_table_, pixel, id, kY, by);
    put_cell(y, x, cell_skip_table_, pixel, id, kSkip, by);
  }
  put_background(y, x, x_table_, x_table_.type_at(type, pixel), x_, by);
  put_background(y, x, y_table_, y_table_.type_at(type, pixel), y_, by);
  put_background(y, x, skip_table_, skip_table_.type_at(type, pixel), skip_, by);
}

// visit(tap, y, x) for the blocks of the lattice that a pixel of this block reaches.
template <class Visit>
void PixelLayer::for_blocks_around(int y, int x, int taps, Visit visit) const {
  const Grid& grid = shape_.grid;
  const int reach = taps == 9 ? 1 : 0;
  for (int dy = -reach, tap = 0; dy <= reach; ++dy)
    for (int dx = -reach; dx <= reach; ++dx, ++tap) {
      int v = y + dy, u = x + dx;
      if (grid.y.circular) {
        v = wrapped(v, grid.y.size);
        u = wrapped(u, grid.x.size);
      } else if (v < 0 || v >= grid.y.size || u < 0 || u >= grid.x.size) {
        continue;
      }
      visit(tap, v, u);
    }
}

void PixelLayer::put_background(int y, int x, const PixelTable& table, const std::int32_t* entries, Fixed& sums,
                                int by) {
  for_blocks_around(y, x, table.taps, [&](int tap, int v, int u) {
    add_entries(sums.data() + (std::size_t(v) * shape_.grid.x.size + u) * table.channels,
                entries + tap * table.channels, table.channels, by);
  });
}

void PixelLayer::put_cell(int y, int x, const PixelTable& table, int pixel, std::int32_t id, Field field, int by) {
  const Grid& grid = shape_.grid;
  const Tile& tile = work_.cells.tile(id, 0);
  const Box& box = tile.box(field);
  for_blocks_around(y, x, table.taps, [&](int tap, int v, int u) {
    const int ty = grid.y.circular ? wrapped(v - box.y.start, grid.y.size) : v - box.y.start;
    const int tx = grid.x.circular ? wrapped(u - box.x.start, grid.x.size) : u - box.x.start;
    add_entries(tile.fixed(field) + std::size_t(ty) * tile.pitch(field) + std::size_t(tx) * table.channels,
                table.own_at(pixel) + tap * table.channels, table.channels, by);
  });
}

// The sums of the background as floats, with the flip's change of type.
void PixelLayer::load_fixed(const Pass& pass, const PixelTable& table, const Fixed& cache, const Rect& rect,
                            float* to) {
  if (rect.empty()) return;
  const int channels = table.channels;
  // The integers are 4 bytes wide as floats are, and converted in place.
  load(pass, reinterpret_cast<const float*>(cache.data()), channels, rect, to);
  auto* fixed = reinterpret_cast<std::int32_t*>(to);
  if (const PixelFlip* flip = proposal().flip; flip && flip->retypes()) {
    const std::int32_t* in = table.type_at(flip->new_type, flip->at.pixel);
    const std::int32_t* out = table.type_at(flip->old_type, flip->at.pixel);
    for_reached(pass.frame, *flip, table.taps, rect, [&](int tap, int y, int x) {
      std::int32_t* sum = fixed + pass.at(channels, y, x);
      for (int c = 0; c < channels; ++c) sum[c] += in[tap * channels + c] - out[tap * channels + c];
    });
  }
  const std::ptrdiff_t at = pass.at(channels, rect);
  work_.kernels.from_fixed({rect.y.size(), rect.x.size() * channels}, fixed + at, pass.pitch(channels), table.step,
                           to + at, pass.pitch(channels));
}

// The sums of a cell: a flip moves its pixel's contribution between two cells.
View PixelLayer::view_fixed(const Pass& pass, const Candidate& cell, Field field, const PixelTable& table,
                            const Rect& rect) {
  const View held = view(pass, cell, field, {}, rect);
  if (!proposal().moves(cell)) return held;
  const int channels = table.channels, pitch = pass.pitch(channels);
  float* scratch = proposal().scratch.view.data();
  float* to = scratch + pass.at(channels, rect);
  if (held.data != to)
    for (int row = 0; row < rect.y.size(); ++row)
      std::memcpy(to + std::ptrdiff_t(row) * pitch, held.data + std::ptrdiff_t(row) * held.pitch,
                  sizeof(float) * channels * rect.x.size());
  const PixelFlip& flip = *proposal().flip;
  const std::int32_t* own = table.own_at(flip.at.pixel);
  auto* fixed = reinterpret_cast<std::int32_t*>(scratch);
  const int sign = cell.id == flip.new_id ? 1 : -1;
  for_reached(pass.frame, flip, table.taps, rect, [&](int tap, int y, int x) {
    add_entries(fixed + pass.at(channels, y, x), own + tap * channels, channels, sign);
  });
  return {to, pitch};
}

void PixelLayer::background_first(Pass& pass, const Rect& known) {
  load_fixed(pass, x_table_, x_, known, pass.x);
  load_fixed(pass, y_table_, y_, pass.frame.psi(), pass.y);
}

void PixelLayer::background_phi(Pass& pass) {
  if (proposal().retypes()) return CellwiseLayer::background_phi(pass);
  pass.p = proposal().new_image(pass, width());
  pass.phi = proposal().new_image(pass, width());
  load(pass, p_.data(), width(), pass.frame.phi(), pass.p);
  load(pass, phi_.data(), width(), pass.frame.phi(), pass.phi);
}

bool PixelLayer::cell_first(Pass&, Candidate& cell) { return proposal().retypes() || proposal().moves(cell); }

void PixelLayer::activate(const Pass& pass, const Candidate& cell, Field field, const PixelTable& table,
                          const float* base, const float* activation, const Rect& rect, float* to, int to_pitch) {
  const View sums = view_fixed(pass, cell, field, table, rect);
  const std::ptrdiff_t at = pass.at(width(), rect);
  work_.kernels.silu_change_fixed({rect.y.size(), rect.x.size() * width()}, base + at, activation + at,
                                  pass.pitch(width()), reinterpret_cast<const std::int32_t*>(sums.data), sums.pitch,
                                  table.step, to, to_pitch);
}

void PixelLayer::activate_x(const Pass& pass, const Candidate& cell, const Rect& rect, float* to, int to_pitch) {
  activate(pass, cell, kX, x_table_, pass.x, pass.q, rect, to, to_pitch);
}

void PixelLayer::activate_y(const Pass& pass, const Candidate& cell, const Rect& rect, float* to, int to_pitch) {
  activate(pass, cell, kY, y_table_, pass.t, pass.g, rect, to, to_pitch);
}

void PixelLayer::background_output(Pass& pass) {
  load_fixed(pass, skip_table_, skip_, pass.frame.output(), pass.out);
  convolve(pass, second_psi_, pass.g, pass.frame.output(), pass.out);
}

void PixelLayer::add_cell_skip(const Pass& pass, const Candidate& cell) {
  const Rect &rect = cell.output_rect, own = cell.at.own & rect;
  const View skip = view_fixed(pass, cell, kSkip, cell_skip_table_, own);
  float* out =
      cell.output.data + std::ptrdiff_t(own.y.lo - rect.y.lo) * cell.output.pitch + (own.x.lo - rect.x.lo) * outputs();
  work_.kernels.from_fixed({own.y.size(), own.x.size() * outputs()}, reinterpret_cast<const std::int32_t*>(skip.data),
                           skip.pitch, cell_skip_table_.step, out, cell.output.pitch);
}

}  // namespace ncpm::neural
