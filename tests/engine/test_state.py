"""A state through every kind of change: its caches, its rules, its refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralcpm_bridge._engine import EngineError, State, reference_energy
from neuralcpm_bridge.lattice import Lattice

from ..strategies import random_state
from .lattices import LAYOUTS, ORDERS, Boxes, again, lattices, open_state, scattered
from .models import LOCAL, NH, make_model, network_weights, symbolic_weights

ANALYTIC = ("contact", "volume", "volume_function", "surface", "external")
SEEDS = st.integers(0, 2**32 - 1)


# -- histories -----------------------------------------------------------------------------------------------------


def act(rng: np.random.Generator, state: State) -> None:
    """One random change of any kind."""
    types, sites = state.types, state.ids.size
    existing = np.flatnonzero(types >= 0)
    kind = rng.integers(6)
    if kind <= 1:
        state.commit(int(rng.integers(sites)), int(rng.choice(existing)))
    elif kind == 2 and existing.size > 1:
        state.set_type(int(rng.choice(existing[1:])), int(rng.integers(1, 3)))
    elif kind == 3:  # division: half of a cell's pixels get a new id
        parent, daughter = int(rng.choice(existing)), int(rng.integers(1, types.size + 2))
        if daughter >= types.size or types[daughter] == -1:
            state.set_type(daughter, int(rng.integers(1, 3)))
            owned = np.flatnonzero(state.ids == parent)
            half = owned[rng.random(owned.size) < 0.5]
            state.change_pixels(half, np.full(half.size, daughter))
    elif kind == 4 and existing.size > 2:
        state.remove_cell(int(rng.choice(existing[1:])))
    elif kind == 5:
        size = int(rng.integers(0, 12))
        state.change_pixels(rng.integers(sites, size=size), rng.choice(existing, size=size))


@settings(max_examples=120)
@given(SEEDS, lattices(flat=(1, 9), solid=(1, 5)), ORDERS)
def test_any_history_equals_a_fresh_state(seed: int, lattice: Lattice, orders: dict[str, int]) -> None:
    """Commits, type changes, divisions, deaths and layouts leave no trace in the caches."""
    rng = np.random.default_rng(seed)
    # Lengths are defined for cells of any extent only where no axis is a ring.
    terms = ANALYTIC if any(lattice.periodic) else (*ANALYTIC, "length")
    weights = symbolic_weights(rng, terms, lattice.shape, minor="length" in terms and lattice.dimension == 3)
    model = make_model(weights, lattice.boundary, None, lattice.geometry.name, orders)
    state = open_state(model, scattered(rng, lattice, 5))
    for _ in range(12):
        act(rng, state)
        np.testing.assert_array_equal(state.volumes, np.bincount(state.ids.ravel(), minlength=state.types.size))
        fresh = again(model, state, lattice)
        assert state.energy() == fresh.energy()
        site, cell = int(rng.integers(lattice.sites)), int(rng.choice(np.flatnonzero(state.types >= 0)))
        assert state.delta(site, cell) == fresh.delta(site, cell)


@settings(max_examples=30)
@given(SEEDS, st.sampled_from(["periodic", "free"]), st.sampled_from([NH, LOCAL]))
def test_any_history_of_a_network(seed: int, boundary: str, network: dict) -> None:
    rng = np.random.default_rng(seed)
    lattice = Lattice.of(rng.integers(4, 10, size=2), "square", boundary)
    weights = symbolic_weights(rng, ANALYTIC, lattice.shape) | network_weights(rng, network)
    model = make_model(weights, boundary, network)
    state = open_state(model, scattered(rng, lattice, 5))
    for _ in range(12):
        act(rng, state)
        assert state.energy() == again(model, state, lattice).energy()
        site, cell = int(rng.integers(lattice.sites)), int(rng.choice(np.flatnonzero(state.types >= 0)))
        other = again(model, state, lattice)
        parts = state.delta_parts(site, cell)
        other.commit(site, cell)
        change = np.subtract(other.energy(), state.energy())
        np.testing.assert_allclose(parts, change, rtol=1e-5, atol=1e-4)
    assert state.energy()[1] == pytest.approx(reference_energy(model, state.ids, state.types), rel=1e-5, abs=1e-4)


def act_in_boxes(rng: np.random.Generator, state: State, boxes: Boxes) -> None:
    """One random change that leaves every cell within its box; a daughter shares her mother's."""
    existing = np.flatnonzero(state.types >= 0)
    cell, kind = int(rng.choice(existing)), rng.integers(5)
    if cell == 0:
        return
    inside = boxes.sites[cell]
    if kind == 0:
        state.commit(int(rng.choice(inside)), int(rng.choice([0, cell])))
    elif kind == 1:
        state.set_type(cell, int(rng.integers(1, 3)))
    elif kind == 2:
        daughter = state.types.size
        state.set_type(daughter, int(rng.integers(1, 3)))
        boxes.sites.append(inside)
        boxes.coordinates.append(boxes.coordinates[cell])
        half = inside[(state.ids.flat[inside] == cell) & (rng.random(inside.size) < 0.5)]
        state.change_pixels(half, np.full(half.size, daughter))
    elif kind == 3 and existing.size > 3:
        state.remove_cell(cell)
    elif kind == 4:
        some = rng.choice(inside, size=int(rng.integers(0, 9)))
        state.change_pixels(some, rng.choice([0, cell], size=some.size))


@settings(max_examples=80)
@given(SEEDS, lattices(flat=(4, 16), solid=(4, 9)))
def test_any_history_of_lengths(seed: int, lattice: Lattice) -> None:
    """Cells that stay in boxes keep their moments exactly, wherever the borders run through them."""
    rng = np.random.default_rng(seed)
    weights = symbolic_weights(rng, ("length",), minor=lattice.dimension == 3)
    model = make_model(weights, lattice.boundary, None, lattice.geometry.name)
    boxes = Boxes.scattered(rng, lattice, 4)
    state = open_state(model, boxes.fill(rng))
    for _ in range(12):
        act_in_boxes(rng, state, boxes)
        fresh = again(model, state, lattice)
        assert state.energy() == fresh.energy()
        cell = int(rng.choice(np.flatnonzero(state.types >= 1)))
        site = int(rng.choice(boxes.sites[cell]))
        assert state.delta(site, cell) == fresh.delta(site, cell)
    assert state.energy()[0] == pytest.approx(boxes.length_energy(weights, state.ids, state.types), rel=1e-9, abs=1e-4)


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("geometry", "layout"), LAYOUTS)
def test_cell_couplings_replace_the_types(geometry: str, layout: str) -> None:
    rng = np.random.default_rng(3)
    lattice = Lattice.of((3, 4, 5) if geometry == "cubic" else (6, 7), geometry, "periodic", layout)
    weights = symbolic_weights(rng, ("external",), lattice.shape)
    start = scattered(rng, lattice, 4, absent=False)
    model = make_model(weights, geometry=geometry)
    state = open_state(model, start)
    by_type = state.energy()
    state.set_cell_coupling(weights["symbolic.external.coupling"][start.types])
    assert state.energy() == pytest.approx(by_type)
    own = rng.normal(size=(4, 2))
    state.set_cell_coupling(own)
    expected = (np.moveaxis(weights["symbolic.external.field"], 0, -1) * own[start.ids]).sum()
    assert state.energy()[0] == pytest.approx(0.7 * (expected - 3))
    site, new_id = 16, (int(start.ids.flat[16]) + 1) % 4
    before, change = state.energy()[0], state.delta(site, new_id)
    state.commit(site, new_id)
    assert state.energy()[0] - before == pytest.approx(change)
    state.set_cell_coupling(np.empty((0, 2)))
    assert state.energy() == again(model, state, lattice).energy()


def test_extinction_and_parts() -> None:
    rng = np.random.default_rng(1)
    weights = symbolic_weights(rng, ("contact", "volume")) | network_weights(rng, LOCAL)
    model = make_model(weights, neural=LOCAL)
    ids = np.zeros((6, 6), dtype=np.int32)
    ids[2, 2], ids[4, 4], ids[4, 5] = 1, 2, 2
    lonely, paired = 14, 28
    types = np.array([0, 1, 2], dtype=np.int32)
    full, neural, symbolic = (State(model, ids, types, part) for part in ("full", "neural", "symbolic"))
    parts = full.delta_parts(lonely, 0)
    assert parts == symbolic.delta_parts(lonely, 0) == neural.delta_parts(lonely, 0)
    assert (neural.delta(lonely, 0), symbolic.delta(lonely, 0)) == (parts[1], parts[0])
    assert full.delta(lonely, 0) == pytest.approx(sum(parts))
    np.testing.assert_array_equal(full.deltas(np.array([lonely, paired]), np.array([0, 0]))[0], parts)
    strict = State(model, ids, types, forbid_extinction=True)
    assert strict.delta(lonely, 0) == math.inf
    assert strict.delta(paired, 0) < math.inf
    assert strict.delta(lonely, 1) == 0


def test_a_state_may_lie_on_another_boundary() -> None:
    """The model's own where none is given; axis by axis where it is."""
    rng = np.random.default_rng(6)
    weights = symbolic_weights(rng, ("contact", "surface"))
    start = random_state(rng, (5, 6), 5)
    ids = np.roll(start.ids, 2, 0)
    for words in (("periodic", "free"), ("free", "free"), ("free", "periodic")):
        own = State(make_model(weights, words), ids, start.types)
        told = State(make_model(weights), ids, start.types, boundary=words)
        assert own.energy() == told.energy()
    assert State(make_model(weights), ids, start.types).energy() != own.energy()


# -- refusals ------------------------------------------------------------------------------------------------------


def test_wrong_input_is_one_sentence_and_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    model = make_model(symbolic_weights(rng, ("contact", "volume")))
    ids = np.zeros((4, 5), dtype=np.int32)
    ids[1, 1] = 1
    types = np.array([0, 1, -1], dtype=np.int32)
    state = State(model, ids, types)
    for wrong in (
        lambda: state.delta(20, 1),
        lambda: state.delta(-1, 1),
        lambda: state.delta(2**40, 1),
        lambda: state.commit(0, 2),
        lambda: state.commit(0, -1),
        lambda: state.commit(0, 2**32),
        lambda: state.set_type(0, 1),
        lambda: state.set_type(1, 3),
        lambda: state.set_type(1, 0),
        lambda: state.set_type(1, -1),
        lambda: state.set_type(2**30, 1),
        lambda: state.remove_cell(2),
        lambda: state.remove_cell(0),
        lambda: state.change_pixels(np.array([0]), np.array([0, 1])),
        lambda: state.change_pixels(np.array([0, 20]), np.array([1, 1])),
        lambda: state.change_pixels(np.array([0, 1]), np.array([1, 2])),
        lambda: state.deltas(np.array([0, -1]), np.array([1, 1])),
        lambda: state.set_cell_coupling(np.zeros((2, 1))),
        lambda: state.reset(ids[:3], types),
        lambda: state.reset(ids.reshape(1, 4, 5), types),
        lambda: state.reset(ids, np.array([0, 7, 1], dtype=np.int32)),
        lambda: state.sweep(-1, 1.0, 0),
        lambda: state.sweep(1, math.nan, 0),
        lambda: state.sweep(1, 1.0, 0, copy_order=-1),
        lambda: state.sweep(1, 1.0, 0, copy_order=99),
        lambda: state.sweep(1, 1.0, 0, copy_order=13, boundary_only=True),
        lambda: State(model, ids, types, "some"),
        lambda: State(model, ids + 2, types),
        lambda: State(model, ids, types[1:]),
        lambda: State(model, ids.reshape(1, 4, 5), types),
        lambda: State(model, ids, types, layout="rows"),
        lambda: State(model, ids, types, layout="columns"),
        lambda: State(model, ids, types, boundary=["periodic"]),
        lambda: State(model, ids, types, boundary=["periodic", "open"]),
        lambda: State(model, np.zeros((0, 5), dtype=np.int32), types),
    ):
        with pytest.raises(EngineError, match=r"^[^\n]+\.$"):
            wrong()
    np.testing.assert_array_equal(state.ids, ids)
    np.testing.assert_array_equal(state.types, types)
    assert state.energy() == State(model, ids, types).energy()


def test_lattices_that_cannot_be() -> None:
    weights = symbolic_weights(np.random.default_rng(0), ("contact",))
    types = np.zeros(1, dtype=np.int32)
    hexagonal, cubic = (make_model(weights, geometry=geometry) for geometry in ("hexagonal", "cubic"))
    with pytest.raises(EngineError, match="even number of rows"):
        State(hexagonal, np.zeros((5, 4), dtype=np.int32), types, layout="rows")
    State(hexagonal, np.zeros((5, 4), dtype=np.int32), types, layout="rows", boundary=["free", "periodic"])
    with pytest.raises(EngineError, match="3 axes"):
        State(cubic, np.zeros((5, 4), dtype=np.int32), types)


def test_too_many_neighbourhoods_are_a_sentence_of_the_order() -> None:
    """Two terms look at neighbours; each at an order of its own is possible."""
    rng = np.random.default_rng(0)
    model = make_model(symbolic_weights(rng, ("contact", "surface")), orders={"contact": 20, "surface": 19})
    start = random_state(rng, (30, 30), 5)
    state = State(model, start.ids, start.types)
    state.commit(3, 1)
    assert state.energy() == State(model, state.ids, state.types).energy()


@pytest.mark.parametrize("network", [None, LOCAL])
def test_a_refused_length_changes_nothing(network: dict | None) -> None:
    """A cell across more than half a ring has no length; the state before it stays, networks' caches included."""
    rng = np.random.default_rng(4)
    weights = symbolic_weights(rng, ("length", "surface"))
    if network:
        weights |= network_weights(rng, network)
    model = make_model(weights, neural=network)
    ids = np.zeros((12, 14), dtype=np.int32)
    ids[3:6, 3:6] = 1
    types = np.array([0, 1], dtype=np.int32)
    state = State(model, ids, types)
    before = state.energy()
    wide = np.zeros_like(ids)
    wide[4, 1:12] = 1
    for wrong in (lambda: state.reset(wide, types), lambda: State(model, wide, types)):
        with pytest.raises(EngineError, match="spans half of a periodic lattice"):
            wrong()
    assert state.energy() == before
    np.testing.assert_array_equal(state.ids, ids)
    state.commit(0, 1)
    assert state.delta(0, 0) == pytest.approx(before[0] + before[1] - sum(state.energy()), abs=1e-4)
    State(model, wide, types, boundary=["periodic", "free"])
