"""The zoo's generator, independent of the engine: its energies are the formulas, its tissues those of the engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.zoo.generator import A, B, Tissue, compiler, deltas, run, sample
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.metrics import contact_lengths
from neuralcpm_bridge.state import CellState
from training.datasets import Recipe, generate

pytestmark = pytest.mark.skipif(compiler() is None, reason="the zoo's generator needs a C++ compiler")

J = (2.5, 2.0, 1.5, 2.2, 1.0)
LATTICES = {"square": (30, 40.0), "hexagonal": (30, 40.0), "cubic": (20, 60.0)}
"""Side and target volume."""


def around(lattice: Lattice) -> list[NDArray[np.int64]]:
    """Steps to all sites around one; on hexagons the two long diagonals of skewed axes are none."""
    steps = np.stack(np.meshgrid(*[[-1, 0, 1]] * lattice.dimension, indexing="ij"), -1).reshape(-1, lattice.dimension)
    far = lattice.geometry.name == "hexagonal"
    return [step for step in steps if step.any() and not (far and step[0] == step[1])]


class Measured:
    """Everything that formulas ask of a state, from scratch."""

    def __init__(self, state: CellState) -> None:
        self.state, self.lattice = state, state.lattice
        self.steps = around(state.lattice)
        self.weight = 2 / len(self.steps)
        count = state.types.size
        self.volumes = np.bincount(state.ids.ravel(), minlength=count)
        self.pairs = np.zeros((count, count))
        self.at_medium = np.zeros((count, state.lattice.dimension, state.lattice.dimension))
        for step in self.steps:
            there = np.roll(state.ids, tuple(-step), axis=tuple(range(state.ids.ndim)))
            np.add.at(self.pairs, (state.ids, there), state.ids != there)
            towards = self.in_space(step)
            np.add.at(self.at_medium, state.ids[(there == 0) & (state.ids != 0)], np.outer(towards, towards))
        self.middles = np.full((count, state.lattice.dimension), np.nan)
        self.moments = np.full((count, state.lattice.dimension, state.lattice.dimension), np.nan)
        for cell in range(1, count):
            sites = np.argwhere(state.ids == cell)
            sites = sites[0] + self.nearest(sites - sites[0])
            self.middles[cell] = sites.mean(axis=0)
            self.moments[cell] = np.cov(self.in_space(sites).T, bias=True)
        self.moments += np.eye(state.lattice.dimension) * (
            5 / 72 if state.lattice.geometry.name == "hexagonal" else 1 / 12
        )

    def nearest(self, ways: NDArray[np.generic]) -> NDArray[np.float64]:
        return ways - np.array(self.lattice.shape) * np.round(ways / np.array(self.lattice.shape))

    def in_space(self, ways: NDArray[np.generic]) -> NDArray[np.float64]:
        if self.lattice.geometry.name != "hexagonal":
            return np.asarray(ways, dtype=float)
        return np.stack([ways[..., 0] * np.sqrt(3) / 2, ways[..., 1] + ways[..., 0] / 2], axis=-1)

    def touching(self, partner: int) -> NDArray[np.int64]:
        counted = (self.state.types > 0) if partner == 0 else self.state.types == partner
        return (self.pairs[:, counted] > 0).sum(axis=1)


def energy(tissue: Tissue, state: CellState) -> float:
    """H of a whole state."""
    found, types = Measured(state), state.types
    j01, j02, j11, j12, j22 = tissue.J
    table = np.array([[0, j01, j02], [j01, j11, j12], [j02, j12, j22]])
    total = found.weight / 2 * (found.pairs * table[np.ix_(types, types)]).sum()
    total += tissue.strength * ((found.volumes[1:] - tissue.target) ** 2).sum()
    for cell_type, strength, wanted in zip((A, B), tissue.strengths, tissue.wanted, strict=True):
        cells = np.flatnonzero(types == cell_type)
        if strength:
            total += strength * mechanism(tissue, found, cells, wanted)
    return float(total)


def mechanism(tissue: Tissue, found: Measured, cells: NDArray[np.int64], wanted: float) -> float:
    """Energy of one type at unit strength."""
    dimension = found.lattice.dimension
    surfaces, own = found.pairs[cells].sum(axis=1), found.moments[cells]
    traces = np.trace(own, axis1=1, axis2=2)
    axes = 2 * np.sqrt((dimension + 2) * np.linalg.eigvalsh(own))
    if tissue.term == "length":
        return float(((axes[:, -1] - wanted) ** 2).sum())
    if tissue.term == "thickness":
        return float(((axes[:, 0] - wanted) ** 2).sum())
    if tissue.term == "surface":
        return float(((found.weight * surfaces - wanted) ** 2).sum())
    if tissue.term == "neighbours":
        return float(((found.touching(tissue.partner)[cells] - wanted) ** 2).sum())
    if tissue.term == "exposure":
        return float(((found.pairs[cells, 0] / surfaces - wanted) ** 2).sum())
    if tissue.term == "flattening":
        return float(found.weight * (np.einsum("cab,cab->c", found.at_medium[cells], own) / traces).sum())
    if tissue.term == "crowding":
        away = found.volumes[cells] - tissue.target
        shift = wanted * (found.touching(tissue.partner)[cells] - tissue.range)
        return float(((away - shift) ** 2 - away**2).sum())
    first, second = np.triu_indices(cells.size, 1)
    if tissue.term == "spacing":
        ways = found.in_space(found.nearest(found.middles[cells][first] - found.middles[cells][second]))
        return float((np.maximum(0, 1 - np.linalg.norm(ways, axis=1) / tissue.range) ** 2).sum())
    assert tissue.term == "alignment"
    traceless = dimension * own / traces[:, None, None] - np.eye(dimension)
    products = np.einsum("nab,nab->n", traceless[first], traceless[second]) / (dimension * (dimension - 1))
    return float(-(found.weight * found.pairs[cells[first], cells[second]] * products).sum())


TERMS = {
    "none": {},
    "length": {"strengths": (0.2, 0.4), "wanted": (6.0, 8.0)},
    "thickness": {"strengths": (0.0, 0.6), "wanted": (0.0, 4.0)},
    "surface": {"strengths": (0.02, 0.0), "wanted": (30.0, 0.0)},
    "neighbours": {"strengths": (3.0, 2.0), "wanted": (1.0, 2.0), "partner": B},
    "alignment": {"strengths": (0.0, 2.0)},
    "exposure": {"strengths": (0.0, 40.0), "wanted": (0.0, 0.5)},
    "flattening": {"strengths": (1.0, 2.0)},
    "crowding": {"strengths": (0.1, 0.2), "wanted": (3.0, 2.0), "range": 3.0},
    "spacing": {"strengths": (0.0, 20.0), "range": 12.0},
}


@pytest.mark.parametrize("geometry", LATTICES)
@pytest.mark.parametrize("term", TERMS)
def test_deltas_are_differences_of_whole_energies(geometry: str, term: str) -> None:
    side, target = LATTICES[geometry]
    tissue = Tissue(geometry, side, (4, 5), target, J, term=term, **TERMS[term])
    # after few steps, so that cells have borders with everything; shifted, so that borders of the lattice cut them
    state = sample(tissue, 1, 4, seed=3, threads=1)[0]
    state = replace(state, ids=np.roll(state.ids, (side // 2,) * state.ids.ndim, axis=tuple(range(state.ids.ndim))))
    sites, to = possible_copies(state)
    found = deltas(tissue, state, sites, to)
    moved = np.flatnonzero(np.abs(found - deltas(tissue.without_mechanism(), state, sites, to)) > 0.01)
    random, before = np.random.default_rng(7), energy(tissue, state)
    chosen = random.permutation(sites.size)[:15]
    if term != "none":
        chosen = np.r_[chosen, random.choice(moved, 15)]
    for number in chosen:
        ids = state.ids.copy()
        ids.ravel()[sites[number]] = to[number]
        wanted = energy(tissue, replace(state, ids=ids)) - before
        assert found[number] == pytest.approx(wanted, rel=1e-9, abs=1e-8)


def possible_copies(state: CellState) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Every site and other id of one of its neighbours, but no cell's last pixel."""
    found = []
    for step in around(state.lattice):
        there = np.roll(state.ids, tuple(-step), axis=tuple(range(state.ids.ndim)))
        allowed = (there != state.ids) & ((state.ids == 0) | (state.volumes[state.ids] > 1))
        found.append(np.stack([np.flatnonzero(allowed), there[allowed]]))
    sites, to = np.unique(np.concatenate(found, axis=1), axis=1)
    return sites, to.astype(np.int32)


@pytest.mark.parametrize("geometry", LATTICES)
def test_without_mechanism_tissues_are_the_engines(geometry: str) -> None:
    """Same energies, other program: contacts by type and spread of volumes agree within their errors."""
    side, target = 14 if geometry == "cubic" else 30, 40.0
    tissue = Tissue(geometry, side, (5, 5), target, J, strength=0.3)
    radius = (10 * target * 3 / 4 / np.pi) ** (1 / 3) if geometry == "cubic" else np.sqrt(10 * target / np.pi)
    recipe = Recipe("cellsort-a", J, 0.3, target, side, 10, radius, mcs=150, samples=48, geometry=geometry)
    ours, theirs = sample(tissue, 48, 150, seed=1), generate(recipe, seed=2, threads=2)
    for measure in (_contacts, _spread):
        a, b = (np.array([measure(state) for state in states]) for states in (ours, theirs))
        errors = np.sqrt((a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1)) / len(a))
        assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4 * errors).all()


def _contacts(state: CellState) -> NDArray[np.float64]:
    return contact_lengths(state, 3)[np.triu_indices(3)][1:]


def _spread(state: CellState) -> NDArray[np.float64]:
    volumes = state.volumes[1:]
    return np.array([volumes.mean(), volumes.std()])


def test_cells_never_vanish_and_chains_repeat() -> None:
    tissue = Tissue("square", 20, (10, 10), 2.0, J, strength=0.01, temperature=5.0)
    first, second = (sample(tissue, 2, 200, seed=5, threads=threads) for threads in (1, 2))
    assert np.array_equal(first.ids, second.ids)
    assert all((state.volumes[1:] > 0).all() for state in first)
    again = run(tissue, list(first), 10, seed=5)
    assert not np.array_equal(again.ids, first.ids)
