"""Lengths of cells that travel: across every border they keep the shape that they have in the open plane."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralcpm_bridge.lattice import GEOMETRIES, Lattice, Layout
from neuralcpm_bridge.state import CellState

from .lattices import LAYOUTS, again, length_energy, open_state, sites_at
from .models import make_model, symbolic_weights

Pixels = set[tuple[int, ...]]
TYPES = np.array([0, 1], dtype=np.int32)


def torus(geometry: str, layout: Layout) -> Lattice:
    return Lattice.of((13, 14, 16) if geometry == "cubic" else (26, 28), geometry, "periodic", layout)


def coordinates(pixels: Pixels) -> np.ndarray:
    return np.array(sorted(pixels), dtype=np.int64)


def on_lattice(lattice: Lattice, pixels: Pixels) -> CellState:
    ids = np.zeros(lattice.sites, dtype=np.int32)
    ids[sites_at(lattice, coordinates(pixels))] = 1
    return CellState(ids.reshape(lattice.shape), TYPES, lattice)


@pytest.mark.parametrize(("geometry", "layout"), LAYOUTS)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1))
def test_length_of_a_wanderer(geometry: str, layout: Layout, seed: int) -> None:
    """A cell that grows ahead and shrinks behind on its way around a torus: every ΔH, and caches without a trace."""
    rng = np.random.default_rng(seed)
    lattice = torus(geometry, layout)
    weights = symbolic_weights(rng, ("length",), minor=lattice.dimension == 3)
    model = make_model(weights, geometry=geometry)
    tolerance = 1e-9 if lattice.dimension == 2 else 1e-5
    pixels: Pixels = {tuple(int(rng.integers(n)) for n in lattice.shape)}  # unwrapped
    state = open_state(model, on_lattice(lattice, pixels))
    drift = rng.integers(-1, 2, size=lattice.dimension)
    for _ in range(200):
        if rng.random() < 0.5 and len(pixels) > 8:
            target, new_id = min(pixels, key=lambda at: np.dot(at, drift) + rng.random()), 0
            after = pixels - {target}
        else:
            beside = np.array(sorted(pixels)[rng.integers(len(pixels))]) + rng.integers(-1, 2, size=lattice.dimension)
            target, new_id = tuple(map(int, beside)), 1
            after = pixels | {target}
        if after == pixels:
            continue
        site = int(sites_at(lattice, np.array([target]))[0])
        if (2 * np.ptp(coordinates(after), axis=0) >= np.array(lattice.shape)).any():
            assert state.delta(site, new_id) == np.inf  # half a ring: it has no length there
            continue
        old, new = (length_energy(weights, 1, lattice, coordinates(p)) for p in (pixels, after))
        assert state.delta(site, new_id) == pytest.approx(new - old, rel=1e-9, abs=tolerance)
        state.commit(site, new_id)
        pixels = after
    assert state.energy() == again(model, state, lattice).energy()


@pytest.mark.parametrize(
    ("geometry", "layout", "axis"),
    [(*kind, axis) for kind in LAYOUTS for axis in range(GEOMETRIES[kind[0]].dimension)],
)
def test_length_of_a_traveller(geometry: str, layout: Layout, axis: int) -> None:
    """A block that goes once around a ring and some, site by site, has one energy all the way: not a bit changes."""
    lattice = torus(geometry, layout)
    model = make_model(
        symbolic_weights(np.random.default_rng(0), ("length",), minor=lattice.dimension == 3), geometry=geometry
    )
    block = np.indices((3, 4, 5) if lattice.dimension == 3 else (4, 9)).reshape(lattice.dimension, -1).T
    step = np.eye(lattice.dimension, dtype=np.int64)[axis]
    here = {tuple(map(int, at)) for at in block + np.array(lattice.shape) - 3}
    state = open_state(model, on_lattice(lattice, here))
    start = state.energy()
    for _ in range(lattice.shape[axis] + 3):
        there = {tuple(map(int, np.array(at) + step)) for at in here}
        for new_id, moved in ((1, there - here), (0, here - there)):
            for site in sites_at(lattice, coordinates(moved)).tolist():
                state.commit(site, new_id)
        here = there
        assert state.energy() == start
    assert again(model, state, lattice).energy() == start


def test_a_cell_without_pixels_has_no_length() -> None:
    weights = symbolic_weights(np.random.default_rng(0), ("length",))
    state = open_state(make_model(weights), CellState(np.zeros((9, 9), dtype=np.int32), TYPES))
    empty = 0.7 * (weights["symbolic.length.strength"][1] * weights["symbolic.length.target"][1] ** 2 - 3)
    assert state.energy()[0] == pytest.approx(empty, rel=1e-12)
    assert state.delta(40, 1) == 0  # nor has one of a single pixel
    state.commit(40, 1)
    state.commit(40, 0)
    state.commit(3, 1)  # a cell that returns elsewhere
    assert state.energy()[0] == pytest.approx(empty, rel=1e-12)


@pytest.mark.parametrize(("geometry", "layout"), LAYOUTS)
def test_chains_keep_cells_that_have_a_shape(geometry: str, layout: Layout) -> None:
    """Cells that want to be longer than the lattice grow up to half a ring and stay measurable, whatever they shed."""
    rng = np.random.default_rng(3)
    lattice = Lattice.of((7, 8, 10) if geometry == "cubic" else (12, 14), geometry, "periodic", layout)
    weights = symbolic_weights(rng, ("length", "volume"), minor=False)
    weights |= {"symbolic.weight": np.array(1.0), "symbolic.volume.target": np.full(3, lattice.sites / 6)}
    weights |= {"symbolic.volume.strength": np.full(3, 0.1), "symbolic.length.target": np.full(3, 30.0)}
    weights |= {"symbolic.length.strength": np.full(3, 2.0)}
    model = make_model(weights, geometry=geometry)
    ids = np.zeros(lattice.sites, dtype=np.int32)
    ids[rng.choice(lattice.sites, size=3, replace=False)] = [1, 2, 3]
    start = CellState(ids.reshape(lattice.shape), np.array([0, 1, 2, 1], dtype=np.int32), lattice)
    state = open_state(model, start, forbid_extinction=True)
    for seed in range(8):
        state.sweep(25, 2.0, seed)
        assert again(model, state, lattice).energy() == state.energy()
    longest = [
        np.ptp(np.flatnonzero((state.ids == cell).any(tuple(range(lattice.dimension - 1))))) for cell in (1, 2, 3)
    ]
    assert max(longest) >= 3  # the rule had something to forbid
