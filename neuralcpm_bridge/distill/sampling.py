"""Flips to fit to: proposals as a host makes them, on data and on states the model's own dynamics reaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..artifact import Artifact
from ..delta import open_backend
from ..embedded import Dynamics, open_chains
from ..errors import UserError
from ..sampling import mixed_starts
from ..snapshots import Snapshots
from ..state import CellState

RUNS = (2, 8, 30)
"""Monte Carlo steps after which a short run is looked at: near the data, and where the dynamics leads."""
MOST_ORIGINS = 24
MIXED_ORIGINS, MIXED_LONGER = 8, 10
"""Runs that start from scattered single pixels, so many times as long: the way that simulations go."""
HELD_OUT = 5
"""Every so many origins are kept for checking the fit."""


@dataclass(frozen=True)
class FlipSample:
    """Flips of one state, the model's ΔH of each and the network's part of it; `held_out` ones are not fitted to."""

    state: CellState
    sites: NDArray[np.int64]
    new_ids: NDArray[np.int64]
    deltas: NDArray[np.float64]
    neural: NDArray[np.float64]
    held_out: bool


def sample_flips(
    artifact: Artifact,
    data: Snapshots,
    flips: int,
    seed: int = 0,
    runs: tuple[int, ...] = RUNS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[FlipSample]:
    """`flips` proposals with their ΔH, spread over data states, states that short runs from them reach, and those that
    longer runs from scattered cells pass through (not over ONNX Runtime, where they would take hours)."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(len(data))[:MOST_ORIGINS])
    origins = [artifact.place(data[int(index)]) for index in chosen]
    if not any(state.boundary().any() for state in origins):
        raise UserError("The data hold no boundary between cells, so no pixel can change: give states with cells.")
    if len(origins) < 2:
        origins = origins * HELD_OUT  # one state: its runs, with different random numbers, take the place of others
    families = [[origin, *later] for origin, later in zip(origins, _runs(artifact, origins, seed, runs), strict=True)]
    if runs and artifact.engine_serves:
        starts = [artifact.place(state) for state in mixed_starts(data, MIXED_ORIGINS, rng)]
        families += _runs(artifact, starts, seed + 1, tuple(MIXED_LONGER * steps for steps in runs))
    every = min(HELD_OUT, len(families))
    members = [(state, number % every == every - 1) for number, family in enumerate(families) for state in family]
    backend = open_backend(artifact, members[0][0])
    share = -(-flips // len(members))
    samples = []
    for number, (state, held_out) in enumerate(members):
        sites, new_ids = proposals(state, share, rng)
        backend.reset(state)
        parts = backend.deltas(sites, new_ids)
        samples.append(FlipSample(state, sites, new_ids, parts.sum(axis=1), parts[:, 1], held_out))
        progress(number + 1, len(members))
    return samples


def proposals(state: CellState, count: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sites and new ids of copies across a border between cells, uniform over all there are.

    A cell's last pixel is never taken: hosts and training forbid it.
    """
    ids, volumes = state.ids.ravel(), state.volumes
    to_spare = (ids == 0) | (volumes[ids] > 1)
    sites, new_ids = [], []
    for offset in state.lattice.geometry.offsets(state.lattice.geometry.moore_order):
        there = state.lattice.shifted(offset)
        usable = np.flatnonzero((there >= 0) & (ids[there] != ids) & to_spare)
        sites.append(usable)
        new_ids.append(ids[there[usable]])
    site, new_id = np.concatenate(sites), np.concatenate(new_ids)
    picked = rng.permutation(site.size)[:count]
    return site[picked], new_id[picked].astype(np.int64)


def _runs(artifact: Artifact, starts: list[CellState], seed: int, runs: tuple[int, ...]) -> list[list[CellState]]:
    """The states that a run from each start passes through."""
    meta = artifact.metadata
    dynamics = Dynamics(meta.temperature, seed, forbid_extinction=meta.extinction)
    chains = open_chains(artifact, starts, dynamics)
    passed: list[list[CellState]] = [[] for _ in starts]
    done = 0
    for steps in runs:
        chains.advance(steps - done)
        done = steps
        for states, reached in zip(passed, chains.states(), strict=True):
            states.append(reached)
    return passed
