"""What the report finds out itself: samples of each model, their measures beside the data's, the price of a ΔH."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..artifact import Artifact
from ..bench import boundary_flips, time_each
from ..delta import open_backend
from ..embedded import Dynamics, open_chains
from ..initial import shrunk_to_pixels
from ..metrics import summary
from ..snapshots import Snapshots

TIMED_FLIPS = 2000
TIMED_SECONDS = 0.5


@dataclass(frozen=True)
class Sampling:
    """How many chains, how long, from which seed."""

    replicates: int = 8
    mcs: int = 500
    seed: int = 0
    threads: int = 1


def draw_samples(artifact: Artifact, data: Snapshots, how: Sampling) -> Snapshots:
    """The end of chains that start with the data's cells shrunk to single pixels."""
    random = np.random.default_rng([how.seed, 17])
    chosen = [data[int(number)] for number in random.integers(len(data), size=how.replicates)]
    starts = [shrunk_to_pixels(state, random) for state in chosen]
    dynamics = Dynamics(artifact.metadata.temperature, how.seed, forbid_extinction=artifact.metadata.extinction)
    chains = open_chains(artifact, starts, dynamics, how.threads)
    chains.advance(how.mcs)
    provenance = {"sampled from": artifact.metadata.name, "mcs": how.mcs, "seed": how.seed}
    return Snapshots.from_states(
        chains.states(),
        type_names=artifact.metadata.types,
        boundary=artifact.metadata.boundary,
        provenance=provenance,
    )


def microseconds(artifact: Artifact, data: Snapshots | None) -> dict[str, Any]:
    """Median and 95th percentile of one ΔH on a state of the data, or on the model's own example."""
    state = data[0] if data is not None else artifact.metadata.examples[0].state()
    backend = open_backend(artifact, state)
    flips = boundary_flips(state, TIMED_FLIPS)
    time_each(backend.delta, flips[:20], TIMED_SECONDS / 10)
    times = time_each(backend.delta, flips, TIMED_SECONDS)
    return {
        "median": float(np.median(times)),
        "p95": float(np.percentile(times, 95)),
        "by": backend.name,
        "where": f"{state.shape[0]}×{state.shape[1]} sites, {state.cells.size} cells",
    }


MEASURES = {
    "volume_mean": "mean volume",
    "p_volume": "states with all volumes as in the data (p_volume)",
    "p_unfragmented": "states with at most 3 broken cells (p_unfragmented)",
    "fragmented_cells": "broken cells per state",
    "heterotypic_fraction": "share of interface between types",
    "aspect_ratio": "aspect ratio of {}",
    "clusters": "clusters of {}",
    "variance_fractions": "variance along the axis, {}",
}
"""Measures that people read, in the order of the table; `{}` is a cell type."""


def comparable_measures(samples: Snapshots, data: Snapshots) -> dict[str, float]:
    """Rows of the table: every measure that is defined, each a number of its own."""
    found = summary(samples, data)
    names = samples.type_names or tuple(f"type {kind}" for kind in range(int(samples.types.max()) + 1))
    rows: dict[str, float | None] = {}
    for key, title in MEASURES.items():
        value = found.get(key)
        if not isinstance(value, list):
            rows[title] = value
            continue
        # measures along an axis know types 1 and 2 only, the others start with the medium
        first = 1 if key == "variance_fractions" else 0
        for kind, entry in enumerate(value, start=first):
            if 0 < kind < len(names):
                rows[title.format(names[kind])] = entry
    return {title: value for title, value in rows.items() if value is not None}


def closest_to_data(models: list[dict[str, float]], data: dict[str, float], title: str) -> list[bool]:
    """Of several models, which come nearest to the data in one measure; none where all are equally near."""
    distances = [abs(rows.get(title, np.inf) - data.get(title, np.nan)) for rows in models]
    known = [distance for distance in distances if np.isfinite(distance)]
    if len(known) < 2 or max(known) - min(known) <= 1e-9 * max(1.0, abs(data[title])):
        return [False] * len(models)
    return [distance <= min(known) for distance in distances]
