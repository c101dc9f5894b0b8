"""A learned term injected into CompuCell3D's own demos, and into projects in their various forms."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cc3d_steppables.inject import inject
from cc3d_steppables.project import Project
from cc3d_steppables.run import host_python
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError

from ..cc3d.models import tissue_model
from .cc3d_tools import demos, edit_script, life_project, needs_cc3d, run

pytestmark = needs_cc3d
LONG, SHORT = 501, 51
ROOT = Path(__file__).parents[2]

SORTING = "Models/cellsort/cellsort_2D/cellsort_2D.cc3d"
DEMOS = [
    ("CompuCellPythonTutorial/steppableBasedMitosisPeriodicBC/steppableBasedMitosisPeriodicBC.cc3d", LONG),
    ("CompuCellPythonTutorial/steppableBasedMitosis/steppableBasedMitosis.cc3d", LONG),
    ("CompuCellPythonTutorial/ExtraAttribites/extra_attributes.cc3d", LONG),  # every cell changes its type
    ("Models/bacterium_macrophage_periodic/bacterium_macrophage_periodic.cc3d", LONG),
    ("Models/amoebae/amoebae_2D/amoebae_2D.cc3d", LONG),
    ("SimulationSettings/FluctuationAmplitude/cellsort_2D_FluctuationAmplitude.cc3d", SHORT),
    ("SimulationSettings/FluctuationAmplitudePython/FluctuationAmplitude.cc3d", SHORT),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return tissue_model(tmp_path_factory.mktemp("model") / "model.onnx", network_weight=0.3)


def alternating(project: Path) -> dict[str, str]:
    """Every type of a project as A or B."""
    facts = Project.open(project).facts()
    assert facts is not None
    return {name: "AB"[number % 2] for number, name in facts.type_names.items() if number}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), DEMOS, ids=lambda value: Path(str(value)).stem)
def test_demo(name: str, steps: int, model: Artifact, tmp_path: Path) -> None:
    project = demos() / name
    injected, _ = inject(project, model, tmp_path / "injected", types=alternating(project))
    ran = run(injected, tmp_path / "ran", steps=steps, snapshots=5)
    assert not ran.error, ran.error
    assert ran.snapshots.arrays["mcs"][-1] == steps - 1
    assert ran.last_check.startswith("ok")
    assert "FAILED" not in ran.log


@pytest.mark.slow
def test_xml_only(model: Artifact, tmp_path: Path) -> None:
    """CC3D's cell sorting without its Python: a project of CC3DML alone, which CC3D itself cannot run."""
    shutil.copytree((demos() / SORTING).parent, tmp_path / "xml_only")
    project = tmp_path / "xml_only" / "cellsort_2D.cc3d"
    project.write_text(re.sub(r"<(PythonScript|Resource).*\n", "", project.read_text()))
    for script in (tmp_path / "xml_only" / "Simulation").glob("*.py"):
        script.unlink()
    injected, _ = inject(project, model, tmp_path / "injected", types={"Condensing": "A", "NonCondensing": "B"})
    ran = run(injected, tmp_path / "ran", steps=LONG)
    assert not ran.error, ran.error
    assert ran.last_check.startswith("ok")


def test_described_in_python(model: Artifact, tmp_path: Path) -> None:
    """A project of PyCoreSpecs, without CC3DML."""
    project = demos() / "PyCoreSpecs" / "SortingDemo" / "SortingDemo.cc3d"
    with pytest.raises(UserError, match="Condensing, NonCondensing"):
        inject(project, model, tmp_path / "unmapped")
    types = {"Condensing": "A", "NonCondensing": "B"}
    injected, _ = inject(project, model, tmp_path / "injected", types=types)
    ran = run(injected, tmp_path / "ran", steps=10)
    assert not ran.error, ran.error
    assert ran.last_check.startswith("ok")


def test_restart(model: Artifact, tmp_path: Path) -> None:
    step = "if mcs == 5:\n    for cell in list(self.cell_list)[:3]:\n        self.divide_cell_random_orientation(cell)"
    injected, _ = inject(life_project(tmp_path / "life", step, steps=25), model, tmp_path / "injected")
    edit_script(injected, "frequency=1,\n", "frequency=1,\n        check_every=1,\n        log_every=1,\n")
    first = run_script(injected, tmp_path / "first", "-fr", "10")
    again = run_script(tmp_path / "first" / "restart_20" / "life.cc3d", tmp_path / "again")
    assert "NeuralHamiltonian: MCS 10," in first
    assert "NeuralHamiltonian: MCS 10," not in again
    assert "NeuralHamiltonian: MCS 23," in again
    assert "check ok" in again
    assert "FAILED" not in first + again


def test_plain_python(model: Artifact, tmp_path: Path) -> None:
    said = host(tmp_path, str(ROOT / "examples" / "cc3d_plain_python.py"), str(model.path), "10")
    assert "NeuralHamiltonian: MCS 9," in said
    assert "check ok" in said


def test_a_second_run_in_one_process(model: Artifact, tmp_path: Path) -> None:
    """Player forgets the modules of a simulation before the next; the steppable must come back whole."""
    script = tmp_path / "twice.py"
    script.write_text(
        "from cc3d.core.RollbackImporter import RollbackImporter\n"
        "for number in range(2):\n"
        "    importer = RollbackImporter()\n"
        "    from cc3d_steppables import NeuralHamiltonianSteppable\n"
        "    from neuralcpm_bridge import load_artifact\n"
        f"    NeuralHamiltonianSteppable(frequency=1, model={str(model.path)!r})\n"
        f"    print('loaded', load_artifact({str(model.path)!r}).metadata.name)\n"
        "    importer.uninstall()\n"
    )
    assert host(tmp_path, str(script)).count("loaded model") == 2


def run_script(project: Path, output: Path, *options: str) -> str:
    return host(project.parent.parent, "-m", "cc3d.run_script", "-i", str(project), "-o", str(output), *options)


def host(folder: Path, *arguments: str) -> str:
    """The host's Python on its own; its exit code must be 0."""
    ended = subprocess.run(
        [host_python(), "-W", "ignore", *arguments],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-3000:]
    return ended.stdout + ended.stderr
