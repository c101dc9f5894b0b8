"""What `data info` says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

from .making import Image, labels


def test_info_says_what_a_data_set_holds(cli, tmp_path: Path) -> None:
    states = [CellState.from_labels(labels(shift=shift), {3: 1, 7: 2, 200: 2}) for shift in (0, 1)]
    Snapshots.from_states(states, type_names=("medium", "A", "B"), provenance={"source": "test"}).save(
        tmp_path / "d.npz"
    )
    code, out, _ = cli("data", "info", tmp_path / "d.npz", "--picture", tmp_path / "p.png")
    assert code == 0
    assert "A" in out
    assert "20×24" in out
    assert Image.open(tmp_path / "p.png").width > 200
    code, out, _ = cli("data", "info", tmp_path / "d.npz", "--json")
    facts = json.loads(out)
    assert facts["types"] == ["medium", "A", "B"]
    assert facts["states"] == facts["measured_states"] == 2
    assert facts["volume_range"] == [25, 36]
    assert facts["clusters"] == [0.0, 1.0, 2.0]


def test_info_of_a_data_set_without_cells_or_names(cli, tmp_path: Path) -> None:
    Snapshots.from_states([CellState(np.zeros((5, 5), dtype=int), [0])]).save(tmp_path / "d.npz")
    code, out, err = cli("data", "info", tmp_path / "d.npz", "--picture", tmp_path / "p.png")
    assert code == 0, err
    assert "5×5" in out


def test_info_of_no_data_set(refused, tmp_path: Path) -> None:
    assert "no file" in refused("data", "info", tmp_path / "none.npz")
    (tmp_path / "d.npz").write_text("no")
    assert "not a readable .npz data set (no archive of arrays)" in refused("data", "info", tmp_path / "d.npz")
