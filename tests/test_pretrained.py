"""The bundled models: listed, whole, small, and taken wherever a model file is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from neuralcpm_bridge import load_artifact
from neuralcpm_bridge.lattice import boundaries
from neuralcpm_bridge.pretrained import pretrained_models, resolve_model
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

NAMES = [entry.name for entry in pretrained_models()]


def test_there_is_a_cell_sorting_model() -> None:
    assert "cell-sorting" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_is_whole_and_small(name: str) -> None:
    entry = next(entry for entry in pretrained_models() if entry.name == name)
    artifact = load_artifact(entry.reference)  # checks hash and examples
    assert artifact.metadata.name == name
    assert artifact.metadata.training["states"] > 0
    assert len(artifact.metadata.training["data_sha256"]) == 64
    assert entry.summary["description"].endswith(".")
    assert "p_volume" in entry.summary["metrics"]
    with Image.open(entry.thumbnail) as picture:
        assert picture.width >= 300
    assert sum(file.stat().st_size for file in entry.folder.iterdir()) < 500_000


def test_the_list(cli) -> None:
    code, out, err = cli("models", "--json")
    assert code == 0, err
    rows = json.loads(out)
    assert [row["name"] for row in rows] == [f"pretrained:{name}" for name in NAMES]
    assert {row["lattice"] for row in rows} == {"square", "hexagonal", "cubic"}
    for row in rows:
        assert Path(row["thumbnail"]).is_file()
        assert row["metrics"]
    code, out, err = cli("models")
    assert code == 0, err
    assert "pretrained:cell-sorting" in out


def test_verbs_take_them(cli, tmp_path: Path) -> None:
    model = "pretrained:cell-sorting"
    assert cli("info", model)[0] == 0
    code, _, err = cli("simulate", model, "--init", "blob", "--mcs", 2, "--frames", 0, "-o", tmp_path)
    assert code == 0, err
    states = tmp_path / "snapshots.npz"
    assert len(json.loads(cli("energy", model, states, "--json")[1])["energy"]) == len(load_snapshots(states))


def test_unknown_names_are_refused_with_the_known_ones(refused, tmp_path: Path) -> None:
    assert "cell-sorting" in refused("info", "pretrained:nothing")
    assert resolve_model(tmp_path / "model.onnx") == tmp_path / "model.onnx"


@pytest.mark.parametrize("boundary", ["free", ("periodic", "free")])
def test_cell_graphs_take_the_boundary_of_the_state(boundary, cli, tmp_path: Path) -> None:
    model = "pretrained:elongated-cells"
    meta = load_artifact(model).metadata
    state = meta.example_states()[0]
    states = [replace(state, lattice=state.lattice.with_boundary(boundaries(boundary, 2)))]
    Snapshots.from_states(states, type_names=meta.types, provenance={}).save(tmp_path / "state.npz")
    start = ("--state", tmp_path / "state.npz")
    assert cli("simulate", model, *start, "--mcs", 2, "--frames", 0, "-o", tmp_path / "ran")[0] == 0
    assert load_snapshots(tmp_path / "ran" / "snapshots.npz").boundary == boundaries(boundary, 2)
    assert cli("cc3d", "new", model, *start, "-o", tmp_path / "made")[0] == 0
    words = {
        axis: "NoFlux" if word == "free" else "Periodic"
        for axis, word in zip("yx", boundaries(boundary, 2), strict=True)
    }
    text = (tmp_path / "made" / "Simulation" / "made.xml").read_text(encoding="utf-8")
    assert all(f"<Boundary_{axis}>{word}</Boundary_{axis}>" in text for axis, word in words.items())
