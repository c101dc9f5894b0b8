"""Every ΔH inside the real CompuCell3D against the engine and float64 torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cc3d_steppables.new import write_project
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

from ..cc3d.models import tissue_model
from .cc3d_tools import life_project, needs_cc3d, run, verified
from .test_cc3d_terms import tissue

pytestmark = needs_cc3d


def crooked_state() -> CellState:
    """Six cells on a lattice that no transposition, mirror or shift maps onto itself; ids far apart."""
    ids = np.zeros((27, 36), dtype=np.int32)
    places = [(3, 4, 8, 5), (3, 9, 5, 9), (11, 3, 5, 8), (9, 12, 7, 6), (17, 7, 6, 7), (20, 30, 6, 6)]
    names = [2, 5, 9, 17, 40, 41]
    types = np.full(42, -1, dtype=np.int32)
    types[0] = 0
    for number, (row, col, height, width) in zip(names, places, strict=True):
        ids[row : row + height, col : col + width] = number
        types[number] = 1 + number % 2
    return CellState(ids, types)


@pytest.mark.parametrize("boundary", ["periodic", "free"])
def test_generated_project(tmp_path: Path, cli, monkeypatch: pytest.MonkeyPatch, boundary: str) -> None:  # type: ignore[no-untyped-def]
    model = tissue_model(tmp_path / "model.onnx", boundary=boundary, target_volume=42)
    state = crooked_state()
    np.savez(tmp_path / "state.npz", ids=state.ids, types=state.types)
    code, out, err = cli(
        "cc3d", "new", model.path, "--state", tmp_path / "state.npz", "-o", tmp_path / "made", "--scale", 2.5
    )
    assert code == 0, err
    ran = run(tmp_path / "made" / "made.cc3d", tmp_path / "ran", steps=1)
    first = ran.snapshots[0]
    order = np.searchsorted([2, 5, 9, 17, 40, 41], state.ids[state.ids > 0]) + 1
    assert np.array_equal(first.ids[state.ids > 0], order)
    assert np.array_equal(first.type_map, state.type_map)
    code, out, err = cli("cc3d", "verify", tmp_path / "made" / "made.cc3d", "--exact", 300, "--json")
    report = json.loads(out)
    print(report)
    assert code == 0
    assert report["ok"] is True
    assert report["flips"] >= 10_000
    assert report["max_abs_error_symbolic"] <= 1e-5
    assert report["max_abs_error_neural"] <= 1e-3
    assert report["decision_mismatch"] <= 1e-4


@pytest.mark.parametrize("knots", [0, 12])
@pytest.mark.parametrize(
    "lattice",
    [
        Lattice.of((34, 39), "square", "free"),
        Lattice.of((34, 39), "square", ("free", "periodic")),
        Lattice.of((32, 44), "hexagonal", "free"),
        Lattice.of((52, 26), "hexagonal", "periodic"),
        Lattice.of((15, 17, 24), "cubic", "free"),
        Lattice.of((15, 17, 24), "cubic", ("periodic", "free", "periodic")),
    ],
    ids=lambda lattice: f"{lattice.geometry.name} {'-'.join(lattice.boundary)}",
)
def test_cell_graphs_of_order_4(lattice: Lattice, knots: int, tmp_path: Path) -> None:
    """With energies of all pairs of cells by their distance, and without."""
    model = tissue_model(
        tmp_path / "model.onnx",
        "graph2-closure",
        geometry=lattice.geometry.name,
        boundary=lattice.boundary,
        target_volume=60.0 if lattice.dimension == 3 else 36.0,
        members=2,
        order=4,
        knots=knots,
    )
    project = write_project(model, tissue(lattice), tmp_path / "made")
    report = verified(project, flips=5_000, exact=200)
    print(report)
    assert report["ok"], report
    assert report["flips"] >= 5_000
    assert report["max_abs_error_symbolic"] <= 1e-5


def test_a_model_as_the_whole_energy(tmp_path: Path) -> None:
    model = tissue_model(tmp_path / "model.onnx", "mnist-nh")
    project = write_project(model, crooked_state(), tmp_path / "whole")
    report = verified(project, steps=6, exact=20)
    assert report["ok"], report
    assert report["max_abs_error_symbolic"] is None


def test_replaced_energies_are_the_models(tmp_path: Path) -> None:
    from cc3d_steppables.inject import inject

    model = tissue_model(tmp_path / "model.onnx", types=("medium", "A", "B", "Wall"), boundary="free")
    project = life_project(tmp_path / "own")
    injected, _ = inject(project, model, tmp_path / "injected", symbolic="replace")
    report = verified(injected, steps=6, exact=20)
    assert report["ok"], report
    assert report["max_abs_error_symbolic"] is not None
    assert report["max_abs_error_symbolic"] <= 1e-5
