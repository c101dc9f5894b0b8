"""Plane states as RGB arrays: square sites as squares, hexagonal ones as hexagons at their places in space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..lattice import Lattice
from ..state import CellState
from .drawing import INK, PAPER, type_colour

LINE = 0.35
"""Thickness of the borders of cells, in sites."""

NOWHERE = -1
"""The site of a pixel beyond the lattice."""

ROW = np.sqrt(3) / 2
TIP = 1 / np.sqrt(3)
"""Of a hexagonal lattice: the distance of rows, and of a hexagon's tip from its middle."""


Colours = NDArray[np.uint8]
"""`[…, 3]`."""


@dataclass(frozen=True)
class Paint:
    """What cells and the lines between them are painted with."""

    cells: Colours
    """By id, `[C, 3]`, the medium first."""
    lines: Callable[[NDArray[np.int32], NDArray[np.int32]], Colours] | None = None
    """Colours `[n, 3]` of lines between ids `[n]` and `[n]`; ink, where there is none."""
    line: float = LINE

    @classmethod
    def by_type(cls, types: NDArray[np.int32]) -> Paint:
        """Cells in the colour of their type, borders dark."""
        table = np.array([type_colour(number) for number in range(int(types.max()) + 1)], dtype=np.uint8)
        return cls(table[types])


def square_image(ids: NDArray[np.int32], paint: Paint, scale: int) -> Colours:
    """RGB picture of ids `[H, W]`, `[H * scale, W * scale, 3]`."""
    large = ids.repeat(scale, axis=0).repeat(scale, axis=1)
    picture = paint.cells[ids].repeat(scale, axis=0).repeat(scale, axis=1)
    draw_borders(picture, large, max(1, round(paint.line * scale)), paint)
    return picture


def hexagon_image(state: CellState, paint: Paint, scale: float) -> Colours:
    """RGB picture of a hexagonal state, `scale` pixels per unit of space, paper around it."""
    sites = hexagon_sites(state.lattice, scale)
    inside = sites != NOWHERE
    ids = np.where(inside, state.ids.ravel()[sites], NOWHERE)
    picture = np.where(inside[..., None], paint.cells[ids], np.array(PAPER, dtype=np.uint8))
    draw_borders(picture, ids, max(1, round(paint.line * scale)), paint)
    return picture


def hexagon_extent(lattice: Lattice) -> tuple[float, float]:
    """Height and width of a hexagonal lattice's picture, in units of space."""
    height, width = lattice.shape
    pushed = 0.5 if lattice.layout == "rows" else (height - 1) / 2
    return (height - 1) * ROW + 2 * TIP, width + (0 if lattice.periodic[1] else pushed)


def draw_borders(picture: Colours, ids: NDArray[np.int32], thickness: int, paint: Paint) -> None:
    """Lines between areas of different ids; there is none towards what lies beyond the lattice."""
    before = thickness // 2  # pixels of the line above (left of) the border; the rest lies below (right of) it
    for axis in (0, 1):
        here, there = np.split(ids, [-1], axis)[0], np.split(ids, [1], axis)[1]
        found = (here != there) & (here != NOWHERE) & (there != NOWHERE)
        colours = INK if paint.lines is None else paint.lines(here[found], there[found])
        places = list(np.nonzero(found))
        first = places[axis] + 1
        for shift in range(-before, thickness - before):
            places[axis] = np.clip(first + shift, 0, ids.shape[axis] - 1)
            picture[tuple(places)] = colours


@lru_cache(maxsize=4)
def hexagon_sites(lattice: Lattice, scale: float) -> NDArray[np.int64]:
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
