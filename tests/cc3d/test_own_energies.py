"""Energies of CC3D projects read back: the numbers that were written, and the names of what cannot be read."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cc3d_steppables.energies import Energies
from cc3d_steppables.new import cc3dml, write_xml
from cc3d_steppables.own_energies import read_own_energies
from cc3d_steppables.script_text import PLAIN_SCRIPT
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import GEOMETRIES, Lattice

from ..analytic import TYPES, WEIGHT, metadata_of, weights_of

NAMES = ["Medium", *TYPES[1:]]
SIDES = {"square": (20, 24), "hexagonal": (20, 24), "cubic": (14, 16, 18)}
XML = """<CompuCell3D Version="4.8.0">
   <Potts>
      <Dimensions x="30" y="30" z="1"/>
      <Temperature>{temperature}</Temperature>
      <NeighborOrder>2</NeighborOrder>
   </Potts>
   <Plugin Name="CellType">
      <CellType TypeId="0" TypeName="Medium"/>
      <CellType TypeId="1" TypeName="A"/>
      <CellType TypeId="2" TypeName="B"/>
   </Plugin>
   {volume}
   {contact}
   {more}
</CompuCell3D>
"""
VOLUME = "<Plugin Name='Volume'><TargetVolume>25</TargetVolume><LambdaVolume>2</LambdaVolume></Plugin>"
CONTACT = (
    "<Plugin Name='Contact'><Energy Type1='Medium' Type2='A'>16</Energy><Energy Type1='B' Type2='A'>11</Energy>"
    "<NeighborOrder>4</NeighborOrder></Plugin>"
)


def project(folder: Path, xml: str, script: str = PLAIN_SCRIPT) -> Path:
    simulation = folder / "Simulation"
    simulation.mkdir(parents=True)
    (simulation / "mine.xml").write_text(xml, encoding="utf-8")
    (simulation / "mine.py").write_text(script, encoding="utf-8")
    file = folder / "mine.cc3d"
    file.write_text(
        "<Simulation><XMLScript>Simulation/mine.xml</XMLScript><PythonScript>Simulation/mine.py</PythonScript></Simulation>",
        encoding="utf-8",
    )
    return file


def filled(folder: Path, script: str = PLAIN_SCRIPT, **parts: object) -> Path:
    usual = {"temperature": 10, "volume": VOLUME, "contact": CONTACT, "more": ""}
    return project(folder, XML.format(**(usual | parts)), script)


@given(st.integers(0, 2**32 - 1), st.sampled_from(list(SIDES)), st.integers(1, 4), st.floats(0.2, 40), st.data())
def test_what_a_model_becomes_in_a_project_is_read_back(
    seed: int, geometry: str, order: int, scale: float, data: st.DataObject
) -> None:
    rng, dimension = np.random.default_rng(seed), GEOMETRIES[geometry].dimension
    boundary = data.draw(st.lists(st.sampled_from(("periodic", "free")), min_size=dimension, max_size=dimension))
    terms = ("contact", "volume", *data.draw(st.sets(st.just("surface"))))
    if "periodic" not in boundary:  # CC3D's lengths are for free axes
        terms = (*terms, *data.draw(st.sets(st.just("length"))))
    weights = weights_of(rng, terms, dimension)
    meta = metadata_of(weights, geometry, boundary, {"contact": order, "surface": int(rng.integers(1, 5))})
    energies = Energies.of_model(meta, dict(zip(NAMES, range(3), strict=True)), scale)
    layout = "rows" if geometry == "hexagonal" else "axes"
    lattice = Lattice.of(SIDES[geometry], geometry, boundary, layout)
    root = cc3dml(lattice, NAMES, energies, meta.temperature * scale, 10, None)
    with tempfile.TemporaryDirectory() as folder:
        file = project(Path(folder) / "mine", "")
        write_xml(file.parent / "Simulation" / "mine.xml", root)
        found = read_own_energies(file)
    assert found.not_read == ()
    assert found.lattice == lattice
    converted = found.of_types(("nothing", "A", "B")).converted()
    assert converted.notes == ()
    assert converted.orders == {name: number for name, number in meta.orders.items() if name in terms}
    for name, value in weights.items():
        wanted = np.where(np.arange(3) == 0, 0.0, value.T).T if value.ndim == 1 else value  # medium has no constraint
        energy = name.endswith((".J", ".strength"))
        expected = wanted * (WEIGHT / meta.temperature if energy else 1.0)
        np.testing.assert_allclose(converted.weights[name], expected, rtol=1e-12, atol=0)
    assert set(converted.weights) == {*weights, "symbolic.weight", "symbolic.offset"}


def test_one_setting_for_all_cells_and_pairs_that_are_not_named(tmp_path: Path) -> None:
    found = read_own_energies(filled(tmp_path / "mine"))
    assert found.temperature == 10
    assert found.terms["contact"]["J"].tolist() == [[0, 16, 0], [16, 0, 11], [0, 11, 0]]
    assert found.terms["contact"].order == 4
    assert found.terms["volume"]["strength"].tolist() == [0, 2, 2]
    converted = found.of_types(("medium", "B", "A")).converted()
    pairs = converted.weights["symbolic.contact.J"]
    assert pairs[0].tolist() == pytest.approx([0, 0, 16 / 10 * 20 / 2])  # |N| = 20 neighbours of order 4
    assert pairs[1, 2] == pytest.approx(11)


def test_without_a_contact_plugin_contacts_cost_nothing(tmp_path: Path) -> None:
    found = read_own_energies(filled(tmp_path / "mine", contact=""))
    assert not found.terms["contact"]["J"].any()
    assert found.of_types(("medium", "A", "B")).converted().orders == {"contact": 2}


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    script = (
        "from cc3d import CompuCellSetup\nfrom mineSteppables import Growth\n"
        "CompuCellSetup.register_steppable(steppable=Growth(frequency=1))\nCompuCellSetup.run()\n"
    )
    more = (
        "<Plugin Name='Chemotaxis'/><Plugin Name='NeighborTracker'/><Steppable Type='DiffusionSolverFE'/>"
        "<Plugin Name='Surface'/>"
    )
    file = filled(tmp_path / "mine", script, more=more)
    (file.parent / "Simulation" / "mineSteppables.py").write_text(
        "def grow(cells):\n    for cell in cells:\n        cell.targetVolume += 1\n", encoding="utf-8"
    )
    text = (file.parent / "Simulation" / "mine.xml").read_text(encoding="utf-8")
    changed = text.replace("<NeighborOrder>2</NeighborOrder>\n   </Potts>", "<Offset>1</Offset></Potts>")
    changed = changed.replace('TypeName="B"', 'TypeName="B" Freeze=""')
    (file.parent / "Simulation" / "mine.xml").write_text(changed, encoding="utf-8")
    assert read_own_energies(file).not_read == (
        "the plugin Chemotaxis",
        "the plugin Surface",
        "fields (DiffusionSolverFE)",
        "<Offset> of <Potts>",
        "that cells of type B are frozen",
        "copies from neighbours of order 1 (training copies from order 2)",
        "what Python does at every step (Growth of mine.py)",
        "what mineSteppables.py sets of single cells (targetVolume)",
    )


def test_a_term_that_the_host_means_otherwise_is_taken_and_named(tmp_path: Path) -> None:
    more = (
        "<Plugin Name='LengthConstraint'><LengthEnergyParameters CellType='A' LambdaLength='2' TargetLength='9'/>"
        "</Plugin>"
    )
    file = filled(tmp_path / "mine", more=more)
    xml = file.parent / "Simulation" / "mine.xml"
    text = xml.read_text(encoding="utf-8").replace("</Potts>", "<Boundary_x>Periodic</Boundary_x></Potts>")
    xml.write_text(text, encoding="utf-8")
    found = read_own_energies(file).of_types(("medium", "A", "B")).converted()
    assert found.weights["symbolic.length.target"].tolist() == [0, 9, 0]
    assert found.weights["symbolic.length.strength"].tolist() == pytest.approx([0, 0.2, 0])
    [note] = found.notes
    assert "does not follow a cell across a periodic border" in note


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"volume": ""}, "has no plugin Volume, but a closure needs to know what it closes"),
        ({"volume": "<Plugin Name='Volume'/>"}, "volumes that Python sets cell by cell"),
        (
            {"contact": "<Plugin Name='ContactLocalFlex'/>"},
            "contact energies that Python sets .* plugin ContactLocalFlex",
        ),
        ({"temperature": 0}, "no temperature for all cells"),
    ],
)
def test_what_a_closure_must_know_is_asked_for(parts: dict[str, object], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        read_own_energies(filled(tmp_path / "mine", **parts))


def test_projects_in_python_are_refused(tmp_path: Path) -> None:
    file = filled(tmp_path / "mine")
    file.write_text("<Simulation><PythonScript>Simulation/mine.py</PythonScript></Simulation>", encoding="utf-8")
    with pytest.raises(UserError, match="describes itself in Python"):
        read_own_energies(file)


def test_all_types_that_are_missing_are_named_at_once(tmp_path: Path) -> None:
    found = read_own_energies(filled(tmp_path / "mine"))
    with pytest.raises(UserError, match=r"of type 'C', 'D', but mine\.cc3d knows A, B: give the types of the data"):
        found.of_types(("medium", "A", "C", "D"))
    assert "cells of type B, of which the data have none" in found.of_types(("medium", "A")).not_read
