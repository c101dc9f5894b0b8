"""Example states that an artifact carries so that every loader can check itself."""

from __future__ import annotations

import numpy as np

from neuralcpm_bridge.artifact import Metadata
from neuralcpm_bridge.state import CellState

EXAMPLES, FLIPS = 3, 8


def example_states(metadata: Metadata) -> list[CellState]:
    """Small random tissues that this model can take; the second one crosses the lattice's borders."""
    smallest = metadata.neural.smallest_lattice if metadata.neural is not None else 1
    side = max(30, 2 * smallest)
    shape = metadata.fixed_lattice or (side, side + 1)
    ids = metadata.fixed_cells or 9
    rng = np.random.default_rng(0)
    return [
        random_tissue(shape, ids, len(metadata.types), rng, centre=(0, 0) if number == 1 else None)
        for number in range(EXAMPLES)
    ]


def random_tissue(
    shape: tuple[int, int], ids: int, types: int, rng: np.random.Generator, centre: tuple[int, int] | None = None
) -> CellState:
    """A disc of cells grown around random seeds (nearest seed on the torus), medium outside; one id stays empty."""
    height, width = shape
    middle = np.array(centre if centre is not None else (height // 2, width // 2))
    radius = 0.4 * min(shape)
    seeds = middle + rng.uniform(-radius, radius, size=(max(1, ids - 2), 2))
    sites = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), axis=-1)

    def distance(points: np.ndarray) -> np.ndarray:
        gap = np.abs(sites[:, :, None] - points) % shape
        return np.hypot(*np.moveaxis(np.minimum(gap, np.array(shape) - gap), -1, 0))

    nearest = distance(seeds).argmin(axis=2) + 1
    lattice = np.where(distance(middle[None])[..., 0] <= radius, nearest, 0)
    of_cell = np.concatenate([[0], rng.integers(1, types, size=ids - 1)]) if types > 1 else np.zeros(1, dtype=int)
    return CellState(lattice if types > 1 else 0 * lattice, of_cell)


def example_flips(state: CellState, seed: int) -> list[tuple[int, int, int]]:
    """Copies of a neighbour's id across cell boundaries, as a host would propose them."""
    rng = np.random.default_rng(seed)
    height, width = state.shape
    flips: list[tuple[int, int, int]] = []
    boundary = np.argwhere(state.boundary())
    for row, col in rng.permutation(boundary)[: 4 * FLIPS]:
        down, right = rng.integers(-1, 2, size=2)
        new_id = int(state.ids[(row + down) % height, (col + right) % width])
        if new_id != state.ids[row, col] and len(flips) < FLIPS:
            flips.append((int(row), int(col), new_id))
    return flips
