#include "incremental.hpp"

#include <algorithm>

namespace ncpm::neural {

Incremental::Incremental(const Model& model, const Plan& plan, const Kernels& kernels)
    : plan_(plan), work_(kernels), network_(model, plan, work_), bins_(plan.blocks) {
  work_.cells = Cells(network_.tiles());
}

double Incremental::delta(const PixelFlip& flip) { return propose({{flip.at.y, 1}, {flip.at.x, 1}}, &flip); }

double Incremental::propose(const Box& blocks, const PixelFlip* flip) {
  Proposal& p = work_.proposal;
  p.flip = flip;
  p.arena.reset();
  p.writes.clear();
  frame_layers(blocks);
  find_candidates(blocks);
  for (Pass& pass : p.passes) network_.layers()[pass.shape->index]->propose(pass);
  return p.passes.size() == network_.layers().size() ? network_.head().change() : 0.0;
}

// The window of each layer, up to the last one or to changes that fill no pooling block.
void Incremental::frame_layers(const Box& blocks) {
  Proposal& p = work_.proposal;
  p.passes.clear();
  std::size_t scratch = 0;
  Box changed = blocks;
  for (const std::unique_ptr<Layer>& layer : network_.layers()) {
    if (changed.empty()) break;
    Pass pass{};
    pass.shape = &layer->shape();
    pass.frame = layer->frame(changed);
    scratch = std::max(scratch, std::size_t(pass.frame.area()) * layer->most_channels());
    changed = pass.frame.out();
    p.passes.push_back(pass);
  }
  p.scratch.reserve(scratch);
}

// Blocks from where a cell's differences meet what is recomputed.
Box Incremental::reach() const {
  const std::vector<Pass>& passes = work_.proposal.passes;
  Box reach;
  for (auto pass = passes.rbegin(); pass != passes.rend(); ++pass) {
    const Grid& grid = pass->shape->grid;
    const int pool = pass->shape->pool;
    if (!reach.empty() && pool > 1) reach = {unpooled(reach.y, pool, grid.y), unpooled(reach.x, pool, grid.x)};
    reach = united(reach, pass->frame.sites(pass->frame.psi()), grid);
    if (!pass->frame.output().empty()) reach = united(reach, pass->frame.sites(pass->frame.output()), grid);
    reach = dilated(reach, 2, grid);
  }
  return reach;
}

constexpr std::size_t kCached = std::size_t(1) << 21;  // bytes of tiles that a core's own cache may hold

void Incremental::find_candidates(const Box& blocks) {
  Proposal& p = work_.proposal;
  const Pass& first = p.passes.front();
  const PixelFlip* flip = p.flip;
  const Box within = reach();
  const bool far = flip && work_.cells.bytes() > kCached;  // nothing is expected in the CPU's caches
  if (far) {
    bins_.read_ahead(within);
    network_.pixels().read_background(first);
  }
  bins_.near(within, near_);
  if (far)
    for (const std::int32_t id : near_) work_.cells.read_ahead(id);

  p.candidates.clear();
  bool arrived = !flip || flip->new_id < plan_.first_id();  // the new cell may be far from here, or have no pixels yet
  for (const std::int32_t id : near_) {
    if (!arrived && id >= flip->new_id) {
      if (id != flip->new_id) add_candidate(flip->new_id, blocks, within);
      arrived = true;
    }
    add_candidate(id, blocks, within);
  }
  if (!arrived) add_candidate(flip->new_id, blocks, within);
  for (Candidate& cell : p.candidates) cell.at = first.frame.footprint(cell.support);
  if (far) network_.pixels().read_cells(first);
}

void Incremental::add_candidate(std::int32_t id, const Box& blocks, const Box& reach) {
  const PixelFlip* flip = work_.proposal.flip;
  Box support = work_.cells.support(id);
  if (flip && id == flip->new_id) support = united(support, blocks, plan_.blocks);
  if (!overlap(support, reach, plan_.blocks)) return;
  Candidate& cell = work_.proposal.candidates.emplace_back();
  cell.id = id;
  cell.support = cell.extent = support;
  if (!flip) cell.extent = work_.cells.occupied(id);
  else if (id == flip->old_id) cell.extent = work_.cells.occupied_without(id, flip->at.y, flip->at.x);
}

void Incremental::accept() {
  const Proposal& p = work_.proposal;
  for (const Pass& pass : p.passes) network_.layers()[pass.shape->index]->accept(pass);
  for (const Write& write : p.writes) {
    const Tile& tile = work_.cells.tile(write.id, write.layer);
    copy_shared(tile.box(write.field), tile.field[write.field], tile.pitch(write.field), write.patch.at,
                write.patch.data, write.patch.pitch, write.patch.channels, work_.cells.grid(write.layer));
  }
  if (p.passes.size() == network_.layers().size()) network_.head().accept();
}

void Incremental::commit(const PixelFlip& flip) {
  const auto& [y, x, pixel] = flip.at;
  network_.pixels().put_pixel(y, x, pixel, flip.old_id, flip.old_type, -1);
  network_.pixels().put_pixel(y, x, pixel, flip.new_id, flip.new_type, 1);
  accept();
  for (const std::int32_t id : {flip.old_id, flip.new_id}) {
    if (id < plan_.first_id()) continue;
    const Box before = work_.cells.support(id);
    work_.cells.fit_support(id);
    bins_.move(id, before, work_.cells.support(id));
  }
}

double Incremental::count_ids(const std::vector<std::int32_t>& types) const {
  if (plan_.local) return 0;
  return double(std::count_if(types.begin(), types.end(), [](std::int32_t type) { return type >= 0; }));
}

// visit(block row, block column, pixel of the block, id) for every site that the network sees.
template <class Visit>
void Incremental::for_pixels(Visit visit) const {
  const int stride = plan_.stride;
  for (int y = 0; y < plan_.blocks.y.size * stride; ++y)
    for (int x = 0; x < plan_.blocks.x.size * stride; ++x)
      visit(y / stride, x / stride, y % stride * stride + x % stride, ids_[std::size_t(y) * plan_.lattice_width + x]);
}

void Incremental::rebuild(const Tissue& tissue) {
  ids_ = tissue.ids;
  types_ = tissue.types;
  work_.counted = count_ids(types_);
  work_.cells.resize(tissue.cells());
  work_.cells.clear();
  bins_.clear();
  network_.head().reset();
  network_.pixels().reset();
  place_cells();
  for_pixels(
      [&](int y, int x, int pixel, std::int32_t id) { network_.pixels().put_pixel(y, x, pixel, id, types_[id], 1); });
  for (int id = plan_.first_id(); id < tissue.cells(); ++id) {
    work_.cells.fit_support(id);
    bins_.add(id, work_.cells.support(id));
  }
  propose(plan_.blocks.all(), nullptr);
  accept();
  work_.proposal.arena.release();
}

constexpr int kMemoryBand = 8;  // rows of blocks whose cells follow each other in memory

// Makes room for every cell: neighbours in space become neighbours in memory.
void Incremental::place_cells() {
  std::vector<Box> supports(types_.size());
  for_pixels([&](int y, int x, int, std::int32_t id) {
    supports[id] = united(supports[id], Box{{y, 1}, {x, 1}}, plan_.blocks);
  });
  std::vector<std::int32_t> order;
  for (int id = plan_.first_id(); id < int(supports.size()); ++id)
    if (!supports[id].empty()) order.push_back(id);
  const auto place = [&](std::int32_t id) {
    return std::pair(supports[id].y.start / kMemoryBand, supports[id].x.start);
  };
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return place(a) < place(b); });
  for (const std::int32_t id : order) work_.cells.make_room(id, supports[id]);
}

// Many pixels or types changed: the fixed-point sums are corrected pixel by pixel, then everything the
// changed blocks reach is recomputed.
void Incremental::changed(const Tissue& after, const std::vector<int>& sites) {
  Box blocks;
  for (const int site : sites)
    if (const std::optional<Pixel> at = plan_.pixel_at(site))
      blocks = united(blocks, Box{{at->y, 1}, {at->x, 1}}, plan_.blocks);
  // Where the sums run over other ids, everything is new.
  if (count_ids(after.types) != work_.counted || 2 * blocks.y.length * blocks.x.length > plan_.blocks.sites())
    return rebuild(after);
  work_.cells.resize(after.cells());
  const std::vector<std::int32_t> touched = put_pixels(after, sites);
  if (blocks.empty()) return;
  // Until the values are recomputed, a cell reaches where it was and where it is.
  update_supports(touched, [&](std::int32_t id) { work_.cells.widen_support(id); });
  propose(blocks, nullptr);
  accept();
  update_supports(touched, [&](std::int32_t id) { work_.cells.fit_support(id); });
}

// Takes over the ids and types. Returns the cells that gained or lost pixels or changed type.
std::vector<std::int32_t> Incremental::put_pixels(const Tissue& after, const std::vector<int>& sites) {
  std::vector<std::int32_t> touched;
  for (const int site : sites) {
    const std::int32_t old_id = ids_[site], new_id = after.ids[site];
    ids_[site] = new_id;
    const std::optional<Pixel> at = plan_.pixel_at(site);
    if (!at) continue;
    network_.pixels().put_pixel(at->y, at->x, at->pixel, old_id, types_[old_id], -1);
    network_.pixels().put_pixel(at->y, at->x, at->pixel, new_id, after.types[new_id], 1);
    for (const std::int32_t id : {old_id, new_id})
      if (id >= plan_.first_id()) touched.push_back(id);
  }
  types_ = after.types;
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  return touched;
}

template <class Update>
void Incremental::update_supports(const std::vector<std::int32_t>& cells, Update update) {
  for (const std::int32_t id : cells) {
    const Box before = work_.cells.support(id);
    update(id);
    bins_.move(id, before, work_.cells.support(id));
  }
}

}  // namespace ncpm::neural
