"""The Metropolis loop: the right distribution, the right clock, reproducible to the bit."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from neuralcpm_bridge._engine import EngineError, Model, State, run_chains
from neuralcpm_bridge.lattice import Lattice, Layout
from neuralcpm_bridge.state import CellState

from ..strategies import random_state
from .lattices import open_state, scattered
from .models import LOCAL, make_model, network_weights, symbolic_weights

CONTACT = np.array([[0.0, 1.2, 0.8], [1.2, 0.5, 1.5], [0.8, 1.5, 0.3]])


def small_model(boundary: str | Sequence[str] = "periodic", geometry: str = "square") -> Model:
    weights = {
        "symbolic.contact.J": CONTACT,
        "symbolic.volume.strength": np.array([0.0, 0.3, 0.2]),
        "symbolic.volume.target": np.array([0.0, 3.0, 2.0]),
    }
    return make_model(weights, boundary, geometry=geometry)


# -- the distribution ----------------------------------------------------------------------------------------------

TINY: dict[str, tuple[str, Layout, tuple[int, ...]]] = {
    "square": ("square", "axes", (3, 3)),
    "hexagonal axes": ("hexagonal", "axes", (3, 3)),
    "hexagonal rows": ("hexagonal", "rows", (4, 2)),
    "cube": ("cubic", "axes", (2, 2, 2)),
    "brick": ("cubic", "axes", (2, 2, 3)),
}
CELLS = np.array([0, 1, 2], dtype=np.int32)


def tiny_lattice(name: str, boundary: str) -> Lattice:
    geometry, layout, shape = TINY[name]
    return Lattice.of(shape, geometry, boundary, layout)


def tiny_state(lattice: Lattice) -> State:
    """Two cells share all sites, half each; neither may vanish. There is no medium: it would die out for good."""
    ids = 1 + np.arange(lattice.sites).reshape(lattice.shape) * 2 // lattice.sites
    model = small_model(lattice.boundary, lattice.geometry.name)
    return open_state(model, CellState(ids, CELLS, lattice), forbid_extinction=True)


def as_bits(ids: NDArray[np.int32]) -> int:
    return int((ids.ravel() == 2) @ (1 << np.arange(ids.size)))


@functools.cache
def stationary(lattice: Lattice, order: int) -> NDArray[np.float64]:
    """Probability of every state, by its bits, from the transition matrix of the process itself.

    A copy is proposed in proportion to the neighbours that offer it, so the answer is not given by the Boltzmann
    weights alone. An attempt is a site and one of |N| directions, whether or not there is another site.
    """
    table, engine = lattice.neighbours(order), tiny_state(lattice)
    start = as_bits(engine.ids)
    known, todo, transitions = {start}, [start], []
    while todo:
        state = todo.pop()
        ids = 1 + (state >> np.arange(lattice.sites) & 1).astype(np.int32)
        engine.reset(ids.reshape(lattice.shape), CELLS)
        offers = ((ids[table] != ids[:, None]) & (table >= 0)).sum(axis=1)
        for site in np.flatnonzero(offers).tolist():
            delta = engine.delta(site, 3 - int(ids[site]))
            if delta == np.inf:
                continue
            after = state ^ (1 << site)
            if after not in known:
                known.add(after)
                todo.append(after)
            transitions.append((state, after, offers[site] * min(1.0, np.exp(-delta)) / table.size))
    out, into, rate = (np.array(column) for column in zip(*transitions, strict=True))
    states = 1 << lattice.sites
    stay = 1 - np.bincount(out, rate, states)
    probability = np.zeros(states)
    probability[list(known)] = 1 / len(known)
    change = 1.0
    while change > 1e-9:
        before = probability
        probability = probability * stay + np.bincount(into, probability[out] * rate, states)
        change = np.abs(probability - before).sum()
    return probability


def assert_samples(lattice: Lattice, expected: NDArray[np.float64], **options: Any) -> None:
    """Many chains visit every state as often as `expected` says."""
    chains = [tiny_state(lattice) for _ in range(200)]
    seeds = list(range(len(chains)))
    run_chains(chains, 500, 1.0, seeds, 2, **options)
    samples = []
    for _ in range(50):
        run_chains(chains, 50, 1.0, seeds, 2, **options)
        samples += [as_bits(chain.ids) for chain in chains]
    seen = np.bincount(samples, minlength=expected.size) / len(samples)
    # Half the sum of the mean deviations of n independent samples, sqrt(2 p (1 - p) / (pi n)) each.
    typical = 0.5 * np.sqrt(2 * expected * (1 - expected) / (np.pi * len(samples))).sum()
    assert 0.5 * np.abs(seen - expected).sum() < 1.25 * typical


@pytest.mark.parametrize("boundary_only", [False, True], ids=["plain", "boundary only"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("boundary", ["periodic", "free"])
@pytest.mark.parametrize("name", TINY)
def test_stationary_distribution(name: str, boundary: str, order: int, boundary_only: bool) -> None:
    """Each of the 254 to 4094 states as often as enumeration says."""
    lattice = tiny_lattice(name, boundary)
    expected = stationary(lattice, order)
    assert_samples(lattice, expected, copy_order=order, boundary_only=boundary_only)


@pytest.mark.parametrize("boundary", ["periodic", "free"])
@pytest.mark.parametrize("name", ["square", "hexagonal axes", "hexagonal rows", "cube"])
def test_balanced_sweeps_are_boltzmann(name: str, boundary: str) -> None:
    lattice = tiny_lattice(name, boundary)
    engine = tiny_state(lattice)
    states = np.flatnonzero(stationary(lattice, lattice.geometry.moore_order) > 0)
    energies = []
    for state in states.tolist():
        ids = 1 + (state >> np.arange(lattice.sites) & 1).astype(np.int32)
        engine.reset(ids.reshape(lattice.shape), CELLS)
        energies.append(engine.energy()[0])
    expected = np.zeros(1 << lattice.sites)
    expected[states] = np.exp(-np.array(energies)) / np.exp(-np.array(energies)).sum()
    assert_samples(lattice, expected, boundary_only=True, balanced=True)


# -- the clock -----------------------------------------------------------------------------------------------------

LARGE: dict[str, tuple[str, Layout, tuple[int, ...]]] = {
    "square": ("square", "axes", (12, 15)),
    "larger square": ("square", "axes", (50, 60)),  # a tree of boundary pairs of three levels instead of two
    "hexagonal axes": ("hexagonal", "axes", (13, 15)),
    "hexagonal rows": ("hexagonal", "rows", (14, 15)),
    "cubic": ("cubic", "axes", (7, 8, 9)),
}


def large_state(name: str, boundary: str = "periodic", ids: int = 6) -> tuple[Model, CellState]:
    geometry, layout, shape = LARGE[name]
    lattice = Lattice.of(shape, geometry, boundary, layout)
    return small_model(boundary, geometry), scattered(np.random.default_rng(0), lattice, ids)


@pytest.mark.parametrize("boundary_only", [False, True], ids=["plain", "boundary only"])
@pytest.mark.parametrize("order", [0, 1, 5])  # 4 to 56 neighbours: edges in 8, 32 and 64 bits
@pytest.mark.parametrize("name", LARGE)
def test_chains_resume(name: str, order: int, boundary_only: bool) -> None:
    """Ten steps, or three and seven in another state object that knows the lattice and the count of attempts."""
    model, start = large_state(name)
    whole = open_state(model, start, forbid_extinction=True)
    counts = whole.sweep(10, 1.0, 42, order, boundary_only)
    first = open_state(model, start, forbid_extinction=True)
    before = first.sweep(3, 1.0, 42, order, boundary_only)
    second = open_state(model, CellState(first.ids, first.types, start.lattice), forbid_extinction=True)
    second.attempts = first.attempts
    after = second.sweep(7, 1.0, 42, order, boundary_only)
    np.testing.assert_array_equal(whole.ids, second.ids)
    assert whole.attempts == second.attempts == 10 * start.lattice.sites
    assert counts == {key: before[key] + after[key] for key in counts}
    other = open_state(model, start, forbid_extinction=True)
    other.sweep(10, 1.0, 43, order, boundary_only)
    assert (other.ids != whole.ids).any()


@pytest.mark.parametrize("boundary", ["periodic", "free"])
@pytest.mark.parametrize("order", [0, 1, 5])
@pytest.mark.parametrize("name", ["square", "hexagonal axes", "hexagonal rows", "cubic"])
def test_both_samplers_keep_the_same_time(name: str, boundary: str, order: int) -> None:
    """Proposals and acceptances per Monte Carlo step agree: skipping attempts does not skip time."""
    model, start = large_state(name, boundary, ids=30)
    totals = []
    for boundary_only in (False, True):
        chains = [open_state(model, start, forbid_extinction=True) for _ in range(100)]
        counts = run_chains(chains, 20, 1.0, list(range(100)), 2, order, boundary_only)
        totals.append(np.array([[count["proposals"], count["accepted"]] for count in counts]))
    assert all(count["attempts"] == 20 * start.lattice.sites for count in counts)
    error = np.sqrt(sum(total.var(axis=0, ddof=1) / 100 for total in totals))
    assert (np.abs(totals[0].mean(axis=0) - totals[1].mean(axis=0)) < 4.5 * error).all()


def test_copy_order_0_is_all_around() -> None:
    for name, order in (("square", 2), ("hexagonal rows", 1), ("cubic", 3)):
        results = []
        for chosen in (0, order, order + 1):
            model, start = large_state(name)
            state = open_state(model, start)
            state.sweep(3, 1.0, 1, chosen)
            results.append(state.ids.tobytes())
        assert results[0] == results[1] != results[2]


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(4)
    model = make_model(
        symbolic_weights(rng, ("contact", "volume", "length", "surface")) | network_weights(rng, LOCAL), neural=LOCAL
    )
    starts = [random_state(rng, (10, 11), 5) for _ in range(4)]
    results = []
    for threads in (1, 2, 4):
        chains = [State(model, start.ids, start.types) for start in starts]
        counts = run_chains(chains, 2, 1.0, [9, 8, 7, 6], threads)
        results.append((counts, [chain.ids.tobytes() for chain in chains], [chain.energy() for chain in chains]))
    assert results[0] == results[1] == results[2]


def test_trades_keep_caches_and_cells() -> None:
    """Cells that trade types leave a network's caches as a rebuild makes them, and every type as many cells."""
    rng = np.random.default_rng(5)
    model = make_model(symbolic_weights(rng, ("contact", "volume")) | network_weights(rng, LOCAL), neural=LOCAL)
    start = random_state(rng, (14, 15), 9)
    state = State(model, start.ids, start.types, forbid_extinction=True)
    counts = state.sweep(20, 50.0, 3, boundary_only=True, staged=True, trades=30)
    assert 0 < counts["traded"] < 600
    assert sorted(state.types) == sorted(start.types)
    assert (state.types != start.types).any()
    kept = state.energy()
    assert kept == State(model, state.ids, state.types).energy()


def test_trades_beyond_the_stream_are_refused() -> None:
    state = State(small_model(), np.ones((5, 5), dtype=np.int32), np.array([0, 1], dtype=np.int32))
    with pytest.raises(EngineError, match="0 to 25"):
        state.sweep(1, 1.0, 0, trades=26)


def test_temperature_zero_never_climbs() -> None:
    model = small_model()
    start = random_state(np.random.default_rng(8), (15, 15), 8)
    state = State(model, start.ids, start.types)
    energies = [sum(state.energy())]
    for _ in range(20):
        state.sweep(1, 0.0, 1)
        energies.append(sum(state.energy()))
    assert (np.diff(energies) <= 1e-9).all()
    assert energies[-1] < energies[0]


@pytest.mark.parametrize("boundary_only", [False, True])
def test_a_lattice_of_one_cell_stands_still(boundary_only: bool) -> None:
    state = State(small_model(), np.ones((5, 5), dtype=np.int32), np.array([0, 1], dtype=np.int32))
    counts = state.sweep(3, 1.0, 0, boundary_only=boundary_only, trades=5)
    assert counts == {"attempts": 75, "proposals": 0, "accepted": 0, "traded": 0}


def test_one_state_serves_one_thread() -> None:
    """A second thread is refused, not let in and not left waiting."""
    start = random_state(np.random.default_rng(0), (100, 100), 30)
    state = State(small_model(), start.ids, start.types)
    with pytest.raises(EngineError, match="in use by another thread"):
        run_chains([state, state], 1, 1.0, [0, 1])

    def work() -> None:
        done = False
        while not done:
            with contextlib.suppress(EngineError):  # the other one may be in
                state.sweep(3000, 1.0, 0)
                done = True

    worker = threading.Thread(target=work)
    worker.start()
    refused = 0
    while worker.is_alive():
        try:
            state.energy()
        except EngineError:
            refused += 1
    assert refused > 0
    assert state.attempts == 3000 * 10_000
