"""Random lattices and states, the hard ones included: borders, fragments, empty ids, missing ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from neuralcpm_bridge.lattice import GEOMETRIES, Lattice
from neuralcpm_bridge.state import CellState

LAYOUTS = (("square", "axes"), ("hexagonal", "axes"), ("hexagonal", "rows"), ("cubic", "axes"))
"""Every geometry with every way in which its sites are stored."""


def random_state(
    rng: np.random.Generator,
    shape: Sequence[int],
    ids: int,
    types: int = 3,
    absent: bool = True,
    fill: float = 0.6,
    lattice: Lattice | None = None,
) -> CellState:
    """Blocky cells scattered over the lattice and across its borders; the last id may have no pixels or not exist."""
    sites = np.zeros(tuple(shape), dtype=np.int32)
    present = ids - 1 if ids > 2 else ids
    for cell in range(1, present):
        places = [
            (rng.integers(size) + np.arange(rng.integers(1, max(2, size // 3) + 1))) % size for size in sites.shape
        ]
        block = np.ix_(*places)
        kept = rng.random([place.size for place in places]) < fill
        sites[block] = np.where(kept, cell, sites[block])
    of_cell = np.concatenate([[0], rng.integers(1, types, size=ids - 1)])
    if absent and ids > 2 and rng.random() < 0.5:
        of_cell[-1] = -1
    return CellState(sites, of_cell, lattice)


@st.composite
def states(draw: st.DrawFn, sides: tuple[int, int] = (6, 14), ids: tuple[int, int] = (2, 7)) -> CellState:
    """Periodic square states."""
    seed = draw(st.integers(0, 2**32 - 1))
    shape = (draw(st.integers(*sides)), draw(st.integers(*sides)))
    return random_state(np.random.default_rng(seed), shape, draw(st.integers(*ids)))


@st.composite
def lattices(
    draw: st.DrawFn,
    sides: tuple[int, int] = (1, 8),
    layouts: Sequence[tuple[str, str]] = LAYOUTS,
    boundaries: Sequence[str] = ("periodic", "free"),
) -> Lattice:
    """Every geometry, layout and boundary per axis; 3D lattices have half the sides of plane ones."""
    geometry, layout = draw(st.sampled_from(list(layouts)))
    dimension = GEOMETRIES[geometry].dimension
    low, high = sides if dimension == 2 else (max(1, sides[0] // 2), max(2, (sides[1] + 1) // 2))
    shape = [draw(st.integers(low, high)) for _ in range(dimension)]
    boundary = [draw(st.sampled_from(list(boundaries))) for _ in range(dimension)]
    if layout == "rows" and boundary[0] == "periodic":
        shape[0] += shape[0] % 2  # an odd number of pushed rows closes to no ring
    return Lattice.of(shape, geometry, boundary, layout)  # type: ignore[arg-type]


@st.composite
def states_on(
    draw: st.DrawFn, where: st.SearchStrategy[Lattice] | None = None, ids: tuple[int, int] = (2, 7)
) -> CellState:
    """States of every lattice."""
    lattice = draw(lattices((4, 10)) if where is None else where)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return random_state(rng, lattice.shape, draw(st.integers(*ids)), lattice=lattice)
