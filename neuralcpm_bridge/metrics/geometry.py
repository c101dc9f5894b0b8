"""Connected pieces and unwrapped coordinates of cells, on free and on periodic lattices."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..state import MOORE_HALF, CellState

MERGE_DISTANCE = 5
"""Two sites, each dilated twice (Moore), touch when they are at most this far apart in row and column: two
rings around each, and the step from one to the other."""

SitePairs = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


def components(count: int, ends: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.intp]:
    """For each of `count` nodes the smallest node it is connected with through the edges `ends`–`others`.

    Roots hook onto smaller neighbouring roots and chains are shortened, all edges at once, until all rest.
    """
    root = np.arange(count)
    while True:
        low, high = np.minimum(root[ends], root[others]), np.maximum(root[ends], root[others])
        open_edges = low != high
        if not open_edges.any():
            return root
        ends, others = ends[open_edges], others[open_edges]
        np.minimum.at(root, high[open_edges], low[open_edges])
        while not np.array_equal(shorter := root[root], root):
            root = shorter


def neighbour_pairs(
    ids: NDArray[np.int32], periodic: bool, offsets: tuple[tuple[int, int], ...] = MOORE_HALF
) -> SitePairs:
    """Flat indices of both ends of every pair of sites, one entry per offset (row, column)."""
    height, width = ids.shape
    sites = np.arange(ids.size).reshape(height, width)
    pairs = []
    for down, right in offsets:
        if periodic:
            here, there = sites, np.roll(sites, (-down, -right), (0, 1))
        else:
            here = sites[: max(height - down, 0), max(-right, 0) : max(width - max(right, 0), 0)]
            there = sites[down:, max(right, 0) : max(width + min(right, 0), 0)]
        pairs.append((here.ravel(), there.ravel()))
    return pairs


def fragments(state: CellState, periodic: bool = True, dilated: bool = False) -> NDArray[np.int64]:
    """Connected pieces (Moore) of every id, `[C]`, 0 for the medium and for ids without sites.

    `dilated`: each cell is dilated twice first, as in the paper's code, so that loose pixels do not count.
    """
    flat = state.ids.ravel()
    runs, run_ids = _runs(state.ids)
    ends, others = [], []
    for here, there in neighbour_pairs(state.ids, periodic):
        same = (flat[here] == flat[there]) & (flat[here] > 0) & (runs[here] != runs[there])
        ends.append(runs[here[same]])
        others.append(runs[there[same]])
    roots = components(run_ids.size, np.concatenate(ends), np.concatenate(others))
    counts = _pieces_per_id(roots, run_ids, state.types.size)
    if dilated and counts.max(initial=0) > 1:
        # Only the sites of cells in several pieces need the wide neighbourhood.
        sites = np.flatnonzero(counts[flat] > 1)
        merged = components(run_ids.size, *_near_pieces(state.ids, sites, roots[runs], periodic))
        counts = _pieces_per_id(merged[roots], run_ids, state.types.size)
    return counts


def _runs(ids: NDArray[np.int32]) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """The run (sites of one id side by side in a row) of every site, `[H * W]`, and the id of every run.

    Runs make the graph of a cell some ten times smaller than single sites do.
    """
    begins = np.ones(ids.shape, dtype=bool)
    begins[:, 1:] = ids[:, 1:] != ids[:, :-1]
    return np.cumsum(begins.ravel()) - 1, ids[begins]


def _near_pieces(
    ids: NDArray[np.int32], sites: NDArray[np.intp], pieces: NDArray[np.intp], periodic: bool
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs of pieces of one cell which touch after both are dilated twice; `pieces[H * W]`."""
    height, width = ids.shape
    flat = ids.ravel()
    rows, cols = np.divmod(sites, width)
    reach = range(-MERGE_DISTANCE, MERGE_DISTANCE + 1)
    ends, others = [], []
    for down, right in product(range(MERGE_DISTANCE + 1), reach):
        to_row, to_col = rows + down, cols + right
        inside = periodic | ((to_row < height) & (to_col >= 0) & (to_col < width))
        here, there = sites[inside], (to_row[inside] % height) * width + to_col[inside] % width
        apart = (flat[here] == flat[there]) & (pieces[here] != pieces[there])
        ends.append(pieces[here[apart]])
        others.append(pieces[there[apart]])
    return np.concatenate(ends), np.concatenate(others)


def _pieces_per_id(roots: NDArray[np.intp], run_ids: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    first = (roots == np.arange(roots.size)) & (run_ids > 0)
    return np.bincount(run_ids[first], minlength=count)


class Unwrapped(NamedTuple):
    """Sites of all cells: `ids[n]` and coordinates `[n, 2]` (row, column), each cell in one piece."""

    ids: NDArray[np.int32]
    coordinates: NDArray[np.float64]


def unwrapped(state: CellState, periodic: bool = True) -> Unwrapped:
    """Coordinates in which no cell is torn by the lattice's border.

    On a periodic lattice each cell is cut, per axis, at the widest gap between its rows (columns); one that
    goes all the way round has no such gap and stays as it lies.
    """
    rows, cols = np.nonzero(state.ids)
    ids = state.ids[rows, cols]
    if not periodic:
        return Unwrapped(ids, np.stack([rows, cols], axis=1).astype(np.float64))
    axes = []
    for places, length in zip((rows, cols), state.shape, strict=True):
        start = gap_ends(ids, places, state.types.size, length)[ids]
        axes.append(start + (places - start) % length)
    return Unwrapped(ids, np.stack(axes, axis=1).astype(np.float64))


def gap_ends(groups: NDArray[np.int32], places: NDArray[np.intp], count: int, length: int) -> NDArray[np.int64]:
    """Where each group begins on a ring of `length`, `[count]`: behind its widest gap; 0 if it has none."""
    occupied = np.zeros((count, length), dtype=bool)
    occupied[groups, places] = True
    group, place = np.nonzero(occupied)
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


def centres(state: CellState, periodic: bool = True) -> NDArray[np.float64]:
    """Centre of mass (row, column) of every id, `[C, 2]`; NaN for the medium and for ids without sites."""
    ids, coordinates = unwrapped(state, periodic)
    return _means(ids, coordinates, state.types.size)


def second_moments(state: CellState, periodic: bool = True) -> NDArray[np.float64]:
    """Covariance of the area of every id, `[C, 2, 2]`; NaN for the medium and for ids without sites.

    A site is a unit square, not a point (hence 1/12), so that an a×b rectangle has exactly a²/12 and b²/12.
    """
    ids, coordinates = unwrapped(state, periodic)
    deviations = coordinates - _means(ids, coordinates, state.types.size)[ids]
    products = deviations[:, :, None] * deviations[:, None, :]
    covariances = _means(ids, products.reshape(-1, 4), state.types.size).reshape(-1, 2, 2)
    return covariances + np.eye(2) / 12


def _means(ids: NDArray[np.int32], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    sums = np.stack([np.bincount(ids, column, minlength=count) for column in values.T], axis=1)
    volumes = np.bincount(ids, minlength=count).astype(np.float64)
    return sums / np.where(volumes > 0, volumes, np.nan)[:, None]
