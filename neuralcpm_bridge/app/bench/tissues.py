"""What bench measures on: tissues of chosen density, and the copies that a host would propose in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge._engine import Model
from neuralcpm_bridge._engine import State as EngineState
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

Flip = tuple[int, int]
"""Site, new id."""

SPACING = 10
"""Sites between neighbouring cell centres: cells of about 100 sites in 2D."""
JITTER = 0.3
"""How far centres lie off the grid, in spacings."""

CONTACT = [[0.0, 0.5, 0.5], [0.5, 1 / 3, 0.2], [0.5, 0.2, 4 / 15]]
STRENGTH, TARGET_VOLUME = 0.1, 100.0
"""The paper's cell sorting."""


def dense_cluster(
    cells: int, shape: Sequence[int], geometry: str | None = None, spacing: int = SPACING, seed: int = 0
) -> CellState:
    """Cells of about spacing^d sites in one dense disc or ball: nearest of jittered grid points, types at random."""
    rng = np.random.default_rng(seed)
    lattice = Lattice.of(shape, geometry)
    grid = np.array(shape) // spacing
    centres = np.stack(np.meshgrid(*map(np.arange, grid), indexing="ij"), axis=-1) * spacing + spacing / 2
    points = centres + rng.uniform(-JITTER * spacing, JITTER * spacing, size=centres.shape)
    from_middle = lattice.in_space(centres - np.array(shape) / 2)
    chosen = np.argsort(np.linalg.norm(from_middle, axis=-1).ravel(), kind="stable")[:cells]
    ids = np.zeros(grid.prod(), dtype=np.int32)
    ids[chosen] = np.arange(1, cells + 1)
    types = np.concatenate([[0], rng.integers(1, 3, size=cells)])
    return CellState(ids[nearest_point(points, lattice, spacing)], types, lattice)


def nearest_point(points: NDArray[np.float64], lattice: Lattice, spacing: int) -> NDArray[np.intp]:
    """Flat index of the nearest of one point per grid block, for every site."""
    places = np.indices(lattice.shape)
    last = np.array(points.shape[:-1]) - 1
    best = np.full(lattice.shape, np.inf)
    index = np.zeros(lattice.shape, dtype=np.intp)
    for step in product((-1, 0, 1), repeat=lattice.dimension):
        block = tuple(np.clip(place // spacing + by, 0, end) for place, by, end in zip(places, step, last, strict=True))
        distance = np.linalg.norm(lattice.in_space(points[block] - np.moveaxis(places, 0, -1)), axis=-1)
        closer = distance < best
        best[closer] = distance[closer]
        index[closer] = np.ravel_multi_index(block, points.shape[:-1])[closer]
    return index


def cell_blocks(lattice: Lattice, block: int) -> CellState:
    """Blocks of sites, types in turn, medium around them."""
    blocks = np.indices(lattice.shape) // block
    counts = np.array(lattice.shape) // block
    inner = np.all([(place > 0) & (place < count - 1) for place, count in zip(blocks, counts, strict=True)], axis=0)
    number = np.where(inner, np.ravel_multi_index(tuple(blocks), tuple(counts)), 0)
    ids = np.unique(number, return_inverse=True)[1].reshape(lattice.shape).astype(np.int32)
    return CellState(ids, np.concatenate([[0], 1 + np.arange(ids.max()) % 2]), lattice)


def cell_sorting(lattice: Lattice, block: int) -> EngineState:
    """The paper's cell sorting on another lattice."""
    description = {
        "types": ["medium", "A", "B"],
        "lattice": {"geometry": lattice.geometry.name, "boundary": lattice.boundary},
    }
    weights = {
        "symbolic.contact.J": np.array(CONTACT),
        "symbolic.volume.strength": np.array([0.0, STRENGTH, STRENGTH]),
        "symbolic.volume.target": np.array([0.0, TARGET_VOLUME, TARGET_VOLUME]),
    }
    state = cell_blocks(lattice, block)
    return EngineState(Model(json.dumps(description), weights), state.ids, state.types)


def boundary_flips(state: CellState, count: int, seed: int = 0) -> list[Flip]:
    """Random directed neighbour pairs of different cells, as a host proposes them."""
    ids, borders = state.ids.ravel(), np.flatnonzero(state.boundary())
    neighbours = state.lattice.neighbours(state.lattice.geometry.moore_order, borders)
    sites, directions = np.nonzero((neighbours >= 0) & (ids[neighbours] != ids[borders, None]))
    if not sites.size:
        return []  # one cell everywhere
    picked = np.random.default_rng(seed).integers(sites.size, size=count)
    new_ids = ids[neighbours[sites[picked], directions[picked]]]
    return list(zip(borders[sites[picked]].tolist(), new_ids.tolist(), strict=True))
