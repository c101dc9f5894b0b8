"""What all lattices of one kind share: distances between sites, their places in space, neighbourhoods, symmetries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .errors import UserError

GeometryName = Literal["square", "hexagonal", "cubic"]

MOST_NEIGHBOURS = 128
"""Of one neighbourhood; far beyond what hosts offer, and what the engine makes room for."""


@dataclass(frozen=True)
class Geometry:
    """What all lattices of one kind share: the distances between sites, their places in space, their symmetries."""

    name: GeometryName
    dimension: int
    moore_order: int
    """Order of the neighbourhood that surrounds a site: 8 on square, 6 on hexagonal, 26 on cubic lattices."""

    def squared_lengths(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact squared distances in units of the nearest neighbours', `[n]`, of offsets `[n, d]`."""
        squares = (offsets**2).sum(axis=-1)
        return squares + offsets[..., 0] * offsets[..., 1] if self.name == "hexagonal" else squares

    @property
    def basis(self) -> NDArray[np.float64]:
        """Steps along each axis in space, `[d, d]`: position = index @ basis."""
        if self.name == "hexagonal":
            return np.array([[np.sqrt(3) / 2, 0.5], [0.0, 1.0]])
        return np.eye(self.dimension)

    @property
    def site_volume(self) -> float:
        """Area or volume of one site in space."""
        return float(abs(np.linalg.det(self.basis)))

    def offsets(self, order: int) -> NDArray[np.int64]:
        """Neighbours up to the order-th distance, `[n, d]`, ascending; n − 1 − k is the opposite of k."""
        return _offsets(self, order)

    def half_offsets(self, order: int) -> NDArray[np.int64]:
        """One of each pair of opposite neighbours: what reaches every unordered pair of sites once."""
        offsets = self.offsets(order)
        return offsets[len(offsets) // 2 :]

    def neighbour_count(self, order: int) -> int:
        return len(self.offsets(order))

    def pair_weight(self, order: int) -> float:
        """2/|N|: what one pair of neighbours weighs in contact energies and surfaces."""
        return 2.0 / self.neighbour_count(order)

    @property
    def site_moment(self) -> float:
        """Second moment of one site's own area or volume along any axis: of a unit square, a cube or a hexagon.

        A regular hexagon of side a has 5/24·a², and a = 1/√3 where centres lie 1 apart.
        """
        return 5 / 72 if self.name == "hexagonal" else 1 / 12

    def ball(self, steps: int) -> NDArray[np.int64]:
        """Everything within so many steps of the neighbourhood that surrounds a site, itself included, `[n, d]`."""
        return _ball(self, steps)

    def order_within(self, distance: float) -> int:
        """The order of the neighbourhood of all sites up to a distance."""
        order = int(np.searchsorted(_shells(self), (distance + 1e-9) ** 2, side="right"))
        if order == 0:
            raise UserError(
                f"No site lies within a distance of {distance:g}, but the nearest neighbours lie at 1: give 1 or more."
            )
        self.offsets(order)
        return order

    def pairs_per_length(self, order: int) -> float:
        """Mean number of neighbour pairs across a unit of interface (a length in 2D, an area in 3D)."""
        lengths = np.sqrt(self.squared_lengths(self.half_offsets(order)))
        mean_cosine = 2 / np.pi if self.dimension == 2 else 0.5
        return float(mean_cosine * lengths.sum() / self.site_volume)

    @property
    def symmetries(self) -> list[NDArray[np.int64]]:
        """Turns and mirrors that map the endless lattice onto itself, as matrices `[d, d]`: index ↦ matrix @ index."""
        return _symmetries(self)


GEOMETRIES: dict[str, Geometry] = {
    "square": Geometry("square", 2, 2),
    "hexagonal": Geometry("hexagonal", 2, 1),
    "cubic": Geometry("cubic", 3, 3),
}


def geometry_named(name: str) -> Geometry:
    if name not in GEOMETRIES:
        raise UserError(f"There is no lattice {name!r}: choose one of {', '.join(GEOMETRIES)}.")
    return GEOMETRIES[name]


REACH = 8
"""Farthest step along an axis that neighbourhoods may take."""


@lru_cache
def _box(geometry: Geometry) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All offsets within reach, ascending, and their squared lengths."""
    offsets = np.array(list(product(range(-REACH, REACH + 1), repeat=geometry.dimension)), dtype=np.int64)
    return offsets, geometry.squared_lengths(offsets)


@lru_cache
def _shells(geometry: Geometry) -> NDArray[np.int64]:
    """Squared distances of the shells, nearest first, as far as the box holds them whole."""
    found = np.unique(_box(geometry)[1])
    # A step of REACH + 1 along one axis is at least that times the axes' smallest distance (√3/2) away.
    return found[(found > 0) & (4 * found < 3 * (REACH + 1) ** 2)]


@lru_cache(maxsize=64)
def _offsets(geometry: Geometry, order: int) -> NDArray[np.int64]:
    shells = _shells(geometry)
    offsets, squares = _box(geometry)
    if order < 1 or order > shells.size or ((squares > 0) & (squares <= shells[order - 1])).sum() > MOST_NEIGHBOURS:
        raise UserError(
            f"A neighbourhood of order {order} was asked for, but on {geometry.name} lattices orders from 1 to "
            f"{_highest_order(geometry)} (at most {MOST_NEIGHBOURS} neighbours) are possible: choose one of them."
        )
    chosen = offsets[(squares > 0) & (squares <= shells[order - 1])]
    chosen.setflags(write=False)
    return chosen


def _highest_order(geometry: Geometry) -> int:
    counts = [int(((_box(geometry)[1] > 0) & (_box(geometry)[1] <= shell)).sum()) for shell in _shells(geometry)]
    return sum(count <= MOST_NEIGHBOURS for count in counts)


@lru_cache(maxsize=16)
def _ball(geometry: Geometry, steps: int) -> NDArray[np.int64]:
    reached = np.zeros((1, geometry.dimension), dtype=np.int64)
    for _ in range(steps):
        farther = (reached[:, None] + geometry.offsets(geometry.moore_order)).reshape(-1, geometry.dimension)
        reached = np.unique(np.concatenate([reached, farther]), axis=0)
    reached.setflags(write=False)
    return reached


@lru_cache
def _symmetries(geometry: Geometry) -> list[NDArray[np.int64]]:
    if geometry.name == "hexagonal":
        turn = np.array([[1, 1], [-1, 0]])  # by 60°: (row, col) = (1, 0) ↦ (1, -1), (0, 1) ↦ (1, 0)
        mirror = np.array([[0, 1], [1, 0]])
        turns = [np.linalg.matrix_power(turn, k) for k in range(6)]
        return [*turns, *(mirror @ power for power in turns)]
    found = []
    for axes in permutations(range(geometry.dimension)):
        for signs in product((1, -1), repeat=geometry.dimension):
            matrix = np.zeros((geometry.dimension, geometry.dimension), dtype=np.int64)
            matrix[np.arange(geometry.dimension), axes] = signs
            found.append(matrix)
    return found
