"""Plane states as RGB arrays: square sites as squares, hexagonal ones as hexagons at their places in space."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..lattice import Lattice
from ..state import CellState, looked_up
from .drawing import INK, PAPER, type_colour

LINE = 0.35
"""Thickness of the borders of cells, in sites."""

NOWHERE = -1
"""The site of a pixel beyond the lattice."""

ROW = np.sqrt(3) / 2
TIP = 1 / np.sqrt(3)
"""Of a hexagonal lattice: the distance of rows, and of a hexagon's tip from its middle."""


def colour_table(types: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Colours of the types that occur, `[T, 3]`."""
    return np.array([type_colour(number) for number in range(int(types.max()) + 1)], dtype=np.uint8)


def square_image(ids: NDArray[np.int32], types: NDArray[np.int32], scale: int) -> NDArray[np.uint8]:
    """RGB picture of ids `[H, W]`, `[H * scale, W * scale, 3]`: cells in their type's colour, borders dark."""
    large = ids.repeat(scale, axis=0).repeat(scale, axis=1)
    picture = colour_table(types)[looked_up(types, ids)].repeat(scale, axis=0).repeat(scale, axis=1)
    picture[borders(large, max(1, round(LINE * scale)))] = INK
    return picture


def hexagon_image(state: CellState, scale: float) -> NDArray[np.uint8]:
    """RGB picture of a hexagonal state, `scale` pixels per unit of space, paper around it."""
    sites = _sites(state.lattice, scale)
    inside = sites != NOWHERE
    ids = np.where(inside, state.ids.ravel()[sites], NOWHERE)
    picture = np.where(inside[..., None], colour_table(state.types)[state.types[ids]], np.array(PAPER, dtype=np.uint8))
    picture[borders(ids, max(1, round(LINE * scale)))] = INK
    return picture


def hexagon_extent(lattice: Lattice) -> tuple[float, float]:
    """Height and width of a hexagonal lattice's picture, in units of space."""
    height, width = lattice.shape
    pushed = 0.5 if lattice.layout == "rows" else (height - 1) / 2
    return (height - 1) * ROW + 2 * TIP, width + (0 if lattice.periodic[1] else pushed)


def borders(ids: NDArray[np.int32], thickness: int) -> NDArray[np.bool_]:
    """Pixels of the lines between areas of different ids; there is none towards what lies beyond the lattice."""
    before = thickness // 2  # pixels of the line above (left of) the border; the rest lies below (right of) it
    line = np.zeros(ids.shape, dtype=bool)
    for axis in (0, 1):
        here, there = np.split(ids, [-1], axis)[0], np.split(ids, [1], axis)[1]
        places = list(np.nonzero((here != there) & (here != NOWHERE) & (there != NOWHERE)))
        first = places[axis] + 1
        for shift in range(-before, thickness - before):
            places[axis] = np.clip(first + shift, 0, ids.shape[axis] - 1)
            line[tuple(places)] = True
    return line


@lru_cache(maxsize=4)
def _sites(lattice: Lattice, scale: float) -> NDArray[np.int64]:
    """The site whose hexagon each pixel lies in, `[h, w]`; a periodic row fills the picture's width exactly once.

    The picture of a periodic lattice is a rectangle around the lattice's middle, of a free one a parallelogram.
    """
    height, width = hexagon_extent(lattice)
    left = lattice.middle[1] - width / 2
    y = (np.arange(round(height * scale)) + 0.5) / scale - TIP
    x = (np.arange(round(width * scale)) + 0.5) / scale + left
    row, col = _nearest_hexagon(y[:, None] / ROW, x[None, :] - lattice.corner[1] - y[:, None] / ROW / 2)
    if lattice.layout == "rows":
        col = col + (row + 1) // 2
    rows, cols = lattice.shape
    inside = (row >= 0) & (row < rows)
    if lattice.periodic[1]:
        col %= cols
    inside &= (col >= 0) & (col < cols)
    return np.where(inside, row * cols + col, NOWHERE)


def _nearest_hexagon(row: NDArray[np.float64], col: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Whole coordinates on skewed axes of the hexagons that places lie in.

    Of three coordinates that sum to zero, the one that rounding changes most is given by the other two.
    """
    three = np.stack(np.broadcast_arrays(row, col, -row - col))
    whole = np.round(three)
    change = np.abs(whole - three)
    worst = change.argmax(axis=0)
    for axis in (0, 1):
        others = whole.sum(axis=0) - whole[axis]
        whole[axis] = np.where(worst == axis, -others, whole[axis])
    return whole[0].astype(np.int64), whole[1].astype(np.int64)
