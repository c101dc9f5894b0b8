"""Measures of states and data sets: the paper's, and what a biologist checks first. NumPy only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..snapshots import Snapshots
from ..state import CellState
from .arrangement import Arrangement
from .geometry import centres, fragments, second_moments
from .paper import (
    FRAGMENTED_CELLS_ALLOWED,
    VolumeRange,
    axial_rmse,
    axial_variances,
    fragmented_cells,
    mean_of,
    p_unfragmented,
    p_volume,
    variance_fractions,
    volume_range,
    volumes_fit,
)
from .tissue import (
    aspect_ratios,
    cluster_counts,
    contact_lengths,
    heterotypic_fraction,
    heterotypic_share,
    mean_aspect_ratios,
    mean_volumes,
    principal_axes,
    volume_spreads,
)

__all__ = [
    "Arrangement",
    "VolumeRange",
    "aspect_ratios",
    "axial_rmse",
    "axial_variances",
    "centres",
    "cluster_counts",
    "contact_lengths",
    "fragmented_cells",
    "fragments",
    "heterotypic_fraction",
    "mean_aspect_ratios",
    "mean_of",
    "p_unfragmented",
    "p_volume",
    "principal_axes",
    "second_moments",
    "summary",
    "variance_fractions",
    "volume_range",
    "volumes_fit",
]


def summary(samples: Snapshots, data: Snapshots | None = None) -> dict[str, Any]:
    """Every measure of a data set as one JSON-ready dictionary: means over states, `None` where undefined.

    `data` is what the samples are to look like: it adds `p_volume` (its range of volumes) and `axial_rmse`.
    Lists are indexed by type, the medium first.
    """
    states = list(samples)
    types = int(max(samples.types.max(initial=0), len(samples.type_names) - 1)) + 1
    volumes = np.concatenate([state.volumes[state.cells] for state in states])
    each = [_measures(state, types) for state in states]
    found: dict[str, Any] = {
        "states": len(states),
        "cells": volumes.size / len(states),
        "volume_mean": float(volumes.mean()) if volumes.size else float("nan"),
        "p_unfragmented": float(np.mean([m["fragmented_cells"] <= FRAGMENTED_CELLS_ALLOWED for m in each])),
        **{key: mean_of([measures[key] for measures in each]) for key in each[0]},
    }
    if data is not None:
        found["p_volume"] = p_volume(states, volume_range(data))
        found["axial_rmse"] = axial_rmse(states, data)
    return {key: _plain(value) for key, value in found.items()}


def _measures(state: CellState, types: int) -> dict[str, NDArray[np.float64]]:
    """What is averaged over states."""
    contacts, arrangement = contact_lengths(state, types), Arrangement(state, types)
    measures = {
        "fragmented_cells": fragmented_cells(state),
        "volume": mean_volumes(state, types),
        "volume_spread": volume_spreads(state, types),
        "aspect_ratio": mean_aspect_ratios(state, types),
        "contact_length": contacts,
        "heterotypic_fraction": heterotypic_share(contacts),
        "clusters": cluster_counts(state, types),
        "surface": arrangement.surfaces(),
        "medium_share": arrangement.medium_shares(),
        "neighbours": arrangement.neighbours(),
        "alignment": arrangement.alignments(),
        "pointing": arrangement.pointing(),
        "distance": arrangement.distances(),
        "axial_variances": axial_variances(state),
        "variance_fractions": variance_fractions(state),
    }
    return {key: np.asarray(value, dtype=np.float64) for key, value in measures.items()}


def _plain(value: Any) -> Any:
    """As JSON knows it: lists, numbers, and null for NaN."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and value != value else value
