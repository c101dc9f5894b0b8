// The extensive energy of local_nh: a sum over sites and cells of small numbers, kept as integers.
//
// A proposal recomputes the energies of all that reaches a site of its window, the background and every cell near it.
// So what it replaces is one number per site, the sum over them all, and no cell keeps energies of its own.
#include <cstring>
#include <limits>

#include "heads.hpp"

namespace ncpm::neural {
namespace {

std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum;
  return a == kOutOfRange || b == kOutOfRange || __builtin_add_overflow(a, b, &sum) ? kOutOfRange : sum;
}

std::int64_t minus(std::int64_t a, std::int64_t b) { return b == kOutOfRange ? kOutOfRange : plus(a, -b); }

// One value as the kernels' fixed_sum counts it. Unsigned: it wraps where the total is out of range anyway.
std::uint64_t fixed(float value) {
  const double shifted = double(value) + kFixedShift;
  std::uint64_t bits, zero;
  std::memcpy(&bits, &shifted, sizeof bits);
  std::memcpy(&zero, &kFixedShift, sizeof zero);
  return bits - zero;
}

double value_of(std::int64_t sum) {
  return sum == kOutOfRange ? std::numeric_limits<double>::quiet_NaN() : double(sum) * kFixedUnit;
}

SiteHead site_head(const Model& model, const std::string& name) {
  const Linear hidden = read_linear(model, name + ".hidden"), out = read_linear(model, name + ".out");
  return {pack(hidden), padded_bias(hidden.bias), padded_bias(out.weight), float(out.bias[0])};
}

}  // namespace

LocalHead::LocalHead(const Model& model, const Plan& plan, Workspace& workspace)
    : work_(workspace),
      grid_(plan.output_grid),
      cell_head_(site_head(model, "neural.cell_head")),
      background_head_(site_head(model, "neural.background_head")),
      fused_(head_fused(*model.neural)),
      site_energy_(grid_.sites()) {}

void LocalHead::reset() {
  site_energy_.clear();
  total_ = pending_ = 0;
}

double LocalHead::energy() const { return value_of(total_) + double(site_energy_.size()) * background_head_.out_bias; }

// visit(row and column in the box, the energies kept of its sites from there on, their number)
template <class Visit>
void LocalHead::for_energies(const Box& box, Visit visit) {
  for_shared_runs(box, grid_.all(), grid_, [&](int row, int column, int y, int x, int length) {
    visit(row, column, site_energy_.data() + std::size_t(y) * grid_.x.size + x, length);
  });
}

void LocalHead::hidden_layer(const Pass& pass, const SiteHead& head, float* to) const {
  const Rect rect = pass.frame.output();
  const int width = padded(pass.shape->width), hidden = head.hidden.out_stride;
  work_.kernels.mix_channels({pass.out + pass.at(width, rect), pass.pitch(width), pass.shape->width, width, to,
                              rect.x.size() * hidden, hidden, rect.y.size(), rect.x.size(), 0, 0, 0, 0,
                              head.hidden.weights.data(), true, head.hidden_bias.data()});
}

Patch LocalHead::room(const Pass& pass, const Rect& rect, int channels) {
  return {pass.frame.sites(rect), work_.proposal.scratch.output.data(), channels, rect.x.size() * channels};
}

void LocalHead::take_background(Pass& pass) {
  const Rect rect = pass.frame.output();
  const int rows = rect.y.size(), columns = rect.x.size();
  const int hidden = cell_head_.hidden.out_stride, pitch = columns * hidden;
  Arena& arena = work_.proposal.arena;
  // The background by its own head.
  float* base = arena.take<float>(std::size_t(rows) * pitch);
  float* nothing = arena.take<float>(std::size_t(rows) * pitch);
  hidden_layer(pass, background_head_, base);
  std::memset(nothing, 0, sizeof(float) * rows * pitch);
  const Patch energies = work_.proposal.new_patch(pass.frame.sites(rect), 1);
  pending_energies_.assign(1, energies);
  pending_ = work_.kernels.site_energies(rows, columns, hidden, base, nothing, pitch, nothing, pitch,
                                         background_head_.out.data(), energies.data, columns);
  std::uint64_t before = 0;
  for_energies(energies.at, [&](int, int, std::int64_t* kept, int length) {
    for (int i = 0; i < length; ++i) before += std::uint64_t(kept[i]);
  });
  pending_ = minus(pending_, std::int64_t(before));

  // What the cells are relative to.
  base_ = base;
  activation_ = nothing;
  hidden_layer(pass, cell_head_, base_);
  work_.kernels.silu({rows, pitch}, base_, pitch, activation_, pitch);
}

void LocalHead::take_cell(const Pass& pass, const Candidate& cell) {
  if (!cell.output.data) return;
  const Rect rect = pass.frame.output(), part = cell.output_rect;
  const int height = part.y.size(), length = part.x.size();
  const int hidden = cell_head_.hidden.out_stride, pitch = rect.x.size() * hidden;
  Patch change = cell.output;
  if (!fused_) {
    change = work_.proposal.new_patch(cell.output.at, hidden);
    work_.kernels.mix_channels({cell.output.data, cell.output.pitch, pass.shape->width, padded(pass.shape->width),
                                change.data, change.pitch, hidden, height, length, 0, 0, 0, 0,
                                cell_head_.hidden.weights.data(), true});
  }
  const std::ptrdiff_t at = std::ptrdiff_t(part.y.lo - rect.y.lo) * pitch + (part.x.lo - rect.x.lo) * hidden;
  const Patch energies = work_.proposal.new_patch(cell.output.at, 1);
  pending_ = plus(pending_,
                  work_.kernels.site_energies(height, length, hidden, base_ + at, activation_ + at, pitch, change.data,
                                              change.pitch, cell_head_.out.data(), energies.data, length));
  pending_energies_.push_back(energies);
}

double LocalHead::change() { return value_of(pending_); }

void LocalHead::accept() {
  total_ = plus(total_, pending_);
  for_energies(pending_energies_[0].at,
               [&](int, int, std::int64_t* kept, int length) { std::memset(kept, 0, sizeof(std::int64_t) * length); });
  for (const Patch& patch : pending_energies_)
    for_energies(patch.at, [&](int row, int column, std::int64_t* kept, int length) {
      const float* fresh = patch.data + std::ptrdiff_t(row) * patch.pitch + column;
      for (int i = 0; i < length; ++i) kept[i] = std::int64_t(std::uint64_t(kept[i]) + fixed(fresh[i]));
    });
}

}  // namespace ncpm::neural
