"""The measures of "Deep Neural Cellular Potts Models": p_volume, p_unfragmented, axial alignment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..state import CellState
from .geometry import fragments, gap_ends, mean_coordinates

FRAGMENTED_CELLS_ALLOWED = 3
VOLUME_MARGIN = 0.1
AXIAL_TYPES = (1, 2)
"""The types whose variances are compared; the last one gives the axis."""


class VolumeRange(NamedTuple):
    """Smallest and largest volume that still looks like the data."""

    low: float
    high: float


def volume_range(states: Iterable[CellState]) -> VolumeRange:
    """The range of all volumes of a data set, widened on both sides by 10 % of the mean volume."""
    parts = [_volumes(state) for state in states]
    volumes = np.concatenate(parts) if parts else np.zeros(0)
    if not volumes.size:
        raise UserError("The data set has no cells, but a range of volumes needs some: give other states.")
    margin = VOLUME_MARGIN * volumes.mean()
    return VolumeRange(float(volumes.min() - margin), float(volumes.max() + margin))


def volumes_fit(state: CellState, allowed: VolumeRange) -> bool:
    """Whether every cell's volume lies within the range; a cell that vanished has volume 0."""
    volumes = _volumes(state)
    return bool(((volumes >= allowed.low) & (volumes <= allowed.high)).all())


def p_volume(states: Iterable[CellState], allowed: VolumeRange) -> float:
    """Share of states in which every cell's volume lies within the range."""
    return _share(volumes_fit(state, allowed) for state in states)


def fragmented_cells(state: CellState) -> int:
    """Cells that, dilated twice, are not one piece; vanished cells are among them."""
    existing = np.flatnonzero(state.types[1:] > 0) + 1
    return int((fragments(state, dilated=True)[existing] != 1).sum())


def p_unfragmented(states: Iterable[CellState]) -> float:
    """Share of states with at most three fragmented cells."""
    return _share(fragmented_cells(state) <= FRAGMENTED_CELLS_ALLOWED for state in states)


def axial_variances(state: CellState) -> NDArray[np.float64]:
    """Variances of the cell centres of types 1 and 2, `[2 types, d]`: along and across the axis of type 2.

    In 3D across its longer and its shorter side, in this order. NaN where type 2 has fewer than two cells, and for a
    type without cells.
    """
    points = in_tissue(state, mean_coordinates(state))
    by_type = {number: points[(state.types == number) & ~np.isnan(points[:, 0])] for number in AXIAL_TYPES}
    axes = _principal_axes(by_type[AXIAL_TYPES[-1]])
    return _variances(by_type, axes)


def axial_rmse(states: Iterable[CellState], data: Iterable[CellState]) -> float:
    """Root mean square difference of the mean axial variances (four, in 3D six) of samples and data (in sites²)."""
    measured = mean_of([axial_variances(state) for state in states])
    wanted = mean_of([axial_variances(state) for state in data])
    return float(np.sqrt(np.mean((measured - wanted) ** 2)))


def variance_fractions(state: CellState) -> NDArray[np.float64]:
    """Share of the variance of the sites of types 1 and 2, `[2]`, that lies along the axis of type 2.

    The paper compares this one with microscopy, where cells are not told apart: 1/2 (3D: 1/3) is round, 1 is a line.
    """
    sites = np.flatnonzero(state.ids)
    of_site = state.types[state.ids.ravel()[sites]]
    points = in_tissue(state, state.lattice.coordinates(sites))
    by_type = {number: points[of_site == number] for number in AXIAL_TYPES}
    variances = _variances(by_type, _principal_axes(by_type[AXIAL_TYPES[-1]]))
    totals = variances.sum(axis=1)
    return variances[:, 0] / np.where(totals > 0, totals, np.nan)


def mean_of(tables: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Mean over states, leaving out NaN entries; NaN where there is nothing else."""
    if not tables:
        raise UserError("A mean over no states was asked for: give at least one state.")
    stacked = np.stack(tables)
    known = (~np.isnan(stacked)).sum(axis=0)
    return np.nansum(stacked, axis=0) / np.where(known > 0, known, np.nan)


def _volumes(state: CellState) -> NDArray[np.int64]:
    return state.volumes[1:][state.types[1:] > 0]


def _share(answers: Iterable[bool]) -> float:
    found = list(answers)
    if not found:
        raise UserError("A share of no states was asked for: give at least one state.")
    return float(np.mean(found))


def in_tissue(state: CellState, coordinates: NDArray[np.generic]) -> NDArray[np.float64]:
    """Places in space, `[n, d]`, of coordinates `[n, d]`, so that no border tears the tissue if it need not.

    Periodic axes are cut open behind the widest band of medium, or at 0.
    """
    lattice = state.lattice
    origin = []
    for axis, wraps in enumerate(lattice.periodic):
        others = tuple(other for other in range(lattice.dimension) if other != axis)
        occupied = state.ids.max(axis=others, keepdims=True).reshape(1, -1) > 0
        origin.append(int(gap_ends(occupied)[0]) if wraps else 0)
    return lattice.in_space(lattice.seen_from(origin, coordinates))


def _principal_axes(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit vectors along and across the longest extent of points, as columns; NaN for fewer than two."""
    if len(points) < 2:
        return np.full((points.shape[1],) * 2, np.nan)
    deviations = points - points.mean(axis=0)
    return np.linalg.eigh(deviations.T @ deviations).eigenvectors[:, ::-1]


def _variances(by_type: dict[int, NDArray[np.float64]], axes: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = [(points @ axes).var(axis=0) if len(points) else np.full(len(axes), np.nan) for points in by_type.values()]
    return np.stack(rows)
