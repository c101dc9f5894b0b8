"""Initial states: a compact blob of cells, or cells scattered over the lattice."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .artifact import Artifact
from .errors import UserError
from .state import CellState

Layout = Literal["blob", "scatter"]
LLOYD_STEPS = 20
"""Rounds of moving seeds to the middle of their cells: evens out the cells' areas."""


def initial_state(
    artifact: Artifact,
    layout: Layout,
    *,
    seed: int = 0,
    cells: int | None = None,
    lattice: tuple[int, int] | None = None,
) -> CellState:
    """A layout for a model: its own lattice, number of cells and cell area where nothing else is asked for.

    Cell types are dealt out evenly and shuffled.
    """
    meta = artifact.metadata
    shape = lattice or meta.fixed_lattice or meta.lattice or (100, 100)
    count = cells if cells is not None else (meta.fixed_cells or meta.cells or 51) - 1
    if count < 1 or len(meta.types) < 2:
        raise UserError(f"{count} cells of {len(meta.types) - 1} types were asked for: at least one of each is needed.")
    area = typical_area(artifact, shape[0] * shape[1] // count)
    random = np.random.default_rng(seed)
    ids = blob(shape, count, area, random) if layout == "blob" else scatter(shape, count, area, random)
    types = 1 + np.arange(count) % (len(meta.types) - 1)
    random.shuffle(types)
    state = CellState(ids, np.concatenate([[0], types]))
    artifact.check_state(state)
    return state


def typical_area(artifact: Artifact, room: int) -> int:
    """Pixels per cell that suit a model: its target volume, else its example states' mean within half the room."""
    symbolic = artifact.metadata.symbolic
    if symbolic is not None and "volume" in symbolic.terms:
        return max(1, round(float(np.mean(symbolic.terms["volume"]["target"][1:]))))
    volumes = [volume for example in artifact.metadata.examples for volume in example.state().volumes[1:] if volume]
    return max(1, min(round(float(np.mean(volumes or [100]))), room // 2))


def blob(shape: tuple[int, int], cells: int, area: int, random: np.random.Generator) -> NDArray[np.int32]:
    """A disc in the middle of the lattice, parted into cells of about equal area (a relaxed Voronoi diagram)."""
    height, width = shape
    total = cells * area
    if total > height * width:
        raise UserError(_too_small(shape, cells, area))
    rows, cols = np.divmod(np.arange(height * width), width)
    distance = (rows - (height - 1) / 2) ** 2 + (cols - (width - 1) / 2) ** 2
    inside = np.argsort(distance, kind="stable")[:total]
    pixels = np.stack([rows[inside], cols[inside]], axis=1).astype(np.float64)
    seeds = pixels[random.choice(total, cells, replace=False)]
    for _ in range(LLOYD_STEPS):
        owner = _nearest(pixels, seeds)
        count = np.bincount(owner, minlength=cells)
        for axis in range(2):
            middle = np.bincount(owner, weights=pixels[:, axis], minlength=cells) / np.maximum(count, 1)
            seeds[:, axis] = np.where(count > 0, middle, seeds[:, axis])
    ids = np.zeros(height * width, dtype=np.int32)
    ids[inside] = _nearest(pixels, seeds) + 1
    return ids.reshape(shape)


def scatter(shape: tuple[int, int], cells: int, area: int, random: np.random.Generator) -> NDArray[np.int32]:
    """Square cells on random places of a grid, jittered within them, none touching another."""
    side = max(1, round(area**0.5))
    height, width = shape
    down, across = height // (side + 1), width // (side + 1)
    if cells > down * across:
        raise UserError(_too_small(shape, cells, area))
    ids = np.zeros(shape, dtype=np.int32)
    pitch = (height // down, width // across)
    for cell, place in enumerate(random.choice(down * across, cells, replace=False), start=1):
        row, col = (
            index * step + int(random.integers(step - side))
            for index, step in zip(divmod(int(place), across), pitch, strict=True)
        )
        ids[row : row + side, col : col + side] = cell
    return ids


def shrunk_to_pixels(state: CellState, random: np.random.Generator) -> CellState:
    """The same cells as one pixel each, at random places of the tissue: a start that knows nothing of shapes.

    Every chain that is to show what a model has learned must find cells, neighbours and shapes by itself.
    """
    ids = np.zeros(state.ids.size, dtype=np.int32)
    ids[random.choice(np.flatnonzero(state.ids), state.cells.size, replace=False)] = state.cells
    return CellState(ids.reshape(state.shape), state.types)


def _nearest(pixels: NDArray[np.float64], seeds: NDArray[np.float64]) -> NDArray[np.intp]:
    """Index of the nearest seed of every pixel, in bounded memory."""
    owner = np.empty(len(pixels), dtype=np.intp)
    for start in range(0, len(pixels), 4096):
        part = slice(start, start + 4096)
        owner[part] = ((pixels[part, None, :] - seeds[None]) ** 2).sum(axis=2).argmin(axis=1)
    return owner


def _too_small(shape: tuple[int, int], cells: int, area: int) -> str:
    return (
        f"{cells} cells of {area} pixels do not fit onto {shape[0]}×{shape[1]} sites: ask for fewer cells (--cells) or "
        "a larger lattice (--lattice)."
    )
