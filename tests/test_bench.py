"""What `neuralcpm bench` prints, and how it measures what it compares."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from neuralcpm_bridge import bench

FLIP = [(0, 0, 0)]


def wait(seconds: float) -> None:
    stop = time.thread_time() + seconds
    while time.thread_time() < stop:
        pass


def test_the_fields_and_their_quotients(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SECONDS_PER_MODEL", 0.05)
    code, out, _ = cli("bench", "--json")
    assert code == 0
    report = json.loads(out)
    assert set(report) == {"isa", "gemm_gmac_per_s", "delta", "scaling", "metropolis"}
    assert list(report["delta"]) == ["local8", "local16", "local8x2", "paper_nh"]
    for model in report["delta"].values():
        assert set(model) == {"engine_us", "p95_us", "commit_us", "onnxruntime_us", "ratio", "gmac_per_s"}
        assert model["ratio"] == pytest.approx(model["onnxruntime_us"] / model["engine_us"])
        assert min(model.values()) > 0
    scaling = report["scaling"]["local8"]
    assert set(scaling) == {"cells_50_us", "cells_5000_us", "ratio"}
    assert scaling["cells_50_us"] == report["delta"]["local8"]["engine_us"]
    assert scaling["ratio"] == pytest.approx(scaling["cells_5000_us"] / scaling["cells_50_us"])
    assert set(report["metropolis"]) == {"cellsort", "local8", "paper_nh"}


def test_what_is_compared_takes_as_many_turns() -> None:
    turns = bench.time_in_turn({"fast": (lambda *_: wait(1e-4), FLIP), "slow": (lambda *_: wait(5e-3), FLIP)}, 0.3)
    assert len(turns["fast"]) == len(turns["slow"]) > 1
    assert bench.typical(turns["slow"]) / bench.typical(turns["fast"]) == pytest.approx(50, rel=0.3)


def test_a_turn_counts_once_however_many_calls_it_holds() -> None:
    """Fast turns hold more calls: over all calls, a machine that is slow for most of the time would look fast."""
    fast, slow = np.full(1000, 20.0), np.full(100, 200.0)
    assert bench.typical([fast, slow, slow]) == 200.0
    assert bench.typical([fast, fast, slow]) == 20.0
