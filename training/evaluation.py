"""Samples of a trained Hamiltonian from mixed starts, and what they are worth."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralcpm_bridge.snapshots import Snapshots

from .chains import GROWTH_SWEEPS, draw_data, scattered_like
from .hamiltonians import Hamiltonian
from .samplers import ExactChains, Sampler


def sample_from_mixed(
    hamiltonian: Hamiltonian,
    data: Snapshots,
    replicates: int,
    mcs: int,
    *,
    temperature: float = 1.0,
    seed: int = 0,
    threads: int = 1,
    sampler: Sampler | None = None,
) -> Snapshots:
    """Chains from the data's cells scattered as single pixels, one snapshot of each at its end.

    Starts near the data flatter a model: only what a chain finds from afar is its own.
    """
    rng = np.random.default_rng([seed, 11])
    ids, types = draw_data(data, replicates, False, rng)
    ids = np.stack([scattered_like(lattice, kinds, rng) for lattice, kinds in zip(ids, types, strict=True)])
    chosen = sampler or ExactChains(temperature, threads)
    ids, _ = chosen.advance(hamiltonian, ids, types, GROWTH_SWEEPS + mcs, int(rng.integers(2**63)))
    provenance: dict[str, Any] = {
        "sampled from": hamiltonian.architecture,
        "mcs": GROWTH_SWEEPS + mcs,
        "seed": seed,
    }
    return Snapshots(ids, types, data.type_names, data.boundary, provenance)
