#include "incremental.hpp"

#include <cassert>

namespace ncpm::neural {
namespace {

std::vector<Grid> grids(const Plan& plan) {
  std::vector<Grid> out;
  for (const LayerPlan& layer : plan.layers) out.push_back(layer.grid);
  if (!plan.local) out.push_back(plan.output_grid);
  return out;
}

std::vector<int> pools(const Plan& plan) {
  std::vector<int> out;
  for (const LayerPlan& layer : plan.layers) out.push_back(layer.pool);
  return out;
}

std::vector<std::array<int, kFields>> field_channels(const Plan& plan, const Head& head) {
  std::vector<std::array<int, kFields>> out;
  for (const LayerPlan& layer : plan.layers) {
    std::array<int, kFields> channels{};
    const bool first = out.empty();
    // What is recomputed as a whole every time needs no cache.
    channels[kInput] = first || layer.gets_all ? 0 : padded(layer.inputs);
    channels[kX] = channels[kY] = channels[kPhi] = layer.compact ? 0 : padded(layer.width);
    channels[kSkip] = first ? layer.cell_outputs : 0;
    channels[kG] = layer.last && !layer.compact && !head.wants_output() ? padded(layer.width) : 0;
    out.push_back(channels);
  }
  if (!plan.local) {
    out.emplace_back();
    const LayerPlan& last = plan.layers.back();
    out.back()[kInput] = head.wants_output() && !last.compact ? padded(last.width) : 0;
  }
  return out;
}

void add_entries(std::int32_t* sum, const std::int32_t* entries, int channels, int by) {
  for (int c = 0; c < channels; ++c) sum[c] += by * entries[c];
}

}  // namespace

Incremental::Incremental(const Plan& plan, const Kernels& kernels, std::unique_ptr<Head> head)
    : plan_(plan),
      kernels_(kernels),
      head_(std::move(head)),
      cells_(grids(plan), pools(plan), field_channels(plan, *head_), plan.first_whole),
      bins_(plan.blocks),
      first_id_(plan.local ? 1 : 0) {
  for (const LayerPlan& layer : plan.layers) {
    Background cache;
    const std::size_t sites = layer.grid.sites(), width = padded(layer.width);
    if (background_.empty()) {
      cache.x_fixed = Array<std::int32_t>(sites * plan.x.channels);
      cache.y_fixed = Array<std::int32_t>(sites * plan.y.channels);
      cache.skip_fixed = Array<std::int32_t>(sites * plan.skip.channels);
    } else {
      cache.h = Array<float>(sites * padded(layer.inputs));
    }
    if (!layer.compact)
      for (Array<float>* array : {&cache.p, &cache.phi, &cache.sum, &cache.t}) *array = Array<float>(sites * width);
    if (!layer.compact && !background_.empty())
      for (Array<float>* array : {&cache.x, &cache.y}) *array = Array<float>(sites * width);
    background_.push_back(std::move(cache));
  }
  make_points();
}

// Adds (by = 1) or takes away (by = -1) a pixel from the fixed-point sums of the background and of its cell.
void Incremental::put_pixel(int y, int x, int pixel, std::int32_t id, std::int32_t type, int by) {
  const Grid& grid = plan_.blocks;
  const int pixels = plan_.stride * plan_.stride;
  const bool cell = id >= first_id_;
  Background& cache = background_[0];
  const auto visit = [&](const PixelTable& table, Array<std::int32_t>* background, const PixelTable* own, Field field) {
    const int reach = table.taps == 9 ? 1 : 0;
    const std::int32_t* of_type = table.type_at(type, pixel, pixels);
    for (int dy = -reach, tap = 0; dy <= reach; ++dy)
      for (int dx = -reach; dx <= reach; ++dx, ++tap) {
        int v = y + dy, u = x + dx;
        if (grid.y.circular) {
          v = wrapped(v, grid.y.size);
          u = wrapped(u, grid.x.size);
        } else if (v < 0 || v >= grid.y.size || u < 0 || u >= grid.x.size) {
          continue;
        }
        if (background)
          add_entries(background->data() + (std::size_t(v) * grid.x.size + u) * table.channels,
                      of_type + tap * table.channels, table.channels, by);
        if (cell && own) {
          const Tile& tile = cells_.tile(id, 0);
          const Box& box = tile.box(field);
          const int ty = grid.y.circular ? wrapped(v - box.y.start, grid.y.size) : v - box.y.start;
          const int tx = grid.x.circular ? wrapped(u - box.x.start, grid.x.size) : u - box.x.start;
          add_entries(tile.fixed(field) + std::size_t(ty) * tile.pitch(field) + std::size_t(tx) * own->channels,
                      own->own_at(pixel) + tap * own->channels, own->channels, by);
        }
      }
  };
  if (cell) {
    cells_.make_room(id, {{y, 1}, {x, 1}});
    cells_.count(id, y, x, by);
  }
  visit(plan_.x, &cache.x_fixed, &plan_.x, kX);
  visit(plan_.y, &cache.y_fixed, &plan_.y, kY);
  visit(plan_.skip, &cache.skip_fixed, nullptr, kSkip);
  visit(plan_.cell_skip, nullptr, &plan_.cell_skip, kSkip);
}

// far: nothing is expected in the CPU's caches.
void Incremental::find_candidates(bool far) {
  Proposal& p = proposal_;
  // From the last layer down: a cell matters if its differences meet what is recomputed.
  Box reach;
  for (int layer = int(p.passes.size()) - 1; layer >= 0; --layer) {
    const Pass& pass = p.passes[layer];
    const Grid& grid = pass.plan->grid;
    if (!reach.empty() && pass.plan->pool > 1)
      reach = {unpooled(reach.y, pass.plan->pool, grid.y), unpooled(reach.x, pass.plan->pool, grid.x)};
    reach = united(reach, pass.frame.sites(pass.frame.psi()), grid);
    if (!pass.frame.output().empty()) reach = united(reach, pass.frame.sites(pass.frame.output()), grid);
    reach = dilated(reach, 2, grid);
  }
  if (far) {
    bins_.read_ahead(reach);
    read_background();
  }
  bins_.near(reach, near_);
  if (far)
    for (const std::int32_t id : near_) cells_.read_ahead(id);
  p.candidates.clear();
  const Flip* flip = p.flip;
  bool arrived = !flip || flip->new_id < first_id_;
  const auto add = [&](std::int32_t id) {
    Box support = cells_.support(id);
    if (flip && id == flip->new_id) support = united(support, p.blocks, plan_.blocks);
    if (!overlap(support, reach, plan_.blocks)) return;
    p.candidates.emplace_back();
    p.candidates.back().id = id;
    p.candidates.back().support = p.candidates.back().extent = support;
    if (!flip) p.candidates.back().extent = cells_.occupied(id);
    else if (id == flip->old_id) p.candidates.back().extent = cells_.occupied_without(id, flip->y, flip->x);
  };
  for (const std::int32_t id : near_) {
    if (!arrived && id >= flip->new_id) {
      if (id != flip->new_id) add(flip->new_id);
      arrived = true;
    }
    add(id);
  }
  if (!arrived) add(flip->new_id);
}

constexpr std::size_t kCached = std::size_t(1) << 21;  // bytes of tiles that a core's own cache may hold

void Incremental::propose(const Box& blocks, bool background, const Flip* flip) {
  Proposal& p = proposal_;
  p.blocks = blocks;
  p.background = background;
  p.flip = flip;
  p.arena.reset();
  p.writes.clear();
  p.passes.clear();
  Box in = blocks;
  std::size_t scratch = 0;
  for (std::size_t layer = 0; layer < plan_.layers.size() && !in.empty(); ++layer) {
    Pass pass{};
    pass.layer = int(layer);
    pass.plan = &plan_.layers[layer];
    if (pass.plan->compact) in = pass.plan->grid.all();
    pass.frame = Frame(in, pass.plan->grid, pass.plan->pool, pass.plan->boxed);
    scratch = std::max(scratch, std::size_t(pass.frame.area()) *
                                    padded(std::max({pass.plan->inputs, pass.plan->width, pass.plan->cell_outputs})));
    in = pass.frame.out();
    p.passes.push_back(pass);
  }
  for (Array<float>& array : p.scratch)
    if (array.size() < scratch) array = Array<float>(scratch);
  const bool far = flip && cells_.bytes() > kCached;
  find_candidates(far);
  for (Candidate& cell : p.candidates) cell.at = p.passes[0].frame.footprint(cell.support);
  if (far) read_cells();

  for (Pass& pass : p.passes) {
    const LayerPlan& plan = *pass.plan;
    if (pass.layer > 0) {
      const Patch& fresh = p.passes[pass.layer - 1].output;
      const int inputs = padded(plan.inputs);
      const Rect exists = pass.frame.exists();
      pass.h = p.arena.take<float>(std::size_t(pass.frame.area()) * inputs);
      load(pass, background_[pass.layer].h.data(), inputs, exists, pass.h);
      copy_shared(pass.frame.sites(exists), pass.h + pass.at(inputs, exists.y.lo, exists.x.lo), pass.pitch(inputs),
                  fresh.at, fresh.data, fresh.pitch, inputs, plan.grid);
    }
    if (pass.layer > 0)
      for (Candidate& cell : p.candidates) cell.at = pass.frame.footprint(cell.support);
    if (plan.compact) {
      compact_first_and_phi(pass);
    } else {
      background_first(pass);
      background_phi(pass);
      start_sum(pass);
      for (Candidate& cell : p.candidates) {
        if (cell.support.empty()) continue;
        if (pass.layer > 0) cell_first(pass, cell);
        if (pass.layer > 0 || p.background || moved(cell)) cell_phi(pass, cell);
      }
      sum_cells(pass);
    }
    background_psi(pass);
    // A head takes every cell's output as soon as it is there where it can: while it is in the cache.
    const bool at_once = plan.last && (plan_.local || (plan.compact && !head_->wants_output()));
    if (at_once) head_->see_background(p, pass);
    if (plan.compact) compact_psi(pass);
    else if (plan.boxed) boxed_psi(pass);
    else
      for (Candidate& cell : p.candidates) {
        if (cell.support.empty()) continue;
        if (plan.last && !head_->wants_output()) cell_activation(pass, cell);
        else cell_psi(pass, cell);
        if (at_once) head_->see_cell(p, pass, cells_, cell);
      }
    if (!plan.last || head_->wants_output()) hand_on(pass);
  }
  p.complete = p.passes.size() == plan_.layers.size();
  const LayerPlan& last = plan_.layers.back();
  if (p.complete && !plan_.local && !(last.compact && !head_->wants_output())) {
    head_->see_background(p, p.passes.back());
    if (last.compact) show_outputs();
    else
      for (const Candidate& cell : p.candidates) head_->see_cell(p, p.passes.back(), cells_, cell);
  }
  delta_ = p.complete ? head_->change(counted_) : 0.0;
}

void Incremental::accept() {
  Proposal& p = proposal_;
  for (const Pass& pass : p.passes) accept_background(pass);
  for (const Write& write : p.writes) {
    const Tile& tile = cells_.tile(write.id, write.layer);
    copy_shared(tile.box(write.field), tile.field[write.field], tile.pitch(write.field), write.patch.at,
                write.patch.data, write.patch.pitch, write.patch.channels, cells_.grid(write.layer));
  }
  if (p.complete) head_->accept(p);
}

constexpr int kMemoryBand = 8;  // rows of blocks whose cells follow each other in memory

void Incremental::rebuild(const Tissue& tissue) {
  height_ = tissue.lattice.height;
  width_ = tissue.lattice.width;
  ids_ = tissue.ids;
  types_ = tissue.types;
  counted_ = 0;
  for (const std::int32_t type : types_) counted_ += type >= 0;
  cells_.resize(tissue.cells());
  cells_.clear();
  bins_.clear();
  head_->reset();

  const int stride = plan_.stride;
  const Grid& grid = plan_.blocks;
  std::vector<Box> supports(tissue.cells());
  const auto for_pixels = [&](auto visit) {
    for (int y = 0; y < grid.y.size * stride; ++y)
      for (int x = 0; x < grid.x.size * stride; ++x)
        visit(y / stride, x / stride, y % stride * stride + x % stride, ids_[std::size_t(y) * width_ + x]);
  };
  for_pixels(
      [&](int y, int x, int, std::int32_t id) { supports[id] = united(supports[id], Box{{y, 1}, {x, 1}}, grid); });
  // Neighbours in space become neighbours in memory.
  std::vector<std::int32_t> order;
  for (int id = first_id_; id < tissue.cells(); ++id)
    if (!supports[id].empty()) order.push_back(id);
  const auto place = [&](std::int32_t id) {
    return std::pair(supports[id].y.start / kMemoryBand, supports[id].x.start);
  };
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return place(a) < place(b); });
  for (const std::int32_t id : order) cells_.make_room(id, supports[id]);

  Background& first = background_[0];
  for (int y = 0; y < grid.y.size; ++y)
    for (int x = 0; x < grid.x.size; ++x) {
      const std::size_t site = std::size_t(y) * grid.x.size + x;
      const int border = border_class(grid, y, x);
      const auto start = [&](const PixelTable& table, Array<std::int32_t>& sums) {
        std::memcpy(sums.data() + site * table.channels, table.start.data() + border * table.channels,
                    sizeof(std::int32_t) * table.channels);
      };
      start(plan_.x, first.x_fixed);
      start(plan_.y, first.y_fixed);
      start(plan_.skip, first.skip_fixed);
    }
  for_pixels([&](int y, int x, int pixel, std::int32_t id) { put_pixel(y, x, pixel, id, types_[id], 1); });
  for (int id = first_id_; id < tissue.cells(); ++id) {
    cells_.fit_support(id);
    bins_.add(id, cells_.support(id));
  }
  propose(grid.all(), true, nullptr);
  accept();
  proposal_.arena.release();
}

double Incremental::delta(const Flip& flip) {
  propose({{flip.y, 1}, {flip.x, 1}}, flip.retypes(), &flip);
  return delta_;
}

void Incremental::commit(const Flip& flip) {
  const Box old_support = flip.old_id >= first_id_ ? cells_.support(flip.old_id) : Box{};
  const Box new_support = flip.new_id >= first_id_ ? cells_.support(flip.new_id) : Box{};
  put_pixel(flip.y, flip.x, flip.pixel, flip.old_id, flip.old_type, -1);
  put_pixel(flip.y, flip.x, flip.pixel, flip.new_id, flip.new_type, 1);
  accept();
  for (const auto& [id, before] : {std::pair(flip.old_id, old_support), std::pair(flip.new_id, new_support)}) {
    if (id < first_id_) continue;
    cells_.fit_support(id);
    bins_.move(id, before, cells_.support(id));
  }
}

// Many pixels or types changed: the fixed-point sums are corrected pixel by pixel, then everything the
// changed blocks reach is recomputed.
void Incremental::changed(const Tissue& after, const std::vector<int>& sites) {
  double counted = 0;
  for (const std::int32_t type : after.types) counted += type >= 0;
  const bool recount = !plan_.local && counted != counted_;  // nh: the sums run over other ids everywhere
  cells_.resize(after.cells());
  Box blocks;
  std::vector<std::int32_t> touched;
  const int stride = plan_.stride;
  if (!recount) {
    types_.resize(after.types.size(), -1);
    for (const int site : sites) {
      const int y = site / width_ / stride, x = site % width_ / stride;
      if (y < plan_.blocks.y.size && x < plan_.blocks.x.size)
        blocks = united(blocks, Box{{y, 1}, {x, 1}}, plan_.blocks);
    }
  }
  if (recount || 2 * blocks.y.length * blocks.x.length > plan_.blocks.sites()) return rebuild(after);
  for (const int site : sites) {
    const int row = site / width_, column = site % width_, y = row / stride, x = column / stride;
    const std::int32_t old_id = ids_[site], new_id = after.ids[site];
    ids_[site] = new_id;
    if (y >= plan_.blocks.y.size || x >= plan_.blocks.x.size) continue;
    const int pixel = row % stride * stride + column % stride;
    put_pixel(y, x, pixel, old_id, types_[old_id], -1);
    put_pixel(y, x, pixel, new_id, after.types[new_id], 1);
    touched.push_back(old_id);
    touched.push_back(new_id);
  }
  types_ = after.types;
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  if (blocks.empty()) return;
  // Until the values are recomputed, a cell reaches where it was and where it is.
  for (const std::int32_t id : touched)
    if (id >= first_id_) {
      const Box before = cells_.support(id);
      cells_.widen_support(id);
      bins_.move(id, before, cells_.support(id));
    }
  propose(blocks, true, nullptr);
  accept();
  for (const std::int32_t id : touched)
    if (id >= first_id_) {
      const Box before = cells_.support(id);
      cells_.fit_support(id);
      bins_.move(id, before, cells_.support(id));
    }
}

}  // namespace ncpm::neural
