"""Running without the real program: a stand-in that says what Morpheus says, and the plugin's installation."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from morpheus_xml import process
from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.plugin_install import PLUGIN, SOURCES, has_plugin, install_plugin
from morpheus_xml.reader import read_model
from morpheus_xml.run import find_binary, run_model
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError

from .test_new import tissue

FINISHES = 'echo "Time: 0.00 atu"; echo "Time: 25 "; echo; echo "=== Simulation finished ==="'
FAILS = 'echo "Could not initialize model m.xml" >&2; echo "Unknown symbol q" >&2; echo "XMLPath: CellTypes/x" >&2'


@pytest.fixture
def stand_in(tmp_path: Path):
    def make(script: str) -> Path:
        path = tmp_path / "morpheus"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def model(sorting: Artifact, tmp_path: Path) -> Path:
    path = tmp_path / "model.xml"
    new_model(sorting, tissue(), RunPlan(steps=50)).write(path)
    return path


def test_progress_and_the_end_are_followed(model: Path, stand_in, tmp_path: Path) -> None:
    seen: list[tuple[float, float | None]] = []
    binary = stand_in(FINISHES)
    result = run_model(model, tmp_path / "run", binary=binary, progress=lambda *pair: seen.append(pair))
    assert seen == [(0.0, 50.0), (25.0, 50.0)]
    assert result.snapshots is None
    assert "finished" in result.log.read_text()


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (FAILS, "could not run .*: Unknown symbol q, at CellTypes/x"),
        ("exit 3", "exit code 3 before it was finished"),
        (f"{FINISHES}; exit 1", "exit code 1"),
        ("echo 'Time: 3'", "exit code 0 before it was finished"),
        (f"echo 'Error: Command line override q=3 not used!'; {FINISHES}", "no global symbol 'q' to override"),
    ],
)
def test_failures_are_noticed(script: str, sentence: str, model: Path, stand_in, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        run_model(model, tmp_path / "run", binary=stand_in(script))


def test_a_program_that_neither_moves_nor_ends_is_given_up(
    model: Path, stand_in, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(process, "IDLE_SECONDS", 0.3)
    with pytest.raises(UserError, match=r"neither computed nor said anything for .* and was stopped"):
        run_model(model, tmp_path / "run", binary=stand_in("echo 'Time: 3'; exec sleep 60"))


def test_a_busy_program_is_not_given_up(model: Path, stand_in, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(process, "IDLE_SECONDS", 0.0)
    busy = f"i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; {FINISHES}"
    seconds = counting()
    monkeypatch.setattr(process, "processor_seconds", lambda pid: next(seconds))
    run_model(model, tmp_path / "run", binary=stand_in(busy))


def counting() -> Iterator[float]:
    """The seconds of a program that always computes."""
    return itertools.count(1.0, 1.0)


def test_seed_and_values_are_set_in_the_copy_that_runs(model: Path, stand_in, tmp_path: Path) -> None:
    before = model.read_bytes()
    values = {"CPM/MonteCarloSampler/MetropolisKinetics/@temperature": "7", "q": "1"}
    run_model(model, tmp_path / "run", binary=stand_in(f'echo "$@"; {FINISHES}'), symbols=values, seed=12)
    ran = read_model(tmp_path / "run" / "model.xml")
    seed = ran.root.find("Time/RandomSeed")
    assert (ran.temperature, seed and seed.attributes["value"], model.read_bytes()) == ("7", "12", before)
    assert "-s q=1" in (tmp_path / "run" / "morpheus.log").read_text()
    with pytest.raises(UserError, match="no element CPM/Wrong"):
        run_model(model, tmp_path / "run", binary=stand_in(FINISHES), symbols={"CPM/Wrong/@x": "1"})


def test_a_full_disk_costs_a_sentence(model: Path, stand_in, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "morpheus.log").symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"morpheus.log cannot be written \(No space left on device\): free space"):
        run_model(model, tmp_path / "run", binary=stand_in(FINISHES))


def test_a_model_with_the_plugin_needs_a_binary_with_it(closure: Artifact, stand_in, tmp_path: Path) -> None:
    path = tmp_path / "learned.xml"
    new_model(closure, tissue(), RunPlan()).write(path)
    with pytest.raises(UserError, match=r"needs the plugin NeuralHamiltonian, which .* does not have"):
        run_model(path, tmp_path / "run", binary=stand_in(FINISHES))
    assert not (tmp_path / "run").exists()


def test_a_model_file_that_is_gone_is_named(closure: Artifact, stand_in, tmp_path: Path) -> None:
    gone = tmp_path / "gone.onnx"
    shutil.copyfile(closure.path, gone)
    path = tmp_path / "learned.xml"
    new_model(replace(closure, path=gone), tissue(), RunPlan()).write(path)
    gone.unlink()
    with pytest.raises(UserError, match=r"<NeuralHamiltonian>: there is no model file .*gone.onnx"):
        run_model(path, tmp_path / "run", binary=stand_in(FINISHES))


def test_a_binary_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NEURALCPM_MORPHEUS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="Morpheus was not found: install it"):
        find_binary()
    with pytest.raises(UserError, match="is not a program"):
        find_binary(tmp_path / "nothing")


def source_tree(path: Path) -> Path:
    plugins = path / "morpheus" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "CMakeLists.txt").write_text("set(subdirs shape)\n")
    (path / "morpheus" / "core").mkdir()
    (path / "morpheus" / "core" / "interfaces.h").write_text("")
    return path


def test_the_plugin_is_added_once(tmp_path: Path) -> None:
    tree = source_tree(tmp_path / "morpheus")
    listing = tree / "morpheus" / "plugins" / "CMakeLists.txt"
    first = install_plugin(tree)
    assert {path.name for path in first} == {*SOURCES, "ncpm.h"}
    assert listing.read_text() == "set(subdirs shape)\n\nadd_subdirectory(neuralcpm)\n"
    assert install_plugin(tree) == []
    with pytest.raises(UserError, match="is no Morpheus source tree"):
        install_plugin(tmp_path)


def test_every_source_file_has_its_header() -> None:
    """Morpheus' build looks for a header beside every source file."""
    names = {path.name for path in PLUGIN.iterdir()}
    assert {*SOURCES} <= names
    assert all(name.replace(".cpp", ".h") in names for name in SOURCES if name.endswith(".cpp"))


def test_a_binary_is_searched_for_the_plugin(tmp_path: Path) -> None:
    binary = tmp_path / "morpheus"
    binary.write_bytes(b"\0" * 5000)
    assert not has_plugin(binary)
    compiled = (PLUGIN / "learned_term.cpp").read_bytes()  # stands for what a compiler keeps of it
    binary.write_bytes(b"\0" * 5000 + compiled)
    assert has_plugin(binary)
    binary.write_bytes(b"")
    assert not has_plugin(binary)
    with pytest.raises(UserError, match="There is no program"):
        has_plugin(tmp_path / "nothing")
