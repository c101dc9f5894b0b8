// Metropolis dynamics: pick a pair of neighbouring sites, propose to copy one's cell into the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "state.hpp"

namespace ncpm {

struct SweepOptions {
  std::int64_t mcs = 1;  // Monte Carlo steps of one attempt per site
  double temperature = 1.0;
  std::uint64_t seed = 0;
  int copy_order = 0;          // of the neighbours that are copied from; 0: the geometry's own, all around a site
  bool boundary_only = false;  // skip attempts between sites of one cell, keeping count of them
  bool balanced = false;       // weigh every copy by how often its reverse is proposed
  bool staged = false;         // ask the network only about copies that pass the analytic terms
  int trades = 0;              // pairs of cells asked to trade places after every MCS
};

struct SweepCounts {
  std::int64_t attempts = 0;   // one per site and MCS
  std::int64_t proposals = 0;  // attempts between different cells: those that cost a ΔH
  std::int64_t accepted = 0;
  std::int64_t traded = 0;  // pairs of cells that traded places
};

// Advances the state. An attempt is a uniform target site and a uniform neighbour of it as source; it is consumed
// without effect if the neighbour lies beyond a free boundary or belongs to the same cell. Random numbers are a
// function of (seed, state.attempts), so that 5 MCS and 5 more are the same as 10.
//
// With boundary_only the number of attempts until the next pair of different cells is drawn from its geometric
// distribution and that pair uniformly: the same process in law, attempt by attempt, from other random numbers.
//
// Hosts propose a copy as often as neighbours offer it, which need not be as often as its reverse is proposed: their
// stationary distribution is not Boltzmann's. Balanced sweeps correct it (Hastings' rule; a copy without a reverse is
// never made), so that theirs is e^{-H/T} on the states that copies connect. Staged ones accept with
// min(1, e^{-dS/T}) min(1, e^{-dN/T}) for the change dS of the analytic terms and dN of the network (delayed
// acceptance): the odds of a copy and its reverse stay what they were, at a fraction of the network's evaluations.
//
// Trades let a tissue find out where its types belong without cells squeezing past each other: two uniform cells
// exchange types by Metropolis' rule, which keeps e^{-H/T}. No host does this; it is for training.
SweepCounts sweep(State& state, const SweepOptions& options);

// Sweeps independent chains on up to `threads` threads, seeds[i] in place of options.seed. The result does
// not depend on the number of threads.
std::vector<SweepCounts> run_chains(const std::vector<State*>& states, const SweepOptions& options,
                                    const std::vector<std::uint64_t>& seeds, int threads);

}  // namespace ncpm
