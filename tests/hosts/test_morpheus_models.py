"""Analytic models in a real Morpheus: the same statistics as the embedded host, on stock elements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.run import run_model
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.embedded import Dynamics, open_chains
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.state import CellState

from .morpheus_host import sorting_model, squares, stock_binary

SEEDS, STEPS, SNAPSHOTS = 6, 60_000, 500
SETTLED = SNAPSHOTS // 10


def observed(artifact: Artifact, states: list[CellState]) -> NDArray[np.float64]:
    """Means over states: volume per type, contact length of each type with the medium and between cells, energy."""
    backend = open_backend(artifact, states[0])
    rows = []
    for state in states:
        backend.reset(state)
        contacts = state.contacts(3, artifact.metadata.boundary == "periodic")
        volumes = [state.volumes[state.types == number].mean() for number in (1, 2)]
        between = np.triu(contacts[1:, 1:]).sum()
        rows.append([*volumes, contacts[0, 1], contacts[0, 2], between, backend.energy().total])
    return np.mean(rows, axis=0)


def embedded(artifact: Artifact, state: CellState) -> NDArray[np.float64]:
    chains = open_chains(artifact, [state] * SEEDS, Dynamics(artifact.metadata.temperature, forbid_extinction=True))
    chains.advance(STEPS // SNAPSHOTS * SETTLED)
    found: list[list[CellState]] = [[] for _ in range(SEEDS)]
    for _ in range(SNAPSHOTS - SETTLED):
        chains.advance(STEPS // SNAPSHOTS)
        for chain, reached in zip(found, chains.states(), strict=True):
            chain.append(reached)
    return np.array([observed(artifact, states) for states in found])


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["periodic", "free"])
def test_the_statistics_are_those_of_the_embedded_host(boundary: str, tmp_path: Path) -> None:
    binary = stock_binary()
    artifact, state = sorting_model(tmp_path / "model.onnx", boundary), squares((12, 12), 4, gap=3)
    ours = embedded(artifact, state)
    for stepper in ("edgelist", "random"):
        runs = []
        for seed in range(SEEDS):
            plan = RunPlan(STEPS, SNAPSHOTS, seed + 1, stepper)
            new_model(artifact, state, plan).write(tmp_path / "model.xml")
            result = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary, threads=1)
            assert result.snapshots is not None
            runs.append(observed(artifact, list(result.snapshots)[SETTLED + 1 :]))
        theirs = np.array(runs)
        errors = [values.std(axis=0, ddof=1) / np.sqrt(SEEDS) for values in (ours, theirs)]
        for values, error in zip((ours, theirs), errors, strict=True):
            assert (error <= 0.02 * values.mean(axis=0)).all(), (stepper, error / values.mean(axis=0))
        difference = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
        print(boundary, stepper, "differences in standard errors", np.round(difference / np.hypot(*errors), 2))
        print("standard errors over means", np.round(errors[1] / theirs.mean(axis=0), 4))
        assert (difference <= 4 * np.hypot(*errors)).all(), (stepper, difference / np.hypot(*errors))


@pytest.mark.parametrize("boundary", ["periodic", "free"])
def test_the_initial_state_is_exact(boundary: str, tmp_path: Path) -> None:
    binary = stock_binary()
    artifact = sorting_model(tmp_path / "model.onnx", boundary)
    state = squares((40, 30), 5, shift=3 if boundary == "periodic" else 0)
    new_model(artifact, state, RunPlan(steps=1, snapshots=1)).write(tmp_path / "model.xml")
    result = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    assert result.snapshots is not None
    np.testing.assert_array_equal(result.snapshots[0].ids, state.ids)
    np.testing.assert_array_equal(result.snapshots[0].types, state.types)
    assert result.snapshots.boundary == boundary


def test_a_failure_is_noticed_although_morpheus_exits_with_0(tmp_path: Path) -> None:
    binary = stock_binary()
    artifact = sorting_model(tmp_path / "model.onnx")
    new_model(artifact, squares((20, 20), 5), RunPlan(steps=1)).write(tmp_path / "model.xml")
    text = (tmp_path / "model.xml").read_text().replace('strength="0.25"', 'strength="unknown_symbol"')
    (tmp_path / "broken.xml").write_text(text)
    with pytest.raises(UserError, match=r"could not run .*unknown_symbol"):
        run_model(tmp_path / "broken.xml", tmp_path / "run", binary=binary)


def test_a_second_run_into_the_same_folder_starts_afresh(tmp_path: Path) -> None:
    binary = stock_binary()
    artifact = sorting_model(tmp_path / "model.onnx")
    new_model(artifact, squares((20, 20), 5), RunPlan(steps=4, snapshots=2)).write(tmp_path / "model.xml")
    for _ in range(2):
        result = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
        assert result.snapshots is not None
        assert len(result.snapshots) == 3
        assert result.snapshots.arrays["mcs"].tolist() == [0, 2, 4]
