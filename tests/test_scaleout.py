"""Many runs of one model, with a stand-in for the host: dealt out, repeated where they fail, gathered."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.reader import read_model
from neuralcpm_bridge.app.scaleout import MorpheusWork, gather, planned, run_many, summary
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots
from neuralcpm_bridge.state import CellState
from tests.morpheus.conftest import analytic
from tests.morpheus.test_new import tissue
from tests.morpheus.test_snapshots import plotted

STAND_IN = """#!/bin/sh
for word in "$@"; do
    [ "$before" = --outdir ] && out=$word
    before=$word
done
{trouble}
cp '{images}/cell.id_cell.type.tif' "$out"
echo "Time: 0"; echo "=== Simulation finished ==="
"""
Made = Callable[[str], MorpheusWork]


@pytest.fixture
def host(tmp_path: Path) -> Made:
    """A model, and a program that leaves the same two states whenever it is not in trouble."""
    states = [tissue(1), tissue(2)]
    path, images, program = tmp_path / "model.xml", tmp_path / "images", tmp_path / "stand-in"
    new_model(analytic(tmp_path / "sorting.onnx"), states[0], RunPlan(steps=5, snapshots=1)).write(path)
    images.mkdir()
    plotted(states, read_model(path), images)

    def make(trouble: str) -> MorpheusWork:
        program.write_text(STAND_IN.format(trouble=trouble, images=images))
        program.chmod(0o755)
        return MorpheusWork(path, str(program))

    return make


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "runs.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_every_setting_has_its_replicates_and_every_run_its_seed() -> None:
    runs = planned(2, ["a=1,2", "b = x , y"], seed=5)
    assert [tuple(run.values.items()) for run in runs[::2]] == [
        (("a", first), ("b", second)) for first in "12" for second in "xy"
    ]
    assert [run.replicate for run in runs] == [0, 1] * 4
    assert [run.seed for run in runs] == list(range(5, 13))
    for wrong, sentence in (("a", "not understood"), ("a=", "not understood"), ("a=1,,2", "not understood")):
        with pytest.raises(UserError, match=sentence):
            planned(1, [wrong], 0)
    with pytest.raises(UserError, match="names a twice"):
        planned(1, ["a=1", "a=2"], 0)


def test_results_are_one_data_set(host: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    scan = ["CPM/MonteCarloSampler/MetropolisKinetics/@temperature=1,2.5"]
    outcomes = run_many(host(""), planned(2, scan, seed=7), out)
    assert [row["state"] for row in table(out)] == ["done"] * 4
    for number, temperature in enumerate(("1", "1", "2.5", "2.5")):
        ran = read_model(out / f"run-00{number}" / "model.xml")
        seed = ran.root.find("Time/RandomSeed")
        assert (ran.temperature, seed and seed.attributes["value"]) == (temperature, str(7 + number))
    file = gather(out, outcomes)
    assert file is not None
    found = load_snapshots(file)
    assert found.arrays["run"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert found.arrays["mcs"].tolist() == [0, 5] * 4
    (scanned,) = [values for key, values in found.arrays.items() if key.endswith("temperature")]
    assert scanned.tolist() == [1, 1, 1, 1, 2.5, 2.5, 2.5, 2.5]
    np.testing.assert_array_equal(found[6].ids, tissue(1).ids)


def test_failed_runs_are_repeated_and_named(host: Made, tmp_path: Path) -> None:
    """One fails once, one always: the first is repeated, the second named, and the others are gathered."""
    once = f"case $* in *q=once*) mkdir '{tmp_path}/once' 2> /dev/null && exit 3;; esac\n"
    always = 'case $* in *q=never*) echo "a reason" >&2; exit 4;; esac'
    said: list[str] = []
    out = tmp_path / "out"
    outcomes = run_many(host(once + always), planned(1, ["q=fine,once,never"], 0), out, say=said.append)
    assert [(o.attempts, o.error is None) for o in outcomes] == [(1, True), (2, True), (2, False)]
    assert sorted(line.split(" failed")[0] for line in said) == [
        "run-001 (q = once, seed 1)",
        "run-002 (q = never, seed 2)",
    ]
    assert "a reason" in table(out)[2]["error"]
    told = summary(outcomes, gather(out, outcomes), out)
    assert told.startswith("2 of 3 runs finished")
    assert "run-002 (q = never, seed 2) failed 2 times: " in told
    assert load_snapshots(out / "snapshots.npz").arrays["run"].tolist() == [0, 0, 1, 1]


def test_runs_on_different_lattices_keep_their_own_states(host: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcomes = run_many(host(""), planned(2, [], 0), out)
    second = out / "run-001" / "snapshots.npz"
    cropped = CellState(tissue(1).ids[:20], tissue(1).types)
    Snapshots.from_states([cropped], type_names=load_snapshots(second).type_names).save(second)
    assert gather(out, outcomes) is None
    told = summary(outcomes, None, out)
    assert told.startswith("2 of 2 runs finished; table")
    assert f"lattices differ, so every run keeps its own states: {out / 'run-000' / 'snapshots.npz'}" in told


def test_verbs_run_ensembles(cli, refused, host: Made, tmp_path: Path) -> None:
    work = host('case $* in *q=bad*) echo "not this one" >&2; exit 4;; esac')
    verb = ("morpheus", "run", work.model, "--morpheus", work.binary)
    code, said, _ = cli(*verb, "-o", tmp_path / "a", "--replicates", 3)
    assert (code, said.startswith("3 of 3 runs finished")) == (0, True)
    text = work.model.read_text(encoding="utf-8")
    symbol = '<Global><Constant symbol="q" value="0"/></Global>'
    work.model.write_text(text.replace("<Space>", f"{symbol}\n<Space>", 1), encoding="utf-8")
    code, said, _ = cli(*verb, "-o", tmp_path / "b", "--scan", "q=good,bad")
    assert (code, "run-001 (q = bad, seed 1) failed 2 times" in said) == (1, True)
    assert "holds other files" in refused(*verb, "-o", tmp_path / "b", "--replicates", 2)
    assert "not understood" in refused(*verb, "-o", tmp_path / "c", "--scan", "q")
    assert "no symbol 'p'" in refused(*verb, "-o", tmp_path / "c", "--scan", "p=1,2")
    assert "no element CPM/Nothing" in refused(*verb, "-o", tmp_path / "c", "--scan", "CPM/Nothing/@value=1")
    assert not (tmp_path / "c").exists()
    assert "No Dask scheduler answers" in refused(*verb, "-o", tmp_path / "d", "--cluster", "nowhere")


def test_files_go_along(host: Made, tmp_path: Path) -> None:
    work = host("")
    text = work.model.read_text()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "cells.tif").write_bytes(b"pixels")
    (tmp_path.parent / "other.tif").write_bytes(b"pixels")
    for named, expected in (("sub/cells.tif", {"model.xml", "sub/cells.tif"}), ("gone.tif", {"model.xml"})):
        reader = f'<TIFFReader filename="{named}"/></Population>'
        work.model.write_text(text.replace("</Population>", reader, 1))
        assert set(work.files()) == expected
    work.model.write_text(text.replace("</Population>", '<TIFFReader filename="../other.tif"/></Population>', 1))
    with pytest.raises(UserError, match="lies outside of the model's folder"):
        work.files()


@pytest.mark.slow
def test_a_cluster_of_two_workers_loses_one(host: Made, tmp_path: Path) -> None:
    """A worker dies by force in the middle of a run: another does it again, and nothing is missing."""
    distributed = pytest.importorskip("distributed")
    out = tmp_path / "out"
    work = host(f"mkdir '{tmp_path}/killed' 2> /dev/null && kill -9 $PPID && sleep 30")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        outcomes = run_many(work, planned(6, [], 0), out, cluster=cluster.scheduler_address)
    assert (tmp_path / "killed").is_dir()
    assert [outcome.error for outcome in outcomes] == [None] * 6
    file = gather(out, outcomes)
    assert file is not None
    assert load_snapshots(file).arrays["run"].tolist() == [number for number in range(6) for _ in range(2)]
