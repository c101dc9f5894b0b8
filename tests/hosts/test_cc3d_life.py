"""A learned term in the real CompuCell3D while cells divide, die, change type and are written by others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cc3d_steppables.inject import inject
from neuralcpm_bridge.artifact import Artifact

from ..cc3d.models import tissue_model
from .cc3d_tools import Ran, edit_script, life_project, needs_cc3d, run, verified

pytestmark = needs_cc3d


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return tissue_model(tmp_path_factory.mktemp("model") / "model.onnx")


def watched(project: Path, model: Artifact, tmp_path: Path, steps: int, **options: object) -> Ran:
    """Inject, compare with the lattice after every step, run; every comparison must have been right."""
    injected, _ = inject(project, model, tmp_path / "injected", **options)  # type: ignore[arg-type]
    edit_script(injected, "frequency=1,\n", "frequency=1,\n        check_every=1,\n        log_every=5,\n")
    ran = run(injected, tmp_path / "ran", steps=steps, snapshots=3)
    assert not ran.error, ran.error
    assert "FAILED" not in ran.log
    assert ran.last_check.startswith("ok")
    return ran


@pytest.mark.parametrize("knots", [0, 12])
def test_division_death_and_type_change(model: Artifact, knots: int, tmp_path: Path) -> None:
    if knots:  # energies of all pairs of cells by their distance
        model = tissue_model(tmp_path / "knots.onnx", "graph1-closure", target_volume=25.0, knots=knots)
    step = """
if mcs in (3, 10):
    for cell in list(self.cell_list)[:4]:
        self.divide_cell_random_orientation(cell)
if mcs == 6:
    for cell in list(self.cell_list)[-3:]:
        self.delete_cell(cell)
if mcs == 8:
    for cell in list(self.cell_list)[:5]:
        cell.type = self.cell_type.B if cell.type == self.cell_type.A else self.cell_type.A
if mcs == 12:
    for cell in list(self.cell_list)[5:8]:
        cell.targetVolume = 0
if mcs == 40:
    new = self.new_cell(self.cell_type.A)
    self.cell_field[1:5, 1:4, 0] = new
    new.targetVolume, new.lambdaVolume = 12, 2
"""
    ran = watched(life_project(tmp_path / "life", step), model, tmp_path, 60)
    assert ran.snapshots.types.shape[1] > 31  # cells were born


def test_cells_laid_out_by_another_steppable_and_walls_as_medium(model: Artifact, tmp_path: Path) -> None:
    step = """
if mcs == 0:
    wall = self.new_cell(self.cell_type.Wall)
    self.cell_field[0:45, 0:2, 0] = wall
if mcs == 15:
    self.cell_list_by_type(self.cell_type.Wall)
    for cell in self.cell_list_by_type(self.cell_type.Wall):
        cell.type = self.cell_type.A
        cell.targetVolume, cell.lambdaVolume = 90, 2
"""
    project = life_project(tmp_path / "walls", step, frozen=True)
    ran = watched(project, model, tmp_path, 25, types={"Wall": "medium"})
    assert (np.unique(ran.snapshots[-1].type_map) <= 2).all()


def test_another_steppable_before_every_step(model: Artifact, tmp_path: Path) -> None:
    """Changes between our turn and CC3D's must be seen in the same step."""
    project = life_project(tmp_path / "before", "if mcs % 3 == 1:\n    self.swap()")
    file = project.parent / "Simulation" / "beforeSteppables.py"
    file.write_text(
        file.read_text().replace(
            "MitosisSteppableBase.__init__(self, frequency)",
            "MitosisSteppableBase.__init__(self, frequency)\n        self.runBeforeMCS = 1",
        )
        + "\n    def swap(self):\n        for cell in self.cell_list:\n            cell.type = 3 - cell.type\n"
    )
    injected, _ = inject(project, model, tmp_path / "injected")
    script = injected.parent / "Simulation" / "before.py"
    lines = script.read_text().splitlines(keepends=True)
    registration = next(line for line in lines if line.startswith("CompuCellSetup.register_steppable(steppable=Life"))
    lines.remove(registration)
    lines.insert(len(lines) - 1, registration)  # registered after ours, so it runs after ours
    script.write_text("".join(lines).replace("frequency=1,\n", "frequency=1,\n        check_every=1,\n"))
    ran = run(injected, tmp_path / "ran", steps=20)
    assert not ran.error
    assert "FAILED" not in ran.log


@pytest.mark.parametrize(
    "amplitude",
    [
        "<FluctuationAmplitude>8</FluctuationAmplitude>",
        '<FluctuationAmplitude><FluctuationAmplitudeParameters CellType="A" FluctuationAmplitude="12"/>'
        '<FluctuationAmplitudeParameters CellType="B" FluctuationAmplitude="5"/></FluctuationAmplitude>'
        "<FluctuationAmplitudeFunctionName>ArithmeticAverage</FluctuationAmplitudeFunctionName>",
    ],
)
def test_amplitudes_of_the_project(model: Artifact, tmp_path: Path, amplitude: str) -> None:
    step = "if mcs == 2:\n    for cell in list(self.cell_list)[:6]:\n        cell.fluctAmpl = 3.0 + cell.id % 3"
    project = life_project(tmp_path / "amplitudes", step, amplitude=amplitude)
    injected, _ = inject(project, model, tmp_path / "injected", types={"Wall": "medium"}, weight=0.5)
    report = verified(injected, steps=8, exact=20)
    assert report["ok"], report
    assert report["flips"] > 500
    assert report["max_abs_error_symbolic"] is None  # the project has its own energies


def test_the_slider_of_player(model: Artifact, tmp_path: Path) -> None:
    step = """
from cc3d import CompuCellSetup
known = CompuCellSetup.persistent_globals
(ours,) = known.steppable_registry.getSteppablesByClassName("NeuralHamiltonianSteppable")
if mcs == 3:
    known.steering_param_dict["NeuralHamiltonian weight"].val = 0.25
if mcs in (3, 4):
    print("WEIGHT", mcs, ours._learned.weight, flush=True)
"""
    ran = watched(life_project(tmp_path / "slider", step), model, tmp_path, 8)
    assert "WEIGHT 3 1.0" in ran.log
    assert "WEIGHT 4 0.25" in ran.log


def test_resized_lattice(model: Artifact, tmp_path: Path) -> None:
    step = "if mcs == 5:\n    self.resize_and_shift_lattice(new_size=(60, 54, 1), shift_vec=(7, 5, 0))"
    ran = watched(life_project(tmp_path / "resized", step), model, tmp_path, 15)
    assert ran.snapshots[-1].shape == (54, 60)


def test_named_energy_and_table(model: Artifact, tmp_path: Path) -> None:
    step = "if mcs == 1:\n    print('ENERGIES', list(self.potts.getEnergyFunctionNames()))"
    ran = watched(life_project(tmp_path / "named", step), model, tmp_path, 10)
    assert "'NeuralHamiltonian'" in next(line for line in ran.log.splitlines() if line.startswith("ENERGIES"))
    assert "type 3       Wall" in ran.log
    assert "not mapped" in ran.log
    assert "J(A, B)" in ran.log
    assert "set per cell" in ran.log
