"""Images of outlines: cells are what walls enclose.

An image counts as one of outlines if it holds two values, one of them is nowhere three sites thick, and it parts the
other into two regions or more. A label image does not: a cell that is thin everywhere encloses nothing.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..lattice import Lattice
from ..metrics.geometry import piece_map
from ..state import CellState

Medium = Literal["outside", "none"]
"""The largest region at the border of an image of outlines, or nothing of it."""

MOST_THICK = 0.01
"""Share of walls that may have walls all around them: three that meet are thicker than one."""

SPECK = 0.01
"""Of the median region: what is smaller is a hole between walls, and no cell."""

FRAMED = 0.5
"""Share of the border above which the region there is the medium."""

CUT_BY_FRAME = 4.0
"""Times the median region up to which all regions at the border may be cells that it cuts."""

WALL = -1


def enclosed(image: NDArray[np.integer], medium: Medium | None = None) -> tuple[NDArray[np.int64], str] | None:
    """Labels of the cells inside the walls, in reading order, and how they were told; None where there are no walls.

    Sites of walls go to the region next to them, to a cell rather than to the medium.
    """
    found = _walls(image)
    if found is None:
        return None
    lattice = Lattice.of(image.shape, boundary="free")
    walls, colour = found
    regions = _without_specks(_regions(walls, lattice))
    outside = _outside(_filled(regions, lattice), medium)
    regions[regions == outside] = 0
    labels = _filled(regions, lattice)
    what = "the largest region at the border is the medium" if outside else "no region at the border is the medium"
    return labels, f"is an image of outlines: cells are what the {colour} walls enclose, and {what}."


def _walls(image: NDArray[np.integer]) -> tuple[NDArray[np.bool_], str] | None:
    low, high = image.min(), image.max()
    bright = image == high
    if low == high or not (bright | (image == low)).all():
        return None
    lattice = Lattice.of(image.shape, boundary="free")
    found = [
        (walls, colour)
        for walls, colour in ((bright, "bright"), (~bright, "dark"))
        if _thin(walls) and _regions(walls, lattice).max() > 1
    ]
    if len(found) > 1:
        raise UserError(
            f"It holds the values {low} and {high}, and either may be the walls between cells: export labels, one "
            "number per cell, or a larger image."
        )
    return found[0] if found else None


def _thin(walls: NDArray[np.bool_]) -> bool:
    """Whether hardly any wall has walls all around it."""
    inside = walls
    for axis in range(walls.ndim):
        padded = np.pad(inside, [(1, 1) if other == axis else (0, 0) for other in range(walls.ndim)])
        before, after = (np.take(padded, range(first, first + walls.shape[axis]), axis) for first in (0, 2))
        inside = inside & before & after
    return bool(inside.sum() <= MOST_THICK * walls.sum())


def _regions(walls: NDArray[np.bool_], lattice: Lattice) -> NDArray[np.int64]:
    """Sites that hang together by their sides, numbered from 1; walls are `WALL`."""
    regions = piece_map(CellState.from_labels((~walls).astype(np.int32), lattice=lattice))
    regions[walls] = WALL
    return regions


def _without_specks(regions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Without holes between walls: they become walls."""
    sizes = np.bincount(regions[regions > 0])
    kept = sizes >= SPECK * np.median(sizes[1:])
    kept[0] = False
    numbers = np.where(kept, np.cumsum(kept), WALL)
    return np.where(regions > 0, numbers[regions], WALL)


def _outside(regions: NDArray[np.int64], medium: Medium | None) -> int:
    """Number of the region that is the medium; 0 where there is none."""
    if medium == "none":
        return 0
    edges = [np.take(regions, end, axis).ravel() for axis in range(regions.ndim) for end in (0, -1)]
    sizes = np.bincount(regions.ravel())
    share = np.bincount(np.concatenate(edges), minlength=sizes.size) / sum(edge.size for edge in edges)
    largest = int(np.argmax(np.where(share > 0, sizes, 0)))
    if medium == "outside" or share[largest] > FRAMED:
        return largest
    if sizes[largest] <= CUT_BY_FRAME * np.median(sizes[1:]):
        return 0
    raise UserError(
        f"Its walls part {sizes.size - 1} regions, and the largest at the border, {share[largest]:.0%} of it, may be "
        "the medium or a cell: pass --medium outside or --medium none."
    )


def _filled(regions: NDArray[np.int64], lattice: Lattice) -> NDArray[np.int64]:
    """Walls given to the regions next to them, ring by ring; always from the same side first, so that cells share the
    walls between them fairly."""
    flat = regions.ravel().copy()
    sites = np.flatnonzero(flat == WALL)
    while sites.size:
        around = lattice.neighbours(1, sites)
        near = np.where(around >= 0, flat[around], WALL)
        cell = np.take_along_axis(near, np.argmax(near > 0, axis=1)[:, None], axis=1)[:, 0]
        flat[sites] = np.maximum(cell, np.where((near == 0).any(axis=1), 0, WALL))
        sites = sites[flat[sites] == WALL]
    return flat.reshape(regions.shape)
