"""The benchmarks inside CompuCell3D run and measure what they say; how fast is theirs to tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import cc3d_loop
from benchmarks.cc3d_speed import benchmark_model, measure

from .cc3d_tools import needs_cc3d

pytestmark = [needs_cc3d, pytest.mark.slow]


def test_speed(tmp_path: Path) -> None:
    """100×100 pixels, 50 cells: 7 to 11 % of 10,000 attempts ask for a ΔH."""
    found = measure(benchmark_model(tmp_path / "model.onnx"))
    print(found)
    assert 300 < found["calls_per_mcs"] < 2000
    assert found["inside_us"] > 0
    assert found["way"] == "NativeCallbacks"  # this CompuCell3D's compiled code asks the engine itself
    assert 0 < found["mcs_per_second"] < found["without"]


def test_our_loop_beside_cc3ds() -> None:
    found = cc3d_loop.measure()
    print(found)
    assert found["ratio"] == pytest.approx(found["engine_attempts_per_s"] / found["cc3d_attempts_per_s"])
