"""What a state keeps grows with its cells, and no faster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MEMORY = Path(__file__).parents[2] / "benchmarks" / "memory.py"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
@pytest.mark.skipif(not MEMORY.exists(), reason="benchmarks are not installed")
def test_memory_is_linear_in_the_cells() -> None:
    run = [sys.executable, str(MEMORY), "--json", "--side", "400", "--cells", "100", "600", "1100"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    few, some, many = json.loads(done.stdout).values()
    page = 2**23  # the largest piece that is reserved at once
    assert many - some <= 1.2 * (some - few) + page
    assert (many - few) / 1000 < 40_000
