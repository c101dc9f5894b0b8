"""What the verb simulate leaves: data set, table, charts, animation, the same for any number of threads."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from neuralcpm_bridge.app.cli import progress as cli_progress
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import load_snapshots

from .cc3d.models import analytic_model

HOW = ("--init", "blob", "--cells", 5, "--lattice", "36x40", "--mcs", 8, "--seed", 4, "--snapshots", 4)


@pytest.fixture(scope="module")
def ensemble(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    from neuralcpm_bridge.app.cli import run

    folder = tmp_path_factory.mktemp("ensemble")
    how = (*HOW, "--replicates", 3, "--threads", 2, "--frames", 6, "-o", folder)
    assert run([str(word) for word in ("simulate", models["local8-closure"], *how)]) == 0
    return folder


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "measures.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_files(ensemble: Path) -> None:
    names = {"snapshots.npz", "measures.csv", "measures.png", "strip.png", "animation.gif"}
    assert {file.name for file in ensemble.iterdir()} == names
    with Image.open(ensemble / "animation.gif") as animation:
        assert animation.n_frames == 7
    with Image.open(ensemble / "measures.png") as chart:
        assert chart.width > 1000


def test_energies_are_those_of_the_saved_states(ensemble: Path, models: dict[str, Path], cli) -> None:
    code, out, err = cli("energy", models["local8-closure"], ensemble / "snapshots.npz", "--json")
    assert code == 0, err
    rows = rows_of(ensemble)
    assert [(row["mcs"], row["chain"]) for row in rows[:4]] == [("0", "0"), ("0", "1"), ("0", "2"), ("2", "0")]
    found = json.loads(out)
    for key in ("energy", "symbolic", "neural"):
        assert [float(row[key]) for row in rows] == pytest.approx(found[key], rel=1e-6, abs=1e-3)


def test_measures_are_those_of_the_saved_states(ensemble: Path) -> None:
    rows, found = rows_of(ensemble), load_snapshots(ensemble / "snapshots.npz")
    for row, state in zip(rows, found, strict=True):
        assert float(row["volume_mean"]) == pytest.approx(state.volumes[state.cells].mean())
        assert 0 <= float(row["heterotypic_fraction"]) <= 1
        assert float(row["aspect_ratio_A"]) >= 1


def test_replicates_do_not_depend_on_threads_or_company(
    ensemble: Path, models: dict[str, Path], cli, tmp_path: Path
) -> None:
    found = load_snapshots(ensemble / "snapshots.npz")
    for threads, replicates in ((1, 3), (3, 2)):
        folder = tmp_path / f"{threads}"
        how = (*HOW, "--threads", threads, "--replicates", replicates, "--frames", 0, "-o", folder)
        assert cli("simulate", models["local8-closure"], *how)[0] == 0
        assert not (folder / "animation.gif").exists()
        again = load_snapshots(folder / "snapshots.npz")
        np.testing.assert_array_equal(again.ids, found.ids[found.arrays["chain"] < replicates])
    last = found.ids[-3:]
    assert not np.array_equal(last[0], last[1])


def test_nothing_moves_in_no_time(models: dict[str, Path], cli, tmp_path: Path) -> None:
    code, _, err = cli("simulate", models["mnist-cellsort"], *HOW[:6], "--mcs", 0, "-o", tmp_path)
    assert code == 0, err
    assert len(rows_of(tmp_path)) == 1


@pytest.mark.parametrize(("geometry", "size"), [("hexagonal", "24x26"), ("cubic", "12x13x14"), ("cubic", "12")])
def test_every_lattice_is_simulated_measured_and_drawn(geometry: str, size: str, cli, tmp_path: Path) -> None:
    model = analytic_model(tmp_path / "m.onnx", geometry, "free", terms=("contact", "volume"), volume=40).path
    how = ("--init", "blob", "--cells", 6, "--lattice", size, "--mcs", 4, "--snapshots", 2, "--frames", 2)
    code, _, err = cli("simulate", model, *how, "-o", tmp_path / "out")
    assert code == 0, err
    found = load_snapshots(tmp_path / "out" / "snapshots.npz")
    shape = tuple(int(side) for side in size.split("x"))
    assert found.lattice == Lattice.of(shape if len(shape) > 1 else shape * 3, geometry, "free")
    assert len(found) == 3
    assert (found.ids[0] != found.ids[-1]).any()
    rows = rows_of(tmp_path / "out")
    assert all(float(row["aspect_ratio_A"]) >= 1 for row in rows)
    with Image.open(tmp_path / "out" / "animation.gif") as animation:
        assert animation.n_frames == 3
    with Image.open(tmp_path / "out" / "strip.png") as strip:
        assert strip.width > 600


def test_copies_may_come_from_any_order(models: dict[str, Path], cli, refused, tmp_path: Path) -> None:
    ends = []
    for word in ("moore", "2", "von_neumann", "1", "4"):
        folder = tmp_path / word
        code, _, err = cli(
            "simulate", models["mnist-cellsort"], *HOW, "--frames", 0, "--neighbourhood", word, "-o", folder
        )
        assert code == 0, err
        ends.append(load_snapshots(folder / "snapshots.npz").ids[-1].tobytes())
    assert ends[0] == ends[1]
    assert ends[2] == ends[3]
    assert len(set(ends)) == 3
    for word in ("neumann", "99"):
        refused("simulate", models["mnist-cellsort"], *HOW, "--neighbourhood", word, "-o", tmp_path / "no")


@pytest.mark.parametrize("size", ["", "0x9", "9x", "9x9x9", "axb"])
def test_lattices_that_are_not_understood(size: str, models: dict[str, Path], refused, tmp_path: Path) -> None:
    how = ("--init", "blob", "--lattice", size, "-o", tmp_path)
    assert "was not understood" in refused("simulate", models["mnist-cellsort"], *how)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--lattice", "100000x100000"),
        ("--replicates", 100_000_000),
        ("--mcs", 10**20),
        ("--frames", 10**6),
        ("--seed", 2**64),
        ("--threads", 10**6),
    ],
)
def test_what_no_machine_holds_or_finishes(
    option: str, value: object, models: dict[str, Path], refused, tmp_path: Path
) -> None:
    start = ("simulate", models["graph1-closure"], "--init", "blob", "-o", tmp_path / "run")
    said = refused(*start, option, value)
    assert any(word in said for word in ("GB of memory", "attempts in all", "less than or equal"))
    assert not (tmp_path / "run").exists()


def test_a_log_hears_that_it_goes_on(
    models: dict[str, Path], cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where standard error is no terminal, lines take the place of the bar."""
    monkeypatch.setattr(cli_progress, "SILENT_SECONDS", 0.0)
    code, _, err = cli("simulate", models["graph1-closure"], *HOW, "-o", tmp_path / "run")
    assert code == 0
    assert "simulate 1 of 8 after" in err


def test_an_interrupted_run_keeps_what_it_has(
    models: dict[str, Path], cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from neuralcpm_bridge.embedded import EngineChains

    advance = EngineChains.advance

    def interrupted(self: EngineChains, mcs: int) -> None:
        if self.counts.attempts >= 4 * 36 * 40:
            raise KeyboardInterrupt
        advance(self, min(mcs, 1))

    monkeypatch.setattr(EngineChains, "advance", interrupted)
    code, _, err = cli("simulate", models["mnist-cellsort"], *HOW, "--frames", 8, "-o", tmp_path)
    assert code == 130
    assert "Interrupted" in err
    found = load_snapshots(tmp_path / "snapshots.npz")
    assert found.provenance["interrupted"] is True
    assert found.arrays["mcs"].tolist() == [0, 2, 4]
    assert (tmp_path / "animation.gif").is_file()
