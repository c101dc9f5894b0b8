"""What a biologist looks at first: the shapes of cells, who touches whom, and how the types cluster."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..lattice import Geometry
from ..state import CellState
from .geometry import joined, second_moments


class Axes(NamedTuple):
    """Axes of the ellipse (3D: ellipsoid) with the moments of a cell, longest first; NaN where there is no cell."""

    lengths: NDArray[np.float64]
    """`[C, d]`, from end to end, in units of the nearest neighbours' distance."""
    directions: NDArray[np.float64]
    """`[C, d, d]`: unit vectors in space, one row per axis."""


def principal_axes(state: CellState) -> Axes:
    """Axes of every id, from its gyration tensor."""
    values, vectors = _eigen(state)
    # A full ellipse has the moment a²/4 along a half axis a, an ellipsoid a²/5.
    lengths = 2 * np.sqrt((state.lattice.dimension + 2) * values)
    return Axes(lengths, np.swapaxes(vectors, 1, 2))


def aspect_ratios(state: CellState) -> NDArray[np.float64]:
    """Length over width of every id, `[C]`, from its second moments; NaN for the medium and empty ids.

    An a×b rectangle has a/b, a disc about 1. In 3D the longest axis over the geometric mean of the other two: a rod
    has its length over its thickness, a plate of side a and thickness b the square root of a/b.
    """
    values, _ = _eigen(state)
    others = values[:, 1:].prod(axis=1) ** (1 / (values.shape[1] - 1))
    return np.sqrt(values[:, 0] / others)


def _eigen(state: CellState) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues `[C, d]`, largest first, and eigenvectors (columns) of every id's second moments."""
    moments, cells = second_moments(state), state.cells
    values, vectors = np.full(moments.shape[:2], np.nan), np.full(moments.shape, np.nan)
    found = np.linalg.eigh(moments[cells])  # ascending
    values[cells], vectors[cells] = found.eigenvalues[:, ::-1], found.eigenvectors[:, :, ::-1]
    return values, vectors


def mean_aspect_ratios(state: CellState, types: int | None = None) -> NDArray[np.float64]:
    """Mean aspect ratio of the cells of each type, `[T]` (the medium's entry is NaN)."""
    return _type_means(aspect_ratios(state), state, types)


def mean_volumes(state: CellState, types: int | None = None) -> NDArray[np.float64]:
    """Mean volume of the cells of each type, `[T]` (the medium's entry is NaN)."""
    return _type_means(state.volumes.astype(np.float64), state, types)


def volume_spreads(state: CellState, types: int | None = None) -> NDArray[np.float64]:
    """Root mean square difference of volumes from their type's mean, `[T]`; NaN where a type has one cell or none."""
    means = mean_volumes(state, types)
    squares = (state.volumes - means[np.clip(state.types, 0, means.size - 1)]) ** 2
    numbers = np.bincount(state.types[state.cells], minlength=means.size)
    return np.where(numbers > 1, np.sqrt(_type_means(squares, state, types)), np.nan)


def _type_means(of_ids: NDArray[np.float64], state: CellState, types: int | None) -> NDArray[np.float64]:
    """Means of a value of every id over the cells of each type, `[T]`; NaN for the medium and types without cells."""
    count = int(types if types is not None else state.types.max() + 1)
    of_type = state.types[state.cells]
    numbers = np.bincount(of_type, minlength=count).astype(np.float64)
    totals = np.bincount(of_type, of_ids[state.cells], minlength=count)
    return totals / np.where(numbers > 0, numbers, np.nan)


def contact_lengths(state: CellState, types: int | None = None) -> NDArray[np.float64]:
    """Length (3D: area) of the interfaces between different cells, by type: symmetric `[T, T]`, in lattice units.

    Pairs of sites next to each other in any direction, over those that cross one unit of interface.
    """
    return state.contacts(types) / pairs_per_unit(state.lattice.geometry)


def pairs_per_unit(geometry: Geometry) -> float:
    """Pairs of surrounding neighbours across a unit of straight interface.

    Square and cubic lattices: of one along the lattice, 3 and 9, because sites have sides along it and rectangles get
    exactly their perimeter; diagonal ones come out 6 % short on the square lattice. No straight line follows the sides
    of hexagons, so there it is the mean over all directions: interfaces along a row come out 9 % short, those between
    two directions of rows 5 % long.
    """
    if geometry.name == "hexagonal":
        return geometry.pairs_per_length(geometry.moore_order)
    return float(np.abs(geometry.half_offsets(geometry.moore_order)[:, 0]).sum())


def heterotypic_fraction(state: CellState) -> float:
    """Share of the cell–cell interface that lies between different types; NaN where no cells touch."""
    return heterotypic_share(state.contacts())


def heterotypic_share(contacts: NDArray[Any]) -> float:
    """The same from a symmetric table of contacts `[T, T]` by type, the medium first."""
    between_cells = np.triu(contacts[1:, 1:])
    total = between_cells.sum()
    return float((total - np.trace(between_cells)) / total) if total else float("nan")


def cluster_counts(state: CellState, types: int | None = None) -> NDArray[np.int64]:
    """Number of clusters of each type, `[T]`: connected groups of touching cells of the same type."""
    count = int(types if types is not None else state.types.max() + 1)
    roots = np.arange(state.types.size)
    for a, b in state.meetings():
        apart = (state.types[a] == state.types[b]) & (roots[a] != roots[b])
        roots = joined(roots, a[apart], b[apart])
    cells = state.cells
    return np.bincount(state.types[cells[roots[cells] == cells]], minlength=count)
