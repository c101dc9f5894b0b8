"""The verbs of training, from data to an evaluated model file."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import typer
from safetensors import SafetensorError
from typer.testing import CliRunner

from neuralcpm_bridge.app.cli import train as verbs
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import load_snapshots
from training import checkpoint
from training.config import load_config

from .tiny import tiny_data

app = typer.Typer()
for verb in (verbs.train, verbs.export, verbs.evaluate, verbs.reproduce):
    app.command()(verb)
app.command("cellsort")(verbs.data_cellsort)
app.command("elongation")(verbs.data_elongation)
app.command("cellular-mnist")(verbs.data_cellular_mnist)

SHORT = """
[data]
path = "data.npz"
[model]
preset = "local8-closure"
freeze_symbolic = true
[sampler]
pool = 4
[[chains]]
start = "mixed"
sweeps = [1]
[optimizer]
steps = 4
batch = 2
[run]
log_every = 2
"""


def call(*arguments: str | Path) -> str:
    """Output of a verb; a user's mistake is raised as it is."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def said(*arguments: str | Path) -> str:
    """Everything a verb prints, errors and progress too."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_data(4).save(tmp_path / "data.npz")
    (tmp_path / "run.toml").write_text(SHORT)
    return tmp_path


def test_from_a_configuration_to_an_evaluated_model(folder: Path) -> None:
    summary = json.loads(call("train", folder / "run.toml", "-o", folder / "run", "--json"))
    assert summary["steps"] == 4
    assert summary["parameters"]["lambda"] > 0
    call("export", folder / "run", "-o", folder / "model.onnx")
    results = json.loads(
        call(
            "evaluate",
            folder / "model.onnx",
            folder / "data.npz",
            "--replicates",
            "2",
            "--mcs",
            "3",
            "--json",
        )
    )
    assert results["model"]["states"] == 2
    assert 0 <= results["model"]["p_volume"] <= 1


def test_the_template_can_be_used_as_it_is_printed(tmp_path: Path) -> None:
    (tmp_path / "example.toml").write_text(call("train", "--example"), encoding="utf-8")
    assert load_config(tmp_path / "example.toml").run.seed == 0


def test_generated_data_are_a_data_set(tmp_path: Path) -> None:
    call("cellsort", "-o", tmp_path / "a.npz", "--samples", "2", "--mcs", "2", "--scenario", "b")
    data = load_snapshots(tmp_path / "a.npz")
    assert data.ids.shape == (2, 100, 100)
    assert data.provenance["generator"] == "cellsort-b"
    call("cellsort", "-o", tmp_path / "h.npz", "--samples", "1", "--mcs", "2", "--lattice", "hexagonal")
    assert load_snapshots(tmp_path / "h.npz").lattice.geometry.name == "hexagonal"
    call("elongation", "-o", tmp_path / "c.npz", "--samples", "1", "--mcs", "1", "--lattice", "cubic")
    assert load_snapshots(tmp_path / "c.npz").ids.shape == (1, 30, 30, 30)


def test_what_takes_long_is_said_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first state of many, with how to ask for fewer; nothing where the end is near."""
    wanted = ("cellular-mnist", "-o", tmp_path / "a.npz", "--samples", "2", "--mcs", "1")
    assert "will take about" not in said(*wanted)
    monkeypatch.setattr(verbs, "SILENT_SECONDS", -1.0)
    words = said(*wanted)
    assert "2 states will take about" in words
    assert "--samples asks for fewer" in words


def test_the_next_command_can_be_run_as_it_is_printed(folder: Path) -> None:
    run = folder / "a bad name!"
    printed = call("train", folder / "run.toml", "-o", run).partition("next: ")[2]
    assert shlex.split(printed) == ["neuralcpm", "export", str(run), "-o", "model.onnx"]


def test_mistakes_are_named(folder: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'steps'"):
        call("train", folder / "run.toml", "-o", folder / "run", "--set", "optimizer.step=3")
    with pytest.raises(UserError, match="no file"):
        call("train", folder / "run.toml", "-o", folder / "run", "--data", folder / "absent.npz")
    with pytest.raises(UserError, match="no checkpoint"):
        call("export", folder, "-o", folder / "model.onnx")
    with pytest.raises(UserError, match="needs a configuration"):
        call("train")


def test_a_full_disk_is_one_sentence_and_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    checkpoint.save(path, checkpoint.Checkpoint({}, {"step": 1}))

    def full(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(UserError, match="No space left"):
        checkpoint.save(path, checkpoint.Checkpoint({}, {"step": 2}))
    assert checkpoint.load(path).header["step"] == 1
