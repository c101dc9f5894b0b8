"""Initial states: a compact blob of cells, cells scattered over the lattice, or single pixels in a mixed tissue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .artifact import Artifact
from .errors import UserError
from .lattice import Lattice, size_text
from .state import BLOCK, CellState

Layout = Literal["blob", "scatter"]
LLOYD_STEPS = 20
"""Rounds of moving seeds to the middle of their cells: evens out the cells' areas."""

SIDES = {2: 100, 3: 40}
"""Sites per side, by dimension, where neither the user nor the model says how large a lattice is."""


def initial_state(
    artifact: Artifact,
    layout: Layout,
    *,
    seed: int = 0,
    cells: int | None = None,
    lattice: Sequence[int] | None = None,
) -> CellState:
    """A layout for a model: its own lattice, number of cells and cell area where nothing else is asked for.

    `lattice` is a shape. Cell types are dealt out evenly and shuffled, and so are the properties that the model reads,
    over the range that cells of each type had in training.
    """
    meta = artifact.metadata
    place = layout_lattice(artifact, lattice)
    count = cells if cells is not None else (meta.fixed_cells or meta.cells or 51) - 1
    if count < 1 or len(meta.types) < 2:
        raise UserError(f"{count} cells of {len(meta.types) - 1} types were asked for: at least one of each is needed.")
    area = typical_area(artifact, place.sites // count)
    random = np.random.default_rng(seed)
    ids = blob(place, count, area, random) if layout == "blob" else scatter(place, count, area, random)
    of_cells = 1 + np.arange(count, dtype=np.int32) % (len(meta.types) - 1)
    random.shuffle(of_cells)
    types = np.concatenate([np.zeros(1, dtype=np.int32), of_cells])
    return artifact.place(CellState(ids, types, place, dealt_properties(artifact, types, random)))


def layout_lattice(artifact: Artifact, shape: Sequence[int] | None = None) -> Lattice:
    """Of this shape, else as large as the model wants it or its training data had it."""
    meta = artifact.metadata
    dimension = meta.geometry.dimension
    shape = shape or meta.fixed_lattice or meta.lattice.shape or (SIDES[dimension],) * dimension
    return Lattice.of(shape, meta.geometry, meta.boundary)


def dealt_properties(
    artifact: Artifact, types: NDArray[np.integer], random: np.random.Generator
) -> dict[str, NDArray[np.float64]]:
    """Of every cell of `types[C]`, by name: evenly over the range of its type in the training data."""
    columns = {}
    for name, ranges in artifact.property_ranges.items():
        columns[name] = np.zeros(types.size)
        for cell_type in np.unique(types[1:]):
            cells = random.permutation(np.flatnonzero(types == cell_type))
            low, high = ranges[cell_type]
            columns[name][cells] = np.linspace(low, high, cells.size)
    return columns


def typical_area(artifact: Artifact, room: int) -> int:
    """Sites per cell that suit a model: its target volume, else its example states' mean within half the room."""
    symbolic = artifact.metadata.symbolic
    if symbolic is not None and "volume" in symbolic.terms:
        return max(1, round(float(np.mean(symbolic.terms["volume"]["target"][1:]))))
    volumes = [volume for state in artifact.metadata.example_states() for volume in state.volumes[1:] if volume]
    return max(1, min(round(float(np.mean(volumes or [100]))), room // 2))


def blob(lattice: Lattice, cells: int, area: int, random: np.random.Generator) -> NDArray[np.int32]:
    """A disc (3D: ball) in the middle, parted into cells of about equal area (a relaxed Voronoi diagram)."""
    if cells * area > lattice.sites:
        raise UserError(_too_small(lattice, cells, area))
    inside = sites_from_the_middle(lattice, cells * area)
    pixels = lattice.positions(inside)
    seeds = pixels[random.choice(len(inside), cells, replace=False)]
    neighbourhoods = _boxes(pixels, side=area ** (1 / lattice.dimension))
    for _ in range(LLOYD_STEPS):
        owner = _nearest(pixels, seeds, neighbourhoods)
        count = np.bincount(owner, minlength=cells)
        for axis in range(lattice.dimension):
            middle = np.bincount(owner, weights=pixels[:, axis], minlength=cells) / np.maximum(count, 1)
            seeds[:, axis] = np.where(count > 0, middle, seeds[:, axis])
    ids = np.zeros(lattice.sites, dtype=np.int32)
    ids[inside] = _nearest(pixels, seeds, neighbourhoods) + 1
    return ids.reshape(lattice.shape)


def scatter(lattice: Lattice, cells: int, area: int, random: np.random.Generator) -> NDArray[np.int32]:
    """Cells as boxes along the lattice's axes, on random places of a grid, jittered within them, none touching."""
    side = max(1, round(area ** (1 / lattice.dimension)))
    grid = [size // (side + 1) for size in lattice.shape]
    if cells > np.prod(grid):
        raise UserError(_too_small(lattice, cells, area))
    ids = np.zeros(lattice.shape, dtype=np.int32)
    pitch = [size // places for size, places in zip(lattice.shape, grid, strict=True)]
    for cell, place in enumerate(random.choice(int(np.prod(grid)), cells, replace=False), start=1):
        corner = [
            int(index) * step + int(random.integers(step - side))
            for index, step in zip(np.unravel_index(place, grid), pitch, strict=True)
        ]
        ids[tuple(slice(first, first + side) for first in corner)] = cell
    return ids


# -- mixed starts --------------------------------------------------------------------------------------------------


def scattered_like(state: CellState, random: np.random.Generator) -> CellState:
    """The cells of a state as single pixels, in a disc (3D: ball) of the tissue's size around the lattice's middle.

    Every chain that is to show what a model has learned must find cells, neighbours and shapes by itself.
    """
    cells = int((state.types > 0).sum())
    tissue = sites_from_the_middle(state.lattice, max(int(np.count_nonzero(state.ids)), cells))
    return replace(state, ids=scattered(state.lattice, state.types, tissue, random).ids)


def scattered(
    lattice: Lattice, types: NDArray[np.int32], among: NDArray[np.int64], random: np.random.Generator
) -> CellState:
    """One pixel for every cell of `types[C]`, at random among some sites."""
    cells = np.flatnonzero(types > 0)
    if among.size < cells.size:
        raise UserError(
            f"{among.size} sites have no room for {cells.size} cells of one pixel each: use a larger lattice or fewer "
            "cells."
        )
    ids = np.zeros(lattice.sites, dtype=np.int32)
    ids[random.choice(among, cells.size, replace=False)] = cells
    return CellState(ids.reshape(lattice.shape), types, lattice)


def sites_from_the_middle(lattice: Lattice, count: int) -> NDArray[np.int64]:
    """The `count` sites nearest to the lattice's middle, nearest first."""
    return np.argsort(squared_distances(lattice), kind="stable")[:count]


def squared_distances(lattice: Lattice) -> NDArray[np.float64]:
    """Of every site from the lattice's middle, `[sites]`, in space."""
    away = np.empty(lattice.sites)
    for start in range(0, lattice.sites, BLOCK):
        part = np.arange(start, min(start + BLOCK, lattice.sites))
        away[part] = ((lattice.positions(part) - lattice.middle) ** 2).sum(axis=1)
    return away


# -- nearest seeds -------------------------------------------------------------------------------------------------


def _boxes(pixels: NDArray[np.float64], side: float) -> list[NDArray[np.intp]]:
    """Pixels `[n, d]` that lie in one box of a grid, for every box that has some."""
    boxes = np.floor((pixels - pixels.min(axis=0)) / max(side, 1)).astype(np.int64)
    number = np.ravel_multi_index(tuple(boxes.T), tuple(boxes.max(axis=0) + 1))
    order = np.argsort(number, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(number[order])) + 1)


def _nearest(
    pixels: NDArray[np.float64], seeds: NDArray[np.float64], boxes: list[NDArray[np.intp]]
) -> NDArray[np.intp]:
    """Index of the nearest seed of every pixel.

    Within r of a box's middle, only seeds up to 2r farther than the nearest one can be anyone's nearest.
    """
    owner = np.empty(len(pixels), dtype=np.intp)
    for box in boxes:
        inside = pixels[box]
        middle = (inside.min(axis=0) + inside.max(axis=0)) / 2
        radius = np.sqrt(((inside - middle) ** 2).sum(axis=1).max())
        away = np.sqrt(((seeds - middle) ** 2).sum(axis=1))
        near = np.flatnonzero(away <= away.min() + 2 * radius + 1e-6)
        distances = np.zeros((len(box), near.size))
        for place, seed in zip(inside.T, seeds[near].T, strict=True):
            distances += (place[:, None] - seed) ** 2
        owner[box] = near[distances.argmin(axis=1)]
    return owner


def _too_small(lattice: Lattice, cells: int, area: int) -> str:
    return (
        f"{cells} cells of {area} pixels do not fit onto {size_text(lattice.shape)} sites: ask for fewer cells "
        "(--cells) or a larger lattice (--lattice)."
    )
