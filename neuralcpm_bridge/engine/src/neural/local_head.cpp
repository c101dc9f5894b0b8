// The extensive energy of local_nh: a sum over sites and cells of small numbers, kept as integers.
#include <limits>

#include "heads.hpp"

namespace ncpm::neural {
namespace {

std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum;
  return a == kOutOfRange || b == kOutOfRange || __builtin_add_overflow(a, b, &sum) ? kOutOfRange : sum;
}

std::int64_t minus(std::int64_t a, std::int64_t b) { return b == kOutOfRange ? kOutOfRange : plus(a, -b); }

double value_of(std::int64_t sum) {
  return sum == kOutOfRange ? std::numeric_limits<double>::quiet_NaN() : double(sum) * kFixedUnit;
}

}  // namespace

LocalHead::LocalHead(const Plan& plan, const Kernels& kernels)
    : plan_(plan), kernels_(kernels), background_energy_(plan.layers.back().grid.sites()) {}

void LocalHead::reset() {
  background_energy_.clear();
  total_ = pending_ = 0;
}

double LocalHead::energy() const {
  return value_of(total_) + double(background_energy_.size()) * plan_.background_head.out_bias;
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
  pending_background_ = {pass.frame.sites(rect), proposal.arena.take<float>(std::size_t(rows) * columns), 1, columns};
  pending_ = kernels_.site_energies(rows, columns, hidden, base, nothing, pitch, nothing, pitch,
                                    plan_.background_head.out.data(), pending_background_.data, columns);
  float* before = proposal.arena.take<float>(std::size_t(rows) * columns);
  const Grid& grid = pass.plan->grid;
  copy_shared(pending_background_.at, before, columns, {{0, grid.y.size}, {0, grid.x.size}}, background_energy_.data(),
              grid.x.size, 1, grid);
  pending_ = minus(pending_, kernels_.fixed_sum(rows, columns, before, columns));

  // What the cells are relative to.
  base_ = base;
  activation_ = nothing;
  hidden_layer(plan_.cell_head, base_);
  kernels_.silu({rows, pitch}, base_, pitch, activation_, pitch);
}

void LocalHead::see_cell(Proposal& proposal, const Pass& pass, const Cells& cells, const Candidate& cell) {
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
  pending_ = plus(pending_, kernels_.site_energies(height, length, hidden, base_ + at, activation_ + at, pitch,
                                                   change.data, change.pitch, plan_.cell_head.out.data(), energies.data,
                                                   length));
  const View old = view_of(cells, pass, cell.id, kEnergy, {}, part, proposal.scratch[0].data());
  pending_ = minus(pending_, kernels_.fixed_sum(height, length, old.data, old.pitch));
  proposal.writes.push_back({cell.id, pass.layer, kEnergy, energies});
}

double LocalHead::change(double) { return value_of(pending_); }

void LocalHead::accept(const Proposal& proposal) {
  const Grid& grid = proposal.passes.back().plan->grid;
  copy_shared({{0, grid.y.size}, {0, grid.x.size}}, background_energy_.data(), grid.x.size, pending_background_.at,
              pending_background_.data, pending_background_.pitch, 1, grid);
  total_ = plus(total_, pending_);
}

}  // namespace ncpm::neural
