"""What a flip changes in the quantities that stock simulators charge for: contacts, volumes, surfaces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .sampling import FlipSample


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


def flip_changes(sample: FlipSample, count: int, order: int) -> FlipChanges:
    """The changes of every flip of a sample: `count` types, the medium included; neighbours up to `order`."""
    state = sample.state
    weight = state.lattice.geometry.pair_weight(order)
    ids = state.ids.ravel()
    old_ids = ids[sample.sites].astype(np.int64)
    neighbours = state.lattice.neighbours(order, sample.sites)
    around, exists = ids[neighbours].astype(np.int64), neighbours >= 0
    pair_of = np.full((count, count), -1)
    pairs = type_pairs(count)
    for number, (a, b) in enumerate(pairs):
        pair_of[a, b] = pair_of[b, a] = number
    contacts = np.zeros((sample.sites.size, len(pairs)))
    everyone = np.arange(sample.sites.size)
    like = []
    for side, sign in ((old_ids, -1), (sample.new_ids, +1)):
        same = (around == side[:, None]) & exists
        like.append(same.sum(axis=1))
        for column in range(neighbours.shape[1]):
            unlike = exists[:, column] & ~same[:, column]
            pair = pair_of[state.types[side[unlike]], state.types[around[unlike, column]]]
            np.add.at(contacts, (everyone[unlike], pair), sign)
    present = exists.sum(axis=1)
    ends = np.stack([old_ids, sample.new_ids], axis=1)
    return FlipChanges(
        contacts=contacts * weight,
        types=state.types[ends].astype(np.int64),
        volumes=state.volumes[ends].astype(np.float64),
        volume_change=np.broadcast_to([-1.0, 1.0], ends.shape).copy(),
        surfaces=state.surfaces(order)[ends],
        # the site's own unlike pairs go (come), and each like neighbour gains (loses) one
        surface_change=np.stack([2 * like[0] - present, present - 2 * like[1]], axis=1) * weight,
    )
