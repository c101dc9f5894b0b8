"""What a biologist looks at first: the shapes of cells, who touches whom, and how the types cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..state import CellState
from .geometry import components, neighbour_pairs, second_moments

PAIRS_PER_LENGTH = 3
"""Moore pairs across one unit of a straight interface along the lattice."""


def aspect_ratios(state: CellState, periodic: bool = True) -> NDArray[np.float64]:
    """Length over width of every id, `[C]`, from its second moments; NaN for the medium and empty ids.

    An a×b rectangle has a/b, a disc about 1.
    """
    moments = second_moments(state, periodic)
    ratios = np.full(state.types.size, np.nan)
    cells = state.cells
    axes = np.linalg.eigvalsh(moments[cells])  # ascending
    ratios[cells] = np.sqrt(axes[:, 1] / axes[:, 0])
    return ratios


def mean_aspect_ratios(state: CellState, types: int | None = None, periodic: bool = True) -> NDArray[np.float64]:
    """Mean aspect ratio of the cells of each type, `[T]` (the medium's entry is NaN)."""
    count = int(types if types is not None else state.types.max() + 1)
    ratios, cells = aspect_ratios(state, periodic), state.cells
    of_type = state.types[cells]
    numbers = np.bincount(of_type, minlength=count).astype(np.float64)
    return np.bincount(of_type, ratios[cells], minlength=count) / np.where(numbers > 0, numbers, np.nan)


def contact_lengths(state: CellState, types: int | None = None, periodic: bool = True) -> NDArray[np.float64]:
    """Length of the interfaces between different cells, by type: symmetric `[T, T]`, in lattice units.

    Moore pairs over three: exact for interfaces along the lattice, 6 % short for diagonal ones.
    """
    return state.contacts(types, periodic) / PAIRS_PER_LENGTH


def heterotypic_fraction(state: CellState, periodic: bool = True) -> float:
    """Share of the cell–cell interface that lies between different types; NaN where no cells touch."""
    return heterotypic_share(state.contacts(periodic=periodic))


def heterotypic_share(contacts: NDArray[Any]) -> float:
    """The same from a symmetric table of contacts `[T, T]` by type, the medium first."""
    between_cells = np.triu(contacts[1:, 1:])
    total = between_cells.sum()
    return float((total - np.trace(between_cells)) / total) if total else float("nan")


def cluster_counts(state: CellState, types: int | None = None, periodic: bool = True) -> NDArray[np.int64]:
    """Number of clusters of each type, `[T]`: connected groups of touching (Moore) cells of the same type."""
    count = int(types if types is not None else state.types.max() + 1)
    flat = state.ids.ravel()
    ends, others = [], []
    for here, there in neighbour_pairs(state.ids, periodic):
        a, b = flat[here], flat[there]
        touching = (a != b) & (a > 0) & (b > 0)
        a, b = a[touching], b[touching]
        alike = state.types[a] == state.types[b]
        ends.append(a[alike])
        others.append(b[alike])
    roots = components(state.types.size, np.concatenate(ends), np.concatenate(others))
    cells = state.cells
    return np.bincount(state.types[cells[roots[cells] == cells]], minlength=count)
