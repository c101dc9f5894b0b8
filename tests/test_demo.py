"""The demo from end to end without training, its two hosts' files, its report in a browser; the training part small."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from lxml import etree

import neuralcpm_bridge.app.demo as demo
from cc3d_steppables.inject import Project
from morpheus_xml.check import check_model
from morpheus_xml.reader import read_model
from neuralcpm_bridge.app.cli import app, run
from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.metrics.comparing import Measured

from .browser import find_browser, open_page


class Quiet:
    """A step that nobody watches."""

    def progress(self, done: int, total: int) -> None:
        assert 0 <= done <= total

    def tell(self, result: str) -> None:
        assert result


@contextmanager
def silently(name: str):
    yield Quiet()


@pytest.mark.slow
def test_the_quick_demo(cli, tmp_path: Path) -> None:
    """One run, looked at from all sides: it takes half a minute."""
    folder = tmp_path / "quick"
    code, said, err = cli("demo", "--quick", "-o", folder)
    assert code == 0, err
    every_step_is_told_with_its_result(folder, said)
    the_closure_is_closer_to_the_data(folder, said)
    both_hosts_can_read_what_they_get(folder)
    the_commands_it_ends_with_are_valid(folder, said)
    the_report_shows_it(folder / "report.html", tmp_path / "profile")


def every_step_is_told_with_its_result(folder: Path, said: str) -> None:
    steps = ("data", "models", "verify", "simulate closure", "simulate baseline", "measure", "CompuCell3D", "Morpheus")
    for step in (*steps, "report"):
        assert len(re.findall(rf"^{step} .*", said, re.M)) == 1, step
    assert "nothing is trained" in said
    assert "pretrained:elongated-cells" in said
    places = re.findall(rf"^  ({re.escape(str(folder))}\S*)  ", said, re.M)
    assert len(places) == 6
    assert all(Path(place).exists() for place in places)
    assert max(map(len, said.splitlines()[: said.count("s)\n")])) <= 100


def the_commands_it_ends_with_are_valid(folder: Path, said: str) -> None:
    commands = re.findall(r"^  [^# ]\S* (.+)$", said.partition("Next:")[2], re.M)
    assert len(commands) == 5
    for command in commands:
        words, verb = shlex.split(command), typer.main.get_command(app)
        while words and words[0] in getattr(verb, "commands", {}):
            verb = verb.commands[words.pop(0)]  # type: ignore[attr-defined]
        if "--help" not in words:
            verb.make_context(command, words)
    assert run(shlex.split(commands[1].replace("--mcs 100", "--mcs 1 --frames 0"))) == 0
    assert (folder / "tissue" / "snapshots.npz").is_file()


def the_closure_is_closer_to_the_data(folder: Path, said: str) -> None:
    """The claim of the demo, for the models that come with the package."""
    found = json.loads((folder / "measures.json").read_text(encoding="utf-8"))
    gap = {name: rows["aspect ratio, B less A"]["mean"] for name, rows in found.items()}
    assert abs(gap["closure"] - gap["data"]) < abs(gap["baseline"] - gap["data"])
    assert "the closure is closer to the data" in " ".join(said.split())


def both_hosts_can_read_what_they_get(folder: Path) -> None:
    project = Project.open(folder / "ElongatedCells" / "ElongatedCells.cc3d")
    assert project.xml is not None
    root = etree.parse(project.xml).getroot()
    assert root.find("Potts/Dimensions").get("x") == "60"
    compile(project.script.read_text(encoding="utf-8"), "script", "exec")
    model = load_artifact(folder / "ElongatedCells" / "Simulation" / "model.onnx")
    assert model.metadata.weights_hash == load_artifact(folder / "closure" / "model.onnx").metadata.weights_hash
    assert check_model(read_model(folder / "ElongatedCells.xml")) == []


def the_report_shows_it(report: Path, profile: Path) -> None:
    text = report.read_text(encoding="utf-8")
    (row,) = re.findall(r"aspect ratio, B less A</th>(.*?)</tr>", text)
    data, baseline, closure = re.findall(r'<td class="([^"]*)">[^<]*±', row)
    assert "near" in closure
    assert "near" not in data + baseline
    browser = find_browser()
    if browser is None:
        return  # tests/test_report.py says that there is no Chromium
    with open_page(browser, profile) as page:
        for width in (390, 1200):
            page.open(report, width)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)") is True
            assert "closer to the data" in page.evaluate("document.querySelector('.lede').innerText")
        assert page.complaints == []


def test_an_earlier_demo_is_continued_and_nothing_else_written_over(tmp_path: Path, refused) -> None:
    folder = tmp_path / "mine"
    demo._claim(folder, demo.QUICK, 0)
    demo._claim(folder, demo.QUICK, 0)
    assert "something else than this demo" in refused("demo", "--quick", "--seed", 1, "-o", folder)
    (folder / "demo.json").write_text("no JSON")
    assert "something else than this demo" in refused("demo", "-o", folder)
    (tmp_path / "file").write_text("precious")
    assert "is a file" in refused("demo", "-o", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"


def test_training_without_torch_names_the_way_out(tmp_path: Path, refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert "--quick" in refused("demo", "-o", tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


@pytest.mark.slow
def test_the_demo_learns_from_nothing(tmp_path: Path) -> None:
    plan = demo.Plan(samples=12, minutes=0.3, members=1, replicates=2, mcs=2)
    outcome = demo.run_demo(tmp_path / "demo", plan, 3, 2, silently)
    closure = load_artifact(tmp_path / "demo" / "closure" / "model.onnx")
    assert closure.metadata.neural.kind == "cell_graph"
    found = json.loads((tmp_path / "demo" / "fit" / "fit.json").read_text(encoding="utf-8"))
    assert found["states"]["train"] < 12
    assert found["verdict"].split(";")[0] in " ".join(outcome.report.read_text(encoding="utf-8").split())
    for name in ("ElongatedCells", "ElongatedCells3D"):
        assert (tmp_path / "demo" / name / f"{name}.cc3d").is_file()
        assert check_model(read_model(tmp_path / "demo" / f"{name}.xml")) == []


@pytest.mark.parametrize(
    ("closure", "baseline", "words"),
    [
        (0.9, 0.1, "the closure is closer to the data."),
        (0.1, 0.9, "the baseline is closer to the data, so in this run the network did not help."),
    ],
)
def test_the_verdict_says_what_was_measured(closure: float, baseline: float, words: str) -> None:
    shares = {"closure": Measured(closure, 0.05), "baseline": Measured(baseline, 0.05)}
    nearest = {"closure": closure > baseline, "baseline": baseline > closure}
    assert demo.verdict_of(Measured(1.4, 0.01), shares, nearest).endswith(words)
    undecided = demo.verdict_of(Measured(1.4, 0.01), shares, dict.fromkeys(nearest, False))
    assert "too near to each other" in undecided


def test_shares_carry_the_errors_of_both() -> None:
    share = demo.share_of(Measured(0.5, 0.03), Measured(1.0, 0.08))
    assert share == pytest.approx((0.5, 0.05))
