"""What a flip changes in the quantities that stock simulators charge for: contacts, volumes, surfaces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..state import CellState
from .sampling import MOORE, FlipSample


@dataclass(frozen=True)
class FlipChanges:
    """Per flip: contact counts by type pair `[n, P]`, and of the losing and the gaining cell their types,
    volumes and surfaces before and the change of each `[n, 2]` (type 0: the medium, which pays for none)."""

    contacts: NDArray[np.float64]
    types: NDArray[np.int64]
    volumes: NDArray[np.float64]
    volume_change: NDArray[np.float64]
    surfaces: NDArray[np.float64]
    surface_change: NDArray[np.float64]

    @staticmethod
    def joined(parts: list[FlipChanges]) -> FlipChanges:
        names = FlipChanges.__dataclass_fields__
        return FlipChanges(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def type_pairs(count: int) -> list[tuple[int, int]]:
    """Pairs of types that may touch: all but the medium with itself."""
    return [(a, b) for a in range(count) for b in range(max(a, 1), count)]


def flip_changes(sample: FlipSample, count: int, periodic: bool) -> FlipChanges:
    """The changes of every flip of a sample; `count` types, the medium included."""
    state = sample.state
    old_ids = state.ids[sample.rows, sample.cols].astype(np.int64)
    around, exists = _neighbours(state, sample.rows, sample.cols, periodic)
    pair_of = np.full((count, count), -1)
    pairs = type_pairs(count)
    for number, (a, b) in enumerate(pairs):
        pair_of[a, b] = pair_of[b, a] = number
    contacts = np.zeros((sample.rows.size, len(pairs)))
    everyone = np.arange(sample.rows.size)
    like = []
    for ids, sign in ((old_ids, -1), (sample.new_ids, +1)):
        same = (around == ids[:, None]) & exists
        like.append(same.sum(axis=1))
        for column in range(len(MOORE)):
            unlike = exists[:, column] & ~same[:, column]
            pair = pair_of[state.types[ids[unlike]], state.types[around[unlike, column]]]
            np.add.at(contacts, (everyone[unlike], pair), sign)
    neighbours = exists.sum(axis=1)
    ends = np.stack([old_ids, sample.new_ids], axis=1)
    surfaces = _surfaces(state, periodic)
    return FlipChanges(
        contacts=contacts / 4,
        types=state.types[ends].astype(np.int64),
        volumes=state.volumes[ends].astype(np.float64),
        volume_change=np.broadcast_to([-1.0, 1.0], ends.shape).copy(),
        surfaces=surfaces[ends],
        # the site's own unlike pairs go (come), and each like neighbour gains (loses) one
        surface_change=np.stack([2 * like[0] - neighbours, neighbours - 2 * like[1]], axis=1) / 4,
    )


def _neighbours(
    state: CellState, rows: NDArray[np.int64], cols: NDArray[np.int64], periodic: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Ids around every site `[n, 8]`, and which of them lie on the lattice."""
    height, width = state.shape
    to_row, to_col = rows[:, None] + MOORE[:, 0], cols[:, None] + MOORE[:, 1]
    exists = np.ones(to_row.shape, dtype=bool)
    if not periodic:
        exists = (to_row >= 0) & (to_row < height) & (to_col >= 0) & (to_col < width)
    return state.ids[to_row % height, to_col % width].astype(np.int64), exists


def _surfaces(state: CellState, periodic: bool) -> NDArray[np.float64]:
    """S of every id: a quarter of the ordered Moore pairs that leave it."""
    rows, cols = np.divmod(np.arange(state.ids.size), state.shape[1])
    around, exists = _neighbours(state, rows, cols, periodic)
    own = state.ids.ravel().astype(np.int64)
    leaving = ((around != own[:, None]) & exists).sum(axis=1)
    return np.bincount(own, weights=leaving, minlength=state.types.size) / 4
