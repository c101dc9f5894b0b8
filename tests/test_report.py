"""The report: complete, escaped, self-contained, readable on a phone and on paper in a real browser."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path

import pytest

from neuralcpm_bridge.app.report import Sampling, write_report
from neuralcpm_bridge.app.report.gather import checkpoint_header, find_runs
from neuralcpm_bridge.app.report.measuring import nearest_to_data
from neuralcpm_bridge.metrics.comparing import Measured
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

from .browser import find_browser, open_page

HOSTILE = "<script>alert('A&B')<"
VOID = {"meta", "img", "link", "br", "line", "polyline", "circle"}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of hostile names, and two runs of a few steps, as `reproduce` leaves them."""
    from training.config import make_config
    from training.datasets import Recipe, generate
    from training.trainer import Trainer

    folder = tmp_path_factory.mktemp("experiments") / "experiment"
    recipe = Recipe("tiny", (0.5, 0.5, 1 / 3, 0.2, 4 / 15), 0.1, 40.0, side=36, cells=6, radius=10.0, mcs=30)
    data = generate(recipe, samples=6)
    data = Snapshots(data.ids, data.types, ("medium", "A", HOSTILE), data.lattice, data.provenance)
    data.save(folder / "data.npz")
    for name, preset in (("baseline", "cellsort"), ("closure", "local8-closure")):
        config = make_config(
            {
                "data": {"holdout": 0.0, "path": str(folder / "data.npz")},
                "model": {"preset": preset},
                "sampler": {"pool": 4},
                "optimizer": {"steps": 3, "batch": 4},
                "run": {"log_every": 1, "checkpoint_every": 3},
            }
        )
        Trainer(config, data, folder / name).run()
    (folder / "results.json").write_text(json.dumps({"norm_t1": 0.5, "paper": {"norm_t1": 0.055}, "name": HOSTILE}))
    return folder


@pytest.fixture(scope="module")
def report(experiment: Path) -> Path:
    target = experiment.parent / "report.html"
    names = write_report([experiment], target, title=f"Title {HOSTILE}", sampling=Sampling(3, 10))
    assert names == ["baseline", "closure"]
    return target


class Balanced(html.parser.HTMLParser):
    """Every element that was opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def test_everything_is_in_it_and_escaped(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert "script" not in parser.seen
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    for title in ("What was trained", "Samples beside data", "Measures beside", "Training curves", "Parameters",
                  "Results of the experiment", "Price of one ΔH", "Provenance"):  # fmt: skip
        assert title in text
    for word in ("CompuCell3D", "Morpheus", "truth", "0.055", "SHA-256", "baseline", "closure", "&lt;script&gt;"):
        assert word in text
    assert text.count("<img") == 3 + 3 + 3  # as many states of the data as samples of each model


def test_hosts_get_a_quarter_of_the_contact_energy(report: Path) -> None:
    rows = re.findall(r"J medium, A</th>(.*?)</tr>", report.read_text(encoding="utf-8"))
    assert len(rows) == 2
    learned, cc3d, morpheus, truth = (float(x) for x in re.findall(r">([-0-9.e]+)</td>", rows[0]))
    assert cc3d == pytest.approx(learned / 4, rel=1e-2)
    assert morpheus == cc3d
    assert truth == 0.5


def test_headers_are_read_without_torch(experiment: Path) -> None:
    from training.trainer import load_run

    header = checkpoint_header(experiment / "closure" / "checkpoint.safetensors")
    _, _, expected = load_run(experiment / "closure")
    assert {key: header[key] for key in expected} == expected


def test_the_nearest_model_is_marked_where_noise_allows() -> None:
    data = {"a": Measured(1.0, 0.0), "b": Measured(2.0, 0.0)}
    models = [
        {"a": Measured(1.1, 0.1), "b": Measured(3.0, 0.3)},
        {"a": Measured(5.0, 0.1), "b": Measured(3.1, 0.3)},
    ]
    assert nearest_to_data(models, data, "a") == [True, False]
    assert nearest_to_data(models, data, "b") == [False, False]
    assert nearest_to_data(models[:1], data, "a") == [False]
    assert nearest_to_data([*models, {"a": Measured(0.8, 0.1)}], data, "a") == [True, False, True]


def test_a_model_alone_and_the_verb(cli, models: dict[str, Path], experiment: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    code, out, err = cli("report", models["mnist-cellsort"], models["mnist-cellsort"], "-o", target)
    assert code == 0, err
    assert "mnist-cellsort (2)" in out
    assert "was not found" in target.read_text(encoding="utf-8")
    assert [run.name for run in find_runs([experiment / "closure"], tmp_path)] == ["closure"]


def test_models_that_came_trained_are_not_said_to_be_trained_on_this_data(experiment: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    write_report(["pretrained:cell-sorting"], target, data=plain_data(experiment, tmp_path))
    text = target.read_text(encoding="utf-8")
    assert "The models came trained; here they are compared with 6 snapshots" in text
    assert re.search(r"trained before, on</th><td[^>]*>102 snapshots \(cellsort-a\)", text)


def plain_data(experiment: Path, folder: Path) -> Path:
    """The experiment's data with names that a bundled model knows."""
    data = load_snapshots(experiment / "data.npz")
    Snapshots(data.ids, data.types, ("medium", "A", "B"), data.lattice).save(folder / "plain.npz")
    return folder / "plain.npz"


def test_wrong_use(refused, experiment: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    assert "no run" in refused("report", tmp_path / "missing", "-o", target)
    (tmp_path / "empty").mkdir()
    assert "holds no training run" in refused("report", tmp_path / "empty", "-o", target)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "checkpoint.safetensors").write_bytes(b"\xff" * 40)
    assert "not a checkpoint" in refused("report", broken, "-o", target)
    (broken / "checkpoint.safetensors").write_bytes((experiment / "baseline" / "checkpoint.safetensors").read_bytes())
    (broken / "metrics.csv").write_text("step,loss\n1,many\n")
    assert "table of numbers" in refused("report", broken, "-o", target)
    assert not target.exists()


@pytest.mark.slow
def test_in_a_real_browser(report: Path, tmp_path: Path) -> None:
    browser = find_browser()
    if browser is None:
        pytest.skip("no Chromium on this machine (apt install chromium)")
    with open_page(browser, tmp_path / "profile") as page:
        for width in (390, 1200):
            page.open(report, width)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            hidden = "[...document.querySelectorAll('.wide')].filter(w => w.scrollWidth > w.clientWidth + 1)"
            assert page.evaluate(hidden + ".map(w => w.innerText)") == []  # no table hides a column
            assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)") is True
            smallest = "Math.min(...[...document.querySelectorAll('td, p, svg text')].map(e => parseFloat("
            assert page.evaluate(smallest + "getComputedStyle(e).fontSize)))") >= 10
            assert page.evaluate("getComputedStyle(document.querySelector('.cards')).display") == "grid"
            assert len(page.screenshot()) > 10_000
        pdf = page.pdf()
        assert pdf.startswith(b"%PDF")
        assert 2 <= len(re.findall(rb"/Type\s*/Page[^s]", pdf)) <= 8
        assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
        assert page.complaints == []
