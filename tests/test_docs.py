"""Every command in README and docs is valid as printed, and those that can run within a minute are run.

A document's commands run one after the other in a scratch folder that holds the files its reader has (`scratch`),
after the substitutions below, which make them small. What is not run is declared with its reason, and still parsed:
its verb and options exist.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import typer

from neuralcpm_bridge.app.bench import timing
from neuralcpm_bridge.app.cli import app, run
from neuralcpm_bridge.conventions import TARGETS
from neuralcpm_bridge.lattice import GEOMETRIES
from neuralcpm_bridge.pretrained import resolve_model
from neuralcpm_bridge.terms import TERMS, ModelTerm

from .cc3d.projects import own_cc3d_project
from .conftest import REFERENCE
from .documents import DOCUMENTS, ROOT, arguments, blocks, commands, python_blocks
from .morpheus.conftest import USER_MODEL

SMALLER = {
    r"--mcs \d+": "--mcs 1",
    r"--flips \d+": "--flips 20",
    r"--replicates \d+": "--replicates 2",
    r"--samples \d+": "--samples 2",
    r"^(neuralcpm simulate .*)$": r"\1 --frames 2",
    r"^(neuralcpm (?:cc3d )?verify (?!.*--flips).*)$": r"\1 --flips 20",
    r"^(neuralcpm (?:simulate|evaluate) (?!.*--mcs).*)$": r"\1 --mcs 1",
    r"^(neuralcpm (?:evaluate) (?!.*--replicates).*)$": r"\1 --replicates 2",
    r"^(neuralcpm distill .*)$": r"\1 --flips 200 --steps 1 --replicates 2 --mcs 1",
    r"^(neuralcpm report .*)$": r"\1 --mcs 1 --replicates 2",
    r"^(neuralcpm train (?!--example).*)$": r"\1 --set warmstart.steps=2 --set sampler.pool=4 --set optimizer.batch=2 "
    "--set optimizer.steps=4 --set optimizer.refresh=2",
    r"^(neuralcpm data (?!import|info)\S+ .*)$": r"\1 --mcs 1 --samples 2",
}
"""Patterns and what they become, so that a command says the same in less time; not so with NEURALCPM_AS_PRINTED."""

NOT_RUN = {
    r"^make ": "runs the tests, installs or shows the demo",
    r"^neuralcpm cc3d setup\b": "installs into CompuCell3D's Python; tests/cc3d/test_installations.py runs it",
    r"^neuralcpm (reproduce|demo|fit|refit)\b": "takes minutes; tests/training and tests/test_demo.py run it",
    r"^neuralcpm view\b": "serves until it is interrupted; tests/view runs it",
    r"\bTITLE": "goes on from what a model of the reader's saves; tests/hosts/test_morpheus_restart.py runs it",
}
HOSTS = {
    r"^neuralcpm cc3d (run|verify)\b": "NEURALCPM_CC3D_PYTHON",
    r"^neuralcpm morpheus (run|plugin --check)\b": "NEURALCPM_MORPHEUS",
}
"""Commands that start a host, and the variable that says where it is."""

SHORTENED = [document for document in DOCUMENTS if document.name != "microscopy.md"]
"""docs/microscopy.md runs as printed, nothing made smaller: tests/test_examples.py."""
HOST_IMPORT = r"\b(cc3d|cc3d_steppables)\b"
"""Python that lives inside CompuCell3D: its syntax is checked here, tests/hosts runs its like."""


def smaller(command: str) -> str:
    if os.environ.get("NEURALCPM_AS_PRINTED"):
        return command
    for pattern, less in SMALLER.items():
        command = re.sub(pattern, less, command)
    return command


def reason_not_to_run(command: str) -> str:
    for pattern, variable in HOSTS.items():
        if re.search(pattern, command) and not os.environ.get(variable):
            return f"needs a host ({variable})"
    return next((reason for pattern, reason in NOT_RUN.items() if re.search(pattern, command)), "")


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: dict[str, Path]) -> Path:
    """What a reader has: model files, the authors' weights, a data set, label images, models of both hosts."""
    shutil.copy(models["graph1-closure"], tmp_path / "graph.onnx")
    shutil.copy(resolve_model("pretrained:elongated-cells"), tmp_path / "model.onnx")
    shutil.copy(REFERENCE / "exp1_nch.eqx", tmp_path / "weights.eqx")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    layout = ("simulate", "model.onnx", "--init", "blob", "--mcs", "1", "--frames", "0", "-o", "start")
    assert run(list(layout)) == 0
    for name in ("data.npz", "states.npz", "tissue.npz", "movie.npz"):
        shutil.copy("start/snapshots.npz", name)
    own_cc3d_project(tmp_path / "MyProject")
    (tmp_path / "mine.xml").write_text(USER_MODEL.replace("red", "ct1").replace("blue", "ct2"), encoding="utf-8")
    own_morpheus(tmp_path)
    monkeypatch.setattr(timing, "SECONDS_PER_MODEL", 0.05)
    return tmp_path


def own_morpheus(folder: Path) -> None:
    """Morpheus' sources as far as the plugin needs them, and the program that was built."""
    for file in ("morpheus/morpheus/plugins/CMakeLists.txt", "morpheus/morpheus/core/interfaces.h"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    (folder / "build" / "morpheus").mkdir(parents=True)
    if "NEURALCPM_MORPHEUS" in os.environ:
        (folder / "build" / "morpheus" / "morpheus").symlink_to(os.environ["NEURALCPM_MORPHEUS"])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_commands_are_valid_as_printed(document: Path) -> None:
    for command in commands(document):
        words, _ = arguments(command)
        if command.startswith("make "):
            subprocess.run(["make", "--dry-run", *words], cwd=ROOT, check=True, capture_output=True)
            continue
        verb = typer.main.get_command(app)
        while words and words[0] in getattr(verb, "commands", {}):
            verb = verb.commands[words.pop(0)]  # type: ignore[attr-defined]
        if "--help" not in words:
            assert not hasattr(verb, "commands"), f"{document.name}: there is no verb in {command}"
            verb.make_context(command, words)


@pytest.mark.parametrize("document", SHORTENED, ids=lambda document: document.name)
def test_commands_run(document: Path, scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in commands(document):
        if not reason_not_to_run(command):
            words, target = arguments(smaller(command))
            code = run(words)
            said = capsys.readouterr()
            assert code == 0, f"{document.name}: {command}: {said.err}"
            if target is not None:
                Path(target).write_text(said.out, encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_python_blocks_run(document: Path, scratch: Path) -> None:
    for block in python_blocks(document):
        code = compile(block, document.name, "exec")
        if not re.search(HOST_IMPORT, block):
            exec(code, {"__name__": "__main__"})


def carried(term: str, host: str) -> set[bool]:
    """On which of all lattices and boundaries a host's own elements carry a term: on some, on others not."""
    found = set()
    for geometry in GEOMETRIES.values():
        for boundary in ("periodic", "free"):
            orders = {"contact": 2, "surface": 2}
            values = dict.fromkeys(("target", "minor_target", "strength"), np.ones(2))
            written = ModelTerm(term, values, geometry, (boundary,) * geometry.dimension, orders)
            found.add(not isinstance(TERMS[term].in_host(TARGETS[host], written), str))
    return found


@pytest.mark.parametrize("term", TERMS)
def test_the_table_of_what_works_is_that_of_the_declarations(term: str) -> None:
    title = {"external": "external potential"}.get(term, term.replace("_", " "))
    rows = [line.split("|") for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()]
    (row,) = (row for row in rows if len(row) > 5 and row[1].strip() == title)
    for host, said in (("cc3d", row[3]), ("morpheus", row[4])):
        assert {"own" in said, "learned term" not in said} == carried(term, host), (host, said)


def test_blocks_and_commands_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEURALCPM_AS_PRINTED", raising=False)
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n    neuralcpm info model.onnx   # a comment\n    pip install x\n\ntext neuralcpm no\n\n"
        "```sh\n$ neuralcpm simulate m \\\n    --mcs 5 -o 'a b'\n```\n\n```python\nprint(1)\n```\n"
    )
    assert commands(page) == ["neuralcpm info model.onnx", "neuralcpm simulate m --mcs 5 -o 'a b'"]
    assert [language for language, _ in blocks(page.read_text())] == ["", "sh", "python"]
    assert arguments("neuralcpm train --example > run.toml") == (["train", "--example"], "run.toml")
    assert python_blocks(page) == ["print(1)"]
    assert smaller("neuralcpm simulate m --mcs 500 -o x") == "neuralcpm simulate m --mcs 1 -o x --frames 2"
    assert smaller("neuralcpm simulate m -o x").endswith("--mcs 1")
