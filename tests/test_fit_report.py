"""The report of a fit: questions in their order, every number there, commands that run, nothing from outside."""

from __future__ import annotations

import html as markup
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer

from neuralcpm_bridge.app.cli import app
from neuralcpm_bridge.app.cli.fit import next_commands
from neuralcpm_bridge.app.fitted import CHAPTERS, write_fit_report
from neuralcpm_bridge.app.report import html, trust
from neuralcpm_bridge.app.report.fit_folder import read_fit
from neuralcpm_bridge.app.report.forest import forest
from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.metrics.comparing import Measured, distance
from neuralcpm_bridge.snapshots import load_snapshots

from .browser import find_browser, open_page
from .fit_folders import fit_folder
from .test_report import HOSTILE, Balanced


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit whose folder, types and sentences are named to break a page or a shell."""
    folder = tmp_path_factory.mktemp("fits") / "my fit & <b>'s"
    folder.mkdir()
    fit_folder(folder, names=("medium", "A", HOSTILE), verdict=f"Almost as the data. {HOSTILE}", remarks=[HOSTILE])
    assert write_fit_report(folder) == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def page(fitted: Path) -> str:
    return (fitted / "report.html").read_text(encoding="utf-8")


def words(text: str) -> str:
    return " ".join(markup.unescape(re.sub(r"<[^>]+>", " ", text.split("</style>")[1])).split())


def commands(text: str) -> list[str]:
    lines = re.findall(r"<code>(.*?)</code>", text)
    return [markup.unescape(re.sub(r"<[^>]+>", "", line)) for line in lines]


def test_questions_come_in_their_order_and_pictures_before_numbers(page: str) -> None:
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles[: len(CHAPTERS)] == list(CHAPTERS.values())
    assert titles[len(CHAPTERS) :] == [
        "What was trained, on what",
        "Parameters, in the conventions of the hosts",
        "Training curves",
        "Price of one ΔH",
        "Provenance",
    ]
    inside = page[page.index("<main>") :]
    places = [inside.index(piece) for piece in ('class="verdict"', "<img", 'class="forest"', "<table")]
    assert places == sorted(places)
    assert re.findall(r'href="#(\w+)"', page) == list(CHAPTERS)
    assert all(f'<section id="{key}">' in page for key in CHAPTERS)


def test_it_is_whole_escaped_and_asks_nobody(page: str) -> None:
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert "script" not in parser.seen
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)
    assert not re.search(r"url\((?!#)", page)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "my fit &amp; &lt;b&gt;&#x27;s" in page


def test_every_number_is_in_it(fitted: Path, page: str) -> None:
    facts, text = json.loads((fitted / "fit.json").read_text()), words(page)
    for title, row in facts["measures"].items():
        assert title in text
        for mean, error in row.values():
            assert f"{html.number(mean)} ± {error:.2g}" in text
    for told in ("Almost as the data.", "24 snapshots", "6 states", "480", "240", "1.2", "32", "went back to step 300"):
        assert told in text
    assert "More snapshots would hardly help" in text
    assert "so the tissue had settled" in text
    found = read_fit(fitted)
    for run in (found.closure, found.baseline):
        assert run.artifact is not None
        assert run.artifact.metadata.weights_hash in page
    assert all(digest in page for digest in found.hashes.values())


def test_as_many_states_of_each(page: str) -> None:
    beside = page[page.index('class="beside"') : page.index("Measure by measure")]
    assert [figure.count("<img") for figure in beside.split("<figure>")[1:]] == [6, 6, 6]


def test_commands_run_as_printed(cli: Callable[..., tuple[int, str, str]], page: str, monkeypatch) -> None:
    lines = [shlex.split(line) for line in commands(page)]
    assert lines[0][0] == "cd"
    monkeypatch.chdir(lines[0][1])
    assert ["neuralcpm", "view", "model.onnx", "--state", "held-out.npz"] in lines
    ran = set()
    for program, *rest in lines[1:]:
        assert program == "neuralcpm"
        if rest[:2] in (["cc3d", "new"], ["morpheus", "new"]) or rest[0] in ("explain", "energy"):
            code, _, err = cli(*rest)
            assert code == 0, err
            ran.add(" ".join(rest[:2]) if rest[1] == "new" else rest[0])
    assert ran == {"cc3d new", "morpheus new", "explain", "energy"}
    assert Path("Fitted/Fitted.cc3d").is_file()
    assert Path("fitted.xml").is_file()


def test_the_verb_writes_the_same_page(cli, fitted: Path, page: str, tmp_path: Path) -> None:
    target = tmp_path / "again.html"
    code, out, err = cli("report", fitted, "-o", target)
    assert code == 0, err
    assert str(target) in out

    def timeless(text: str) -> str:
        return re.sub(r"Price of one ΔH.*?</section>", "", text)

    assert timeless(target.read_text(encoding="utf-8")) == timeless(page)


def test_other_data_make_it_a_comparison(cli, fitted: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    code, _, err = cli("report", fitted, "--data", fitted / "samples-baseline.npz", "-o", target)
    assert code == 0, err
    text = target.read_text(encoding="utf-8")
    assert CHAPTERS["trust"] not in text
    assert "within two standard errors of the data" in text
    assert "each cell and those it touches" in text


@pytest.mark.parametrize("geometry", ["hexagonal", "cubic"])
def test_other_lattices(geometry: str, tmp_path: Path) -> None:
    fit_folder(tmp_path, geometry, states=3, mcs=10, cells=6)
    text = write_fit_report(tmp_path).read_text(encoding="utf-8")
    assert f"({geometry})" in text
    shown = 2 if geometry == "cubic" else 3
    assert text[: text.index("Measure by measure")].count("<img") == 3 * shown
    assert "cells 2 times as wide" in text


def measures_of_baseline(volume: float) -> dict[str, dict[str, list[float]]]:
    baseline = {"closure": [volume, 1.0], "baseline": [volume, 1.0]}
    return {"mean volume": {"data": [30.0, 1.0], **baseline}, "clusters of A": {"data": [2.0, 0.5], **baseline}}


def test_where_contact_and_volume_do_not_suffice(tmp_path: Path) -> None:
    fit_folder(tmp_path, adds=False, states=3, mcs=10, measures=measures_of_baseline(30.0), misfit={"baseline": 190.4})
    told = words(write_fit_report(tmp_path).read_text(encoding="utf-8"))
    assert "with them 1 of 2 measures come out as in the data" in told
    assert "suffice" not in told
    assert "190 mean square distance" in told
    assert "came trained" not in told


def test_where_nothing_was_added(tmp_path: Path) -> None:
    as_it_is = {"mean volume": measures_of_baseline(30.0)["mean volume"]}
    missing = {"more_snapshots": None, "rounds": None}
    fit_folder(tmp_path, adds=False, states=3, mcs=10, measures=as_it_is, settled=False, **missing)
    text = write_fit_report(tmp_path).read_text(encoding="utf-8")
    told = words(text)
    assert "Contact and volume energies suffice" in told
    assert re.search(r"A and B (keep apart|mix|touch each other as readily)", told)
    assert "keeps a volume near" in told
    assert "--state samples-baseline.npz" in told
    assert "model.onnx" not in told
    assert "more than 240 Monte Carlo steps" in told
    assert "A longer fit" in told
    assert text.count("<figcaption>") >= 2
    assert "Samples of the closure" not in told


def test_a_closure_of_a_users_own_project(tmp_path: Path) -> None:
    told = {"like": "My <Project>.cc3d", "not_read": ["the plugin Chemotaxis"]}
    again = {"refit": {"of": "run", "lattices": 7, "misfit": {"before": 12.34, "after": 1.25}}}
    fit_folder(tmp_path, states=3, mcs=10, **told, **again)
    text = words(write_fit_report(tmp_path).read_text(encoding="utf-8"))
    assert "energies are those of My <Project>.cc3d and stayed as they are" in text
    assert "Not read from My <Project>.cc3d, and so not in H_S: the plugin Chemotaxis." in text
    assert "the 7 uncertain lattices of a host end at a mean square distance of 1.2 from the data" in text
    assert "neuralcpm cc3d inject 'My <Project>.cc3d' model.onnx" in text
    assert "neuralcpm morpheus inject" not in text


def test_a_baseline_that_is_nearer_is_recommended(tmp_path: Path) -> None:
    fit_folder(tmp_path, states=3, mcs=10, misfit={"closure": 3.0, "baseline": 2.0}, more_snapshots="yes", steps=None)
    told = words(write_fit_report(tmp_path).read_text(encoding="utf-8"))
    assert "neuralcpm cc3d new baseline.onnx --state samples-baseline.npz" in told
    assert "a network trained on half of them does worse" in told


def test_doubts_are_the_engines(fitted: Path) -> None:
    artifact = load_artifact(fitted / "model.onnx")
    data, samples = (load_snapshots(fitted / name, artifact) for name in ("held-out.npz", "samples.npz"))
    found = {doubt.title: doubt for doubt in trust.doubts(artifact, data, samples)}
    held_out, wider, sites = (
        found[name] for name in ("held-out data", "cells 2 times as wide", "cells as single sites")
    )
    assert held_out.inside == 1.0  # the network's statistics are of these states
    assert wider.inside == sites.inside == 0.0
    assert held_out.disagreement is not None
    assert held_out.disagreement[0] > 0
    state = trust._wider(data[0])
    assert state.shape == tuple(2 * size for size in data[0].shape)
    assert (state.volumes == 4 * data[0].volumes).all()
    assert (state.surfaces(1)[state.cells] == 2 * data[0].surfaces(1)[state.cells]).all()


def test_dots_stand_where_the_numbers_are() -> None:
    data = {"a": Measured(10.0, 1.0), "b": Measured(1.0, 0.0), "p_volume": Measured(1.0, 0.0), "gone": Measured(0, 1)}
    near = {"a": Measured(13.0, 1.5), "b": Measured(1.0, 0.0), "p_volume": Measured(0.975, 0.1)}
    far = {"a": Measured(-10.0, 1.0), "b": Measured(1.0, 0.0), "p_volume": Measured(0.9, 0.1), "gone": Measured(0, 1)}
    text = forest(data, {"near": near, "far <": far})
    names = re.findall(r'class="name">([^<]+)<', text)
    assert names == ["a", "p_volume", "b"]  # the farthest first; what somebody lacks is left out
    first = text[text.index(">a<") : text.index(">p_volume<")]
    assert re.findall(r'class="dot" style="left:([\d.]+)%', first) == ["50.0", "63.9"]
    assert "‹ 14" in first  # every model in standard errors of its own difference
    assert first.count("var(--paper)") == 0  # 3 is within two of hypot(1, 1.5)
    assert text.count("var(--paper)") == 1  # the share that is off by a tenth
    assert "far &lt;" in text
    assert forest({}, {"near": near}) == ""


def test_distances() -> None:
    assert distance(Measured(3.0, 3.0), Measured(-2.0, 4.0), "a") == pytest.approx(1.0)
    assert distance(Measured(0.95, 0.0), Measured(1.0, 0.0), "states (p_volume)") == pytest.approx(-2.0)
    assert distance(Measured(1.0, 0.0), Measured(1.0, 0.0), "a") == 0.0
    assert abs(distance(Measured(1.0, 0.0), Measured(2.0, 0.0), "a")) > 2


def test_folders_that_are_no_fits(refused, fitted: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    for name, content, told in (
        ("broken", "{", "fit.json"),
        ("other", json.dumps({"verdict": "good"}), "adds"),
        ("words", json.dumps(json.loads((fitted / "fit.json").read_text()) | {"states": "many"}), "states"),
        ("lacking", (fitted / "fit.json").read_text(), "no model.onnx"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "fit.json").write_text(content, encoding="utf-8")
        assert told in refused("report", folder, "-o", target)
    assert not target.exists()


def test_numbers_that_are_none_are_left_out(fitted: Path) -> None:
    data = {"a": Measured(1.0, 0.1), "b": Measured(float("nan"), 0.1)}
    text = forest(data, {"m": data})
    assert re.findall(r'class="name">([^<]+)<', text) == ["a"]
    assert np.isfinite(distance(data["a"], data["a"], "a"))


@pytest.mark.slow
def test_in_a_real_browser(fitted: Path, tmp_path: Path) -> None:
    browser = find_browser()
    if browser is None:
        pytest.skip("no Chromium on this machine (apt install chromium)")
    with open_page(browser, tmp_path / "profile") as page:
        for width in (390, 1200):
            page.open(fitted / "report.html", width)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)") is True
            outside = (
                "[...document.querySelectorAll('.lanes *')].filter(e => e.getBoundingClientRect().right > innerWidth)"
            )
            assert page.evaluate(outside + ".length") == 0
            told = page.evaluate("document.querySelector('.commands').innerText").strip()
            assert shlex.split(told)[0] == "cd"
        assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
        assert page.complaints == []


@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("like", [None, Path("my model.xml")])
def test_what_comes_next_can_be_run_as_it_is_printed(adds: bool, like: Path | None) -> None:
    commands = next_commands(Path("my run"), adds, like)
    assert any(command.startswith("neuralcpm explain") for command in commands) == adds
    assert any("inject" in command for command in commands) == (adds and like is not None)
    for command in commands:
        words, verb = shlex.split(command)[1:], typer.main.get_command(app)
        while words[0] in getattr(verb, "commands", {}):
            verb = verb.commands[words.pop(0)]  # type: ignore[attr-defined]
        verb.make_context(command, words)
