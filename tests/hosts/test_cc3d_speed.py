"""A learned term must not slow CompuCell3D down beyond the engine's own time; our own loop is no slower than its."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import cc3d_loop
from benchmarks.cc3d_speed import benchmark_model, measure

from .cc3d_tools import needs_cc3d

pytestmark = [needs_cc3d, pytest.mark.slow]


def test_speed(tmp_path: Path) -> None:
    """100×100 pixels, 50 cells, CPU time on one core."""
    found = measure(benchmark_model(tmp_path / "model.onnx"))
    print(found)
    assert found["mcs_per_second"] >= 20
    assert found["inside_us"] - found["engine_us"] <= 10


def test_our_loop_beside_cc3ds() -> None:
    """Analytic cell sorting on one core: what the engine adds to a host is not paid for by a slow loop of its own."""
    found = cc3d_loop.measure()
    print(found)
    assert found["ratio"] >= 1.5
