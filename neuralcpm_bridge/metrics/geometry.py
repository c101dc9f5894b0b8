"""Connected pieces, unwrapped coordinates and moments of cells, on every lattice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..lattice import Window
from ..state import BLOCK, CellState, looked_up

MERGE_DISTANCE = 5
"""Two sites, each dilated twice, touch when they are at most so many steps apart: two rings around each, and the step
from one to the other. A step leads to any site that surrounds one (8 on square, 6 on hexagonal, 26 on cubic lattices).
"""


def joined(root: NDArray[np.intp], ends: NDArray[np.integer], others: NDArray[np.integer]) -> NDArray[np.intp]:
    """Connected components with the edges `ends`–`others` added; `root` is the smallest member of each node's.

    At first every node is its own. Roots hook onto smaller neighbouring roots and chains are shortened, all edges at
    once, until all rest.
    """
    while True:
        low, high = np.minimum(root[ends], root[others]), np.maximum(root[ends], root[others])
        open_edges = low != high
        if not open_edges.any():
            return root
        ends, others = ends[open_edges], others[open_edges]
        root = root.copy()
        np.minimum.at(root, high[open_edges], low[open_edges])
        while not np.array_equal(shorter := root[root], root):
            root = shorter


def fragments(state: CellState, dilated: bool = False) -> NDArray[np.int64]:
    """Connected pieces of every id, `[C]`, 0 for the medium and for ids without sites.

    `dilated`: each cell is dilated twice first, as in the paper's code, so that loose pixels do not count.
    """
    runs, run_ids = _runs(state.ids)
    roots = _joined_runs(state, runs, run_ids.size, state.lattice.geometry.moore_order)
    counts = _pieces_per_id(roots, run_ids, state.types.size)
    if dilated and counts.max(initial=0) > 1:
        roots = joined(roots, *_near_pieces(state, counts > 1, runs, roots))
        counts = _pieces_per_id(roots, run_ids, state.types.size)
    return counts


def piece_map(state: CellState, order: int = 1) -> NDArray[np.int64]:
    """Which connected piece of a cell every site belongs to, shaped like the ids: 1, 2, … in the order of their first
    sites, 0 for the medium. Sites hang together across neighbourhoods of this order."""
    runs, run_ids = _runs(state.ids)
    roots = _joined_runs(state, runs, run_ids.size, order)
    first = (roots == np.arange(roots.size)) & (run_ids > 0)
    return np.where(run_ids > 0, np.cumsum(first)[roots], 0)[runs]


def _joined_runs(state: CellState, runs: NDArray[np.int32], count: int, order: int) -> NDArray[np.intp]:
    """The first run of the piece that every run belongs to."""
    roots = np.arange(count)
    for offset in state.lattice.geometry.half_offsets(order):
        # Part by part: what one has joined is no open edge of the next, so that few are ever held.
        for here, there in state.lattice.windows(offset):
            roots = joined(roots, *_run_edges(state, runs, roots, here, there))
    return roots


def _runs(ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The run (sites of one id side by side in a row) of every site, shaped like `ids`, and the id of every run.

    Runs make the graph of a cell some ten times smaller than single sites do.
    """
    begins = np.ones(ids.shape, dtype=bool)
    np.not_equal(ids[..., 1:], ids[..., :-1], out=begins[..., 1:])
    return (np.cumsum(begins, dtype=np.int32) - 1).reshape(ids.shape), ids[begins]


def _run_edges(
    state: CellState, runs: NDArray[np.int32], roots: NDArray[np.intp], here: Window, there: Window
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Runs of one cell that touch across two windows and are not joined yet, each pair about once."""
    a, b = runs[here], runs[there]
    same = (state.ids[here] == state.ids[there]) & (state.ids[here] > 0) & (a != b)
    same[..., 1:] &= (a[..., 1:] != a[..., :-1]) | (b[..., 1:] != b[..., :-1])  # two runs touch at many sites
    ends, others = a[same], b[same]
    apart = roots[ends] != roots[others]
    return ends[apart], others[apart]


def _near_pieces(
    state: CellState, torn: NDArray[np.bool_], runs: NDArray[np.int32], roots: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs of pieces of one cell which touch after both are dilated twice; `torn[C]` says which cells have several.

    Where two pieces are nearest, both end: only sites at the border of cells need the wide neighbourhood.
    """
    flat, pieces = state.ids.ravel(), roots[runs.ravel()]
    sites = np.flatnonzero(looked_up(torn, state.ids) & state.boundary())
    steps = state.lattice.geometry.ball(MERGE_DISTANCE)
    ends, others = [], []
    for offset in steps[len(steps) // 2 + 1 :]:  # one of each pair of opposites
        reached = state.lattice.shifted(offset, sites)
        here, there = sites[reached >= 0], reached[reached >= 0]
        apart = (flat[here] == flat[there]) & (pieces[here] != pieces[there])
        ends.append(pieces[here[apart]])
        others.append(pieces[there[apart]])
    return np.concatenate(ends), np.concatenate(others)


def _pieces_per_id(roots: NDArray[np.intp], run_ids: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    first = (roots == np.arange(roots.size)) & (run_ids > 0)
    return np.bincount(run_ids[first], minlength=count)


class Unwrapped(NamedTuple):
    """Sites of all cells: `ids[n]` and coordinates `[n, d]` along the lattice's axes, each cell in one piece."""

    ids: NDArray[np.int32]
    coordinates: NDArray[np.int64]


def unwrapped(state: CellState) -> Unwrapped:
    """Whole-numbered coordinates, (row, column) or (plane, row, column), in which no cell is torn by a border.

    Along each periodic axis a cell is cut at the widest gap between its rows (columns, planes); one that goes all the
    way round has no such gap and stays as it lies.
    """
    parts = list(_unwrapped_parts(state, _begins(state)))
    return Unwrapped(np.concatenate([part.ids for part in parts]), np.concatenate([p.coordinates for p in parts]))


def _begins(state: CellState) -> dict[int, NDArray[np.int64]]:
    """Along each periodic axis, where every id begins, `[C]`."""
    lattice = state.lattice
    occupied = {
        axis: np.zeros((state.types.size, lattice.shape[axis]), dtype=bool)
        for axis, wraps in enumerate(lattice.periodic)
        if wraps
    }
    for ids, sites in _cell_sites(state):
        places = np.unravel_index(sites, lattice.shape)
        for axis, table in occupied.items():
            table[ids, places[axis]] = True
    return {axis: gap_ends(table) for axis, table in occupied.items()}


def _unwrapped_parts(state: CellState, begins: dict[int, NDArray[np.int64]]) -> Iterator[Unwrapped]:
    """Unwrapped coordinates, part by part of the lattice."""
    lattice = state.lattice
    for ids, sites in _cell_sites(state):
        coordinates, places = lattice.coordinates(sites), np.unravel_index(sites, lattice.shape)
        for axis, begin in begins.items():
            coordinates[places[axis] < begin[ids]] += lattice.periods[axis]
        yield Unwrapped(ids, coordinates)


def _cell_sites(state: CellState) -> Iterator[tuple[NDArray[np.int32], NDArray[np.intp]]]:
    """Ids and numbers of the sites of cells, part by part of the lattice."""
    flat = state.ids.ravel()
    for start in range(0, flat.size, BLOCK):
        sites = start + np.flatnonzero(flat[start : start + BLOCK])
        yield flat[sites], sites


def gap_ends(occupied: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where what occupies a ring, one per row of `[n, length]`, begins: behind its widest gap; at 0 if it has none."""
    group, place = np.nonzero(occupied)
    count, length = occupied.shape
    starts = np.zeros(count, dtype=np.int64)
    if not group.size:
        return starts
    first = np.r_[True, group[1:] != group[:-1]]
    firsts, lasts = np.flatnonzero(first), np.r_[np.flatnonzero(first)[1:], group.size] - 1
    gap = np.r_[0, np.diff(place)]
    gap[firsts] = place[firsts] + length - place[lasts]
    widest = np.maximum.reduceat(gap, firsts)
    at = np.lexsort((place, -gap, group))[firsts]  # the widest gap of each group, the first of equals
    starts[group[firsts]] = np.where(widest > 1, place[at], 0)
    return starts


def centres(state: CellState) -> NDArray[np.float64]:
    """Centre of mass of every id in space, `[C, d]`; NaN for the medium and for ids without sites."""
    return state.lattice.in_space(mean_coordinates(state)) + state.lattice.corner


def mean_coordinates(state: CellState) -> NDArray[np.float64]:
    """Mean of the unwrapped coordinates of every id, `[C, d]`; NaN for the medium and for ids without sites."""
    return _mean_coordinates(state, _begins(state))


def _mean_coordinates(state: CellState, begins: dict[int, NDArray[np.int64]]) -> NDArray[np.float64]:
    sums = np.zeros((state.types.size, state.lattice.dimension))
    for ids, coordinates in _unwrapped_parts(state, begins):
        for axis, column in enumerate(coordinates.T):
            sums[:, axis] += np.bincount(ids, column, minlength=len(sums))
    return sums / _cell_volumes(state)[:, None]


def second_moments(state: CellState) -> NDArray[np.float64]:
    """Covariance in space of the area or volume of every id, `[C, d, d]`; NaN for the medium and empty ids.

    A site is a unit square, a hexagon or a cube, not a point, so that an a×b rectangle has exactly a²/12 and b²/12.
    """
    lattice, begins = state.lattice, _begins(state)
    means = _mean_coordinates(state, begins)
    sums = np.zeros((state.types.size, lattice.dimension, lattice.dimension))
    for ids, coordinates in _unwrapped_parts(state, begins):
        deviations = lattice.in_space(coordinates - means[ids])
        for a, b in combinations_with_replacement(range(lattice.dimension), 2):
            sums[:, a, b] += np.bincount(ids, deviations[:, a] * deviations[:, b], minlength=len(sums))
            sums[:, b, a] = sums[:, a, b]
    return sums / _cell_volumes(state)[:, None, None] + lattice.geometry.site_moment * np.eye(lattice.dimension)


def _cell_volumes(state: CellState) -> NDArray[np.float64]:
    """Volumes, NaN for the medium and for ids without sites."""
    volumes = state.volumes.astype(np.float64)
    volumes[0] = 0
    return np.where(volumes > 0, volumes, np.nan)
