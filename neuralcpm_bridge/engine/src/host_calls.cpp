#include "host_calls.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "error.hpp"

namespace ncpm {
namespace {

constexpr int kTimedEvery = 64;  // a look at the processor's clock costs as much as a small ΔH

double processor_seconds() {
#if defined(CLOCK_THREAD_CPUTIME_ID)
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
#else  // Windows counts a thread's time in sixteenths of a millisecond at best
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
#endif
}

// What a host holds for one of its own objects. Never freed: hosts look at it until the process ends.
struct Object {
  const void* const* table;
  HostCalls* calls;
};

}  // namespace

HostCalls::~HostCalls() {
  for (HostCalls** place : objects_) *place = nullptr;
}

void* HostCalls::object(std::vector<const void*> table) {
  auto* kept = new std::vector<const void*>(std::move(table));
  auto* made = new Object{kept->data(), this};
  objects_.push_back(&made->calls);
  return made;
}

double HostCalls::answer_entry(void* object, const std::int16_t* point, const void* new_cell, const void* old_cell) {
  HostCalls* calls = static_cast<Object*>(object)->calls;
  return calls ? calls->answer(point, new_cell, old_cell) : 0.0;
}

void HostCalls::change_entry(void* object, const std::int16_t* point, const void* new_cell, const void*) {
  if (HostCalls* calls = static_cast<Object*>(object)->calls) calls->changed(point, new_cell);
}

void HostCalls::serve(std::shared_ptr<GuardedMirror> mirror, Cells cells, const Settings& settings) {
  mirror_ = std::move(mirror);
  cells_ = std::move(cells);
  settings_ = settings;
  hold();
}

void HostCalls::keep(const std::string& error) {
  if (error_.empty()) error_ = error;
}

// -- what the host asks -----------------------------------------------------------------------------------

double HostCalls::answer(const std::int16_t* point, const void* new_cell, const void* old_cell) noexcept {
  try {
    if (!error_.empty()) return kRefused;
    if (held_) {
      held_ = false;
      home_ = std::this_thread::get_id();
      if (!before_next_()) keep("The cells could not be followed: this is a fault to report.");
      held_ = false;  // serving again held it again
      if (!error_.empty()) return kRefused;
    }
    if (home_ != std::this_thread::get_id())
      throw Error(
          "The Potts algorithm has begun to run on several work nodes, but a learned term sees farther than their "
          "sections: keep the number of work nodes at 1.");
    if (++tally_.calls % kTimedEvery) return asked(site_of(point), new_cell, old_cell);
    const double began = processor_seconds();
    const double value = asked(site_of(point), new_cell, old_cell);
    tally_.seconds += processor_seconds() - began;
    ++tally_.timed;
    return value;
  } catch (const std::exception& error) {
    keep(error.what());
    return kRefused;
  }
}

double HostCalls::asked(std::int64_t site, const void* new_cell, const void* old_cell) {
  const auto lock = mirror_->claim();
  const std::int64_t new_id = cell_at(new_cell).host_id;
  double value = mirror_->mirror.delta(site, new_id);
  if (std::isnan(value)) throw Error("The model's ΔH is not a number: its weights are out of range, export it again.");
  if (std::isinf(value)) return kRefused;
  asked_ = {site, new_cell};
  weight_ = 1.0;
  if (settings_.shrink > 0.0) {
    // Of the network alone. A copy and its reverse have one disagreement, so both are weakened alike.
    const Mirror::Opinion opinion = mirror_->mirror.opinion(site, new_id);
    const double doubt = opinion.spread / settings_.temperature / settings_.shrink;
    weight_ = (1.0 - mirror_->mirror.outside(site, new_id)) / (1.0 + doubt * doubt);
    value -= (1.0 - weight_) * opinion.mean;
  }
  return factor_of(new_cell, old_cell) * value;
}

double HostCalls::factor_of(const void* new_cell, const void* old_cell) const {
  if (settings_.combine == Combine::None) return settings_.factor;
  if (!new_cell || !old_cell) return settings_.factor * cell_at(new_cell ? new_cell : old_cell).factor;
  const double one = cell_at(new_cell).factor, other = cell_at(old_cell).factor;
  if (settings_.combine == Combine::Min) return settings_.factor * std::min(one, other);
  if (settings_.combine == Combine::Max) return settings_.factor * std::max(one, other);
  return settings_.factor * (one + other) / 2;
}

// -- what the host does -----------------------------------------------------------------------------------

void HostCalls::changed(const std::int16_t* point, const void* new_cell) noexcept {
  if (!mirror_) return;  // every write will be seen when the lattice is loaded
  try {
    const std::int64_t site = site_of(point);
    if (asked_ == std::pair(site, new_cell)) {
      asked_ = {-1, nullptr};
      committed(site, new_cell);
    } else {  // no answer of ours was accepted: someone writes the lattice
      written_[site] = new_cell;
      hold();
    }
  } catch (const std::exception& error) {
    keep(error.what());
  }
}

void HostCalls::committed(std::int64_t site, const void* new_cell) {
  const auto lock = mirror_->claim();
  const std::int64_t new_id = cell_at(new_cell).host_id;
  if (settings_.committee) {
    const double spread = mirror_->mirror.opinion(site, new_id).spread / settings_.temperature;
    tally_.disagreement += spread;
    tally_.most = std::max(tally_.most, spread);
  }
  tally_.weight += weight_;
  ++tally_.accepted;
  mirror_->mirror.commit(site, new_id);
}

// -- what the host has ------------------------------------------------------------------------------------

// Points are x, y, z; rows of sites run along x.
std::int64_t HostCalls::site_of(const std::int16_t* point) const {
  return mirror_->mirror.lattice().site({point[2], point[1], point[0]});
}

const HostCalls::Cell& HostCalls::cell_at(const void* address) const {
  static const Cell medium;
  if (!address) return medium;
  const auto found = cells_.find(address);
  if (found == cells_.end()) throw Error("The host asked about a cell that is not among its cells: report this.");
  return found->second;
}

}  // namespace ncpm
