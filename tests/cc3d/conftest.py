"""One model of a living tissue for all tests around CompuCell3D."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuralcpm_bridge.artifact import Artifact

from .fake_host import FakeHost
from .models import tissue_model


@pytest.fixture(scope="session")
def tissue(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return tissue_model(tmp_path_factory.mktemp("tissue") / "model.onnx")


@pytest.fixture(params=["native", "interpreted"])
def host(tissue: Artifact, tmp_path: Path, request: pytest.FixtureRequest) -> FakeHost:
    """Four cells with ids far apart; the host's compiled code asks the engine, or goes through Python."""
    return tissue_host(tissue, tmp_path, native=request.param == "native")


@pytest.fixture
def interpreted(tissue: Artifact, tmp_path: Path) -> FakeHost:
    return tissue_host(tissue, tmp_path, native=False)


def tissue_host(tissue: Artifact, tmp_path: Path, native: bool) -> FakeHost:
    host = FakeHost(tmp_path, native=native)
    host.add(7, 1, slice(4, 11), slice(3, 9))
    host.add(1000, 2, slice(4, 12), slice(9, 15))
    host.add(1001, 1, slice(12, 18), slice(6, 14))
    host.add(90000, 2, slice(20, 26), slice(20, 28))
    (tmp_path / "model.onnx").write_bytes(tissue.path.read_bytes())
    return host
