"""The spatial bins of the convolutional networks, which only C++ sees."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

COMPILER = os.environ.get("CXX") or shutil.which("c++")
PROGRAM = Path(__file__).with_name("bins_test.cpp")
NEURAL = Path(__file__).parents[2] / "neuralcpm_bridge" / "engine" / "src" / "neural"


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler (c++) on this machine")
@pytest.mark.skipif(not NEURAL.exists(), reason="the engine's sources are not installed")
def test_every_query_finds_each_near_cell_once(tmp_path: Path) -> None:
    assert COMPILER is not None
    sources = [PROGRAM, NEURAL / "bins.cpp", NEURAL / "geometry.cpp"]
    program = tmp_path / "bins_test"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{NEURAL}"]
    subprocess.run([COMPILER, *flags, *map(str, sources), "-o", str(program)], check=True)
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
