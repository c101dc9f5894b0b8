"""Energy differences against recomputed energies, through every kind of change."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralcpm_bridge._engine import EngineError, State, reference_energy

from ..strategies import random_state
from .models import LOCAL, NH, make_model, network_weights, symbolic_weights

ANALYTIC = ("contact", "volume", "surface", "external")


def fresh(model, state: State) -> tuple[float, float]:
    """Energies of the same state, from scratch."""
    return State(model, state.ids, state.types).energy()


def plain_energy(weights, ids, types, periodic: bool) -> float:
    """H_S by its definition, without any of the engine's shortcuts; loops over every directed pair."""
    height, width = ids.shape
    energy, pairs = float(weights["symbolic.offset"]), np.zeros(types.size)
    contact, field = weights["symbolic.contact.J"], weights["symbolic.external.field"]
    for row, col in np.ndindex(ids.shape):
        cell = ids[row, col]
        energy += field[:, row, col] @ weights["symbolic.external.coupling"][types[cell]]
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                r, c = row + down, col + right
                if (down, right) == (0, 0) or (not periodic and not (0 <= r < height and 0 <= c < width)):
                    continue
                other = ids[r % height, c % width]
                if other != cell:
                    energy += contact[types[cell], types[other]] / 8
                    pairs[cell] += 1
    quantities = {"volume": np.bincount(ids.ravel(), minlength=types.size), "surface": pairs / 4}
    for term, quantity in quantities.items():
        strength, target = weights[f"symbolic.{term}.strength"], weights[f"symbolic.{term}.target"]
        for cell in range(1, types.size):
            if types[cell] >= 1:
                energy += strength[types[cell]] * (quantity[cell] - target[types[cell]]) ** 2
    return weights["symbolic.weight"] * energy


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(2, 6),
    st.sampled_from(["periodic", "free"]),
)
def test_symbolic_energy_is_its_definition(seed: int, height: int, width: int, ids: int, boundary: str) -> None:
    rng = np.random.default_rng(seed)
    weights = symbolic_weights(rng, ANALYTIC, (height, width))
    state = random_state(rng, (height, width), ids)
    expected = plain_energy(weights, state.ids, state.types, boundary == "periodic")
    symbolic, neural = State(make_model(weights, boundary), state.ids, state.types).energy()
    assert symbolic == pytest.approx(expected, rel=1e-12, abs=1e-9)
    assert neural == 0


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(2, 6),
    st.sampled_from(["periodic", "free"]),
)
def test_symbolic_differences(seed: int, height: int, width: int, ids: int, boundary: str) -> None:
    """Every flip of a random state, last pixels, nucleation and lattices one site across included."""
    rng = np.random.default_rng(seed)
    model = make_model(symbolic_weights(rng, ANALYTIC, (height, width)), boundary)
    start = random_state(rng, (height, width), ids)
    state = State(model, start.ids, start.types)
    before = state.energy()[0]
    for row, col in np.ndindex(start.shape):
        for cell in np.flatnonzero(start.types >= 0):
            changed = start.ids.copy()
            changed[row, col] = cell
            after = State(model, changed, start.types).energy()[0]
            assert state.delta(row, col, int(cell)) == pytest.approx(after - before, rel=1e-9, abs=1e-8)


def act(rng: np.random.Generator, state: State) -> None:
    """One random change of any kind."""
    ids, types = state.ids, state.types
    existing = np.flatnonzero(types >= 0)
    kind = rng.integers(6)
    if kind <= 1:
        state.commit(int(rng.integers(ids.shape[0])), int(rng.integers(ids.shape[1])), int(rng.choice(existing)))
    elif kind == 2 and existing.size > 1:
        state.set_type(int(rng.choice(existing[1:])), int(rng.integers(1, 3)))
    elif kind == 3:  # division: half of a cell's pixels get a new id
        parent, daughter = int(rng.choice(existing)), int(rng.integers(1, types.size + 2))
        if daughter >= types.size or types[daughter] == -1:
            state.set_type(daughter, int(rng.integers(1, 3)))
            rows, cols = np.nonzero(ids == parent)
            half = rng.random(rows.size) < 0.5
            state.change_pixels(rows[half], cols[half], np.full(half.sum(), daughter))
    elif kind == 4 and existing.size > 2:
        state.remove_cell(int(rng.choice(existing[1:])))
    elif kind == 5:
        size = int(rng.integers(0, 12))
        state.change_pixels(
            rng.integers(ids.shape[0], size=size),
            rng.integers(ids.shape[1], size=size),
            rng.choice(existing, size=size),
        )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["periodic", "free"]), st.sampled_from([None, NH, LOCAL]))
def test_any_history_equals_a_fresh_state(seed: int, boundary: str, network: dict | None) -> None:
    """Commits, type changes, divisions, deaths and layouts leave no trace in the caches."""
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(4, 10)), int(rng.integers(4, 10)))
    weights = symbolic_weights(rng, ANALYTIC, shape)
    if network:
        weights |= network_weights(rng, network)
    model = make_model(weights, boundary, network)
    start = random_state(rng, shape, 5)
    state = State(model, start.ids, start.types)
    for _ in range(12):
        act(rng, state)
        np.testing.assert_array_equal(state.volumes, np.bincount(state.ids.ravel(), minlength=state.types.size))
        assert state.energy() == fresh(model, state)
        row, col = (int(rng.integers(side)) for side in shape)
        cell = int(rng.choice(np.flatnonzero(state.types >= 0)))
        other = State(model, state.ids, state.types)
        parts = state.delta_parts(row, col, cell)
        other.commit(row, col, cell)
        change = np.subtract(other.energy(), state.energy())
        np.testing.assert_allclose(parts, change, rtol=1e-5, atol=1e-4)
    if network:
        assert state.energy()[1] == pytest.approx(reference_energy(model, state.ids, state.types), rel=1e-5, abs=1e-4)


def length(rows, cols) -> float:
    covariance = np.cov(np.stack([rows, cols]), bias=True) if len(rows) > 1 else np.zeros((2, 2))
    return 4 * math.sqrt(max(np.linalg.eigvalsh(covariance)[-1], 0))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_length_across_borders(seed: int) -> None:
    """A cell that wanders around a periodic lattice keeps the length it has in the open plane."""
    rng = np.random.default_rng(seed)
    model = make_model(symbolic_weights(rng, ("length",)))
    weights = model.weights
    height, width = 32, 40
    pixels = {(int(rng.integers(height)), int(rng.integers(width)))}  # unwrapped
    ids = np.zeros((height, width), dtype=np.int32)
    for row, col in pixels:
        ids[row, col] = 1
    state = State(model, ids, np.array([0, 1], dtype=np.int32))
    drift = rng.integers(-1, 2, size=2)
    for _ in range(150):
        row, col = sorted(pixels)[rng.integers(len(pixels))]
        if rng.random() < 0.5 and len(pixels) > 8:  # lose the pixel farthest back
            target, new_id = min(pixels, key=lambda at: at[0] * drift[0] + at[1] * drift[1] + rng.random()), 0
            after = pixels - {target}
        else:
            target, new_id = (row + int(rng.integers(-1, 2)), col + int(rng.integers(-1, 2))), 1
            after = pixels | {target}
        spread = np.ptp(np.array(sorted(after)), axis=0)
        if (spread >= (11, 14)).any() or after == pixels:
            continue
        site = (target[0] % height, target[1] % width)
        old, new = (
            0.7
            * weights["symbolic.length.strength"][1]
            * (length(*zip(*sorted(p), strict=True)) - weights["symbolic.length.target"][1]) ** 2
            for p in (pixels, after)
        )
        assert state.delta(*site, new_id) == pytest.approx(new - old, rel=1e-9, abs=1e-9)
        state.commit(*site, new_id)
        pixels = after
    assert state.energy() == pytest.approx(fresh(model, state), rel=1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_length_of_a_traveller(axis: int) -> None:
    """A block of 4×9 sites that goes once around the lattice has one length all the way."""
    model = make_model(symbolic_weights(np.random.default_rng(0), ("length",)))
    ids = np.zeros((26, 28), dtype=np.int32)
    ids[3:7, 20:29] = ids[3:7, 0:1] = 1
    state = State(model, ids, np.array([0, 1], dtype=np.int32))
    start = state.energy()[0]
    for step in range(1, 30):
        moved = np.roll(ids, step, axis)
        for new_id in (1, 0):
            rows, cols = np.nonzero((moved != state.ids) & (moved == new_id))
            for row, col in zip(rows.tolist(), cols.tolist(), strict=True):
                state.commit(row, col, new_id)
        assert state.energy()[0] == pytest.approx(start, rel=1e-12)


def test_cell_couplings_replace_the_types() -> None:
    rng = np.random.default_rng(3)
    weights = symbolic_weights(rng, ("external",), (6, 7))
    start = random_state(rng, (6, 7), 4, absent=False)
    model = make_model(weights)
    state = State(model, start.ids, start.types)
    by_type = state.energy()
    state.set_cell_coupling(weights["symbolic.external.coupling"][start.types])
    assert state.energy() == pytest.approx(by_type)
    own = rng.normal(size=(4, 2))
    state.set_cell_coupling(own)
    expected = np.einsum("krc,rck->", weights["symbolic.external.field"], own[start.ids])
    assert state.energy()[0] == pytest.approx(0.7 * (expected - 3))
    before, change = state.energy()[0], state.delta(2, 2, (int(start.ids[2, 2]) + 1) % 4)
    state.commit(2, 2, (int(start.ids[2, 2]) + 1) % 4)
    assert state.energy()[0] - before == pytest.approx(change)
    state.set_cell_coupling(np.empty((0, 2)))
    assert state.energy() == fresh(model, state)


def test_extinction_and_terms() -> None:
    rng = np.random.default_rng(1)
    weights = symbolic_weights(rng, ("contact", "volume")) | network_weights(rng, LOCAL)
    model = make_model(weights, neural=LOCAL)
    ids = np.zeros((6, 6), dtype=np.int32)
    ids[2, 2], ids[4, 4], ids[4, 5] = 1, 2, 2
    types = np.array([0, 1, 2], dtype=np.int32)
    full, neural, symbolic = (State(model, ids, types, term) for term in ("full", "neural", "symbolic"))
    parts = full.delta_parts(2, 2, 0)
    assert parts == symbolic.delta_parts(2, 2, 0) == neural.delta_parts(2, 2, 0)
    assert (neural.delta(2, 2, 0), symbolic.delta(2, 2, 0)) == (parts[1], parts[0])
    assert full.delta(2, 2, 0) == pytest.approx(sum(parts))
    np.testing.assert_array_equal(full.deltas(np.array([2, 4]), np.array([2, 4]), np.array([0, 0]))[0], parts)
    strict = State(model, ids, types, forbid_extinction=True)
    assert strict.delta(2, 2, 0) == math.inf
    assert strict.delta(4, 4, 0) < math.inf
    assert strict.delta(2, 2, 1) == 0


def test_wrong_input_is_one_sentence_and_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    model = make_model(symbolic_weights(rng, ("contact", "volume")))
    ids = np.zeros((4, 5), dtype=np.int32)
    ids[1, 1] = 1
    types = np.array([0, 1, -1], dtype=np.int32)
    state = State(model, ids, types)
    one = np.array([0])
    for wrong in (
        lambda: state.delta(4, 0, 1),
        lambda: state.delta(-1, 0, 1),
        lambda: state.delta(0, 2**40, 1),
        lambda: state.commit(0, 0, 2),
        lambda: state.commit(0, 0, -1),
        lambda: state.commit(0, 0, 2**32),
        lambda: state.set_type(0, 1),
        lambda: state.set_type(1, 3),
        lambda: state.set_type(1, 0),
        lambda: state.set_type(1, -1),
        lambda: state.set_type(2**30, 1),
        lambda: state.remove_cell(2),
        lambda: state.remove_cell(0),
        lambda: state.change_pixels(one, one, np.array([0, 1])),
        lambda: state.change_pixels(np.array([0, 9]), np.array([0, 0]), np.array([1, 1])),
        lambda: state.set_cell_coupling(np.zeros((2, 1))),
        lambda: state.reset(ids[:3], types),
        lambda: state.reset(ids, np.array([0, 7, 1], dtype=np.int32)),
        lambda: state.sweep(-1, 1.0, 0),
        lambda: state.sweep(1, math.nan, 0),
        lambda: state.sweep(1, 1.0, 0, "hexagonal"),
        lambda: State(model, ids, types, "some"),
        lambda: State(model, ids + 2, types),
        lambda: State(model, ids, types[1:]),
    ):
        with pytest.raises(EngineError, match=r"^[^\n]+\.$"):
            wrong()
    np.testing.assert_array_equal(state.ids, ids)
    np.testing.assert_array_equal(state.types, types)
