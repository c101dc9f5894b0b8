"""Lattices of every kind, states on them, and the analytic energies by their definitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from neuralcpm_bridge._engine import Model, State
from neuralcpm_bridge.lattice import Lattice, Layout
from neuralcpm_bridge.state import CellState

from .models import TYPES, Weights

LAYOUTS: list[tuple[str, Layout]] = [
    ("square", "axes"),
    ("hexagonal", "axes"),
    ("hexagonal", "rows"),
    ("cubic", "axes"),
]
BOUNDARIES = ("periodic", "free")


@st.composite
def lattices(
    draw: st.DrawFn,
    flat: tuple[int, int] = (1, 7),
    solid: tuple[int, int] = (1, 4),
    kinds: list[tuple[str, Layout]] = LAYOUTS,
    boundaries: tuple[str, ...] = BOUNDARIES,
) -> Lattice:
    """Any geometry, layout and boundary per axis; so many sites along each axis in 2D and in 3D."""
    geometry, layout = draw(st.sampled_from(kinds))
    dimension, sides = (3, solid) if geometry == "cubic" else (2, flat)
    boundary = [draw(st.sampled_from(boundaries)) for _ in range(dimension)]
    shape = [draw(st.integers(*sides)) for _ in range(dimension)]
    if layout == "rows" and boundary[0] == "periodic":
        shape[0] += shape[0] % 2
    return Lattice.of(shape, geometry, boundary, layout)


ORDERS = st.fixed_dictionaries({"contact": st.integers(1, 4), "surface": st.integers(1, 4)})


def scattered(
    rng: np.random.Generator, lattice: Lattice, ids: int, fill: float = 0.6, absent: bool = True
) -> CellState:
    """Blocky cells across all borders; the last id may have no pixels or not exist."""
    sites = np.zeros(lattice.shape, dtype=np.int32)
    for cell in range(1, ids - 1 if ids > 2 else ids):
        sides = [(rng.integers(n) + np.arange(rng.integers(1, max(2, n // 3) + 1))) % n for n in lattice.shape]
        block = np.ix_(*sides)
        sites[block] = np.where(rng.random(sites[block].shape) < fill, cell, sites[block])
    types = np.concatenate([[0], rng.integers(1, len(TYPES), size=ids - 1)])
    if absent and ids > 2 and rng.random() < 0.5:
        types[-1] = -1
    return CellState(sites, types, lattice)


def open_state(model: Model, state: CellState, **options: Any) -> State:
    """A state of the engine on the lattice that the state says."""
    lattice = state.lattice
    return State(model, state.ids, state.types, layout=lattice.layout, boundary=lattice.boundary, **options)


def again(model: Model, state: State, lattice: Lattice) -> State:
    """The same state, from scratch."""
    return open_state(model, CellState(state.ids, state.types, lattice))


# -- energies by definition ----------------------------------------------------------------------------------------


def unlike(state: CellState, order: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Ids of all ordered pairs of neighbours that belong to different cells."""
    table = state.lattice.neighbours(order)
    here, there = np.broadcast_to(state.ids.reshape(-1, 1), table.shape), state.ids.ravel()[table]
    differ = (table >= 0) & (here != there)
    return here[differ], there[differ]


def volume_function(weights: Weights, cell_type: int, volume: float) -> float:
    """A polynomial between two volumes, continued by a parabola of equal value and slope."""
    center, low, high, coefficients, stiffness = (
        weights[f"symbolic.volume_function.{name}"][cell_type]
        for name in ("center", "low", "high", "coefficients", "stiffness")
    )
    polynomial = np.polynomial.Polynomial([0, *coefficients])
    inside = min(max(volume, low), high)
    beyond = volume - inside
    return polynomial(inside - center) + polynomial.deriv()(inside - center) * beyond + stiffness * beyond**2


def plain_energy(weights: Weights, state: CellState, orders: Mapping[str, int]) -> float:
    """w_S·H_S of contact, volume, volume_function, surface and external: sums over everything, without shortcuts."""
    types, energy = state.types, float(weights["symbolic.offset"])
    geometry = state.lattice.geometry
    if "symbolic.contact.J" in weights:
        here, there = unlike(state, orders["contact"])
        pairs = weights["symbolic.contact.J"][types[here], types[there]]
        energy += geometry.pair_weight(orders["contact"]) * pairs.sum() / 2  # from both ends
    if "symbolic.external.field" in weights:
        coupling = weights["symbolic.external.coupling"][types[state.ids]]
        energy += float((np.moveaxis(weights["symbolic.external.field"], 0, -1) * coupling).sum())
    volumes = np.bincount(state.ids.ravel(), minlength=types.size)
    leaving = np.bincount(unlike(state, orders["surface"])[0], minlength=types.size)
    quantities = {"volume": volumes, "surface": geometry.pair_weight(orders["surface"]) * leaving}
    for cell in np.flatnonzero(types >= 1):
        for term, quantity in quantities.items():
            if f"symbolic.{term}.strength" in weights:
                strength, target = (weights[f"symbolic.{term}.{name}"][types[cell]] for name in ("strength", "target"))
                energy += strength * (quantity[cell] - target) ** 2
        if "symbolic.volume_function.center" in weights:
            energy += volume_function(weights, types[cell], volumes[cell])
    return float(weights["symbolic.weight"]) * energy


def axes_lengths(lattice: Lattice, coordinates: NDArray[np.int64]) -> tuple[float, float]:
    """Longest and shortest axis of the ellipse or ellipsoid with the sites' covariance; coordinates `[n, d]`."""
    if len(coordinates) == 0:
        return 0.0, 0.0
    places = lattice.in_space(coordinates)
    places = places - places.mean(axis=0)
    variances = np.linalg.eigvalsh(places.T @ places / len(places))
    scale = 4.0 if lattice.dimension == 2 else 2 * np.sqrt(5.0)
    return scale * np.sqrt(max(variances[-1], 0.0)), scale * np.sqrt(max(variances[0], 0.0))


def length_energy(weights: Weights, cell_type: int, lattice: Lattice, coordinates: NDArray[np.int64]) -> float:
    """w_S times what one cell adds to the length term."""
    longest, shortest = axes_lengths(lattice, coordinates)
    strength = weights["symbolic.length.strength"][cell_type]
    energy = strength * (longest - weights["symbolic.length.target"][cell_type]) ** 2
    if "symbolic.length.minor_target" in weights:
        energy += strength * (shortest - weights["symbolic.length.minor_target"][cell_type]) ** 2
    return float(weights["symbolic.weight"] * energy)


# -- cells that know where they are --------------------------------------------------------------------------------


def sites_at(lattice: Lattice, coordinates: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sites at whole coordinates `[n, d]` along the geometry's axes, however often round; −1 beyond a free border."""
    places = coordinates.copy()
    if lattice.layout == "rows":
        places[:, 1] += (places[:, 0] + 1) // 2
    outside = ((places < 0) | (places >= lattice.shape)) & ~np.array(lattice.periodic)
    sites = np.ravel_multi_index(tuple(places.T), lattice.shape, mode="wrap")
    return np.where(outside.any(axis=1), -1, sites)


@dataclass
class Boxes:
    """A state whose cells stay each in a box of its own, less than three eighths of every ring across.

    Boxes overlap, so that cells touch; within its box a cell's shape in the open plane is known.
    """

    lattice: Lattice
    coordinates: list[NDArray[np.int64]]
    """Of the sites of each id's box, `[n, d]`; the medium has none."""
    sites: list[NDArray[np.int64]]

    @classmethod
    def scattered(cls, rng: np.random.Generator, lattice: Lattice, cells: int, most: int = 5) -> Boxes:
        """`cells` boxes of at most so many sites along each axis."""
        room = [
            min(most, (3 * n - 1) // 8 + 1 if ring else n)
            for n, ring in zip(lattice.shape, lattice.periodic, strict=True)
        ]
        boxes = cls(lattice, [np.empty((0, lattice.dimension), dtype=np.int64)], [np.empty(0, dtype=np.int64)])
        for _ in range(cells):
            sides = [int(rng.integers(1, n + 1)) for n in room]
            corner = lattice.coordinates(rng.integers(lattice.sites, size=1))
            inside = corner + np.indices(sides).reshape(lattice.dimension, -1).T
            there = sites_at(lattice, inside)
            boxes.coordinates.append(inside[there >= 0])
            boxes.sites.append(there[there >= 0])
        return boxes

    def fill(self, rng: np.random.Generator, fill: float = 0.7) -> CellState:
        ids = np.zeros(self.lattice.sites, dtype=np.int32)
        for cell, sites in enumerate(self.sites):
            ids[sites[rng.random(sites.size) < fill]] = cell
        types = np.concatenate([[0], rng.integers(1, len(TYPES), size=len(self.sites) - 1)])
        return CellState(ids.reshape(self.lattice.shape), types, self.lattice)

    def length_energy(self, weights: Weights, ids: NDArray[np.int32], types: NDArray[np.int32]) -> float:
        """w_S·H of a model whose only term is the length, by definition."""
        energy = float(weights["symbolic.weight"] * weights["symbolic.offset"])
        for cell in np.flatnonzero(types >= 1):
            owned = self.coordinates[cell][ids.ravel()[self.sites[cell]] == cell]
            energy += length_energy(weights, types[cell], self.lattice, owned)
        return energy
