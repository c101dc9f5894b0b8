"""Properties of cells in a real Morpheus: read from the cell types' symbols, followed, refused where one is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lxml import etree

from morpheus_xml import run
from morpheus_xml.model import MorpheusModel
from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.run import run_model
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

from .morpheus_host import blocks, graph_model, plugin_binary
from .test_morpheus_plugin import LARGEST_ERROR, add_to_types, comparisons, set_everywhere


def with_properties(state: CellState) -> CellState:
    rng = np.random.default_rng(0)
    return replace(state, properties={name: rng.normal(0, 2, state.types.size) for name in ("marker", "age")})


def replayed(artifact: Artifact, state: CellState, log: Path, first_id: int) -> tuple[list[float], int, CellState]:
    """How far every logged ΔH is off the engine's own, how often a property was set, and the state reached."""
    backend, lattice = open_backend(artifact, state, part="neural"), state.lattice
    errors, read = [], 0
    for kind, *rest in (line.split() for line in log.read_text().splitlines()):
        if kind == "p":
            name, cell, value = rest
            backend.set_property(int(cell) - first_id, name, float(value))
            read += 1
            continue
        place, (cell, *delta) = rest[: lattice.dimension], rest[lattice.dimension :]
        site, new_id = lattice.site(*(int(word) for word in place[::-1])), max(int(cell) - first_id, 0)
        if kind == "d":
            errors.append(abs(backend.delta(site, new_id) - float(delta[0])))
        else:
            backend.commit(site, new_id)
    return errors, read, backend.state()


AGEING = '<Equation symbol-ref="age"><Expression>0.1 * time - 2 + 0.05 * cell.volume</Expression></Equation>'


@pytest.mark.parametrize(
    ("geometry", "boundary", "xml"),
    [
        ("square", "periodic", ""),
        ("square", "free", AGEING),
        ("hexagonal", ("periodic", "free"), AGEING),
        ("cubic", "periodic", AGEING),
    ],
)
def test_every_difference_is_the_engines(
    geometry: str, boundary: str | tuple[str, ...], xml: str, tmp_path: Path
) -> None:
    """Of properties that the state brings along, and of those that Morpheus changes with every step."""
    binary = plugin_binary()
    shape, side = ((20, 22, 24), 5) if geometry == "cubic" else ((52, 50), 7)
    artifact = graph_model(tmp_path / "model.onnx", geometry, boundary, float(side ** len(shape)))
    state = artifact.place(with_properties(blocks(Lattice.of(shape, geometry), side)))
    model = new_model(artifact, state, RunPlan(steps=20, snapshots=2))
    if xml:
        add_to_types(model, xml)
    set_everywhere(model, log="deltas.txt", check="1")
    model.write(tmp_path / "model.xml")
    result = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    errors, read, reached = replayed(artifact, state, tmp_path / "run" / "deltas.txt", model.first_id)
    print(geometry, boundary, len(errors), "proposals, largest error", max(errors), read, "properties read")
    assert len(errors) >= 3_000
    assert max(errors) <= LARGEST_ERROR
    assert comparisons(result.log)[1] == 0
    assert result.snapshots is not None
    np.testing.assert_array_equal(reached.ids, result.snapshots[-1].ids)
    logged(result.snapshots, state, bool(xml))


def logged(snapshots: Snapshots, start: CellState, ageing: bool) -> None:
    """The data set of a run has the properties of its cells."""
    assert snapshots.property_names == ("age", "marker")
    for name in ("marker",) if ageing else ("age", "marker"):
        for state in (snapshots[0], snapshots[-1]):
            np.testing.assert_allclose(state.properties[name][1:], start.properties[name][1:], rtol=1e-8)
    if ageing:
        assert (snapshots[-1].properties["age"] != snapshots[0].properties["age"])[1:].all()


DIVISION = (
    '<CellDivision division-plane="major"><Condition>rand_uni(0,1) &lt; 0.02</Condition>'
    '<Triggers><Rule symbol-ref="age"><Expression>0</Expression></Rule></Triggers></CellDivision>'
)
CHANGE = (
    '<ChangeCellType newCellType="ct2"><Condition>cell.type == celltype.ct1.id and rand_uni(0,1) &lt; 0.05</Condition>'
    "<Triggers/></ChangeCellType>"
)


@pytest.mark.parametrize("xml", [DIVISION, CHANGE], ids=["division", "type change"])
def test_properties_follow_what_happens_to_cells(xml: str, tmp_path: Path) -> None:
    """A daughter and a cell of another type have properties of their own; every step is compared with a rebuild."""
    binary = plugin_binary()
    artifact = graph_model(tmp_path / "model.onnx")
    state = with_properties(blocks(Lattice.of((60, 60)), 10, gap=2))
    model = new_model(artifact, state, RunPlan(steps=60, snapshots=4, seed=2))
    add_to_types(model, xml)
    set_everywhere(model, check="1")
    model.write(tmp_path / "model.xml")
    result = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    count, largest = comparisons(result.log)
    assert (count >= 50, largest) == (True, 0.0)
    assert result.snapshots is not None
    last = result.snapshots[-1]
    if xml == DIVISION:
        assert last.cells.size > state.cells.size + 3
        assert (last.properties["age"][last.cells] == 0).sum() > 3
    else:
        assert (last.types == 2).sum() > (state.types == 2).sum() + 3


def without(model: MorpheusModel, cell_type: str, symbol: str) -> None:
    for element in model.root.iter("Property"):
        parent = element.getparent()
        if parent is not None and parent.get("name") == cell_type and element.get("symbol") == symbol:
            parent.remove(element)


@pytest.mark.parametrize(
    ("symbol", "xml", "sentence"),
    [
        ("age", "", "cell type 'ct2' has no property 'age'"),
        ("marker", "", "cell type 'ct2' has no property 'marker'"),
        ("age", '<MembraneProperty symbol="age" value="1"><Diffusion rate="0"/></MembraneProperty>', "within a cell"),
        ("age", '<Property symbol="age" value="1/0"/>', "is not a finite number"),
    ],
)
def test_what_lacks_a_property_is_refused_by_morpheus(
    symbol: str, xml: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the plugin itself, where nobody has looked at the file before."""
    binary = plugin_binary()
    monkeypatch.setattr(run, "require_sound", lambda model: None)
    artifact = graph_model(tmp_path / "model.onnx")
    state = with_properties(blocks(Lattice.of((30, 30)), 9))
    model = new_model(artifact, state, RunPlan(steps=1))
    without(model, "ct2", symbol)
    for element in model.root.iter("CellType"):
        if xml and element.get("name") == "ct2":
            element.insert(0, etree.fromstring(xml))
    if "MembraneProperty" in xml:
        lattice = etree.SubElement(model.root.find("Space"), "MembraneLattice")  # type: ignore[arg-type]
        etree.SubElement(lattice, "Resolution", symbol="memsize", value="50")
        etree.SubElement(lattice, "SpaceSymbol", symbol="m")
    for data in model.root.iter("PropertyData"):
        if xml and data.get("symbol-ref") == symbol:
            data.set("symbol-ref", "nobody")
    model.write(tmp_path / "model.xml")
    with pytest.raises(UserError, match=sentence) as caught:
        run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    assert "\n" not in str(caught.value)


def test_unseen_cells_need_no_properties(tmp_path: Path) -> None:
    binary = plugin_binary()
    artifact = graph_model(tmp_path / "model.onnx")
    state = with_properties(blocks(Lattice.of((40, 40)), 9))
    model = new_model(artifact, state, RunPlan(steps=5, snapshots=1))
    for symbol in ("age", "marker"):
        without(model, "ct2", symbol)
    for logger in list(model.root.iter("Logger")):
        logger.getparent().remove(logger)  # type: ignore[union-attr]
    set_everywhere(model, types="ct1=ct1;ct2=medium", check="1")
    model.write(tmp_path / "model.xml")
    assert comparisons(run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary).log)[1] == 0
