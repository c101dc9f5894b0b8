"""Flips of one machine beside another's, and beside float64."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge._engine import Model, reference_energy
from neuralcpm_bridge.artifact import NeuralSpec
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState
from tests.cell_graph import reference as by_definition

from .models import MODELS

EXACT_FLIPS = 60
"""Flips of each network that are compared with float64: whole energies."""

ROUNDING = 5e-5
"""How far two float32 computations of one network may part, beside the largest |ΔN| of the walk."""


@dataclass(frozen=True)
class Flips:
    """What flips.c printed: ids [sites], types [cells], site and new id [n, 2], ΔS and ΔN [n, 2], last energies [2]."""

    ids: NDArray[np.int32]
    types: NDArray[np.int32]
    flips: NDArray[np.int64]
    deltas: NDArray[np.float64]
    energy: NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """What the C programs printed on one machine: the energies and ΔH of abi_test.c, the flips of every model."""

    numbers: NDArray[np.float64]
    walks: dict[str, Flips]


def read(text: str, isa: str) -> Flips:
    first, ids, types, *rows, last = text.splitlines()
    assert first == isa, f"{first} ran in place of {isa}"
    table = np.array([row.split() for row in rows])
    return Flips(
        np.array(ids.split(), dtype=np.int32),
        np.array(types.split(), dtype=np.int32),
        table[:, :2].astype(np.int64),
        table[:, 2:].astype(float),
        np.array(last.split(), dtype=float),
    )


def compared(found: Run, expected: Run) -> str:
    """In one phrase, or an AssertionError: same flips, ΔS equal, ΔN equal to float32 rounding."""
    np.testing.assert_allclose(found.numbers, expected.numbers, rtol=ROUNDING, err_msg="abi_test.c")
    flips, worst_s, worst_n = 0, 0.0, 0.0
    for name, ours in found.walks.items():
        theirs = expected.walks[name]
        assert (ours.flips == theirs.flips).all(), f"{name}: another walk"
        assert np.isfinite(ours.deltas).all(), f"{name}: ΔH is no number"
        scale = np.maximum(np.abs(theirs.deltas).max(axis=0), 1.0)
        error_s, error_n = (np.abs(ours.deltas - theirs.deltas) / scale).max(axis=0)
        assert error_s <= 1e-12, f"{name}: ΔS differs by {error_s:.1e} of the largest"
        assert error_n <= ROUNDING, f"{name}: ΔN differs by {error_n:.1e} of the largest"
        flips, worst_s, worst_n = flips + len(ours.flips), max(worst_s, error_s), max(worst_n, error_n)
    return f"{flips} flips, ΔS within {worst_s:.1e}, ΔN within {worst_n:.1e} of the native baseline's largest"


def float64_deltas(run: Run, models: Path) -> dict[str, NDArray[np.float64]]:
    """ΔN of the first flips of every network as differences of whole energies in float64."""
    networks = [name for name, (_, _, description) in MODELS.items() if "neural" in description]
    return {name: _exact(Model.load(str(models / f"{name}.onnx")), run.walks[name]) for name in networks}


def _exact(model: Model, walk: Flips) -> NDArray[np.float64]:
    dimension = len(model.boundary)
    side = round(walk.ids.size ** (1 / dimension))
    lattice = Lattice.of([side] * dimension, model.geometry, model.boundary)
    state, deltas = CellState(walk.ids.reshape(lattice.shape), walk.types, lattice), []
    energy = _neural_energy(model, state)
    for number, (site, new_id) in enumerate(walk.flips[:EXACT_FLIPS], start=1):
        ids = state.ids.copy()
        ids.flat[site] = new_id
        flipped = replace(state, ids=ids)
        after = _neural_energy(model, flipped)
        deltas.append(after - energy)
        if number % 3 == 0:  # flips.c makes every third
            state, energy = flipped, after
    return np.array(deltas)


def _neural_energy(model: Model, state: CellState) -> float:
    """w_NN·H_NN by plain loops: the engine's own for convolutions, the definition in numpy for cell graphs."""
    spec = NeuralSpec(**json.loads(model.metadata)["neural"])
    if spec.kind != "cell_graph":
        return reference_energy(model, state.ids, state.types)
    weights = {name.removeprefix("neural."): array.astype(float) for name, array in model.weights.items()}
    return float(weights["weight"] * np.mean(by_definition(state, spec, weights)))


def against(found: Run, float64: dict[str, NDArray[np.float64]]) -> str:
    """ΔN beside float64, in one phrase, or an AssertionError."""
    count, worst = 0, 0.0
    for name, exact in float64.items():
        ours = found.walks[name].deltas[: len(exact), 1]
        error = np.abs(ours - exact).max() / max(np.abs(exact).max(), 1.0)
        assert error <= ROUNDING, f"{name}: ΔN differs from float64 by {error:.1e} of the largest"
        count, worst = count + len(exact), max(worst, error)
    return f"{count} of them within {worst:.1e} of float64"
