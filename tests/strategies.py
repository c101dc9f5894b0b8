"""Random states, the hard ones included: borders, fragments, empty ids, missing ids."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from neuralcpm_bridge.state import CellState


def random_state(
    rng: np.random.Generator, shape: tuple[int, int], ids: int, types: int = 3, absent: bool = True, fill: float = 0.6
) -> CellState:
    """Blocky cells scattered over the lattice and across its borders; the last id may have no pixels or not exist."""
    height, width = shape
    lattice = np.zeros(shape, dtype=np.int32)
    present = ids - 1 if ids > 2 else ids
    for cell in range(1, present):
        rows = (rng.integers(height) + np.arange(rng.integers(1, max(2, height // 3) + 1))) % height
        cols = (rng.integers(width) + np.arange(rng.integers(1, max(2, width // 3) + 1))) % width
        block = np.ix_(rows, cols)
        lattice[block] = np.where(rng.random((rows.size, cols.size)) < fill, cell, lattice[block])
    of_cell = np.concatenate([[0], rng.integers(1, types, size=ids - 1)])
    if absent and ids > 2 and rng.random() < 0.5:
        of_cell[-1] = -1
    return CellState(lattice, of_cell)


@st.composite
def states(draw: st.DrawFn, sides: tuple[int, int] = (6, 14), ids: tuple[int, int] = (2, 7)) -> CellState:
    seed = draw(st.integers(0, 2**32 - 1))
    shape = (draw(st.integers(*sides)), draw(st.integers(*sides)))
    return random_state(np.random.default_rng(seed), shape, draw(st.integers(*ids)))
