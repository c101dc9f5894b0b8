"""The shared library behind ncpm.h, used from C and against the Python module."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuralcpm_bridge._engine import Model, State
from neuralcpm_bridge.library import engine_header, engine_library

from .models import GRAPH, LOCAL, Weights, artifact_bytes, graph_weights, metadata, network_weights, symbolic_weights

COMPILER = os.environ.get("CC") or shutil.which("cc")
PROGRAM = Path(__file__).with_name("abi_test.c")


def written(path: Path, weights: Weights, **description: Any) -> Model:
    path.write_bytes(artifact_bytes(weights, metadata(weights, **description)))
    return Model.load(str(path))


ARGUMENTS = ("square.onnx", "hexagonal.onnx", "cubic.onnx", "graph.onnx")


def arguments(folder: Path) -> list[Model]:
    """The models that abi_test.c asks for, written as its ARGUMENTS."""
    rng = np.random.default_rng(2)
    analytic = symbolic_weights(rng, ("contact", "volume", "surface"))
    network = symbolic_weights(rng, ("contact", "volume")) | network_weights(rng, LOCAL)
    square, hexagonal, cubic, graph = (folder / name for name in ARGUMENTS)
    return [
        written(square, network, neural=LOCAL, boundary=["periodic", "free"], temperature=2.5, extinction=True),
        written(hexagonal, analytic, geometry="hexagonal", orders={"contact": 3}),
        written(cubic, analytic, geometry="cubic", orders={"contact": 1, "surface": 4}),
        written(graph, graph_weights(rng, GRAPH), neural=GRAPH),
    ]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc) on this machine")
def test_a_c_program(tmp_path: Path) -> None:
    """abi_test.c compiles without a warning, survives every misuse and computes what Python computes."""
    square, hexagonal, cubic, graph = arguments(tmp_path)
    library, program = engine_library(), tmp_path / "abi_test"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{engine_header().parent}"]
    assert COMPILER is not None
    subprocess.run(
        [COMPILER, *flags, str(PROGRAM), "-o", str(program), str(library), f"-Wl,-rpath,{library.parent}", "-lm"],
        check=True,
    )
    ran = subprocess.run([str(program), *ARGUMENTS], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""

    types = np.array([0, 1, 2], dtype=np.int32)
    ids = np.zeros((12, 14), dtype=np.int32)
    ids[3:8, 3:6], ids[3:8, 6:9] = 1, 2
    in_pieces = ids.copy()
    in_pieces[0, 0] = 2
    flat = State(square, in_pieces, types)
    hexagons = np.zeros((6, 8), dtype=np.int32)
    hexagons[1:5, 1:3], hexagons[1:5, 3:5] = 2, 1  # numbered by the host's ids; the third cell is medium
    rows = State(hexagonal, hexagons, types[[0, 2, 1]], layout="rows", boundary=["free", "periodic"])
    voxels = np.zeros((3, 4, 5), dtype=np.int32)
    voxels[0, 1:3, 4], voxels[1, 1:3, 4] = 1, 2
    solid = State(cubic, voxels, types, boundary=["periodic", "free", "periodic"])
    means = graph.weights["neural.cell_mean"][-2:].astype(float)
    properties = np.array([[0, 0], [1.5, means[1]], [means[0], -2]])
    aged, at = State(graph, ids, types, properties=properties), 2 * 14 + 4
    assert [tuple(map(float, line.split())) for line in ran.stdout.splitlines()] == [
        (*flat.energy(), *flat.delta_parts(2 * 14 + 4, 1)),
        (rows.energy()[0], rows.delta(11, 2)),
        (solid.energy()[0], solid.delta(59, 1)),
        (aged.energy()[1], aged.delta(at, 1), aged.spread(), aged.delta_spread(at, 1), *aged.inside_range),
    ]


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
