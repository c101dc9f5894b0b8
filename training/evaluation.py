"""Samples of a trained Hamiltonian from mixed starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralcpm_bridge.artifact import ENGINE_KINDS
from neuralcpm_bridge.snapshots import Snapshots

from .chains import GROWTH_SWEEPS, draw_data, scattered_like
from .hamiltonians import Hamiltonian
from .samplers import ExactChains, ParallelSampler

BOUNDARY_SHARE = 0.1
"""Attempts of a Monte Carlo step that meet two cells, about: what a parallel sweep makes, all of its flips do."""


def sample_from_mixed(
    hamiltonian: Hamiltonian,
    data: Snapshots,
    replicates: int,
    mcs: int,
    *,
    temperature: float = 1.0,
    seed: int = 0,
    threads: int = 1,
    staged: bool = False,
    trades: int = 0,
) -> Snapshots:
    """Chains from the data's cells scattered as single pixels, one snapshot of each at its end.

    Starts near the data flatter a model: only what a chain finds from afar is its own. Exact chains, or the
    paper's approximate sampler for architectures that the engine does not serve. `staged`, `trades`: see ExactChains.
    """
    rng = np.random.default_rng([seed, 11])
    ids, types = draw_data(data, replicates, False, rng)
    ids = np.stack([scattered_like(lattice, kinds, rng) for lattice, kinds in zip(ids, types, strict=True)])
    network, steps, chain_seed = hamiltonian.network, GROWTH_SWEEPS + mcs, int(rng.integers(2**63))
    if network is None or network.spec.kind in ENGINE_KINDS:
        sampler = ExactChains(temperature, threads, staged=staged, trades=trades)
        ids, _ = sampler.advance(hamiltonian, ids, types, steps, chain_seed)
    else:
        ids, _ = ParallelSampler(temperature).advance(hamiltonian, ids, types, BOUNDARY_SHARE * steps, chain_seed)
    provenance: dict[str, Any] = {"sampled from": hamiltonian.architecture, "mcs": steps, "seed": seed}
    if trades:
        provenance["trades"] = trades
    return Snapshots(ids, types, data.type_names, data.boundary, provenance)
