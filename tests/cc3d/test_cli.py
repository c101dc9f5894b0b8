"""The verbs `neuralcpm cc3d …`, as far as they need no host."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from cc3d_steppables.run import INTERPRETER, failure
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.mapping import type_pairs

from .test_projects import make_project


@pytest.fixture
def state(tmp_path: Path) -> Path:
    ids = np.zeros((30, 33), dtype=np.int32)
    ids[4:11, 5:12] = 1
    np.savez(tmp_path / "state.npz", ids=ids, types=np.array([0, 2]))
    return tmp_path / "state.npz"


def test_new_and_inject(cli, tissue: Artifact, state: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, err = cli("cc3d", "new", tissue.path, "--state", state, "-o", tmp_path / "made", "--mcs", 20)
    assert code == 0, err
    assert (tmp_path / "made" / "made.cc3d").is_file()
    assert "made.cc3d" in out
    project = make_project(tmp_path / "Sort", "<PythonScript>Simulation/Sort.py</PythonScript>")
    code, out, err = cli(
        *("cc3d", "inject", project, tissue.path, "--types", "Condensing=A;Other=B", "--types", "Wall=medium"),
        *("-o", tmp_path / "injected"),
    )
    assert code == 0, err
    assert "type 3       Wall" in out


def test_the_next_command_can_be_run_as_it_is_printed(cli, tissue: Artifact, state: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    made = tmp_path / "1 bad name!" / "p q"
    _, out, _ = cli("cc3d", "new", tissue.path, "--state", state, "-o", made)
    words = shlex.split(out.partition("run it with ")[2].strip().rstrip("."))
    assert words == ["neuralcpm", "cc3d", "run", str(made / "p_q.cc3d"), "-o", "RESULTS"]
    assert (made / "p_q.cc3d").is_file()


@pytest.mark.parametrize(
    "options",
    [
        ["Condensing=A;Other=B;Wall=medium"],
        ["Condensing=A, Other=B", "Wall=medium"],
        ["Condensing=A", "Other=B", "Wall = medium;"],
    ],
)
def test_ways_to_map_types(options: list[str]) -> None:
    assert type_pairs(options) == {"Condensing": "A", "Other": "B", "Wall": "medium"}


@pytest.mark.parametrize("option", ["Wall", "=A", "Wall=", "Wall=A;Wall=B"])
def test_types_that_are_refused(option: str) -> None:
    with pytest.raises(UserError, match="--types"):
        type_pairs([option])


def test_seeds_begin_with_1(cli, tissue: Artifact, state: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, _, err = cli("cc3d", "new", tissue.path, "--state", state, "-o", tmp_path / "made", "--seed", 0)
    assert code == 2
    assert "--seed" in err
    code, _, err = cli("cc3d", "new", tissue.path, "--state", state, "-o", tmp_path / "made", "--seed", 1)
    assert code == 0, err
    assert "<RandomSeed>1</RandomSeed>" in (tmp_path / "made" / "Simulation" / "made.xml").read_text()


def test_refusals(  # type: ignore[no-untyped-def]
    refused, tissue: Artifact, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "Sort", "<PythonScript>Simulation/Sort.py</PythonScript>")
    assert "--types" in refused("cc3d", "inject", project, tissue.path, "--types", "Wall", "-o", tmp_path / "o")
    assert "no model file" in refused("cc3d", "inject", project, tmp_path / "no.onnx", "-o", tmp_path / "o")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("kept")
    assert "other files" in refused("cc3d", "new", tissue.path, "--state", state, "-o", tmp_path / "full")
    assert (tmp_path / "full" / "mine.txt").read_text() == "kept"
    assert "other files" in refused("cc3d", "run", project, "-o", tmp_path / "full")
    monkeypatch.delenv(INTERPRETER, raising=False)
    assert INTERPRETER in refused("cc3d", "run", project, "-o", tmp_path / "ran")
    monkeypatch.setenv(INTERPRETER, str(tmp_path / "nowhere"))
    assert "no such file" in refused("cc3d", "run", project, "-o", tmp_path / "ran2")
    assert "no such file" in refused("cc3d", "run", project, "-o", tmp_path / "many", "--replicates", 2)
    assert not (tmp_path / "many").exists()


def test_sentences_about_a_failed_run() -> None:
    log = Path("run.log")
    ours = ["Traceback", "neuralcpm_bridge.errors.UserError: NeuralHamiltonian stopped at MCS 3: why.", "more"]
    assert failure(1, ours, "python", log) == "NeuralHamiltonian stopped at MCS 3: why. (log: run.log)"
    missing = "ModuleNotFoundError: No module named 'cc3d_steppables'"
    by_python = f"python: Error while finding module specification for 'cc3d_steppables.hostrun' ({missing})"
    for line in (missing, by_python):
        assert "neuralcpm cc3d setup --python '/my envs/python'" in failure(1, [line], "/my envs/python", log)
    assert INTERPRETER in failure(0, [""], "/bin/true", log)
    assert "signal 11" in failure(-11, ["last words"], "python", log)
    assert "exit code 1 (last words)" in failure(1, ["last words"], "python", log)
