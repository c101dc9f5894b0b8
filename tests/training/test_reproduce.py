"""Every experiment from data to results, at a size of seconds: the pipeline, not the science."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import load_snapshots
from training.datasets import RECIPES
from training.fit import pairs as pairing
from training.reproduce import Setting, bipolar, cellsort, cellular_mnist, elongation, reproduce, samplers
from training.reproduce.closure import ByFit, Plan

PLAN = Plan("local8-closure", steps=4, baseline_steps=2, pool=3, batch=2, sweeps=1, warm_steps=2, replicates=3, mcs=2)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("elongation", "bipolar", "cellular-mnist", "cellsort-a", "cellsort-b"):
        tiny = replace(RECIPES[name], side=30, cells=4, radius=8.0, target=30.0, mcs=20, samples=6)
        monkeypatch.setitem(RECIPES, name, tiny)
    monkeypatch.setitem(bipolar.DATA, "small", RECIPES["bipolar"])
    trading = replace(PLAN, temperature=2.0, symmetries=True, staged=True, trades=2, sample_trades=2)
    for module in (elongation, bipolar, cellular_mnist):
        plan = {bipolar: trading, elongation: replace(PLAN, preset="graph1-closure", push=3.0)}.get(module, PLAN)
        monkeypatch.setitem(module.PLANS, "small", plan)
        monkeypatch.setitem(module.SAMPLES, "small", 6)
    monkeypatch.setitem(cellsort.STEPS, "small", 3)
    monkeypatch.setitem(samplers.STEPS, "small", 3)


@pytest.mark.parametrize(
    ("name", "measure", "extra"),
    [
        ("elongation", "aspect_gap_share", "training_processor_seconds"),
        ("bipolar", "axial_rmse_error", "receptive_field"),
        ("cellular-mnist", "classifier_score", "receptive_field"),
    ],
)
def test_closure_experiments_run_from_data_to_results(name: str, measure: str, extra: str, tmp_path: Path) -> None:
    told: list[str] = []
    results = reproduce(name, Setting(folder=tmp_path, tell=told.append))
    assert results["closure"][measure] is not None
    assert 0 <= results["baseline"]["p_volume"] <= 1
    assert results[extra] > 0
    assert json.loads((tmp_path / "results.json").read_text()) == json.loads(json.dumps(results))
    assert {"data.npz", "closure.npz", "baseline.npz", "closure", "baseline"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert any("baseline: sampling" in line for line in told)


def test_bipolar_by_fit_samples_both_models_anew_by_copies_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(RECIPES["bipolar"], side=40, cells=8, radius=12.0, target=40.0, mcs=40)
    monkeypatch.setitem(bipolar.DATA, "fit", recipe)
    monkeypatch.setitem(bipolar.SAMPLES, "fit", 12)
    monkeypatch.setitem(bipolar.PLANS, "fit", ByFit(minutes=0.3, replicates=5))
    monkeypatch.setattr(pairing, "MOST_STEPS", 50)
    results = reproduce("bipolar", Setting("fit", threads=1, folder=tmp_path))
    fitted = json.loads((tmp_path / "fit" / "fit.json").read_text())
    assert results["fit"]["verdict"] == fitted["verdict"]
    for part in ("closure", "baseline"):
        drawn = load_snapshots(tmp_path / f"{part}.npz")
        assert len(drawn) == 5
        assert drawn.provenance["mcs"] == fitted["sample_mcs"]
        assert "trades" not in drawn.provenance
        assert 0 <= results[part]["two_clusters"] <= 1
        assert results[part]["axial_rmse"] >= 0
    assert (tmp_path / "states.png").exists()


def test_what_has_no_closure_is_not_fitted() -> None:
    with pytest.raises(UserError, match="choose the scale small or paper"):
        reproduce("cellsort-a", Setting("fit"))


def test_recovery_reports_norms_and_uses_kept_data_again(tmp_path: Path) -> None:
    results = reproduce("cellsort-a", Setting(folder=tmp_path))
    assert set(results["parameters"]) == {"lambda", "J01", "J02", "J11", "J12", "J22"}
    assert results["norm_tstar"] <= results["norm_t1"]
    told: list[str] = []
    again = reproduce("cellsort-a", Setting(folder=tmp_path, tell=told.append))
    assert again["parameters"] == results["parameters"]
    assert told[0].startswith("data: 6 states from")


def test_samplers_are_compared_on_the_same_data(tmp_path: Path) -> None:
    results = reproduce("samplers", Setting(folder=tmp_path))
    rows = [f"{scenario} {kind}" for scenario in ("cellsort-a", "cellsort-b") for kind in ("cpm", "gibbs", "gwg")]
    assert list(results) == ["lattice", "seed", *rows]
    assert results["cellsort-a gibbs"]["paper_log10_norm_t1"] == 1.07
    for row in rows:
        assert results[row]["log10_norm_tstar"] <= results[row]["log10_norm_t1"]
        assert results[row]["lambda"] > 0
    assert json.loads((tmp_path / "results.json").read_text()) == json.loads(json.dumps(results))
