"""Example states that an artifact carries so that every loader can check itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import Metadata
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

EXAMPLES, FLIPS = 3, 8
SIDE = {2: 40, 3: 16}
"""Sites per side, by dimension."""
RADIUS = 0.21
"""Of a tissue, as a share of the lattice's side: no cell spans half of a ring, along skewed axes neither, so that every
back end sees the same length."""


def example_states(metadata: Metadata, properties: Mapping[str, tuple[float, float]]) -> list[CellState]:
    """Small random tissues that this model can take; the second one crosses the lattice's borders.

    `properties`: mean and deviation of those that it reads.
    """
    smallest = metadata.neural.smallest_lattice if metadata.neural is not None else 1
    dimension = metadata.geometry.dimension
    side = max(SIDE[dimension], 2 * smallest)
    lattice = metadata.lattice.with_shape(metadata.fixed_lattice or (side,) * (dimension - 1) + (side + 1,))
    ids = metadata.fixed_cells or 9
    rng = np.random.default_rng(0)
    tissues = [random_tissue(lattice, ids, len(metadata.types), rng, at_corner=k == 1) for k in range(EXAMPLES)]
    drawn = [{name: rng.normal(*spread, size=ids) for name, spread in properties.items()} for _ in tissues]
    return [replace(tissue, properties=of_cells) for tissue, of_cells in zip(tissues, drawn, strict=True)]


def random_tissue(
    lattice: Lattice, ids: int, types: int, rng: np.random.Generator, at_corner: bool = False
) -> CellState:
    """A ball of cells grown around random seeds (the nearest one owns a site, round periodic axes as all of them were),
    medium outside; one id stays empty."""
    shape = np.array(lattice.shape)
    middle = np.zeros(lattice.dimension, dtype=int) if at_corner else shape // 2
    radius = RADIUS * min(lattice.shape)
    seeds = middle + rng.uniform(-radius, radius, size=(max(1, ids - 2), lattice.dimension))
    sites = lattice.coordinates()

    def distances(points: NDArray[np.float64]) -> NDArray[np.float64]:
        gap = (sites[:, None] - points + shape / 2) % shape - shape / 2
        return np.linalg.norm(lattice.in_space(gap), axis=2)

    nearest = distances(seeds).argmin(axis=1) + 1
    owners = np.where(distances(middle[None])[:, 0] <= radius, nearest, 0).reshape(lattice.shape)
    of_cell = np.concatenate([[0], rng.integers(1, types, size=ids - 1)]) if types > 1 else np.zeros(1, dtype=int)
    return CellState(owners if types > 1 else 0 * owners, of_cell, lattice)


def example_flips(state: CellState, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sites and new ids: copies of a neighbour's id across cell boundaries, as a host would propose them."""
    rng = np.random.default_rng(seed)
    ids, lattice = state.ids.ravel(), state.lattice
    boundary = rng.permutation(np.flatnonzero(state.boundary()))[: 4 * FLIPS]
    around = lattice.neighbours(lattice.geometry.moore_order, boundary)
    source = around[np.arange(len(boundary)), rng.integers(around.shape[1], size=len(boundary))]
    new_ids = np.where(source >= 0, ids[source], ids[boundary])
    crossing = np.flatnonzero(new_ids != ids[boundary])[:FLIPS]
    return boundary[crossing], new_ids[crossing].astype(np.int64)
