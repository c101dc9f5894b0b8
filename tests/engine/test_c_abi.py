"""The shared library behind ncpm.h, used from C and against the Python module."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge._engine import Model, State
from neuralcpm_bridge.library import engine_header, engine_library

from .models import LOCAL, artifact_bytes, metadata, network_weights, symbolic_weights

COMPILER = os.environ.get("CC") or shutil.which("cc")
PROGRAM = Path(__file__).with_name("abi_test.c")


@pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc) on this machine")
def test_a_c_program(tmp_path: Path) -> None:
    """abi_test.c compiles without a warning, survives every misuse and computes what Python computes."""
    rng = np.random.default_rng(2)
    weights = symbolic_weights(rng, ("contact", "volume")) | network_weights(rng, LOCAL)
    path = tmp_path / "model.onnx"
    path.write_bytes(artifact_bytes(weights, metadata(weights, neural=LOCAL, temperature=2.5, extinction=True)))

    library, program = engine_library(), tmp_path / "abi_test"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{engine_header().parent}"]
    assert COMPILER is not None
    subprocess.run(
        [COMPILER, *flags, str(PROGRAM), "-o", str(program), str(library), f"-Wl,-rpath,{library.parent}", "-lm"],
        check=True,
    )
    ran = subprocess.run([str(program), str(path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""

    ids = np.zeros((12, 14), dtype=np.int32)
    ids[3:8, 3:6], ids[3:8, 6:9], ids[0, 0] = 1, 2, 2
    state = State(Model.load(str(path)), ids, np.array([0, 1, 2], dtype=np.int32))
    assert tuple(map(float, ran.stdout.split())) == (*state.energy(), *state.delta_parts(2, 4, 1))


def test_the_library_exports_nothing_else() -> None:
    """Only ncpm_* crosses: a host may hold another C++ runtime's symbols."""
    nm = shutil.which("nm")
    if nm is None or engine_library().suffix != ".so":
        pytest.skip("needs nm and an ELF library")
    listing = subprocess.run(
        [nm, "-D", "--defined-only", str(engine_library())], capture_output=True, text=True, check=True
    )
    strong = [line.split() for line in listing.stdout.splitlines() if line.split()[-2] in "TDB"]
    assert {fields[-1].split("@")[0] for fields in strong if not fields[-1].startswith("ncpm_")} == set()
