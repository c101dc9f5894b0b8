"""With weight 0 an injected project is the untouched one, pixel by pixel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cc3d_steppables.inject import inject
from neuralcpm_bridge.artifact import Artifact

from ..cc3d.models import tissue_model
from .cc3d_tools import demos, life_project, needs_cc3d, run

pytestmark = needs_cc3d
MCS = 201


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return tissue_model(tmp_path_factory.mktemp("model") / "model.onnx")


def same_lattices(project: Path, model: Artifact, tmp_path: Path, types: dict[str, str] | None) -> None:
    injected, _ = inject(project, model, tmp_path / "injected", types=types, weight=0.0)
    untouched, with_term = (
        run(file, tmp_path / name, steps=MCS, snapshots=4, seed=5)
        for name, file in (("untouched", project), ("with_term", injected))
    )
    assert not untouched.error
    assert not with_term.error
    assert with_term.last_check.startswith("ok")
    before, after = untouched.snapshots, with_term.snapshots
    assert before.arrays["mcs"].tolist() == after.arrays["mcs"].tolist()
    assert before.arrays["mcs"][-1] == 200
    assert np.array_equal(before.ids, after.ids)
    assert np.array_equal(before.types, after.types)
    assert not np.array_equal(before.ids[0], before.ids[-1])


def test_a_project_in_which_cells_divide_and_change(model: Artifact, tmp_path: Path) -> None:
    step = """
if mcs == 30:
    for cell in list(self.cell_list)[:4]:
        self.divide_cell_random_orientation(cell)
if mcs == 60:
    for cell in list(self.cell_list)[:5]:
        cell.type = self.cell_type.B
"""
    same_lattices(life_project(tmp_path / "null", step), model, tmp_path, None)


def test_a_demo_of_cc3d(model: Artifact, tmp_path: Path) -> None:
    demo = demos() / "Models" / "cellsort" / "cellsort_2D" / "cellsort_2D.cc3d"
    same_lattices(demo, model, tmp_path, {"Condensing": "A", "NonCondensing": "B"})
