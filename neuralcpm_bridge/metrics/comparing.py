"""Measures of samples as people read them, with their errors: what models are compared by."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..snapshots import Snapshots
from . import summary
from .paper import volume_range, volumes_fit

MEASURES = {
    "volume_mean": "mean volume",
    "volume": "volume of {}",
    "volume_spread": "spread of volumes, {}",
    "p_volume": "states with all volumes as in the data (p_volume)",
    "p_unfragmented": "states with at most 3 broken cells (p_unfragmented)",
    "fragmented_cells": "broken cells per state",
    "heterotypic_fraction": "share of interface between types",
    "contact_length": "contact of {} with {}",
    "aspect_ratio": "aspect ratio of {}",
    "surface": "surface of {}",
    "medium_share": "share of {}'s surface at the medium",
    "neighbours": "{} that a cell of {} touches",
    "alignment": "alignment of neighbours, {}",
    "pointing": "cells of {} point at neighbours",
    "clusters": "clusters of {}",
    "distance": "distance of {} from the middle",
    "variance_fractions": "variance along the axis, {}",
}
"""Measures that people read, in the order of the table; `{}` is a cell type."""


CELL_TYPES_TO_COMPARE = 2
"""Types whose shapes are subtracted: with more of them there is no one difference to state."""


class Measured(NamedTuple):
    """A mean over states and its standard error (0 for a single state)."""

    mean: float
    error: float


WITHIN = 2.0
"""Standard errors within which a measure counts as reproduced."""
SHARES = ("p_volume", "p_unfragmented")
SHARE_TOLERANCE = 0.05
"""Of measures that are shares of states, often exactly 1 without a spread."""


def is_share(title: str) -> bool:
    """Whether a measure is a share of states."""
    return any(name in title for name in SHARES)


def distance(found: Measured, wanted: Measured, title: str) -> float:
    """In standard errors of both; shares of states are forgiven a few per cent."""
    difference = found.mean - wanted.mean
    if is_share(title):
        return WITHIN * difference / SHARE_TOLERANCE
    error = float(np.hypot(found.error, wanted.error))
    if error == 0:
        return 0.0 if abs(difference) <= 1e-9 * max(1.0, abs(wanted.mean)) else float(np.sign(difference)) * 99.0
    return difference / error


def comparable_measures(samples: Snapshots, data: Snapshots) -> dict[str, Measured]:
    """Rows of the table: every measure that is defined, each a number of its own."""
    return {title: measured(values) for title, values in measures_by_state(samples, data).items()}


def measures_by_state(samples: Snapshots, data: Snapshots) -> dict[str, NDArray[np.float64]]:
    """Every measure by its title, one value per state in which it is defined; `data`: for its range of volumes."""
    allowed = volume_range(data)
    names = samples.type_names or tuple(f"type {number}" for number in range(int(samples.types.max()) + 1))
    values: dict[str, list[float]] = {}
    for number, state in enumerate(samples):
        found = summary(samples.chosen([number])) | {"p_volume": float(volumes_fit(state, allowed))}
        for title, value in _rows(found, names).items():
            if value is not None:
                values.setdefault(title, []).append(value)
    return {title: np.array(values[title]) for title in _rows(found, names) if title in values}


def measured(values: NDArray[np.float64]) -> Measured:
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else 0.0
    return Measured(float(values.mean()), float(error))


def _rows(found: dict[str, Any], names: Sequence[str]) -> dict[str, float | None]:
    """Measures under the titles that people read, those by type one per cell type."""
    rows: dict[str, float | None] = {}
    for key, title in MEASURES.items():
        value = found.get(key)
        if not isinstance(value, list):
            rows[title] = value
            continue
        if key == "neighbours":
            for own, other in product(range(1, len(names)), repeat=2):
                rows[title.format(names[other], names[own])] = value[own][other]
            continue
        if key == "contact_length":
            for own, other in combinations_with_replacement(range(len(names)), 2):
                if other:  # the medium does not touch itself
                    rows[title.format(names[other], names[own])] = value[own][other]
            continue
        if key == "volume" and np.count_nonzero([entry is not None for entry in value]) == 1:
            continue  # of one type it is the mean volume
        # measures along an axis know types 1 and 2 only, the others start with the medium
        first = 1 if key == "variance_fractions" else 0
        for cell_type, entry in enumerate(value, start=first):
            if 0 < cell_type < len(names):
                rows[title.format(names[cell_type])] = entry
        if key == "aspect_ratio" and len(names) == CELL_TYPES_TO_COMPARE + 1 and None not in value[1:]:
            rows[aspect_gap_title(names)] = value[2] - value[1]
    return rows


def aspect_gap_title(names: Sequence[str]) -> str:
    """The row about how much longer cells of the second type are than those of the first."""
    return f"aspect ratio, {names[2]} less {names[1]}"
