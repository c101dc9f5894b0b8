"""What the report finds out itself: samples of each model, who is nearer to the data, the price of a ΔH."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.lattice import size_text
from neuralcpm_bridge.metrics.comparing import Measured
from neuralcpm_bridge.sampling import sample_from_mixed
from neuralcpm_bridge.snapshots import Snapshots

from ..bench import Timed, boundary_flips, time_in_turn, typical

TIMED_FLIPS = 2000
TIMED_SECONDS = 0.5
STANDARD_ERRORS = 2
"""By how many of them models must differ in their distance to the data to be told apart."""


@dataclass(frozen=True)
class Sampling:
    """How many chains, how long, from which seed."""

    replicates: int = 8
    mcs: int = 500
    seed: int = 0
    threads: int = 1


def draw_samples(artifact: Artifact, data: Snapshots, how: Sampling) -> Snapshots:
    """The end of chains that start with the data's cells scattered as single pixels."""
    return sample_from_mixed(artifact, data, how.replicates, how.mcs, seed=how.seed, threads=how.threads)


def microseconds(artifact: Artifact, data: Snapshots | None) -> dict[str, Any]:
    """Median and 95th percentile of one ΔH on a state of the data, or on the model's own example."""
    state = data[0] if data is not None else artifact.metadata.example_states()[0]
    backend = open_backend(artifact, state)
    flips = boundary_flips(state, TIMED_FLIPS)
    timed = {"delta": Timed(backend.delta, flips)}
    time_in_turn(timed, TIMED_SECONDS / 10)
    turns = time_in_turn(timed, TIMED_SECONDS)["delta"]
    return {
        "median": typical(turns),
        "p95": float(np.percentile(np.concatenate(turns), 95)),
        "by": backend.name,
        "where": f"{size_text(state.shape)} sites, {state.cells.size} cells",
    }


def nearest_to_data(models: Sequence[Mapping[str, Measured]], data: Mapping[str, Measured], title: str) -> list[bool]:
    """Which models come nearest to the data in one measure; none where noise does not tell them apart.

    A model shares the first place where it is no further than the best one but for its noise.
    """
    found = [(abs(rows[title].mean - data[title].mean), rows[title].error) for rows in models if title in rows]
    if len(found) < len(models):
        return [False] * len(models)
    best = min(found)
    near = [distance - best[0] <= STANDARD_ERRORS * np.hypot(error, best[1]) for distance, error in found]
    return [False] * len(models) if all(near) else near
