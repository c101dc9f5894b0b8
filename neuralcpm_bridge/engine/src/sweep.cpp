#include "sweep.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <thread>

#include "edges.hpp"
#include "error.hpp"
#include "philox.hpp"

namespace ncpm {
namespace {

// Streams of the random function, so that no two purposes share numbers.
enum Stream : std::uint32_t { kAttempt, kWaiting, kAcceptance, kSecondStage, kTrade };

// The Metropolis rule; `uniform()` on [0, 1) is drawn where it is needed. At temperature 0 only ΔH <= 0 passes.
template <class Uniform>
bool passes(double delta, double temperature, double odds, Uniform uniform) {
  if (std::isnan(delta))
    throw Error(
        "ΔH became undefined (not a number) during the sweep: the model's weights or couplings are out of range.");
  if (delta <= 0.0 && odds >= 1.0) return true;
  return uniform() < odds * (delta == 0.0 ? 1.0 : std::exp(-delta / temperature));
}

// How often the copy back is proposed, for each time that the copy itself is.
double reverse_odds(const Tissue& tissue, const Flip& flip, const Neighbourhood& copies) {
  int there = 0, back = 0;
  int around[kMostNeighbours];
  for (int k = copies.around(tissue.lattice, flip.site, around); k-- > 0;) {
    there += tissue.ids[around[k]] == flip.new_id;
    back += tissue.ids[around[k]] == flip.old_id;
  }
  return double(back) / there;
}

// Whether the copy proposed by attempt `number` is made; `uniform()` on [0, 1) is that attempt's own.
template <class Uniform>
bool accepts(State& state, const Flip& flip, const SweepOptions& options, const Neighbourhood& copies,
             std::uint64_t number, Uniform uniform) {
  const double odds = options.balanced ? reverse_odds(state.tissue(), flip, copies) : 1.0;
  if (odds == 0.0) return false;
  if (!options.staged) return passes(state.delta_unchecked(flip), options.temperature, odds, uniform);
  return passes(state.symbolic_delta_unchecked(flip), options.temperature, odds, uniform) &&
         passes(state.neural_delta_unchecked(flip), options.temperature, 1.0, [&] {
           const Words random = philox(options.seed, number, kSecondStage);
           return unit(random[0], random[1]);
         });
}

void plain_sweep(State& state, const SweepOptions& options, std::int64_t attempts, const Neighbourhood& copies,
                 SweepCounts& counts) {
  const Tissue& tissue = state.tissue();
  const Lattice& lattice = tissue.lattice;
  const std::int32_t* ids = tissue.ids.data();
  const int lines = lattice.depth * lattice.height, directions = copies.size();
  for (const std::uint64_t end = state.attempts + attempts; state.attempts != end; ++state.attempts) {
    const Words random = philox(options.seed, state.attempts, kAttempt);
    const int line = below(random[0], lines);
    const int col = below(random[1], lattice.width);
    const int pick = below(random[2], directions);  // its top bits, which unit() leaves alone
    const int target = line * lattice.width + col;
    const int plane = lattice.depth == 1 ? 0 : line / lattice.height;
    const Place place = {plane, line - plane * lattice.height, col};
    const int source = copies.at(lattice, target, place, copies.steps_inside(place), pick);
    if (source < 0 || ids[source] == ids[target]) continue;
    ++counts.proposals;
    const Flip flip(tissue, target, ids[source]);
    if (!accepts(state, flip, options, copies, state.attempts, [&] { return unit(random[2], random[3]); })) continue;
    state.commit_unchecked(flip);
    ++counts.accepted;
  }
}

// Draws are numbered by the attempt they start from: each number is used once, and the clock alone resumes the chain.
template <class Mask>
void boundary_sweep(State& state, const SweepOptions& options, std::int64_t attempts, const Neighbourhood& copies,
                    Edges<Mask>& edges, SweepCounts& counts) {
  const Tissue& tissue = state.tissue();
  const double pairs = double(tissue.sites()) * copies.size();
  const auto log_of_missing = [&] { return std::log1p(-double(edges.count()) / pairs); };
  double log_missing = log_of_missing();
  for (const std::uint64_t end = state.attempts + attempts; state.attempts != end;) {
    const Words random = philox(options.seed, state.attempts, kWaiting);
    const double remaining = double(end - state.attempts);
    // Number of attempts up to and including the next one that meets two cells; log1p(-1) = -inf gives 1.
    const double waiting = 1.0 + std::floor(std::log1p(-unit(random[0], random[1])) / log_missing);
    if (!(waiting <= remaining)) {  // also when there is no edge: 0/0 or infinity
      state.attempts = end;
      return;
    }
    const std::uint64_t number = state.attempts;
    state.attempts += std::uint64_t(waiting);
    ++counts.proposals;
    const auto index = std::int64_t(unit(random[2], random[3]) * double(edges.count()));
    const auto pair = edges.at(tissue, index);
    const Flip flip(tissue, pair.target, tissue.ids[pair.source]);
    const auto uniform = [&] {
      const Words other = philox(options.seed, number, kAcceptance);
      return unit(other[0], other[1]);
    };
    if (!accepts(state, flip, options, copies, number, uniform)) continue;
    state.commit_unchecked(flip);
    edges.flipped(tissue, flip.site);
    log_missing = log_of_missing();
    ++counts.accepted;
  }
}

void trade(State& state, const SweepOptions& options, SweepCounts& counts) {
  const int cells = state.tissue().cells() - 1;  // the medium trades with nobody
  if (options.trades == 0 || cells < 2) return;
  const std::vector<std::int32_t>& types = state.tissue().types;
  double energy = state.selected_energy();
  for (int k = 0; k < options.trades; ++k) {
    // No more trades than attempts: the next step's numbers begin where this one's end.
    const Words random = philox(options.seed, state.attempts + k, kTrade);
    const std::int32_t a = 1 + below(random[0], cells), b = 1 + below(random[1], cells);
    if (types[a] < 0 || types[b] < 0 || state.tissue().alike(a, b)) continue;
    state.trade_places(a, b);
    const double traded = state.selected_energy();
    if (passes(traded - energy, options.temperature, 1.0, [&] { return unit(random[2], random[3]); })) {
      energy = traded;
      ++counts.traded;
    } else {
      state.trade_places(a, b);
    }
  }
}

// Step by step: the waiting time that crosses the end of an MCS is drawn anew, which a memoryless distribution allows,
// and a chain comes out the same however its steps are grouped into sweeps.
template <class Step>
void run_steps(State& state, const SweepOptions& options, SweepCounts& counts, Step step) {
  for (std::int64_t done = 0; done < options.mcs; ++done) {
    step();
    trade(state, options, counts);
  }
}

template <class Mask>
void run_boundary(State& state, const SweepOptions& options, const Neighbourhood& copies, SweepCounts& counts) {
  const std::int64_t sites = state.tissue().sites(), pairs = sites * copies.size();
  if (copies.size() > 64 || pairs > std::numeric_limits<std::int32_t>::max())
    throw Error("Copies from " + std::to_string(copies.size()) + " neighbours of " + std::to_string(sites) +
                " sites are too many to be chosen on boundaries only: use all sites or a smaller order.");
  Edges<Mask> edges(state.tissue(), copies);
  run_steps(state, options, counts, [&] { boundary_sweep(state, options, sites, copies, edges, counts); });
}

}  // namespace

SweepCounts sweep(State& state, const SweepOptions& options) {
  if (options.mcs < 0)
    throw Error("A sweep of " + std::to_string(options.mcs) + " Monte Carlo steps was asked for: give 0 or more.");
  if (!(options.temperature >= 0.0) || !std::isfinite(options.temperature))
    throw Error("The temperature " + std::to_string(options.temperature) +
                " was given, but it is a finite number from 0 on: give such a number.");
  const std::int64_t sites = state.tissue().sites();
  if (options.trades < 0 || options.trades > sites)
    throw Error(std::to_string(options.trades) + " trades per Monte Carlo step were asked for: give 0 to " +
                std::to_string(sites) + ", the number of sites.");
  const Geometry geometry = state.lattice().geometry;
  const Neighbourhood copies(state.lattice(), options.copy_order ? options.copy_order : moore_order(geometry));
  SweepCounts counts;
  counts.attempts = sites * options.mcs;
  if (!options.boundary_only)
    run_steps(state, options, counts, [&] { plain_sweep(state, options, sites, copies, counts); });
  else if (copies.size() <= 8) run_boundary<std::uint8_t>(state, options, copies, counts);
  else if (copies.size() <= 32) run_boundary<std::uint32_t>(state, options, copies, counts);
  else run_boundary<std::uint64_t>(state, options, copies, counts);
  return counts;
}

std::vector<SweepCounts> run_chains(const std::vector<State*>& states, const SweepOptions& options,
                                    const std::vector<std::uint64_t>& seeds, int threads) {
  if (seeds.size() != states.size())
    throw Error(std::to_string(seeds.size()) + " seeds were given for " + std::to_string(states.size()) +
                " chains: give one per chain.");
  if (threads < 1) throw Error(std::to_string(threads) + " threads were asked for: give 1 or more.");
  std::vector<State*> sorted = states;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    throw Error("One state was given twice, but chains run at the same time: give every chain its own state.");

  std::vector<SweepCounts> counts(states.size());
  std::vector<std::exception_ptr> failures(states.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next++) < states.size();) {
      try {
        SweepOptions own = options;
        own.seed = seeds[i];
        counts[i] = sweep(*states[i], own);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < std::min<std::size_t>(threads, states.size()); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return counts;
}

}  // namespace ncpm
