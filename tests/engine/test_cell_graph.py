"""The engine's cell graph: by its definition on every lattice, without a trace of any history, whoever counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralcpm_bridge._engine import EngineError, Model, State
from neuralcpm_bridge.artifact import NeuralSpec
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

from ..cell_graph import reference
from .lattices import BOUNDARIES, Boxes, lattices
from .models import GRAPH, Weights, graph_weights, make_model

READ = tuple(GRAPH["properties"])
SPECS = st.fixed_dictionaries(
    {
        "rounds": st.integers(1, 3),
        "members": st.integers(1, 3),
        "order": st.integers(1, 4),
        "knots": st.sampled_from([0, 2, 5]),
    }
).map(lambda sizes: GRAPH | sizes)
SEEDS = st.integers(0, 2**32 - 1)
LATTICES = lattices((5, 12), (4, 7))
TORI = lattices((6, 12), (4, 7), boundaries=("periodic",))
SMALL = lattices((4, 8), (4, 5))
"""Here cells meet themselves round the ring, and middles lie exactly opposite each other."""


def graph(
    rng: np.random.Generator, lattice: Lattice, spec: dict[str, Any], narrow: float = 1.0
) -> tuple[Model, Weights]:
    """A model with random weights; `narrow`: deviations of the training data, by which most inputs are clamped."""
    weights = graph_weights(rng, spec)
    for name in ("cell", "edge"):
        weights[f"neural.{name}_deviation"] *= np.float32(narrow)
    return make_model(weights, lattice.boundary, spec, lattice.geometry.name), weights


def tissue(rng: np.random.Generator, lattice: Lattice, ids: int = 7) -> CellState:
    """Cells across all borders, none of which spans half of a ring; then one of a single pixel, one of none."""
    state = Boxes.scattered(rng, lattice, ids - 3).fill(rng)
    cells = state.ids.copy()
    cells.flat[rng.integers(cells.size)] = ids - 2
    types = np.concatenate([state.types, rng.integers(1, 3, size=2)])
    return CellState(cells, types, lattice, {name: rng.normal(2, 2, types.size) for name in READ})


def opened(model: Model, state: CellState) -> State:
    lattice = state.lattice
    return State(
        model,
        state.ids,
        state.types,
        layout=lattice.layout,
        boundary=lattice.boundary,
        properties=state.property_table(),
    )


def tried(rng: np.random.Generator, state: State, count: int = 12) -> list[tuple[int, int]]:
    """Flips that are allowed: copies of anything anywhere, of cells without pixels too."""
    sites = rng.integers(state.ids.size, size=4 * count)
    new_ids = rng.choice(np.flatnonzero(state.types >= 0), size=4 * count)
    flips = [(int(site), int(new)) for site, new in zip(sites, new_ids, strict=True)]
    return [flip for flip in flips if np.isfinite(state.delta(*flip))][:count]


def by_definition(state: CellState, spec: dict[str, Any], weights: Weights) -> float:
    named = {key.removeprefix("neural."): value.astype(float) for key, value in weights.items()}
    return float(weights["neural.weight"] * np.mean(reference(state, NeuralSpec(**spec), named)))


@settings(max_examples=25)
@given(LATTICES, SPECS, SEEDS, st.sampled_from([1.0, 0.05]))
def test_energies_and_flips_by_definition(lattice: Lattice, spec: dict[str, Any], seed: int, narrow: float) -> None:
    rng = np.random.default_rng(seed)
    model, weights = graph(rng, lattice, spec, narrow)
    state = tissue(rng, lattice)
    engine = opened(model, state)
    energy = by_definition(state, spec, weights)
    assert engine.energy() == pytest.approx((0.0, energy), abs=2e-4, rel=1e-5)
    assert np.mean(engine.member_energies()) == pytest.approx(engine.energy()[1], rel=1e-12)
    for site, new_id in tried(rng, engine, 3):
        ids = state.ids.copy()
        ids.flat[site] = new_id
        change = by_definition(replace(state, ids=ids), spec, weights) - energy
        assert engine.delta(site, new_id) == pytest.approx(change, abs=max(2e-4, 1e-5 * abs(energy)))
        assert np.mean(engine.member_deltas(site, new_id)) == pytest.approx(engine.delta(site, new_id), rel=1e-9)


def same(kept: State, model: Model, lattice: Lattice, rng: np.random.Generator) -> None:
    """Bit for bit what a state says that is made now."""
    columns = dict(zip(READ, kept.properties.T, strict=True))
    fresh = opened(model, CellState(kept.ids, kept.types, lattice, columns))
    assert kept.energy() == fresh.energy()
    assert kept.member_energies() == fresh.member_energies()
    np.testing.assert_array_equal(kept.inside_range, fresh.inside_range)
    for flip in tried(rng, fresh, 4):
        assert kept.member_deltas(*flip) == fresh.member_deltas(*flip)


def disturb(rng: np.random.Generator, state: State) -> None:
    """A division, a death, a birth or a change of type or property."""
    living = np.flatnonzero((state.types > 0) & (state.volumes > 0))
    kind = rng.choice(["division", "death", "birth", "type", "property"])
    if kind == "birth" or living.size == 0:
        free = np.flatnonzero((state.types[1:] == -1) | (state.volumes[1:] == 0)) + 1
        new = int(free[0]) if free.size else state.types.size
        state.set_type(new, int(rng.integers(1, 3)))
        state.change_pixels(rng.integers(state.ids.size, size=1), np.array([new]))
    elif kind == "division":
        sites = np.flatnonzero(state.ids.ravel() == rng.choice(living))
        state.set_type(new := state.types.size, 1)
        half = sites[rng.random(sites.size) < 0.5]
        state.change_pixels(half, np.full(half.size, new))
    elif kind == "death":
        state.remove_cell(int(rng.choice(living)))
    elif kind == "type":
        state.set_type(int(rng.choice(living)), int(rng.integers(1, 3)))
    else:
        state.set_property(int(rng.choice(living)), int(rng.integers(len(READ))), float(rng.normal(2, 3)))


@settings(max_examples=40)
@given(st.one_of(LATTICES, SMALL), SPECS, SEEDS)
def test_no_history_leaves_a_trace(lattice: Lattice, spec: dict[str, Any], seed: int) -> None:
    """Flips, asked for first or not, among divisions, deaths, births, types and properties that change."""
    rng = np.random.default_rng(seed)
    model, _ = graph(rng, lattice, spec)
    state = opened(model, tissue(rng, lattice))
    for _ in range(4):
        for site, new_id in tried(rng, state, 8):
            energies = state.member_energies()
            if not np.isfinite(state.delta(site, new_id)):  # earlier flips have changed what spans half a ring
                continue
            changes = state.member_deltas(site, new_id)
            if rng.random() < 0.3:
                tried(rng, state, 1)  # other questions in between
            state.commit(site, new_id)
            np.testing.assert_allclose(np.add(energies, changes), state.member_energies(), rtol=1e-9, atol=1e-9)
        same(state, model, lattice, rng)
        disturb(rng, state)
        same(state, model, lattice, rng)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("geometry", "layout"), [("square", "axes"), ("hexagonal", "axes"), ("hexagonal", "rows")])
def test_cells_exactly_opposite_each_other(geometry: str, layout: Any, axis: int) -> None:
    """Both take the positive one of two equally short ways: each sees the other elsewhere, also after flips."""
    rng = np.random.default_rng(3)
    lattice = Lattice.of((8, 8), geometry, "periodic", layout)
    spec = GRAPH | {"order": 4, "rounds": 2}
    model, weights = graph(rng, lattice, spec)
    block = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=np.int32)
    ids = np.zeros((8, 8), dtype=np.int32)
    ids[1:4, 1:4] = block
    places = [slice(1, 4), slice(1, 4)]
    places[axis], places[1 - axis] = slice(5, 8), slice(2, 5)
    ids[tuple(places)] = 2 * block
    columns = {name: np.zeros(3) for name in READ}
    start = CellState(ids, np.array([0, 1, 2]), lattice, columns)
    state = opened(model, start)
    assert state.energy()[1] == pytest.approx(by_definition(start, spec, weights), abs=2e-4)
    outside, inside = lattice.site(0, 0), lattice.site(2, 2)
    for site, new_id in ((inside, 0), (inside, 1), (outside, 1), (outside, 0)):
        state.commit(site, new_id)
        same(state, model, lattice, rng)


@settings(max_examples=20)
@given(TORI, SPECS, SEEDS)
def test_numbers_and_places_change_no_bit(lattice: Lattice, spec: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, _ = graph(rng, lattice, spec)
    start = tissue(rng, lattice)
    state = opened(model, start)
    shift = [int(rng.integers(size)) for size in lattice.shape]
    if lattice.layout == "rows":
        shift[0] -= shift[0] % 2  # by whole pairs of rows: pushed ones stay pushed
    number = np.concatenate([[0], 1 + rng.permutation(start.types.size - 1)])
    types, columns = np.empty_like(start.types), {name: np.empty(start.types.size) for name in READ}
    types[number] = start.types
    for name in READ:
        columns[name][number] = start.properties[name]
    ids = np.roll(number[start.ids].astype(np.int32), shift, tuple(range(lattice.dimension)))
    moved = opened(model, CellState(ids, types, lattice, columns))
    assert moved.energy() == state.energy()
    assert moved.member_energies() == state.member_energies()
    np.testing.assert_array_equal(moved.inside_range[number], state.inside_range)
    for site, new_id in tried(rng, state, 6):
        place = [(at + by) % size for at, by, size in zip(lattice.index(site), shift, lattice.shape, strict=True)]
        assert moved.member_deltas(lattice.site(*place), int(number[new_id])) == state.member_deltas(site, new_id)


@settings(max_examples=20)
@given(st.integers(5, 9), st.sampled_from(["square", "hexagonal", "cubic"]), SPECS, SEEDS)
def test_turns_and_mirrors_change_no_more_than_rounding(
    side: int, geometry: str, spec: dict[str, Any], seed: int
) -> None:
    """Of equal sides, so that the lattice has all the symmetries that its geometry has."""
    rng = np.random.default_rng(seed)
    lattice = Lattice.of([side] * (3 if geometry == "cubic" else 2), geometry, "free")
    model, _ = graph(rng, lattice, spec)
    state = tissue(rng, lattice)
    energy = opened(model, state).energy()[1]
    for turn in lattice.symmetries()[:8]:
        turned = replace(state, ids=state.ids.ravel()[turn].reshape(lattice.shape))
        assert opened(model, turned).energy()[1] == pytest.approx(energy, abs=2e-4, rel=1e-5)


@pytest.mark.parametrize("geometry", ["square", "hexagonal", "cubic"])
def test_tissues_far_apart_do_not_know_of_each_other(geometry: str) -> None:
    """On lattices of three sizes: two and three of them cost two and three times as much to the last bit."""
    rng = np.random.default_rng(5)
    dimension = 3 if geometry == "cubic" else 2
    small = Lattice.of([9] * dimension, geometry, "free")
    spec = GRAPH | {"rounds": 3}
    weights = graph_weights(rng, spec) | {"neural.weight": np.array(1.0)}  # a weight would round
    model = make_model(weights, "free", spec, geometry)
    one = tissue(rng, small)
    energies = []
    for copies in (1, 2, 3):
        shape = [15 * copies, *([11 + 4 * copies] * (dimension - 1))]
        ids = np.zeros(shape, dtype=np.int32)
        for number in range(copies):
            corner = (slice(15 * number + 3, 15 * number + 12), *([slice(3, 12)] * (dimension - 1)))
            ids[corner] = np.where(one.ids, one.ids + number * (one.types.size - 1), 0)
        types = np.concatenate([[0], np.tile(one.types[1:], copies)])
        columns = {name: np.concatenate([[0.0], np.tile(one.properties[name][1:], copies)]) for name in READ}
        state = CellState(ids, types, Lattice.of(shape, geometry, "free"), columns)
        energies.append(opened(model, state).member_energies())
    assert np.array_equal(energies[1], 2 * np.array(energies[0]))
    assert np.array_equal(energies[2], 3 * np.array(energies[0]))


@settings(max_examples=10)
@given(LATTICES, SEEDS)
def test_cells_outside_of_the_training_data_are_known(lattice: Lattice, seed: int) -> None:
    """Volumes from 3 to 6 of type A, anything of type B."""
    rng = np.random.default_rng(seed)
    weights = graph_weights(rng, GRAPH)
    for end, volume, rest in (("low", 3, -1e6), ("high", 6, 1e6)):
        weights[f"neural.{end}"][1:] = rest
        weights[f"neural.{end}"][1, 0] = volume
    state = tissue(rng, lattice)
    model = make_model(weights, lattice.boundary, GRAPH, lattice.geometry.name)
    volumes, types = state.volumes, state.types
    inside = (types != 1) | (volumes == 0) | ((volumes >= 3) & (volumes <= 6))
    np.testing.assert_array_equal(opened(model, state).inside_range, inside)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_loud_networks_are_undefined_not_wrong(boundary: str) -> None:
    """Energies beyond the whole numbers' range: not a number, also after a flip, until the state is reset."""
    rng = np.random.default_rng(0)
    lattice = Lattice.of((10, 11), "square", boundary)
    weights = graph_weights(rng, GRAPH)
    weights["neural.members.1.out.weight"] *= np.float32(1e9)
    model = make_model(weights, lattice.boundary, GRAPH)
    start = tissue(rng, lattice)
    state = opened(model, start)
    assert np.isnan(state.energy()[1])
    site = int(np.flatnonzero(start.ids.ravel())[0])
    assert np.isnan(state.delta(site, 0))
    assert np.isfinite(state.member_deltas(site, 0)[0])
    state.commit(site, 0)
    assert np.isnan(state.energy()[1])
    nothing = np.zeros(lattice.shape, dtype=np.int32)
    state.reset(nothing, start.types, start.property_table())
    assert state.energy() == (0.0, 0.0)


@pytest.mark.parametrize("statistic", ["mean", "deviation"])
def test_both_cells_of_a_contact_are_measured_alike(statistic: str) -> None:
    weights = graph_weights(np.random.default_rng(0), GRAPH)
    weights[f"neural.edge_{statistic}"][4] += np.float32(0.5)
    with pytest.raises(EngineError, match=f"edge_{statistic}' differs for the two cells"):
        make_model(weights, neural=GRAPH)
