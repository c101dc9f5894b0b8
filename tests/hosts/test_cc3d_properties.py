"""Properties of cells in the real CompuCell3D: of generated and injected projects, changed by its own code, missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cc3d_steppables.inject import inject
from cc3d_steppables.new import write_project
from neuralcpm_bridge.artifact import Artifact

from ..cc3d.models import tissue_model
from .cc3d_tools import edit_script, life_project, needs_cc3d, run, verified
from .test_cc3d_verify import crooked_state

pytestmark = needs_cc3d


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    path = tmp_path_factory.mktemp("aged") / "model.onnx"
    return tissue_model(path, "graph1-closure", boundary="free", target_volume=40.0, properties=("age",))


def test_a_generated_project_has_the_properties_of_its_cells(aged: Artifact, tmp_path: Path) -> None:
    state = crooked_state()
    age = np.linspace(-2, 3, state.types.size)
    state = replace(state, properties={"age": age}, lattice=state.lattice.with_boundary(("free", "free")))
    project = write_project(aged, state, tmp_path / "made")
    ran = run(project, tmp_path / "ran", steps=3, snapshots=2)
    assert not ran.error
    first = ran.snapshots[0]
    np.testing.assert_allclose(np.sort(first.properties["age"][first.types > 0]), np.sort(age[state.cells]))
    report = verified(project, flips=3000, exact=300)
    print(report)
    assert report["ok"], report
    assert report["max_abs_error_neural"] <= 1e-4


AGEING = """
for cell in self.cell_list:
    cell.dict["age"] = cell.dict.get("age", cell.id % 3 - 1.0) + 0.25
if mcs in (3, 8):
    for cell in list(self.cell_list)[:4]:
        self.divide_cell_random_orientation(cell)
if mcs == 6:
    self.delete_cell(list(self.cell_list)[-1])
"""


def ageing(folder: Path, step: str = AGEING) -> Path:
    """Cells that age with every step, before ours looks at them, divide and die."""
    project = life_project(folder, step)
    file = project.parent / "Simulation" / f"{folder.name}Steppables.py"
    born = "        for cell in self.cell_list:\n            cell.dict['age'] = 0.5\n"
    text = file.read_text().replace("    def start(self):\n", f"    def start(self):\n{born}")
    file.write_text(text)
    return project


def test_properties_follow_what_the_project_does(aged: Artifact, tmp_path: Path) -> None:
    injected, said = inject(ageing(tmp_path / "ageing"), aged, tmp_path / "injected", types={"Wall": "medium"})
    assert "cell.dict['age']" in said
    report = verified(injected, steps=12, exact=200)
    print(report)
    assert report["ok"], report
    assert report["max_abs_error_neural"] <= 1e-4
    edit_script(injected, "frequency=1,\n", "frequency=1,\n        check_every=1,\n        log_every=5,\n")
    ran = run(injected, tmp_path / "ran", steps=20, snapshots=4)
    assert not ran.error, ran.error
    assert ran.last_check.startswith("ok")
    ages = [state.properties["age"][state.types > 0] for state in ran.snapshots]
    assert ages[0].tolist() == pytest.approx([0.5] * ages[0].size)
    assert ages[-1].mean() > 4


def test_a_cell_without_a_property_stops_the_run_with_one_sentence(aged: Artifact, tmp_path: Path) -> None:
    project = ageing(tmp_path / "lacking", "if mcs == 4:\n    del list(self.cell_list)[2].dict['age']")
    injected, _ = inject(project, aged, tmp_path / "injected", types={"Wall": "medium"})
    ran = run(injected, tmp_path / "ran", steps=20)
    assert "property 'age' of every cell, but that of cell 3 (B) is not set: set cell.dict['age']" in ran.error
    assert "stopped at MCS 5" in ran.error
