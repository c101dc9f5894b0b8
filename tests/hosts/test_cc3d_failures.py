"""What goes wrong in a run ends it with a sentence and a saved lattice, never with a segmentation fault."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from cc3d_steppables.inject import inject
from cc3d_steppables.run import run_project
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import load_snapshots

from ..cc3d.models import tissue_model
from .cc3d_models import undefined_model
from .cc3d_tools import Ran, edit_script, life_project, needs_cc3d, run

pytestmark = needs_cc3d


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return tissue_model(tmp_path_factory.mktemp("model") / "model.onnx")


def rescued(ran: Ran) -> tuple[Path, Path]:
    """The data set and the PIF that the message names; both must be readable and hold cells."""
    assert "NeuralHamiltonian stopped" in ran.error
    (data,) = (ran.folder / "cc3d").glob("neuralcpm_rescued_mcs*.npz")
    (pif,) = (ran.folder / "cc3d").glob("neuralcpm_rescued_mcs*.piff")
    assert str(data) in ran.error
    assert str(pif) in ran.error
    assert load_snapshots(data)[0].cells.size > 10
    assert len(pif.read_text().splitlines()) > 10
    return data, pif


def test_a_type_that_was_never_mapped(model: Artifact, tmp_path: Path) -> None:
    step = "if mcs == 100:\n    next(iter(self.cell_list)).type = self.cell_type.Wall"
    injected, _ = inject(life_project(tmp_path / "types", step, steps=150), model, tmp_path / "injected")
    ran = run(injected, tmp_path / "ran")
    assert "at MCS 101" in ran.error
    assert "'Wall'" in ran.error
    assert "types={'Wall': 'A'}" in ran.error
    data, _ = rescued(ran)
    assert 3 in load_snapshots(data)[0].types


BROKEN = """
from cc3d import CompuCellSetup
(ours,) = CompuCellSetup.persistent_globals.steppable_registry.getSteppablesByClassName("NeuralHamiltonianSteppable")
def broken(site, host_id):
    {what}
if mcs == 20:
    delta, *others = ours._learned.mirror.calls()
    ours._learned.mirror.calls = lambda: (broken, *others)
"""
INTERPRETED = """
import sys
sys.modules["cc3d_steppables.steppable"].native_callbacks = lambda *_: None
"""


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("raise ZeroDivisionError('on purpose')", "unexpected ZeroDivisionError: on purpose"),
        ("return float('nan')", "ΔH is not a number"),
        ("raise SystemError", "unexpected SystemError"),
    ],
)
def test_what_goes_wrong_in_the_callback(model: Artifact, tmp_path: Path, what: str, sentence: str) -> None:
    project = life_project(tmp_path / "broken", BROKEN.format(what=what))
    injected, _ = inject(project, model, tmp_path / "injected")
    line = "from cc3d_steppables import NeuralHamiltonianSteppable\n"
    edit_script(injected, line, line + INTERPRETED)
    ran = run(injected, tmp_path / "ran", snapshots=99)
    assert "at MCS 22" in ran.error
    assert sentence in ran.error
    data, _ = rescued(ran)
    # the error was in step 21, in which nothing was accepted: the lattice is what step 20 left
    before = ran.snapshots.ids[ran.snapshots.arrays["mcs"].tolist().index(20)]
    assert np.array_equal(load_snapshots(data)[0].ids, before)


def test_what_goes_wrong_in_compiled_code(model: Artifact, tmp_path: Path) -> None:
    """Kept, every further copy refused, and said before the next step."""
    step = BROKEN.partition("def broken")[0] + 'if mcs == 20:\n    ours._learned.callbacks.calls.keep("On purpose.")'
    injected, _ = inject(life_project(tmp_path / "broken", step), model, tmp_path / "injected")
    ran = run(injected, tmp_path / "ran", snapshots=99)
    assert "stopped at MCS 21: On purpose." in ran.error
    rescued(ran)


def test_a_model_registered_twice(model: Artifact, tmp_path: Path) -> None:
    injected, _ = inject(life_project(tmp_path / "twice"), model, tmp_path / "injected")
    again = 'CompuCellSetup.register_steppable(NeuralHamiltonianSteppable(1, model="Simulation/model.onnx"))\n'
    edit_script(injected, "# <<< neuralcpm\n", again + "# <<< neuralcpm\n")
    ran = run(injected, tmp_path / "ran")
    assert "registered twice" in ran.error


def test_a_model_with_undefined_weights(model: Artifact, tmp_path: Path) -> None:
    injected, _ = inject(life_project(tmp_path / "nan"), model, tmp_path / "injected")
    undefined_model(injected.parent / "Simulation" / "model.onnx")
    ran = run(injected, tmp_path / "ran")
    assert "undefined numbers" in ran.error
    rescued(ran)


def test_a_deleted_model_file(model: Artifact, tmp_path: Path) -> None:
    injected, _ = inject(life_project(tmp_path / "deleted"), model, tmp_path / "injected")
    (injected.parent / "Simulation" / "model.onnx").unlink()
    ran = run(injected, tmp_path / "ran")
    assert "There is no model file Simulation/model.onnx" in ran.error
    rescued(ran)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('<Dimensions x="45" y="39" z="1"/>', '<Dimensions x="45" y="39" z="3"/>'), "lattice is cubic"),
        (("<NeighborOrder>2", "<LatticeType>Hexagonal</LatticeType><NeighborOrder>2"), "lattice is hexagonal"),
        (
            ("   <Potts>", "   <Metadata><NumberOfProcessors>2</NumberOfProcessors></Metadata>\n   <Potts>"),
            "work nodes",
        ),
    ],
)
def test_projects_that_do_not_fit(model: Artifact, tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    injected, _ = inject(life_project(tmp_path / "unfit"), model, tmp_path / "injected")
    xml = injected.parent / "Simulation" / "unfit.xml"
    xml.write_text(xml.read_text().replace(*change, 1))
    ran = run(injected, tmp_path / "ran")
    assert sentence in ran.error


def test_double_counting(model: Artifact, tmp_path: Path) -> None:
    injected, _ = inject(life_project(tmp_path / "double"), model, tmp_path / "injected")
    edit_script(injected, "frequency=1,\n", 'frequency=1,\n        term="full",\n')
    ran = run(injected, tmp_path / "ran")
    assert "term='full'" in ran.error
    assert "Volume" in ran.error or "Contact" in ran.error


def test_a_script_that_does_not_compile(model: Artifact, tmp_path: Path) -> None:
    """CC3D itself ends with exit code 0 here."""
    injected, _ = inject(life_project(tmp_path / "syntax"), model, tmp_path / "injected")
    edit_script(injected, "CompuCellSetup.run()", "CompuCellSetup.run(")
    ran = run(injected, tmp_path / "ran")
    assert ran.error


def test_a_host_that_waits_for_ever(model: Artifact, tmp_path: Path) -> None:
    """It is given up with a sentence, and what the project had started ends with it."""
    step = """
if mcs == 3:
    import multiprocessing, time
    other = multiprocessing.Process(target=time.sleep, args=(600,))
    other.start()
    print("STARTED", other.pid, flush=True)
    time.sleep(600)
"""
    injected, _ = inject(life_project(tmp_path / "life", step), model, tmp_path / "injected")
    ran = run(injected, tmp_path / "ran", steps=11, patience=10.0)
    assert "made no step for" in ran.error
    assert "at MCS 3" in ran.error
    (started,) = [int(line.split()[1]) for line in ran.log.splitlines() if line.startswith("STARTED")]
    for _ in range(50):
        if not Path("/proc", str(started)).exists():
            break
        time.sleep(0.1)
    assert not Path("/proc", str(started)).exists()


@pytest.mark.parametrize(("signal", "number"), [("SIGTERM", 15), ("SIGKILL", 9)])
def test_a_host_that_is_ended(model: Artifact, tmp_path: Path, signal: str, number: int) -> None:
    """What it has saved is on disk, all of it if it was asked to end, and one sentence says so."""
    step = f"if mcs == 7:\n    import os, signal\n    os.kill(os.getpid(), signal.{signal})"
    injected, _ = inject(life_project(tmp_path / "life", step), model, tmp_path / "injected")
    with pytest.raises(UserError, match=rf"was ended by signal {number}: see .*log. \d states are in .*snapshots.npz"):
        run_project(injected, tmp_path / "ran", steps=11, snapshots=10, say=lambda line: None)
    found = load_snapshots(tmp_path / "ran" / "snapshots.npz").arrays["mcs"].tolist()
    assert found == list(range(7))[: len(found)]
    assert signal == "SIGKILL" or len(found) == 7
