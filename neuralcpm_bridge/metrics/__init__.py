"""Measures of states and data sets: the paper's, and what a biologist checks first. NumPy only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..snapshots import Snapshots
from .geometry import centres, fragments, second_moments
from .paper import (
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
from .tissue import aspect_ratios, cluster_counts, contact_lengths, heterotypic_fraction, mean_aspect_ratios

__all__ = [
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
    periodic, states = samples.boundary == "periodic", list(samples)
    types = int(max(samples.types.max(initial=0), len(samples.type_names) - 1)) + 1
    volumes = np.concatenate([state.volumes[state.cells] for state in states])
    heterotypic = [np.array(heterotypic_fraction(state, periodic)) for state in states]
    found: dict[str, Any] = {
        "states": len(states),
        "cells": volumes.size / len(states),
        "volume_mean": float(volumes.mean()) if volumes.size else float("nan"),
        "p_unfragmented": p_unfragmented(states, periodic),
        "fragmented_cells": float(np.mean([fragmented_cells(state, periodic) for state in states])),
        "aspect_ratio": mean_of([mean_aspect_ratios(state, types, periodic) for state in states]),
        "contact_length": mean_of([contact_lengths(state, types, periodic) for state in states]),
        "heterotypic_fraction": mean_of(heterotypic),
        "clusters": mean_of([cluster_counts(state, types, periodic).astype(np.float64) for state in states]),
        "axial_variances": mean_of([axial_variances(state, periodic) for state in states]),
        "variance_fractions": mean_of([variance_fractions(state, periodic) for state in states]),
    }
    if data is not None:
        found["p_volume"] = p_volume(states, volume_range(data))
        found["axial_rmse"] = axial_rmse(states, data, periodic)
    return {key: _plain(value) for key, value in found.items()}


def _plain(value: Any) -> Any:
    """As JSON knows it: lists, numbers, and null for NaN."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and value != value else value
