"""Shared fixtures: small exported models, made once per test run."""

from __future__ import annotations

import os
from pathlib import Path

# Tests share cores with each other and with whatever else runs: threads that wait for each other would only spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from neuralcpm_bridge.app.cli import run

# A busy machine is no failure: no example has a deadline, none is ever given up as too slow.
settings.register_profile("any clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any clock")

REFERENCE = Path(__file__).parent / "data" / "reference"


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One exported model per architecture, freshly initialised."""
    import torch

    from neuralcpm_bridge.artifact import LatticeEntry
    from training.export import export
    from training.hamiltonians import make_preset

    folder = tmp_path_factory.mktemp("models")
    presets = ("mnist-cellsort", "mnist-external", "mnist-nh", "mnist-nh-cnn", "mnist-cnn")
    paths = {}
    for name in (*presets, "local8-closure", "graph1-closure"):
        torch.manual_seed(7)
        hamiltonian = make_preset(
            name, cells=9 if name == "mnist-cnn" else None, lattice=LatticeEntry.of(shape=(36, 40))
        )
        paths[name] = export(hamiltonian, folder / f"{name}.onnx").path
    return paths


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]):
    """Run a verb: (exit code, standard output, standard error)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def refused(cli):
    """Run a verb that must fail as a user's mistake does: exit code 2, one sentence, no traceback."""

    def call(*arguments: object) -> str:
        code, out, err = cli(*arguments)
        assert code == 2, (code, out, err)
        assert len(err.strip().splitlines()) == 1, err
        assert "Traceback" not in err
        return err

    return call


@pytest.fixture
def save(tmp_path: Path):
    """Save arrays as an .npz file."""

    def call(name: str = "states.npz", **arrays: np.ndarray) -> Path:
        path = tmp_path / name
        np.savez(path, **arrays)
        return path

    return call
