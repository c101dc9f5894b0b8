"""A symbolic model samples the same tissues in CompuCell3D and in the embedded host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cc3d_steppables.new import write_project
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.embedded import Dynamics, open_chains
from neuralcpm_bridge.embedded import run as run_chains
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.metrics import contact_lengths
from neuralcpm_bridge.state import CellState

from ..cc3d.models import tissue_model
from .cc3d_tools import needs_cc3d, run

pytestmark = [needs_cc3d, pytest.mark.slow]
SEEDS, MCS, SNAPSHOTS = 6, 4000, 160


def observed(artifact: Artifact, states: list[CellState]) -> NDArray[np.float64]:
    """Mean and variance of volumes, length of cell–medium and cell–cell interfaces, energy: over the second half."""
    late = states[len(states) // 2 :]
    backend = open_backend(artifact, late[0])
    rows = []
    for state in late:
        backend.reset(state)
        volumes, lengths = state.volumes[state.cells], contact_lengths(state, 3)
        between = np.triu(lengths[1:, 1:]).sum()
        rows.append([volumes.mean(), volumes.var(), lengths[0, 1:].sum(), between, backend.energy().total])
    return np.mean(rows, axis=0)


def test_sampled_statistics(tmp_path: Path) -> None:
    artifact = tissue_model(tmp_path / "model.onnx", "mnist-cellsort", target_volume=30.0, strength=0.3)
    start = initial_state(artifact, "blob", seed=3, cells=10, lattice=(30, 33))
    theirs = []
    for seed in range(1, SEEDS + 1):
        project = write_project(artifact, start, tmp_path / f"seed{seed}", seed=seed)
        ran = run(project, tmp_path / f"ran{seed}", steps=MCS + 1, snapshots=SNAPSHOTS)
        assert not ran.error
        theirs.append(observed(artifact, list(ran.snapshots)))
    dynamics = Dynamics(artifact.metadata.temperature, seed=100, forbid_extinction=artifact.metadata.extinction)
    chains = open_chains(artifact, [start] * SEEDS, dynamics)
    taken = [states for _, states in run_chains(chains, MCS, SNAPSHOTS) if states is not None]
    ours = [observed(artifact, [states[chain] for states in taken]) for chain in range(SEEDS)]
    means = np.array([np.mean(theirs, axis=0), np.mean(ours, axis=0)])
    errors = np.array([np.std(values, axis=0, ddof=1) / np.sqrt(SEEDS) for values in (theirs, ours)])
    deviations = np.abs(means[0] - means[1]) / np.hypot(*errors)
    print("\nmeans", means, "\nstandard errors / mean", errors / means, "\ndeviations", deviations)
    assert (errors <= 0.02 * np.abs(means)).all()
    assert (deviations <= 4).all()
