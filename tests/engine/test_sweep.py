"""The Metropolis loop: the right distribution, the right clock, reproducible to the bit."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading

import numpy as np
import pytest

from neuralcpm_bridge._engine import EngineError, State, run_chains

from ..strategies import random_state
from .models import LOCAL, make_model, network_weights, symbolic_weights

SAMPLERS = list(itertools.product(["moore", "von_neumann"], [False, True]))


def small_model(boundary: str = "periodic"):
    weights = {
        "symbolic.contact.J": np.array([[0.0, 1.2, 0.8], [1.2, 0.5, 1.5], [0.8, 1.5, 0.3]]),
        "symbolic.volume.strength": np.array([0.0, 0.3, 0.2]),
        "symbolic.volume.target": np.array([0.0, 3.0, 2.0]),
    }
    return make_model(weights, boundary)


def directed_pairs(shape: tuple[int, int], neighbourhood: str, periodic: bool) -> list[tuple[int, int]]:
    """(target, source) of every directed pair, −1 where the source is off the lattice."""
    pairs = []
    for row, col in np.ndindex(shape):
        for down, right in itertools.product((-1, 0, 1), repeat=2):
            if (down, right) == (0, 0) or (neighbourhood == "von_neumann" and down and right):
                continue
            r, c = row + down, col + right
            inside = 0 <= r < shape[0] and 0 <= c < shape[1]
            pairs.append((row * shape[1] + col, (r % shape[0]) * shape[1] + c % shape[1] if inside or periodic else -1))
    return pairs


SHAPE, CELLS = (3, 3), np.array([0, 1, 2], dtype=np.int32)
START = (1, 1, 1, 1, 2, 1, 2, 2, 2)


def tiny_state(boundary: str, ids: tuple[int, ...] = START) -> State:
    return State(small_model(boundary), np.array(ids, dtype=np.int32).reshape(SHAPE), CELLS, forbid_extinction=True)


@functools.cache
def stationary(boundary: str, neighbourhood: str) -> dict[tuple[int, ...], float]:
    """Probability of every state that can be reached, from the transition matrix of the process itself.

    A copy is proposed in proportion to the neighbours that offer it, so the answer is not given by the Boltzmann
    weights alone. There is no medium: it would die out, and nothing could bring it back.
    """
    pairs = directed_pairs(SHAPE, neighbourhood, boundary == "periodic")
    engine = tiny_state(boundary)
    index, todo, transitions = {START: 0}, [START], []
    while todo:
        ids = todo.pop()
        engine.reset(np.array(ids, dtype=np.int32).reshape(SHAPE), CELLS)
        for target, source in pairs:
            if source < 0 or ids[source] == ids[target]:
                continue
            delta = engine.delta(*divmod(target, SHAPE[1]), ids[source])
            if delta == np.inf:
                continue
            after = (*ids[:target], ids[source], *ids[target + 1 :])
            if after not in index:
                index[after] = len(index)
                todo.append(after)
            transitions.append((index[ids], index[after], min(1.0, np.exp(-delta)) / len(pairs)))
    out, into, rate = (np.array(column) for column in zip(*transitions, strict=True))
    stay = 1 - np.bincount(out, rate, len(index))
    probability = np.full(len(index), 1 / len(index))
    change = 1.0
    while change > 1e-9:
        before = probability
        probability = probability * stay + np.bincount(into, probability[out] * rate, len(index))
        change = np.abs(probability - before).sum()
    return dict(zip(index, probability, strict=True))


@pytest.mark.parametrize("boundary", ["periodic", "free"])
@pytest.mark.parametrize(("neighbourhood", "boundary_only"), SAMPLERS)
def test_stationary_distribution(boundary: str, neighbourhood: str, boundary_only: bool) -> None:
    """Two cells share 3×3 sites, neither may vanish: each of some 510 states as often as enumeration says."""
    exact = stationary(boundary, neighbourhood)
    bits = 1 << np.arange(9)
    expected = np.zeros(512)
    expected[(np.array(list(exact)) == 2) @ bits] = list(exact.values())
    chains = [tiny_state(boundary) for _ in range(200)]
    seeds = list(range(len(chains)))
    run_chains(chains, 50, 1.0, seeds, 2, neighbourhood, boundary_only)
    samples = []
    for _ in range(100):
        run_chains(chains, 20, 1.0, seeds, 2, neighbourhood, boundary_only)
        samples += [int((chain.ids.ravel() == 2) @ bits) for chain in chains]
    seen = np.bincount(samples, minlength=512) / len(samples)
    # Half the sum of the mean deviations of n independent samples, sqrt(2 p (1 - p) / (pi n)) each.
    typical = 0.5 * np.sqrt(2 * expected * (1 - expected) / (np.pi * len(samples))).sum()
    assert 0.5 * np.abs(seen - expected).sum() < 1.25 * typical


@pytest.mark.parametrize(("neighbourhood", "boundary_only"), SAMPLERS)
@pytest.mark.parametrize("shape", [(12, 15), (50, 60)])  # trees of boundary pairs two and three levels deep
def test_chains_resume(shape: tuple[int, int], neighbourhood: str, boundary_only: bool) -> None:
    """Ten steps, or three and seven in another state object that knows the lattice and the count of attempts."""
    model = small_model()
    start = random_state(np.random.default_rng(0), shape, 6)
    whole = State(model, start.ids, start.types, forbid_extinction=True)
    counts = whole.sweep(10, 1.0, 42, neighbourhood, boundary_only)
    first = State(model, start.ids, start.types, forbid_extinction=True)
    before = first.sweep(3, 1.0, 42, neighbourhood, boundary_only)
    second = State(model, first.ids, first.types, forbid_extinction=True)
    second.attempts = first.attempts
    after = second.sweep(7, 1.0, 42, neighbourhood, boundary_only)
    np.testing.assert_array_equal(whole.ids, second.ids)
    assert whole.attempts == second.attempts == 10 * shape[0] * shape[1]
    assert counts == {key: before[key] + after[key] for key in counts}
    other = State(model, start.ids, start.types, forbid_extinction=True)
    other.sweep(10, 1.0, 43, neighbourhood, boundary_only)
    assert (other.ids != whole.ids).any()


@pytest.mark.parametrize("boundary", ["periodic", "free"])
@pytest.mark.parametrize("neighbourhood", ["moore", "von_neumann"])
def test_both_samplers_keep_the_same_time(boundary: str, neighbourhood: str) -> None:
    """Proposals and acceptances per Monte Carlo step agree: skipping attempts does not skip time."""
    model = small_model(boundary)
    start = random_state(np.random.default_rng(2), (48, 48), 60)
    totals = []
    for boundary_only in (False, True):
        chains = [State(model, start.ids, start.types, forbid_extinction=True) for _ in range(60)]
        counts = run_chains(chains, 20, 1.0, list(range(60)), 2, neighbourhood, boundary_only)
        totals.append(np.array([[count["proposals"], count["accepted"]] for count in counts]))
    assert all(count["attempts"] == 20 * 48 * 48 for count in counts)
    error = np.sqrt(sum(total.var(axis=0, ddof=1) / 60 for total in totals))
    assert (np.abs(totals[0].mean(axis=0) - totals[1].mean(axis=0)) < 4.5 * error).all()


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
