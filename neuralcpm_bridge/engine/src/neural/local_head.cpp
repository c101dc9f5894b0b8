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

// One value as the kernels' fixed_sum counts it.
std::int64_t fixed(float value) {
  const double shifted = double(value) + kFixedShift;
  std::int64_t bits, zero;
  std::memcpy(&bits, &shifted, sizeof bits);
  std::memcpy(&zero, &kFixedShift, sizeof zero);
  return bits - zero;
}

double value_of(std::int64_t sum) {
  return sum == kOutOfRange ? std::numeric_limits<double>::quiet_NaN() : double(sum) * kFixedUnit;
}

}  // namespace

LocalHead::LocalHead(const Plan& plan, const Kernels& kernels)
    : plan_(plan), kernels_(kernels), site_energy_(plan.layers.back().grid.sites()) {}

void LocalHead::reset() {
  site_energy_.clear();
  total_ = pending_ = 0;
}

double LocalHead::energy() const {
  return value_of(total_) + double(site_energy_.size()) * plan_.background_head.out_bias;
}

// visit(row and column in the box, the energies kept of its sites from there on, their number)
template <class Visit>
void LocalHead::for_energies(const Box& box, const Grid& grid, Visit visit) {
  for_shared_runs(box, grid.all(), grid, [&](int row, int column, int y, int x, int length) {
    visit(row, column, site_energy_.data() + std::size_t(y) * grid.x.size + x, length);
  });
}

void LocalHead::see_background(Proposal& proposal, const Pass& pass) {
  const Rect rect = pass.frame.output();
  const int rows = rect.y.size(), columns = rect.x.size(), width = padded(pass.plan->width);
  const int hidden = plan_.cell_head.hidden.out_stride, pitch = columns * hidden;
  const auto image = [&] { return proposal.arena.take<float>(std::size_t(rows) * pitch); };
  const auto hidden_layer = [&](const SiteHead& head, float* to) {
    kernels_.mix_channels({pass.out + pass.at(width, rect.y.lo, rect.x.lo), pass.pitch(width), pass.plan->width, width,
                           to, pitch, hidden, rows, columns, 0, 0, 0, 0, head.hidden.weights.data(), true,
                           head.hidden_bias.data()});
  };
  // The background by its own head.
  float *base = image(), *nothing = image();
  hidden_layer(plan_.background_head, base);
  std::memset(nothing, 0, sizeof(float) * rows * pitch);
  const Box sites = pass.frame.sites(rect);
  pending_energies_.clear();
  pending_energies_.push_back({sites, proposal.arena.take<float>(std::size_t(rows) * columns), 1, columns});
  pending_ = kernels_.site_energies(rows, columns, hidden, base, nothing, pitch, nothing, pitch,
                                    plan_.background_head.out.data(), pending_energies_[0].data, columns);
  std::uint64_t before = 0;  // wraps where the total is out of range anyway
  for_energies(sites, pass.plan->grid, [&](int, int, std::int64_t* energies, int length) {
    for (int i = 0; i < length; ++i) before += std::uint64_t(energies[i]);
  });
  pending_ = minus(pending_, std::int64_t(before));

  // What the cells are relative to.
  base_ = base;
  activation_ = nothing;
  hidden_layer(plan_.cell_head, base_);
  kernels_.silu({rows, pitch}, base_, pitch, activation_, pitch);
}

void LocalHead::see_cell(Proposal& proposal, const Pass& pass, const Cells&, const Candidate& cell) {
  if (!cell.output.data) return;
  const Rect rect = pass.frame.output(), part = cell.output_rect;
  const int height = part.y.size(), length = part.x.size();
  const int hidden = plan_.cell_head.hidden.out_stride, pitch = rect.x.size() * hidden;
  View change{cell.output.data, cell.output.pitch};
  if (!plan_.head_fused) {
    float* wider = proposal.arena.take<float>(std::size_t(height) * length * hidden);
    kernels_.mix_channels({change.data, change.pitch, pass.plan->width, padded(pass.plan->width), wider,
                           length * hidden, hidden, height, length, 0, 0, 0, 0, plan_.cell_head.hidden.weights.data(),
                           true});
    change = {wider, length * hidden};
  }
  const std::ptrdiff_t at = std::ptrdiff_t(part.y.lo - rect.y.lo) * pitch + (part.x.lo - rect.x.lo) * hidden;
  Patch energies{cell.output.at, proposal.arena.take<float>(std::size_t(height) * length), 1, length};
  pending_ =
      plus(pending_, kernels_.site_energies(height, length, hidden, base_ + at, activation_ + at, pitch, change.data,
                                            change.pitch, plan_.cell_head.out.data(), energies.data, length));
  pending_energies_.push_back(energies);
}

double LocalHead::change(double) { return value_of(pending_); }

void LocalHead::accept(const Proposal& proposal) {
  const Grid& grid = proposal.passes.back().plan->grid;
  total_ = plus(total_, pending_);
  for_energies(pending_energies_[0].at, grid, [&](int, int, std::int64_t* energies, int length) {
    std::memset(energies, 0, sizeof(std::int64_t) * length);
  });
  for (const Patch& patch : pending_energies_)
    for_energies(patch.at, grid, [&](int row, int column, std::int64_t* energies, int length) {
      const float* fresh = patch.data + std::ptrdiff_t(row) * patch.pitch + column;
      for (int i = 0; i < length; ++i) energies[i] += fixed(fresh[i]);
    });
}

}  // namespace ncpm::neural
