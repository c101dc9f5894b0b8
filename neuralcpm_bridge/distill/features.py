"""What a flip changes in the quantities that stock simulators charge for: contacts, volumes, surfaces, lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..metrics.geometry import mean_coordinates, second_moments
from ..state import CellState
from .sampling import FlipSample


class BeforeAfter(NamedTuple):
    """A quantity of the losing and of the gaining cell, `[n, 2]` each."""

    before: NDArray[np.float64]
    after: NDArray[np.float64]


@dataclass(frozen=True)
class FlipChanges:
    """Per flip: contact counts by type pair `[n, P]`, and of the losing and the gaining cell their types, volumes,
    surfaces and lengths before and after `[n, 2]` (type 0: the medium, which pays for none)."""

    contacts: NDArray[np.float64]
    types: NDArray[np.int64]
    volume: BeforeAfter
    surface: BeforeAfter
    length: BeforeAfter

    @staticmethod
    def joined(parts: list[FlipChanges]) -> FlipChanges:
        def join(*arrays: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate(arrays)

        pairs = {
            name: BeforeAfter(*map(join, *(getattr(part, name) for part in parts)))
            for name in ("volume", "surface", "length")
        }
        return FlipChanges(join(*(part.contacts for part in parts)), join(*(part.types for part in parts)), **pairs)


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
    surfaces, volumes = state.surfaces(order)[ends], state.volumes[ends].astype(np.float64)
    # the site's own unlike pairs go (come), and each like neighbour gains (loses) one
    more = np.stack([2 * like[0] - present, present - 2 * like[1]], axis=1) * weight
    return FlipChanges(
        contacts=contacts * weight,
        types=state.types[ends].astype(np.int64),
        volume=BeforeAfter(volumes, volumes + np.array([-1, 1])),
        surface=BeforeAfter(surfaces, surfaces + more),
        length=_lengths(state, sample.sites, ends),
    )


def _lengths(state: CellState, sites: NDArray[np.int64], ends: NDArray[np.int64]) -> BeforeAfter:
    """Longest axes (the term `length`) of the cells that lose and gain each site; 0 for the medium and no cell."""
    lattice, dimension = state.lattice, state.lattice.dimension
    middles, volumes = np.nan_to_num(mean_coordinates(state)), state.volumes.astype(np.float64)
    shapes = second_moments(state) - lattice.geometry.site_moment * np.eye(dimension)
    shapes[~(volumes > 0)] = shapes[0] = 0
    places = lattice.coordinates(sites)
    after = []
    for side, sign in enumerate((-1, 1)):
        cell = ends[:, side]
        away, count = lattice.shortest(places - middles[cell]), volumes[cell, None, None]
        then = np.maximum(count + sign, 1)
        # one site more (or less) moves the middle and adds (takes) its distance from it
        moved = count / then * (shapes[cell] + sign * away[:, :, None] * away[:, None, :] / then)
        after.append(np.where((cell > 0)[:, None, None] & (count + sign > 0), moved, 0.0))
    return BeforeAfter(longest_axes(shapes)[ends], longest_axes(np.stack(after, axis=1)))


def longest_axes(shapes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The longest axis of the ellipse or ellipsoid with these covariances `[…, d, d]`."""
    return 2 * np.sqrt((shapes.shape[-1] + 2) * np.maximum(np.linalg.eigvalsh(shapes)[..., -1], 0))
