"""Projects on disk: written from a model, injected into, refused."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from lxml import etree

from cc3d_steppables.document import add_child, element_span, set_leaf
from cc3d_steppables.energies import CONSTRAINTS, PLUGINS, Energies
from cc3d_steppables.folders import same_tree
from cc3d_steppables.inject import inject
from cc3d_steppables.new import write_project
from cc3d_steppables.project import Project
from cc3d_steppables.reader import read_facts
from cc3d_steppables.script_text import with_block, without_block
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState
from neuralcpm_bridge.terms import TERMS

from .models import tissue_model
from .projects import SCRIPT, XML

TYPES = {"Condensing": "A", "Other": "B", "Wall": "medium"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "Sort", "<PythonScript>Simulation/Sort.py</PythonScript>")


def make_project(folder: Path, script_entry: str) -> Path:
    (folder / "Simulation").mkdir(parents=True)
    (folder / "Simulation" / "Sort.xml").write_text(XML)
    if script_entry:
        (folder / "Simulation" / "Sort.py").write_bytes(SCRIPT.encode())
    file = folder / "Sort.cc3d"
    file.write_text(
        "<Simulation version='3.6'>\n\n    <XMLScript>Simulation/Sort.xml</XMLScript>\n"
        f"    {script_entry}\n</Simulation>\n"
    )
    return file


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_written_project_holds_what_the_model_says(tissue: Artifact, tmp_path: Path) -> None:
    ids = np.zeros((21, 30), dtype=np.int32)
    ids[2:5, 7:12], ids[10:19, 1:3] = 1, 4
    state = CellState(ids, np.array([0, 1, -1, -1, 2], dtype=np.int32))
    file = write_project(tissue, state, tmp_path / "my project", steps=50, seed=3, energy_scale=4.0)
    project = Project.open(file)
    facts = project.facts()
    assert facts is not None
    assert facts.lattice == Lattice.of((21, 30), "square", "periodic")
    assert facts.temperature == 4.0
    assert facts.energies.orders == {"contact": 2}
    J = np.array(tissue.metadata.symbolic.terms["contact"]["J"])  # type: ignore[union-attr]
    assert facts.energies.contact[frozenset(("A", "B"))] == pytest.approx(J[1, 2])  # scale 4 keeps J
    assert facts.energies.constraints["volume"]["A"] == pytest.approx({"strength": 4 * 0.5, "target": 40.0})
    assert (file.parent / "Simulation" / "model.onnx").read_bytes() == tissue.path.read_bytes()
    pif = (file.parent / "Simulation" / "init.piff").read_text().splitlines()
    assert pif[:2] == ["1 A 7 11 2 2 0 0", "1 A 7 11 3 3 0 0"]
    assert pif[-1] == "4 B 1 2 18 18 0 0"
    script = project.script.read_text()  # type: ignore[union-attr]
    ast.parse(script)
    assert 'term="neural"' in script
    assert "extinction=True" in script


def test_a_model_without_contact_and_volume_is_the_whole_energy(tmp_path: Path) -> None:
    state = CellState(np.ones((30, 30), dtype=np.int32), np.array([0, 1], dtype=np.int32))
    file = write_project(tissue_model(tmp_path / "m.onnx", "local8"), state, tmp_path / "whole")
    facts = Project.open(file).facts()
    assert facts is not None
    assert not {"Contact", "Volume"} & {*facts.plugins}
    assert 'term="full"' in (file.parent / "Simulation" / "whole.py").read_text()


def test_injection_adds_lines_and_changes_none(project: Path, tissue: Artifact, tmp_path: Path) -> None:
    injected, said = inject(project, tissue, tmp_path / "out", types=TYPES, weight=0.5)
    assert "Condensing" in said
    assert "J(Medium, Condensing)" in said
    for name in ("Sort.cc3d", "Simulation/Sort.xml", "Simulation/Sort.py"):
        before, after = lines(project.parent / name), lines(injected.parent / name)
        remaining = iter(after)
        assert all(line in remaining for line in before), name  # in their order, byte by byte
    assert b'<NonParallelModule Name="Potts"/>' in (injected.parent / "Simulation" / "Sort.xml").read_bytes()
    script = (injected.parent / "Simulation" / "Sort.py").read_bytes().decode()
    assert "\n" not in script.replace("\r\n", "")
    assert script.index("NeuralHamiltonianSteppable") < script.index("CompuCellSetup.run()")
    assert "weight=0.5," in script
    assert "'Wall': 'medium'" in script


def test_twice_is_once(project: Path, tissue: Artifact, tmp_path: Path) -> None:
    once, _ = inject(project, tissue, tmp_path / "once", types=TYPES)
    twice, _ = inject(once, tissue, tmp_path / "twice", types=TYPES)
    assert same_tree(once.parent, twice.parent)
    inject(project, tissue, tmp_path / "once", types=TYPES)  # the same into the same place
    with pytest.raises(UserError, match="holds other files already"):
        inject(project, tissue, tmp_path / "once", types=TYPES, weight=2.0)
    replaced, _ = inject(project, tissue, tmp_path / "r1", types=TYPES, symbolic="replace")
    again, _ = inject(replaced, tissue, tmp_path / "r2", types=TYPES, symbolic="replace")
    assert same_tree(replaced.parent, again.parent)


def test_replaced_energies(project: Path, tissue: Artifact, tmp_path: Path) -> None:
    injected, _ = inject(project, tissue, tmp_path / "out", types=TYPES, symbolic="replace")
    facts = Project.open(injected).facts()
    assert facts is not None
    J = np.array(tissue.metadata.symbolic.terms["contact"]["J"])  # type: ignore[union-attr]
    energies, volumes = facts.energies, facts.energies.constraints["volume"]
    assert energies.contact[frozenset(("Condensing", "Other"))] == pytest.approx(10 * J[1, 2] / 4)
    assert energies.contact[frozenset(("Wall", "Condensing"))] == 30  # what the model does not see is kept
    assert volumes["Other"] == pytest.approx({"strength": 10 * 0.5, "target": 40.0})
    assert volumes["Wall"] == {"strength": 2.0, "target": 25.0}
    assert energies.orders == {"contact": 2}
    text = (injected.parent / "Simulation" / "Sort.xml").read_text()
    assert "<!-- hot -->" in text
    assert '<!-- <Plugin Name="Contact"/> an old try -->' in text
    assert '<Dimensions x="60"   y="40" z="1"/>' in text


def test_a_project_of_xml_alone(tissue: Artifact, tmp_path: Path) -> None:
    file = make_project(tmp_path / "Sort", "")
    injected, _ = inject(file, tissue, tmp_path / "out", types=TYPES)
    project = Project.open(injected)
    assert project.script is not None
    tree = ast.parse(project.script.read_text())
    assert ast.unparse(tree.body[-1]) == "CompuCellSetup.run()"
    again, _ = inject(injected, tissue, tmp_path / "again", types=TYPES)
    assert same_tree(injected.parent, again.parent)


@pytest.mark.parametrize(
    "script",
    [
        "from cc3d import CompuCellSetup as other\nfrom cc3d.CompuCellSetup import run\nrun()\n",
        "def go():\n    from cc3d import CompuCellSetup\n    CompuCellSetup.run()\ngo()\n",
        "import cc3d.CompuCellSetup\ncc3d.CompuCellSetup.run()",
    ],
)
def test_ways_to_start_a_simulation(script: str) -> None:
    path = Path("script.py")
    injected = with_block(script, ["frequency=1"], path)
    ast.parse(injected)
    assert without_block(injected) == script
    assert injected.count("NeuralHamiltonianSteppable(") == 1
    assert with_block(injected, ["frequency=1"], path) == injected


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"types": None}, "None of the project's types"),
        ({"types": {"Nobody": "A"}}, "names the cell type 'Nobody'"),
        ({"types": {"Condensing": "C"}}, "maps 'Condensing' to 'C'"),
        ({"types": {"Condensing": "A"}, "symbolic": "replace"}, "cells of type 'Other'"),
    ],
)
def test_refused(project: Path, tissue: Artifact, tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        inject(project, tissue, tmp_path / "out", **change)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_refused_files(project: Path, tissue: Artifact, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no project"):
        inject(tmp_path / "none.cc3d", tissue, tmp_path / "out")
    with pytest.raises(UserError, match="inside the project's folder"):
        inject(project, tissue, project.parent / "out", types=TYPES)
    escaping = tmp_path / "escaping.cc3d"
    escaping.write_text("<Simulation><PythonScript>../../etc/passwd</PythonScript></Simulation>")
    with pytest.raises(UserError, match="outside of its folder"):
        Project.open(escaping)
    entities = tmp_path / "entities.cc3d"
    entities.write_text('<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><Simulation>&e;</Simulation>')
    with pytest.raises(UserError, match=r"document type|well-formed"):
        Project.open(entities)
    script = project.parent / "Simulation" / "Sort.py"
    script.write_text("print 'Python 2'\n")
    with pytest.raises(UserError, match="not a Python 3 script"):
        inject(project, tissue, tmp_path / "out", types=TYPES)
    script.write_text("print('nothing')\n")
    with pytest.raises(UserError, match="never calls"):
        inject(project, tissue, tmp_path / "out", types=TYPES)


def test_boundaries(project: Path, tmp_path: Path) -> None:
    circular = tissue_model(tmp_path / "c.onnx", padding="circular")
    with pytest.raises(UserError, match="wraps around"):
        inject(project, circular, tmp_path / "out", types=TYPES)
    xml = project.parent / "Simulation" / "Sort.xml"
    xml.write_text(XML.replace("<Steps>", "<Boundary_x>Periodic</Boundary_x><Boundary_y>Periodic</Boundary_y><Steps>"))
    inject(project, circular, tmp_path / "out", types=TYPES)
    free = tissue_model(tmp_path / "f.onnx", boundary="free")
    with pytest.raises(UserError, match="trained on lattices with a border"):
        inject(project, free, tmp_path / "out2", types=TYPES)


def test_facts_of_a_project() -> None:
    facts = read_facts(etree.fromstring(XML.encode()))
    assert facts.lattice == Lattice.of((40, 60), "square", "free")
    assert facts.potts_nodes == 4
    assert facts.type_names == {0: "Medium", 1: "Condensing", 2: "Other", 3: "Wall"}
    assert facts.energies.constraints == {
        "volume": {name: {"strength": 2.0, "target": 25.0} for name in ("Condensing", "Other", "Wall")}
    }
    assert facts.energies.orders == {"contact": 1}
    serial = XML.replace("</Metadata>", '<NonParallelModule Name="Potts"/></Metadata>')
    assert read_facts(etree.fromstring(serial.encode())).potts_nodes == 1


def test_text_changes() -> None:
    path = Path("a.xml")
    assert "<RandomSeed>5</RandomSeed>\n   <Dimensions" in set_leaf(XML, "Potts", "RandomSeed", "5", path)
    assert set_leaf(XML, "Potts", "Steps", "7", path) == XML.replace("<Steps>100<", "<Steps>7<")
    assert add_child("<A>\n  <B/>\n</A>", "B", "<C/>", path) == "<A>\n  <B>\n     <C/>\n  </B>\n</A>"
    span = element_span(XML, "Plugin", """Name\\s*=\\s*["']Contact["']""")
    assert span is not None
    assert XML[span[0] : span[1]] == '<Plugin Name="Contact">'
    assert "16" in XML[span[0] : span[2]]


def test_every_carried_term_has_a_plugin() -> None:
    """A term that is declared as CC3D's to carry is one that can be written; its words are those of the declaration."""
    declared = {name for name, spec in TERMS.items() if "cc3d" in spec.hosts}
    assert declared - PLUGINS.keys() == {"volume_function"}  # declared only to say why it is not carried
    for term, known in CONSTRAINTS.items():
        assert known.attributes.keys() == TERMS[term].weights.keys()


def test_energies_beside_the_models_own(tissue: Artifact) -> None:
    """What a model has is compared, and nothing else that a project may have."""
    names = ["Medium", "A", "B"]
    learned = Energies.of_model(tissue.metadata, dict(zip(names, range(3), strict=True)), 2.0)
    root = etree.Element("CompuCell3D")
    root.extend(learned.elements(names))
    etree.SubElement(root, "Plugin", Name="Surface")  # set cell by cell
    geometry = tissue.metadata.geometry
    assert learned.within(Energies.read(root, names, geometry), names)
    contact = root.find("Plugin[@Name='Contact']")
    contact.find("NeighborOrder").text = "3"
    assert not learned.within(Energies.read(root, names, geometry), names)
    contact.remove(contact.find("NeighborOrder"))
    etree.SubElement(contact, "Depth").text = "1.5"
    assert learned.within(Energies.read(root, names, geometry), names)
    etree.SubElement(contact, "WeightEnergyByDistance")
    assert not learned.within(Energies.read(root, names, geometry), names)
