"""Running an import that must succeed."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

from .making import Image


@pytest.fixture
def load(cli, tmp_path: Path):
    """Import files and give back the data set and what was printed."""

    def call(*arguments: object) -> tuple[Snapshots, str]:
        target = tmp_path / "out" / "data.npz"
        code, out, err = cli("data", "import", *arguments, "-o", target)
        assert code == 0, err
        with Image.open(target.with_suffix(".png")) as sheet:
            assert sheet.width > 100
        return load_snapshots(target), out + err

    return call
