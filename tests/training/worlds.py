"""Random lattices, tissues and Hamiltonians of every term: what the property tests of energies draw from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st

from neuralcpm_bridge.artifact import LatticeEntry
from neuralcpm_bridge.lattice import GEOMETRIES, Lattice, Layout
from neuralcpm_bridge.state import CellState
from neuralcpm_bridge.terms import TERMS as DECLARED
from training.hamiltonians import TERMS, Hamiltonian, Symbolic, Term

NAMES = ("medium", "A", "B")
SIDES = {2: (11, 15), 3: (8, 10)}


class World(NamedTuple):
    """A lattice, the order of neighbours on it, and a seed for whatever else is drawn."""

    lattice: Lattice
    order: int
    seed: int

    @property
    def entry(self) -> LatticeEntry:
        return LatticeEntry.of(self.lattice.geometry.name, self.lattice.boundary, self.lattice.shape)

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


@st.composite
def worlds(draw: st.DrawFn, narrow: bool = False, layout: Layout = "axes") -> World:
    """Every geometry (rows: hexagons), order 1 to 4, each axis periodic or free; `narrow`: down to one site across."""
    geometry = GEOMETRIES["hexagonal" if layout == "rows" else draw(st.sampled_from(sorted(GEOMETRIES)))]
    sides = st.integers(1, 5) if narrow else st.integers(*SIDES[geometry.dimension])
    shape = [draw(sides) for _ in range(geometry.dimension)]
    boundary = tuple(draw(st.sampled_from(["periodic", "free"])) for _ in range(geometry.dimension))
    if layout == "rows" and boundary[0] == "periodic":
        shape[0] += shape[0] % 2
    lattice = Lattice.of(shape, geometry, boundary, layout)
    return World(lattice, draw(st.integers(1, 4)), draw(st.integers(0, 2**32 - 1)))


def compact_state(lattice: Lattice, rng: np.random.Generator, ids: int = 6) -> CellState:
    """Ragged cells that cross borders, none so wide that a flip would make its length ambiguous; of the last two ids
    one has no pixels and one may not exist."""
    owners = np.zeros(lattice.shape, dtype=np.int32)
    for cell in range(1, ids - 2):
        window = []
        for size, wraps in zip(lattice.shape, lattice.periodic, strict=True):
            width = max(1, 3 * size // 8 - 1)
            start = int(rng.integers(size if wraps else size - width + 1))
            window.append((start + np.arange(width)) % size)
        box = np.ix_(*window)
        owners[box] = np.where(rng.random(owners[box].shape) < 0.7, cell, owners[box])
    types = np.concatenate([[0], rng.integers(1, len(NAMES), size=ids - 1)])
    types[-1] = rng.choice([-1, 1])
    return CellState(owners, types, lattice)


def noise_state(lattice: Lattice, rng: np.random.Generator, ids: int = 4) -> CellState:
    """Every site of any cell: no shape at all."""
    types = np.concatenate([[0], rng.integers(1, len(NAMES), size=ids - 1)])
    return CellState(rng.integers(0, ids, size=lattice.shape).astype(np.int32), types, lattice)


def neighbour_flips(state: CellState, rng: np.random.Generator, count: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Copies from all around a site, those within one cell included, and of the cell without pixels."""
    lattice = state.lattice
    sites = rng.integers(lattice.sites, size=count)
    around = lattice.neighbours(lattice.geometry.moore_order, sites)
    source = around[np.arange(count), rng.integers(around.shape[1], size=count)]
    new_ids = state.ids.ravel()[np.where(source >= 0, source, sites)].astype(np.int64)
    empty = np.flatnonzero((state.types > 0) & (state.volumes == 0))
    if empty.size:
        new_ids[0] = empty[0]
    return sites, new_ids


def random_term(name: str, world: World, rng: np.random.Generator) -> Term:
    """A term with random weights of the shapes that its declaration states."""
    spec, lattice, types = DECLARED[name], world.lattice, len(NAMES)
    sizes = {"T": (types,), "K": (2,), "S": lattice.shape}
    weights = {}
    for weight, letters in spec.weights.items():
        if weight == "minor_target" and lattice.dimension == 2:
            continue
        value = rng.uniform(0.1, 3.0, size=tuple(size for letter in letters for size in sizes[letter]))
        if letters == "TT":
            value = value + value.T
        if not spec.medium:
            value[(0,) * (2 if letters == "TT" else 1)] = 0.0
        weights[weight] = value
    if {"low", "high"} <= weights.keys():
        weights["high"] = weights["low"] + rng.uniform(1, 9, size=types)
    tensors = {key: torch.from_numpy(value) for key, value in weights.items()}
    return TERMS[name].from_weights(tensors, world.order if spec.ordered else None)


def random_hamiltonian(world: World, *names: str) -> Hamiltonian:
    """All terms (or those named) with random weights, w_S and an offset."""
    rng = world.rng
    terms = [random_term(name, world, rng) for name in names or TERMS]
    symbolic = Symbolic(*terms, weight=float(rng.uniform(0.5, 2)), offset=float(rng.normal()))
    return Hamiltonian(NAMES, symbolic, lattice=world.entry, cells=6).double()
