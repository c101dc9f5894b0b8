"""Projects and runs as users have them: scans, siblings, descriptions in Python, blind rows, hanging hosts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cc3d_steppables.inject import inject
from cc3d_steppables.new import write_project
from cc3d_steppables.project import Project
from cc3d_steppables.run import INTERPRETER, prepared_copy
from cc3d_steppables.script_text import registrations
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.files import Growing, disk_speaking
from neuralcpm_bridge.hosting import watchdog
from neuralcpm_bridge.hosting.adapter import find_model
from neuralcpm_bridge.hosting.fit import blind_share, whole_blocks
from neuralcpm_bridge.hosting.mirror import spanning_cells
from neuralcpm_bridge.hosting.watchdog import Watchdog, arriving
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

from .models import tissue_model

XML = """<CompuCell3D>
   <Potts>
      <Dimensions x="{x}" y="{y}" z="1"/>
      <Temperature>{temperature}</Temperature>
      <Boundary_x>Periodic</Boundary_x>
      <Boundary_y>Periodic</Boundary_y>
   </Potts>
   <Plugin Name="CellType">
      <CellType TypeId="0" TypeName="Medium"/>
      <CellType TypeId="1" TypeName="A"/>
   </Plugin>
</CompuCell3D>
"""
SCRIPT = "from cc3d import CompuCellSetup\n\nCompuCellSetup.run()\n"
SPECS = """from cc3d import CompuCellSetup
from cc3d.core.PyCoreSpecs import CellTypePlugin, Metadata, PottsCore, VolumePlugin

names = ["A", "B"]
side = 60
CompuCellSetup.register_specs(Metadata(num_processors=4))
CompuCellSetup.register_specs(PottsCore(dim_x=side, dim_y=90, steps=choose(), boundary_x="Periodic"))
CompuCellSetup.register_specs(CellTypePlugin(*names))
CompuCellSetup.register_specs(VolumePlugin())
CompuCellSetup.run()
"""


def project(folder: Path, script: str = SCRIPT, x: object = 60, y: object = 60, temperature: object = 10) -> Path:
    (folder / "Simulation").mkdir(parents=True)
    (folder / "Simulation" / "P.xml").write_text(XML.format(x=x, y=y, temperature=temperature))
    (folder / "Simulation" / "P.py").write_text(script)
    file = folder / "P.cc3d"
    file.write_text(
        "<Simulation>\n<XMLScript>Simulation/P.xml</XMLScript>\n<PythonScript>Simulation/P.py</PythonScript>\n</Simulation>"
    )
    return file


# -- parameter scans -----------------------------------------------------------------------------------------------


def scan(folder: Path, entry: dict[str, object]) -> Path:
    file = project(folder, y="{{y_dim}}")
    (folder / "Simulation" / "S.json").write_text(json.dumps({"parameter_list": {"y_dim": entry}}))
    file.write_text(
        file.read_text().replace("</Simulation>", "<ParameterScan>Simulation/S.json</ParameterScan></Simulation>")
    )
    return file


@pytest.mark.parametrize(
    "entry",
    [
        {"values": [66, 110]},
        {"code": "np.arange(66,220,3, dtype=int)"},
        {"code": "list(range(66, 70))"},
        {"code": "[66]"},
    ],
)
def test_a_scan_is_read_at_its_first_value(entry: dict[str, object], tissue: Artifact, tmp_path: Path) -> None:
    file = scan(tmp_path / "scan", entry)
    facts = Project.open(file).facts()
    assert facts is not None
    assert facts.lattice.shape == (66, 60)
    injected, _ = inject(file, tissue, tmp_path / "injected")
    assert 'y="{{y_dim}}"' in (injected.parent / "Simulation" / "P.xml").read_text()  # still a scan
    copy = prepared_copy(injected, tmp_path / "copy", seed=None, values={"y_dim": "99"})
    assert 'y="99"' in copy.xml.read_text()  # type: ignore[union-attr]
    with pytest.raises(UserError, match=r"no \{\{wrong\}\}"):
        prepared_copy(injected, tmp_path / "other", seed=None, values={"wrong": "1"})


def test_a_scan_of_a_name_that_the_project_lacks(refused, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Said once, before anything runs."""
    monkeypatch.setenv(INTERPRETER, sys.executable)
    file = scan(tmp_path / "scan", {"values": [66, 110]})
    said = refused("cc3d", "run", file, "-o", tmp_path / "ran", "--scan", "wrong=1,2", "--replicates", 3)
    assert "The project has no {{wrong}}" in said
    assert not (tmp_path / "ran").exists()


def test_code_of_a_scan_is_never_run(tmp_path: Path) -> None:
    file = scan(tmp_path / "scan", {"code": f"open({str(tmp_path / 'ran')!r}, 'w')"})
    with pytest.raises(UserError, match=r"\{\{y_dim\}\} in place of a number"):
        Project.open(file).facts()
    assert not (tmp_path / "ran").exists()


# -- projects that describe themselves in Python -------------------------------------------------------------------


def test_literal_specs_are_read(tmp_path: Path) -> None:
    file = project(tmp_path / "specs", SPECS)
    file.write_text("<Simulation><PythonScript>Simulation/P.py</PythonScript></Simulation>")
    facts = Project.open(file).facts()
    assert facts is not None
    assert facts.lattice == Lattice.of((90, 60), "square", ("free", "periodic"))
    assert facts.names == ["Medium", "A", "B"]
    assert (facts.potts_nodes, facts.temperature) == (4, 10.0)
    graph = tissue_model(tmp_path / "graph.onnx", "graph1-closure")
    injected, said = inject(file, graph, tmp_path / "injected")
    assert "type 2" in said
    assert "one_potts_node()" in (injected.parent / "Simulation" / "P.py").read_text()
    local = tissue_model(tmp_path / "local.onnx", "local8-closure")
    (file.parent / "Simulation" / "P.py").write_text(SPECS.replace("90", "20"))
    with pytest.raises(UserError, match="blind to"):
        inject(file, local, tmp_path / "refused")


def test_what_only_a_run_can_tell(tmp_path: Path) -> None:
    file = project(tmp_path / "specs", SPECS.replace("side = 60", "side = measure()"))
    file.write_text("<Simulation><PythonScript>Simulation/P.py</PythonScript></Simulation>")
    assert Project.open(file).facts() is None


# -- counted twice -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "CompuCellSetup.register_steppable(steppable=NeuralHamiltonianSteppable(frequency=1, model='m.onnx'))",
        "import cc3d_steppables\nCompuCellSetup.register_steppable(cc3d_steppables.NeuralHamiltonianSteppable(1, 'm'))",
        "from cc3d_steppables import NeuralHamiltonianSteppable as Learned\nx = Learned(model='m.onnx')",
    ],
)
def test_any_registration_is_recognised(line: str, tissue: Artifact, tmp_path: Path) -> None:
    file = project(tmp_path / "own", SCRIPT.replace("CompuCellSetup.run()", f"{line}\nCompuCellSetup.run()"))
    with pytest.raises(UserError, match="counted twice"):
        inject(file, tissue, tmp_path / "injected")
    assert not (tmp_path / "injected").exists()


def test_a_generated_project_has_one_already(tissue: Artifact, tmp_path: Path) -> None:
    ids = np.zeros((60, 60), dtype=np.int32)
    ids[5:12, 5:12] = 1
    made = write_project(tissue, CellState(ids, np.array([0, 1], dtype=np.int32)), tmp_path / "made")
    with pytest.raises(UserError, match="counted twice"):
        inject(made, tissue, tmp_path / "injected")


def test_comments_and_imports_are_none() -> None:
    assert (
        registrations("# NeuralHamiltonianSteppable(1)\nfrom cc3d_steppables import NeuralHamiltonianSteppable\n") == []
    )


# -- blind rows ----------------------------------------------------------------------------------------------------


def test_blind_rows(tissue: Artifact, tmp_path: Path) -> None:
    assert blind_share(tissue, (99, 60)) == 0
    assert blind_share(tissue, (100, 100)) == pytest.approx(0.0199)
    assert whole_blocks(tissue, (50, 61), "crop") == (48, 60)
    assert whole_blocks(tissue, (50, 61), "pad") == (51, 63)
    _, said = inject(project(tmp_path / "some", x=100, y=100), tissue, tmp_path / "seen")
    assert "blind" in said
    file = project(tmp_path / "many", x=50, y=20)
    with pytest.raises(UserError, match="crop it to 48 × 18 or pad it to 51 × 21"):
        inject(file, tissue, tmp_path / "refused")
    for how, shape in (("crop", (18, 48)), ("pad", (21, 51))):
        injected, _ = inject(file, tissue, tmp_path / how, blocks=how)  # type: ignore[arg-type]
        facts = Project.open(injected).facts()
        assert facts is not None
        assert facts.lattice.shape == shape


def test_new_crops_and_pads(tissue: Artifact, tmp_path: Path) -> None:
    ids = np.zeros((20, 50), dtype=np.int32)
    ids[2:9, 2:9] = 1
    state = CellState(ids, np.array([0, 1], dtype=np.int32))
    with pytest.raises(UserError, match="blind"):
        write_project(tissue, state, tmp_path / "refused")
    facts = Project.open(write_project(tissue, state, tmp_path / "pad", blocks="pad")).facts()
    assert facts is not None
    assert facts.lattice.shape == (21, 51)
    ids[19, 3] = 1
    with pytest.raises(UserError, match="would cut cells"):
        write_project(tissue, CellState(ids, state.types), tmp_path / "crop", blocks="crop")


# -- everything else -----------------------------------------------------------------------------------------------


def test_no_temperature_is_warned_of(tissue: Artifact, tmp_path: Path) -> None:
    _, said = inject(project(tmp_path / "cold", temperature=0), tissue, tmp_path / "injected")
    assert "WARNING: the project sets no temperature" in said


def test_siblings_that_are_spoken_of_come_along(tmp_path: Path) -> None:
    script = SCRIPT + "path = join(dirname(dirname(__file__)), '..', 'Shared', 'data.txt')\n"
    file = project(tmp_path / "demos" / "Mine", script)
    for name in ("Shared", "Foreign"):
        (tmp_path / "demos" / name).mkdir()
        (tmp_path / "demos" / name / "data.txt").write_text("data")
    prepared_copy(file, tmp_path / "results" / "project", seed=None)
    assert (tmp_path / "results" / "Shared" / "data.txt").is_file()
    assert not (tmp_path / "results" / "Foreign").exists()


def test_bundled_models_by_name(tmp_path: Path) -> None:
    assert find_model("pretrained:elongated-cells", tmp_path) == "pretrained:elongated-cells"


def test_cells_around_a_ring() -> None:
    ids = np.zeros((20, 30), dtype=np.int64)
    ids[4, :16], ids[10, 25:], ids[10, :6] = 7, 9, 9
    assert spanning_cells(ids, Lattice.of((20, 30))) == {7}
    assert spanning_cells(ids, Lattice.of((20, 30), "square", "free")) == frozenset()


def test_saved_while_it_grows() -> None:
    saved: list[int] = []
    said: list[str] = []
    growing = Growing(lambda: saved.append(1), said.append)
    growing.grown()
    assert saved == [1]

    def full() -> None:
        raise UserError("no room")

    failing = Growing(full, said.append)
    failing.grown()
    failing._due = 0.0
    failing.grown()
    assert said == ["no room"]  # once


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="free space, or choose another place"), disk_speaking(tmp_path):
        raise OSError(28, "No space left on device")


def test_a_host_that_neither_moves_nor_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "LOOK_SECONDS", 0.02)
    command = [sys.executable, "-c", "import time\nprint('begun', flush=True)\ntime.sleep(600)"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")
    try:
        watching = Watchdog(process.pid, patience=0.3)
        with pytest.raises(UserError, match=r"no step for .* \(before the first step\) and was ended"):
            [watching.check(tmp_path / "log") for _ in arriving(process)]  # type: ignore[func-returns-value]
    finally:
        watchdog.end(process, hurried=True)
    assert process.returncode is not None
