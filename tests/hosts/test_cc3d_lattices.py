"""Hexagonal and 3D projects in the real CompuCell3D: generated, verified, injected into, followed through a life."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cc3d_steppables.inject import inject
from cc3d_steppables.new import write_project
from cc3d_steppables.project import Project
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.lattice import Lattice

from ..cc3d.models import analytic_model, tissue_model
from .cc3d_tools import demos, edit_script, life_project, needs_cc3d, run, verified
from .test_cc3d_terms import tissue

pytestmark = needs_cc3d
TERMS = ["contact", "volume", "surface"]
LATTICES = {
    "hexagonal": Lattice.of((26, 36), "hexagonal", "free"),
    "hexagonal ring": Lattice.of((48, 24), "hexagonal", "periodic"),
    "cubic": Lattice.of((18, 20, 24), "cubic", ("free", "periodic", "free")),
}


@pytest.mark.parametrize("name", LATTICES)
def test_generated_project(name: str, tmp_path: Path) -> None:
    """Terms in CC3D's own plugins at order 4; what CC3D lays out is the state, what it computes is ours and torch's."""
    lattice = LATTICES[name]
    model = analytic_model(tmp_path / "model.onnx", lattice.geometry.name, lattice.boundary, 4, TERMS, volume=40.0)
    state = tissue(lattice)
    project = write_project(model, state, tmp_path / "made", energy_scale=2.0)
    ran = run(project, tmp_path / "ran", steps=3, snapshots=1)
    assert not ran.error, ran.error
    first = ran.snapshots[0]
    assert first.lattice.geometry == lattice.geometry
    assert first.lattice.boundary == lattice.boundary
    order = lattice.geometry.moore_order
    assert first.contacts(order=order).tolist() == state.contacts(order=order).tolist()
    assert sorted(first.volumes[1:]) == sorted(state.volumes[state.cells])
    if lattice.geometry.name == "cubic":
        assert np.array_equal(first.type_map, state.type_map)
    report = verified(project, flips=5_000, exact=100)
    print(name, report)
    assert report["ok"], report
    assert report["flips"] >= 5_000
    assert report["max_abs_error_symbolic"] <= 1e-5


@pytest.mark.parametrize("name", LATTICES)
def test_the_whole_energy_through_the_learned_term(name: str, tmp_path: Path) -> None:
    """Lengths across a ring are not CC3D's to compute; the learned term carries all then."""
    lattice = LATTICES[name].with_boundary("periodic" if name != "hexagonal" else "free")
    terms = ["contact", "volume", "length"] if name != "hexagonal" else ["contact", "volume"]
    options = {"volume": 40.0, "length": 6.0}  # a length is defined for cells that span less than half of a ring
    model = analytic_model(tmp_path / "model.onnx", lattice.geometry.name, lattice.boundary, 3, terms, **options)
    project = write_project(model, tissue(lattice), tmp_path / "made")
    if name == "hexagonal":  # all terms are carried: take the plugins out and give the whole energy to the model
        xml = project.parent / "Simulation" / "made.xml"
        text = xml.read_text()
        for plugin in ("Contact", "Volume"):
            start = text.index(f'<Plugin Name="{plugin}">')
            end = text.index("</Plugin>", start) + len("</Plugin>")
            text = text[:start] + text[end:]
        xml.write_text(text)
        edit_script(project, 'term="neural"', 'term="full"')
    report = verified(project, steps=6, exact=60)
    print(name, report)
    assert report["ok"], report
    assert report["flips"] > 500
    assert report["max_abs_error_symbolic"] is None


def test_a_life_in_3d(tmp_path: Path) -> None:
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
    new = self.new_cell(self.cell_type.A)
    self.cell_field[1:5, 1:4, 2:5] = new
    new.targetVolume, new.lambdaVolume = 36, 2
if mcs == 15:
    self.resize_and_shift_lattice(new_size=(50, 44, 9), shift_vec=(2, 3, 1))
"""
    model = analytic_model(tmp_path / "model.onnx", "cubic", "free", 3)
    project = life_project(tmp_path / "life", step, depth=7)
    injected, _ = inject(project, model, tmp_path / "injected", extinction=True)
    edit_script(injected, "frequency=1,\n", "frequency=1,\n        check_every=1,\n        log_every=5,\n")
    ran = run(injected, tmp_path / "ran", steps=20, snapshots=3)
    assert not ran.error, ran.error
    assert "FAILED" not in ran.log
    assert ran.last_check.startswith("ok")
    assert ran.snapshots[-1].lattice == Lattice.of((9, 44, 50), "cubic", "free")


@pytest.mark.parametrize(
    ("geometry", "boundary", "shape"),
    [
        ("hexagonal", "free", (48, 72)),
        ("hexagonal", "periodic", (48, 24)),
        ("cubic", ("free", "periodic", "free"), (20, 20, 20)),
    ],
)
def test_weight_0_changes_nothing(geometry: str, boundary: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    """One project with a cell graph, with its weight at 0, and without it: the last two are equal pixel by pixel."""
    model = tissue_model(tmp_path / "model.onnx", "graph1-closure", geometry=geometry, boundary=boundary)
    state = initial_state(model, "blob", seed=1, cells=10, lattice=shape)
    project = write_project(model, state, tmp_path / "made", seed=5)
    script = project.parent / "Simulation" / "made.py"
    text = script.read_text().replace("extinction=True", "extinction=False")
    ids = []
    for number, content in enumerate(
        (
            text,
            text.replace("frequency=1,", "frequency=1, weight=0.0,"),
            "from cc3d import CompuCellSetup\n\nCompuCellSetup.run()\n",
        )
    ):
        script.write_text(content)
        ran = run(project, tmp_path / f"ran{number}", steps=41, snapshots=2)
        assert not ran.error, ran.error
        assert ("NeuralHamiltonian: MCS" in ran.log) == (number < 2)
        ids.append(ran.snapshots.ids)
    assert len(ids[0]) == 3
    assert np.array_equal(ids[1], ids[2])
    assert not np.array_equal(ids[0], ids[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("demo", "geometry"),
    [
        ("SimulationSettings/HexLattice/HexLattice.cc3d", "hexagonal"),
        ("Models/cellsort/cellsort_3D/cellsort_3D.cc3d", "cubic"),
    ],
)
def test_demo(demo: str, geometry: str, tmp_path: Path) -> None:
    project = next((demos() / demo).parent.rglob("*.cc3d"))
    facts = Project.open(project).facts()
    assert facts is not None
    model = analytic_model(tmp_path / "model.onnx", geometry, facts.lattice.boundary, 1)
    types = {name: "AB"[number % 2] for number, name in enumerate(facts.names) if number}
    injected, _ = inject(project, model, tmp_path / "injected", types=types, extinction=True)
    ran = run(injected, tmp_path / "ran", steps=21, snapshots=2)
    assert not ran.error, ran.error
    assert ran.last_check.startswith("ok")


def test_cells_that_come_to_a_side_that_data_sets_do_not_have(tmp_path: Path) -> None:
    """Between free sides of hexagonal rows: what was saved as a data set before becomes PIFs, too."""
    lattice = LATTICES["hexagonal"]
    model = tissue_model(tmp_path / "model.onnx", "graph1-closure", geometry="hexagonal", boundary="free")
    project = write_project(model, tissue(lattice), tmp_path / "made", seed=5)
    ran = run(project, tmp_path / "ran", steps=41, snapshots=4)
    assert not ran.error, ran.error
    assert len(list((tmp_path / "ran" / "snapshots").glob("mcs*.piff"))) == 5
    assert not (tmp_path / "ran" / "snapshots.npz").exists()
    assert sum("saved as PIFs" in line for line in ran.said) == 1


def test_a_ring_that_no_data_set_holds(tmp_path: Path) -> None:
    """Hexagons that are periodic across 40 rows of 46 close to another ring on skewed axes: PIFs take its place."""
    project = life_project(tmp_path / "ring", width=46, height=40, boundary="Periodic")
    xml = project.parent / "Simulation" / "ring.xml"
    xml.write_text(xml.read_text().replace("<Steps>", "<LatticeType>Hexagonal</LatticeType><Steps>"))
    model = analytic_model(tmp_path / "model.onnx", "hexagonal", "periodic", 2)
    injected, _ = inject(project, model, tmp_path / "injected", extinction=True)
    ran = run(injected, tmp_path / "ran", steps=6, snapshots=2)
    assert not ran.error, ran.error
    assert ran.last_check.startswith("ok")
    assert any("saved as PIFs" in line for line in ran.said)
    pifs = sorted((tmp_path / "ran" / "snapshots").glob("*.piff"))
    assert [path.stem for path in pifs] == ["mcs00000000", "mcs00000002", "mcs00000005"]
    assert not (tmp_path / "ran" / "snapshots.npz").exists()
