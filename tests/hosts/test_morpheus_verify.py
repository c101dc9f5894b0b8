"""Every ΔH of a cell graph in the real Morpheus against the engine and float64 torch, energies by distance included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.run import run_model
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState
from training.backend import TorchBackend

from .morpheus_host import blocks, knotted_model, plugin_binary
from .test_morpheus_plugin import comparisons, set_everywhere

FLIPS, EXACT = 5_000, 200
SHAPES = {"square": (60, 63), "hexagonal": (52, 50), "cubic": (20, 22, 24)}


def compared(artifact: Artifact, state: CellState, log: Path, first_id: int) -> tuple[int, float, float, float]:
    """Logged copies; how far the network's ΔH is off the engine's at most; off float64, of EXACT of them; by how much
    the probability of accepting one of these differs on the mean."""
    backend, truth = open_backend(artifact, state), TorchBackend.exact(artifact, state)
    lines = [line.split() for line in log.read_text().splitlines()]
    asked = [number for number, line in enumerate(lines) if line[0] == "d"]
    chosen = set(np.array(asked)[np.linspace(0, len(asked) - 1, EXACT).round().astype(int)].tolist())
    of_engine, of_truth, accepted, pending = [], [], [], []
    for number, (kind, *rest) in enumerate(lines):
        place, (cell, *delta) = rest[: state.lattice.dimension], rest[state.lattice.dimension :]
        site, new_id = state.lattice.site(*(int(word) for word in place[::-1])), max(int(cell) - first_id, 0)
        if kind == "c":
            backend.commit(site, new_id)
            pending.append((site, new_id))
            continue
        host = float(delta[0])
        of_engine.append(abs(backend.deltas([site], [new_id])[0, 1] - host))
        if number in chosen:
            if pending:
                truth.change_pixels(*zip(*dict(pending).items(), strict=True))
                pending = []
            symbolic, neural = truth.deltas([site], [new_id])[0]
            of_truth.append(abs(neural - host))
            accepted.append(abs(chance(symbolic + host) - chance(symbolic + neural)))
    return len(asked), max(of_engine), max(of_truth), float(np.mean(accepted))


def chance(delta: float) -> float:
    return float(np.exp(-max(delta, 0.0)))


@pytest.mark.parametrize("knots", [0, 12])
@pytest.mark.parametrize(
    ("geometry", "boundary", "side"),
    [
        ("square", "periodic", 7),
        ("square", "free", 7),
        ("hexagonal", ("periodic", "free"), 7),
        ("hexagonal", "periodic", 7),
        ("cubic", "periodic", 5),
        ("cubic", ("free", "periodic", "free"), 5),
    ],
)
def test_cell_graphs_of_order_4(
    geometry: str, boundary: str | tuple[str, ...], side: int, knots: int, tmp_path: Path
) -> None:
    binary = plugin_binary()
    lattice = Lattice.of(SHAPES[geometry], geometry)
    artifact = knotted_model(
        tmp_path / "model.onnx", geometry, boundary, float(side**lattice.dimension), order=4, knots=knots
    )
    state = artifact.place(blocks(lattice, side, shift=3 if boundary == "periodic" else 0))
    model = new_model(artifact, state, RunPlan(steps=20, snapshots=1))
    set_everywhere(model, log="deltas.txt", check="2")
    model.write(tmp_path / "model.xml")
    result = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    log = tmp_path / "run" / "deltas.txt"
    flips, of_engine, of_truth, mismatch = compared(artifact, state, log, model.first_id)
    count, drift = comparisons(result.log)
    print(
        f"{geometry} {boundary}, {knots} knots: {flips} copies, largest difference from the engine {of_engine:.1e}, "
        f"from float64 {of_truth:.1e}, mismatch {mismatch:.1e}, drift {drift:.1e}"
    )
    assert flips >= FLIPS
    assert of_engine <= 1e-5
    assert of_truth <= 1e-3
    assert mismatch <= 1e-4
    assert (count >= 5, drift) == (True, 0.0)
