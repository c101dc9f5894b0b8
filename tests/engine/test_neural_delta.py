"""The incremental networks: every ΔH against full energies, no drift, the same on every instruction set."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from neuralcpm_bridge._engine import EngineError, Model, State, isa, reference_energy

from ..strategies import random_state
from .models import NH, make_model, network_weights

PAPER = {
    "kind": "nh",
    "stride": 3,
    "widths": [8, 16, 32, 32],
    "pools": [3, 2, 1, 1],
    "padding": "zeros",
    "project": 32,
    "mlp": [32, 32],
}
LOCAL8 = {"kind": "local_nh", "stride": 3, "widths": [8], "pools": [1], "padding": "zeros", "project": 8, "mlp": []}


@st.composite
def networks(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    """Any sizes: odd widths, heads wider than the network, pools that do not divide."""
    layers = draw(st.integers(1, 3))
    pool = st.integers(1, 3) if kind == "nh" else st.just(1)
    return {
        "kind": kind,
        "stride": draw(st.sampled_from([1, 2, 3, 5])),
        "widths": draw(st.lists(st.sampled_from([3, 5, 8, 12, 16]), min_size=layers, max_size=layers)),
        "pools": draw(st.lists(pool, min_size=layers, max_size=layers)),
        "padding": draw(st.sampled_from(["zeros", "circular"])),
        "project": draw(st.sampled_from([4, 8, 11])),
        "mlp": draw(st.lists(st.sampled_from([4, 7]), max_size=2)) if kind == "nh" else [],
    }


def smallest_side(spec: dict[str, Any]) -> int:
    return spec["stride"] * int(np.prod(spec["pools"]))


def lattice_shape(rng: np.random.Generator, spec: dict[str, Any]) -> tuple[int, int]:
    """From one block, where everything touches everything, to a few more than a flip reaches."""
    side, more = smallest_side(spec), 12 * spec["stride"]
    rows, cols = (side + int(rng.integers(0, more)) for _ in range(2))
    return rows, cols


def tolerance(spec: dict[str, Any], energy: float) -> float:
    """Float32 rounding; the paper's NH sums all cells and sites before its head, so its error follows its energy."""
    return 1e-4 if spec["kind"] == "local_nh" else max(1e-4, 1e-5 * abs(energy))


def random_flip(rng: np.random.Generator, state: State) -> tuple[int, int]:
    """Anywhere, to any existing id: borders, corners, nucleation and last pixels included."""
    return int(rng.integers(state.ids.size)), int(rng.choice(np.flatnonzero(state.types >= 0)))


def flipped(ids: NDArray[np.int32], site: int, cell: int) -> NDArray[np.int32]:
    changed = ids.copy()
    changed.flat[site] = cell
    return changed


def neural_energy(model: Model, ids: Any, types: Any) -> float:
    return reference_energy(model, np.ascontiguousarray(ids), np.ascontiguousarray(types))


@pytest.mark.parametrize("kind", ["local_nh", "nh"])
@settings(max_examples=60)
@given(data=st.data())
def test_differences_of_any_network(kind: str, data: st.DataObject) -> None:
    spec = data.draw(networks(kind))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    model = make_model(network_weights(rng, spec), neural=spec)
    start = random_state(rng, lattice_shape(rng, spec), int(rng.integers(2, 7)))
    state = State(model, start.ids, start.types)
    before = neural_energy(model, state.ids, state.types)
    assert state.energy()[1] == pytest.approx(before, abs=tolerance(spec, before))
    for _ in range(6):
        site, cell = random_flip(rng, state)
        change = state.delta(site, cell)
        if rng.random() < 0.3:  # another proposal comes between
            state.delta(*random_flip(rng, state))
        after = neural_energy(model, flipped(state.ids, site, cell), state.types)
        assert change == pytest.approx(after - before, abs=tolerance(spec, before))
        if rng.random() < 0.5:
            state.commit(site, cell)
            before = after
            assert state.energy() == State(model, state.ids, state.types).energy()


BOXED = PAPER | {"stride": 2, "widths": [5, 12, 16], "pools": [2, 2, 1], "project": 8, "mlp": [7]}
"""On lattices of 24 to 47 sites a side the second layer is followed by one that is a single Winograd tile."""


def small_cells(rng: np.random.Generator, shape: tuple[int, int], count: int) -> tuple[Any, Any]:
    """Rectangles of one to ten sites a side, which cover each other: most fit a box, some do not."""
    ids = np.zeros(shape, dtype=np.int32)
    for cell in range(1, count):
        top, left = (int(rng.integers(-1, side)) for side in shape)
        rows, cols = (int(rng.integers(1, 11)) for _ in range(2))
        ids[max(0, top) : top + rows, max(0, left) : left + cols] = cell
    types = np.concatenate([[0], rng.integers(1, 3, count - 1)]).astype(np.int32)
    return ids, types


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(24, 47),
    cols=st.integers(24, 47),
    cells=st.sampled_from([9, 70]),  # few, and more than go through a convolution in one batch
)
def test_boxes(seed: int, rows: int, cols: int, cells: int) -> None:
    """Cells that grow, shrink, vanish and change type: every ΔH is right, and nothing remembers how it came about."""
    rng = np.random.default_rng(seed)
    model = make_model(network_weights(rng, BOXED), neural=BOXED)
    # Cells add up to thousands in float32 and may happen to cancel: what they add up to elsewhere says how far it goes.
    loudest = max(abs(State(model, *small_cells(rng, (rows, cols), cells)).energy()[1]) for _ in range(5))
    ids, types = small_cells(rng, (rows, cols), cells)
    state = State(model, ids, types)
    before = neural_energy(model, ids, types)
    for step in range(12):
        site, cell = random_flip(rng, state)
        if rng.random() < 0.7:  # at the end of a cell: its extent changes
            inside = np.flatnonzero(state.ids == cell)
            if inside.size:
                site = int(inside[rng.choice([0, -1])])
                cell = int(state.ids.flat[site - 1] if site % cols else 0)
        change = state.delta(site, cell)
        after = neural_energy(model, flipped(state.ids, site, cell), state.types)
        assert change == pytest.approx(after - before, abs=tolerance(BOXED, max(loudest, abs(before))))
        state.commit(site, cell)
        if step % 4 == 3:
            disturb(rng, state, most=12)
            after = neural_energy(model, state.ids, state.types)
        before = after
        assert state.energy() == State(model, state.ids, state.types).energy()


def divide(rng: np.random.Generator, state: State, parent: int) -> None:
    rows, cols = np.nonzero(state.ids == parent)
    sites = np.flatnonzero(state.ids == parent)
    absent = np.flatnonzero(state.types == -1)
    daughter = int(absent[0]) if absent.size else int(state.types.size)
    state.set_type(daughter, int(state.types[parent]))
    half = rows * rng.normal() + cols * rng.normal() > 0
    if half.any() and not half.all():
        state.change_pixels(sites[half], np.full(half.sum(), daughter))


def disturb(rng: np.random.Generator, state: State, most: int) -> None:
    """A division, a death or a change of type."""
    cells = np.flatnonzero(state.types >= 1)
    cells = cells[state.volumes[cells] > 0]
    kind = rng.integers(3)
    if cells.size < 3 or (kind == 0 and cells.size < most):
        divide(rng, state, int(rng.choice(cells)) if cells.size else 0)
    elif kind == 1:
        state.set_type(int(rng.choice(cells)), int(rng.integers(1, 3)))
    else:
        state.remove_cell(int(rng.choice(cells)))


@pytest.mark.parametrize("padding", ["zeros", "circular"])
@pytest.mark.parametrize(
    ("spec", "side", "steps"),
    [
        (LOCAL8, 40, 3000),
        (LOCAL8 | {"widths": [16], "project": 16}, 40, 1000),
        (LOCAL8 | {"widths": [8, 8], "pools": [1, 1]}, 40, 600),
        (PAPER, 50, 60),
        (PAPER, 74, 100),
        (PAPER | {"widths": [8, 8, 8], "pools": [2, 2, 1]}, 26, 200),
    ],
    ids=["local8", "local16", "local8x2", "paper", "paper in boxes", "smaller than a tile"],
)
def test_no_drift(spec: dict[str, Any], side: int, steps: int, padding: str) -> None:
    """Commits mixed with divisions, deaths and type changes leave exactly what a rebuild computes."""
    rng = np.random.default_rng(side)
    spec = spec | {"padding": padding}
    model = make_model(network_weights(rng, spec), neural=spec)
    start = random_state(rng, (side + 1, side), 9, fill=0.9)
    state = State(model, start.ids, start.types)
    for step in range(steps):
        ids = state.ids
        site = int(rng.integers(ids.size))
        row, col = np.add(divmod(site, side), rng.integers(-1, 2, size=2)) % ids.shape
        cell = int(ids[row, col])
        if cell != ids.flat[site]:
            state.delta(site, cell)
            state.commit(site, cell)
        if step % 50 == 49:
            disturb(rng, state, most=12)
            assert state.energy() == State(model, state.ids, state.types).energy()
    cached = state.energy()
    state.rebuild()
    assert state.energy() == cached


@pytest.mark.parametrize(("spec", "side", "flips"), [(LOCAL8, 24, 10_000), (PAPER, 30, 1_000)], ids=["local8", "paper"])
def test_many_flips(spec: dict[str, Any], side: int, flips: int) -> None:
    rng = np.random.default_rng(5)
    model = make_model(network_weights(rng, spec), neural=spec)
    for _ in range(10):
        start = random_state(rng, (side, side), 6)
        state = State(model, start.ids, start.types)
        energy = state.energy()[1]
        all_flips = np.array([random_flip(rng, state) for _ in range(flips // 10)])
        changes = state.deltas(*(np.ascontiguousarray(part) for part in all_flips.T))[:, 1]
        for (site, cell), change in zip(all_flips[::7].tolist(), changes[::7], strict=True):
            # Full energies by the same kernels from scratch; their own truth is tested above.
            after = State(model, flipped(start.ids, site, cell), start.types).energy()[1]
            assert change == pytest.approx(after - energy, abs=tolerance(spec, energy))


def test_far_cells_do_not_matter() -> None:
    """Another cell beyond the receptive field leaves every bit of ΔH."""
    rng = np.random.default_rng(2)
    model = make_model(network_weights(rng, LOCAL8), neural=LOCAL8)
    ids = np.zeros((40, 120), dtype=np.int32)
    ids[5:15, 5:15], ids[5:15, 15:22], ids[16:30, 8:20] = 1, 3, 4
    types = np.array([0, 1, 2, 2, 1], dtype=np.int32)
    crowded = ids.copy()
    crowded[10:25, 90:110] = 2
    alone, together = State(model, ids, types), State(model, crowded, types)
    for _ in range(100):
        site, cell = int(rng.integers(40)) * 120 + int(rng.integers(40)), int(rng.choice([0, 1, 3, 4]))
        assert alone.delta(site, cell) == together.delta(site, cell)


@pytest.mark.parametrize("spec", [LOCAL8, PAPER], ids=["local8", "paper"])
def test_unseen_sites(spec: dict[str, Any]) -> None:
    """Rows and columns that fill no block do not enter the network."""
    rng = np.random.default_rng(3)
    model = make_model(network_weights(rng, spec), neural=spec)
    start = random_state(rng, (31, 32), 5, absent=False)
    state = State(model, start.ids, start.types)
    before = state.energy()
    for row, col in [(30, 3), (2, 30), (2, 31), (30, 31)]:
        cell = (int(state.ids[row, col]) + 1) % 5
        assert state.delta(row * 32 + col, cell) == 0
        state.commit(row * 32 + col, cell)
    assert state.energy() == before


def test_too_small_a_lattice_is_refused() -> None:
    model = make_model(network_weights(np.random.default_rng(0), PAPER), neural=PAPER)
    with pytest.raises(EngineError, match="smaller than one block"):
        State(model, np.zeros((17, 40), dtype=np.int32), np.array([0], dtype=np.int32))


@pytest.mark.parametrize("spec", [LOCAL8, PAPER, NH], ids=["local8", "paper", "nh"])
@pytest.mark.parametrize("size", [1e2, 1e4, 1e8, 1e16, 1e30])
def test_weights_out_of_range_are_never_garbage(spec: dict[str, Any], size: float) -> None:
    """Finite weights that overflow the engine's numbers make ΔH undefined, which sweeps refuse."""
    rng = np.random.default_rng(3)
    weights = {
        name: weight * np.float32(size) if name.startswith("neural.layers") else weight
        for name, weight in network_weights(rng, spec).items()
    }
    model = make_model(weights, neural=spec)
    start = random_state(rng, (36, 36), 6, absent=False)
    state = State(model, start.ids, start.types)
    exact = neural_energy(model, state.ids, state.types)
    if size >= 1e16:
        assert math.isnan(state.energy()[1])
        with pytest.raises(EngineError, match="undefined"):
            state.sweep(1, 1.0, 0)
    for _ in range(8):
        site, cell = random_flip(rng, state)
        if cell == state.ids.flat[site]:
            continue
        delta = state.delta(site, cell)
        other = neural_energy(model, flipped(state.ids, site, cell), state.types)
        assert math.isnan(delta) or abs(delta - (other - exact)) <= 1e-5 * (abs(exact) + abs(other))


ISA_PROGRAM = """
import json, sys
import numpy as np
from neuralcpm_bridge._engine import State, isa
from tests.engine.models import make_model, network_weights
from tests.engine.test_neural_delta import random_flip
from tests.strategies import random_state

spec = json.loads(sys.argv[1])
rng = np.random.default_rng(7)
model = make_model(network_weights(rng, spec), neural=spec)
start = random_state(rng, (33, 31), 6, absent=False)
state = State(model, start.ids, start.types)
numbers = [state.energy()[1]]
for _ in range(40):
    flip = random_flip(rng, state)
    numbers.append(state.delta(*flip))
    state.commit(*flip)
fresh = State(model, state.ids, state.types).energy()
print(json.dumps({"isa": isa(), "numbers": numbers, "drift": state.energy()[1] - fresh[1]}))
"""


def on_isa(name: str, spec: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NEURALCPM_ISA": name, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run(
        [sys.executable, "-c", ISA_PROGRAM, json.dumps(spec)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "spec", [LOCAL8, LOCAL8 | {"widths": [12, 5], "pools": [1, 1]}, PAPER], ids=["local8", "odd", "paper"]
)
def test_instruction_sets_agree(spec: dict[str, Any]) -> None:
    answers = []
    for name in ("baseline", "avx2", "avx512", "neon"):
        answer = on_isa(name, spec)
        if answer.returncode and "which this CPU lacks" in answer.stderr:
            continue
        assert answer.returncode == 0, answer.stderr
        answers.append(json.loads(answer.stdout))
        assert answers[-1]["isa"] == name
        assert answers[-1]["drift"] == 0
    assert len(answers) >= 2  # every machine that the package is built for has more than the baseline
    for answer in answers[1:]:
        np.testing.assert_allclose(answer["numbers"], answers[0]["numbers"], rtol=1e-5, atol=2e-5)


def test_unknown_instruction_set_is_one_sentence() -> None:
    assert isa() in ("baseline", "avx2", "avx512", "neon")
    answer = on_isa("mmx", LOCAL8)
    assert "NEURALCPM_ISA is 'mmx'" in answer.stderr
