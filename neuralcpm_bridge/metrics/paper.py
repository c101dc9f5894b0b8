"""The measures of "Deep Neural Cellular Potts Models": p_volume, p_unfragmented, axial alignment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..state import CellState
from .geometry import centres, fragments, gap_ends

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


def fragmented_cells(state: CellState, periodic: bool = True) -> int:
    """Cells that, dilated twice, are not one piece; vanished cells are among them."""
    existing = np.flatnonzero(state.types[1:] > 0) + 1
    return int((fragments(state, periodic, dilated=True)[existing] != 1).sum())


def p_unfragmented(states: Iterable[CellState], periodic: bool = True) -> float:
    """Share of states with at most three fragmented cells."""
    return _share(fragmented_cells(state, periodic) <= FRAGMENTED_CELLS_ALLOWED for state in states)


def axial_variances(state: CellState, periodic: bool = True) -> NDArray[np.float64]:
    """Variances of the cell centres of types 1 and 2, `[2 types, 2]`: along and across the axis of type 2.

    NaN where type 2 has fewer than two cells, and for a type without cells.
    """
    points = _tissue_centres(state, periodic)
    by_type = {kind: points[(state.types == kind) & ~np.isnan(points[:, 0])] for kind in AXIAL_TYPES}
    axes = _principal_axes(by_type[AXIAL_TYPES[-1]])
    return _variances(by_type, axes)


def axial_rmse(states: Iterable[CellState], data: Iterable[CellState], periodic: bool = True) -> float:
    """Root mean square difference of the four mean axial variances of samples and data (in sites²)."""
    measured = mean_of([axial_variances(state, periodic) for state in states])
    wanted = mean_of([axial_variances(state, periodic) for state in data])
    return float(np.sqrt(np.mean((measured - wanted) ** 2)))


def variance_fractions(state: CellState, periodic: bool = True) -> NDArray[np.float64]:
    """Share of the variance of the sites of types 1 and 2, `[2]`, that lies along the axis of type 2.

    The paper compares this one with microscopy, where cells are not told apart: 1/2 is round, 1 is a line.
    """
    rows, cols = np.nonzero(state.ids)
    kinds = state.types[state.ids[rows, cols]]
    sites = np.stack([rows, cols], axis=1).astype(np.float64)
    if periodic:
        sites = (sites - _tissue_origin(state)) % state.shape
    by_type = {kind: sites[kinds == kind] for kind in AXIAL_TYPES}
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


def _tissue_origin(state: CellState) -> NDArray[np.int64]:
    """The corner at which to cut a periodic lattice open: behind the widest bands of medium, or (0, 0)."""
    rows, cols = np.nonzero(state.ids)
    whole = np.zeros(rows.size, dtype=np.int32)
    pairs = zip((rows, cols), state.shape, strict=True)
    return np.array([gap_ends(whole, places, 1, length)[0] for places, length in pairs])


def _tissue_centres(state: CellState, periodic: bool) -> NDArray[np.float64]:
    """Centres of all ids, in coordinates in which the border does not tear the tissue if it need not."""
    points = centres(state, periodic)
    return (points - _tissue_origin(state)) % state.shape if periodic else points


def _principal_axes(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit vectors along and across the longest extent of points, as columns; NaN for fewer than two."""
    if len(points) < 2:
        return np.full((2, 2), np.nan)
    deviations = points - points.mean(axis=0)
    return np.linalg.eigh(deviations.T @ deviations).eigenvectors[:, ::-1]


def _variances(by_type: dict[int, NDArray[np.float64]], axes: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = [(points @ axes).var(axis=0) if len(points) else np.full(2, np.nan) for points in by_type.values()]
    return np.stack(rows)
