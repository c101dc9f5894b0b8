"""What the page needs to draw a tissue: which site lies under each pixel, and colours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.pictures.drawing import type_colour
from neuralcpm_bridge.pictures.planes import hexagon_extent, hexagon_sites

SIDE = 720
"""Pixels of the longer side of a picture; larger lattices have one pixel per site."""


def plane_map(lattice: Lattice, axis: int = 0) -> NDArray[np.int64]:
    """The site of the plane that each pixel shows, `[h, w]`; −1 beyond the lattice.

    The plane of a 3D lattice is a slice across an axis, its sites numbered row by row.
    """
    if lattice.geometry.name == "hexagonal":
        return hexagon_sites(lattice, max(1.0, SIDE / max(hexagon_extent(lattice))))
    rows, columns = (size for number, size in enumerate(lattice.shape) if lattice.dimension == 2 or number != axis)
    scale = max(1, SIDE // max(rows, columns))
    return np.arange(rows * columns).reshape(rows, columns).repeat(scale, axis=0).repeat(scale, axis=1)


def colours(types: int) -> list[str]:
    """Of every type, the medium first, as a page writes them."""
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in map(type_colour, range(types))]
