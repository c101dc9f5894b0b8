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
from neuralcpm_bridge.distill import distill, sample_flips
from neuralcpm_bridge.embedded import Dynamics, open_chains
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState
from training.distilled import write_distilled

from .morpheus_host import blocks, closure_model, shaped_model, sorting_model, squares, stock_binary

SEEDS, STEPS, SNAPSHOTS = 6, 60_000, 500
SETTLED = SNAPSHOTS // 10


def observed(artifact: Artifact, states: list[CellState]) -> NDArray[np.float64]:
    """Means over states: volume per type, contact length of each type with the medium and between cells, energy."""
    backend = open_backend(artifact, states[0])
    rows = []
    for state in states:
        backend.reset(state)
        contacts = state.contacts(3)
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
@pytest.mark.parametrize(
    ("lattice", "side"),  # of cells, seven sites apart
    [
        (Lattice.of((12, 12)), 4),
        (Lattice.of((12, 12), "square", "free"), 4),
        (Lattice.of((12, 12), "hexagonal", ("free", "periodic")), 4),
        (Lattice.of((10, 7, 7), "cubic"), 3),
    ],
)
def test_the_statistics_are_those_of_the_embedded_host(lattice: Lattice, side: int, tmp_path: Path) -> None:
    binary = stock_binary()
    artifact = sorting_model(tmp_path / "model.onnx", lattice.boundary, geometry=lattice.geometry.name)
    state = blocks(lattice, side, gap=7 - side)
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
        print(
            lattice.geometry.name,
            stepper,
            "differences in standard errors",
            np.round(difference / np.hypot(*errors), 2),
        )
        print("standard errors over means", np.round(errors[1] / theirs.mean(axis=0), 4))
        assert (difference <= 4 * np.hypot(*errors)).all(), (stepper, difference / np.hypot(*errors))


@pytest.mark.parametrize(
    "lattice",
    [
        Lattice.of((40, 30)),
        Lattice.of((40, 30), "square", "free"),
        Lattice.of((40, 30), "hexagonal"),
        Lattice.of((40, 30), "hexagonal", ("periodic", "free")),
        Lattice.of((12, 18, 24), "cubic"),
        Lattice.of((12, 18, 24), "cubic", ("free", "periodic", "free")),
    ],
)
def test_the_initial_state_is_exact(lattice: Lattice, tmp_path: Path) -> None:
    binary = stock_binary()
    artifact = sorting_model(tmp_path / "model.onnx", lattice.boundary, geometry=lattice.geometry.name)
    state = blocks(lattice, 5, shift=3 if all(lattice.periodic) else 0)
    new_model(artifact, state, RunPlan(steps=1, snapshots=1)).write(tmp_path / "model.xml")
    result = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    assert result.snapshots is not None
    np.testing.assert_array_equal(result.snapshots[0].ids, state.ids)
    np.testing.assert_array_equal(result.snapshots[0].types, state.types)
    assert result.snapshots.lattice == lattice


def test_a_distilled_network_runs_on_the_stock_program(tmp_path: Path) -> None:
    binary = stock_binary()
    artifact = closure_model(tmp_path / "model.onnx")
    states = [initial_state(artifact, "blob", seed=seed, cells=9, lattice=(45, 45)) for seed in range(4)]
    samples = sample_flips(artifact, Snapshots.from_states(states), 2000, runs=(1,))
    result = distill(samples, artifact.metadata)
    assert abs(result.r2 - result.r2_held_out) <= 0.02
    distilled = write_distilled(result, artifact, tmp_path / "distilled.onnx")
    new_model(distilled, states[0], RunPlan(steps=100, snapshots=2)).write(tmp_path / "model.xml")
    assert "NeuralHamiltonian" not in (tmp_path / "model.xml").read_text()
    run = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    assert run.snapshots is not None
    assert run.snapshots[-1].cells.size == 9


def test_distilled_functions_of_the_volume_and_surfaces_run_on_the_stock_program(tmp_path: Path) -> None:
    binary = stock_binary()
    artifact, state = shaped_model(tmp_path / "model.onnx"), squares((40, 40), 6, gap=2)
    new_model(artifact, state, RunPlan(steps=200, snapshots=2)).write(tmp_path / "model.xml")
    run = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    assert run.snapshots is not None
    final, chains = run.snapshots[-1], open_chains(artifact, [state], Dynamics(1.0, forbid_extinction=True))
    chains.advance(200)
    ours = chains.states()[0]
    for number in (1, 2):
        volumes = [found.volumes[1:][state.types[1:] == number] for found in (final, ours)]
        assert abs(volumes[0].mean() - volumes[1].mean()) < 2


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
