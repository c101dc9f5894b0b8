"""The plugin in a real Morpheus: its ΔH is the engine's, and it follows whatever happens to the cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from lxml import etree

from morpheus_xml.model import MorpheusModel
from morpheus_xml.new import RunPlan, learned_attributes, new_model
from morpheus_xml.run import run_model
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.delta import Part, open_backend
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState
from training.hamiltonians import Contact, Length, Surface, Volume

from .morpheus_host import (
    TYPES,
    analytic_model,
    blocks,
    closure_model,
    doubles,
    knotted_model,
    plugin_binary,
    shaped_model,
    sorting_model,
    squares,
)

LARGEST_ERROR = 1e-5


def set_everywhere(model: MorpheusModel, **attributes: str) -> None:
    for element in model.root.iter("NeuralHamiltonian"):
        for name, value in attributes.items():
            element.set(name, value)


def add_to_types(model: MorpheusModel, xml: str) -> None:
    for element in model.root.iter("CellType"):
        if element.get("class") == "biological":
            element.append(etree.fromstring(xml))


def comparisons(log: Path) -> tuple[int, float]:
    found = re.search(r"(\d+) comparisons .* largest difference (\S+)", log.read_text())
    assert found, log.read_text()
    return int(found[1]), float(found[2])


def replayed(
    artifact: Artifact, state: CellState, log: Path, part: Part, first_id: int
) -> tuple[list[float], int, CellState]:
    """How far every logged ΔH is off the engine's own, how many copies were made, and the state reached."""
    backend, lattice = open_backend(artifact, state, part=part), state.lattice
    errors, committed = [], 0
    for kind, *rest in (line.split() for line in log.read_text().splitlines()):
        place, (cell, *delta) = rest[: lattice.dimension], rest[lattice.dimension :]
        site, new_id = lattice.site(*(int(word) for word in place[::-1])), max(int(cell) - first_id, 0)
        if kind == "d":
            errors.append(abs(backend.delta(site, new_id) - float(delta[0])))
        else:
            backend.commit(site, new_id)
            committed += 1
    return errors, committed, backend.state()


@pytest.mark.parametrize("boundary", ["periodic", "free"])
def test_every_difference_is_the_engines(boundary: str, tmp_path: Path) -> None:
    binary = plugin_binary()
    artifact = closure_model(tmp_path / "model.onnx", boundary=boundary)
    state = initial_state(artifact, "blob", seed=1, cells=50, lattice=(100, 100))
    if boundary == "periodic":
        state = CellState(np.roll(state.ids, (50, 40), (0, 1)), state.types, state.lattice)
    model = new_model(artifact, state, RunPlan(steps=14, snapshots=1))
    set_everywhere(model, log="deltas.txt")
    model.write(tmp_path / "model.xml")
    result = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    errors, committed, reached = replayed(artifact, state, tmp_path / "run" / "deltas.txt", "neural", model.first_id)
    print(boundary, len(errors), "proposals, largest error", max(errors))
    assert len(errors) >= 10_000
    assert max(errors) <= LARGEST_ERROR
    assert committed > 1_000
    assert result.snapshots is not None
    np.testing.assert_array_equal(reached.ids, result.snapshots[-1].ids)


def lengthy_model(path: Path, geometry: str, boundary: str | Sequence[str]) -> Artifact:
    """Contacts, volumes, surfaces and lengths that Morpheus' own elements cannot carry together on this lattice."""
    length = Length(doubles([0.05, 0.02]), doubles([7.0, 8.0]), doubles([4.0, 4.5]) if geometry == "cubic" else None)
    return analytic_model(
        path,
        Contact(doubles([[0, 4, 3], [4, 2, 5], [3, 5, 2.5]]), order=3),
        Volume(doubles([0.1, 0.2]), doubles([40.0, 30.0]) if geometry == "hexagonal" else doubles([125.0, 120.0])),
        Surface(doubles([0.01, 0.02]), doubles([40.0, 45.0]), order=1),
        length,
        geometry=geometry,
        boundary=boundary,
    )


@pytest.mark.parametrize(
    ("geometry", "boundary"),
    [
        ("hexagonal", "periodic"),
        ("hexagonal", ("periodic", "free")),
        ("cubic", "periodic"),
        ("cubic", ("free", "periodic", "periodic")),
        ("cubic", "free"),
    ],
)
def test_every_lattice_is_served(geometry: str, boundary: str | tuple[str, ...], tmp_path: Path) -> None:
    """Terms with two orders at once, and lengths of 3D cells, go through the plugin as they are."""
    binary = plugin_binary()
    artifact = lengthy_model(tmp_path / "model.onnx", geometry, boundary)
    shape, side = ((40, 42), 6) if geometry == "hexagonal" else ((20, 22, 24), 5)
    state = artifact.place(blocks(Lattice.of(shape, geometry), side, shift=3 if boundary == "periodic" else 0))
    model = new_model(artifact, state, RunPlan(steps=15, snapshots=1))
    set_everywhere(model, log="deltas.txt", check="1")
    model.write(tmp_path / "model.xml")
    result = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    errors, committed, reached = replayed(artifact, state, tmp_path / "run" / "deltas.txt", "full", model.first_id)
    count, largest = comparisons(result.log)
    print(geometry, boundary, len(errors), "proposals, largest error", max(errors), "drift", largest)
    assert len(errors) >= 5_000
    assert max(errors) <= LARGEST_ERROR
    assert (committed > 500, count >= 10, largest <= 1e-6) == (True, True, True)
    assert result.snapshots is not None
    np.testing.assert_array_equal(reached.ids, result.snapshots[-1].ids)
    assert result.snapshots.lattice == state.lattice


@pytest.mark.parametrize(
    ("geometry", "order", "boundary"),
    [
        ("square", 2, "periodic"),
        ("square", 2, "free"),
        ("cubic", 4, "periodic"),
        ("cubic", 4, ("periodic", "free", "periodic")),
    ],
)
def test_contact_energies_through_the_plugin_give_the_native_trajectory(
    geometry: str, order: int, boundary: str | tuple[str, ...], tmp_path: Path
) -> None:
    """Neighbourhoods of 8 and 32 sites, whose energies are dyadic."""
    binary = plugin_binary()
    artifact = sorting_model(tmp_path / "model.onnx", boundary, geometry=geometry, order=order)
    shape, steps = ((40, 40), 1000) if geometry == "square" else ((14, 14, 14), 200)
    state, plan = blocks(Lattice.of(shape, geometry), 4, gap=1), RunPlan(steps=steps, snapshots=20, seed=3)
    native = new_model(artifact, state, plan)
    learned = new_model(artifact, state, plan)
    for element in [*learned.root.iter("Contact"), *learned.root.iter("VolumeConstraint")]:
        parent = element.getparent()
        assert parent is not None
        parent.remove(element)
    types = {name: name for name in TYPES[1:]}
    learned.add_learned_term(learned_attributes(artifact, types, "full", 1.0, None))
    runs = []
    for name, model in (("native", native), ("learned", learned)):
        model.write(tmp_path / f"{name}.xml")
        result = run_model(tmp_path / f"{name}.xml", tmp_path / name, binary=binary)
        assert result.snapshots is not None
        runs.append(result.snapshots)
    np.testing.assert_array_equal(runs[0].ids, runs[1].ids)
    assert (runs[0].ids[0] != runs[0].ids[-1]).mean() > 0.1


@pytest.mark.parametrize("boundary", ["periodic", "free"])
def test_native_elements_cancel_the_plugin_with_weight_minus_one(boundary: str, tmp_path: Path) -> None:
    """Contacts, volume functions and surfaces as Morpheus' own elements charge what the engine charges.

    The sum of both is 0 for every copy: near zero temperature all are accepted, unless one of them differs.
    """
    binary = plugin_binary()
    artifact = shaped_model(tmp_path / "model.onnx", boundary)
    model = new_model(artifact, squares((40, 40), 6, gap=2), RunPlan(steps=20, snapshots=1, temperature=1e-3))
    model.add_learned_term(learned_attributes(artifact, {name: name for name in TYPES[1:]}, "full", -1.0, None))
    set_everywhere(model, log="deltas.txt")
    model.write(tmp_path / "model.xml")
    run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    kinds = [line[0] for line in (tmp_path / "run" / "deltas.txt").read_text().splitlines()]
    print(boundary, kinds.count("d"), "proposals,", kinds.count("c"), "accepted")
    assert kinds.count("d") > 5_000
    assert kinds.count("c") == kinds.count("d")


def growing(artifact: Artifact, state: CellState, xml: str, path: Path) -> None:
    """A model in which something happens to cells, looked at after every step."""
    model = new_model(artifact, state, RunPlan(steps=60, snapshots=4, seed=2))
    add_to_types(model, xml)
    set_everywhere(model, check="1")
    model.write(path)


DIVISION = '<CellDivision division-plane="major"><Condition>rand_uni(0,1) &lt; 0.02</Condition></CellDivision>'
DEATH = "<CellDeath><Condition>rand_uni(0,1) &lt; 0.01</Condition></CellDeath>"
CHANGE = (
    '<ChangeCellType newCellType="ct2"><Condition>cell.type == celltype.ct1.id and rand_uni(0,1) &lt; 0.05</Condition>'
    "<Triggers/></ChangeCellType>"
)


@pytest.mark.parametrize("geometry", ["square", "hexagonal", "cubic"])
@pytest.mark.parametrize(("event", "xml"), [("division", DIVISION), ("death", DEATH), ("type change", CHANGE)])
def test_the_energy_follows_what_happens_to_cells(event: str, xml: str, geometry: str, tmp_path: Path) -> None:
    binary = plugin_binary()
    if geometry == "square":
        artifact, state = closure_model(tmp_path / "model.onnx"), squares((60, 60), 10, gap=2)
    elif geometry == "hexagonal":
        artifact = knotted_model(tmp_path / "model.onnx", geometry, "periodic", 49.0, order=1)
        state = blocks(Lattice.of((50, 52), geometry), 7)
    else:
        artifact = lengthy_model(tmp_path / "model.onnx", geometry, "free")
        state = blocks(Lattice.of((20, 22, 24), geometry), 5)
    growing(artifact, state, xml, tmp_path / "model.xml")
    result = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    assert result.snapshots is not None
    first, last = result.snapshots[0], result.snapshots[-1]
    numbers = {
        "division": last.cells.size > first.cells.size + 3,
        "death": last.cells.size < first.cells.size - 3,
        "type change": (last.types == 2).sum() > (first.types == 2).sum() + 3,
    }
    assert numbers[event], (first.cells.size, last.cells.size)
    count, largest = comparisons(result.log)
    print(event, first.cells.size, "→", last.cells.size, "cells,", count, "comparisons, largest difference", largest)
    assert count >= 50
    assert largest <= 1e-4


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"types": "ct1=ct1;ct2=unheard"}, "unheard"),
        ({"types": "nobody=ct1"}, "nobody"),
        ({"weight": "cell.volume"}, "one number for all"),
    ],
)
def test_what_does_not_fit_is_refused_by_morpheus(attributes: dict[str, str], sentence: str, tmp_path: Path) -> None:
    binary = plugin_binary()
    model = new_model(closure_model(tmp_path / "model.onnx"), squares((30, 30), 9), RunPlan(steps=1))
    set_everywhere(model, **attributes)
    model.write(tmp_path / "model.xml")
    with pytest.raises(UserError, match=sentence):
        run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)


def test_a_model_of_another_boundary_is_refused_by_morpheus(tmp_path: Path) -> None:
    binary = plugin_binary()
    model = new_model(closure_model(tmp_path / "model.onnx"), squares((30, 30), 9), RunPlan(steps=1))
    text = model.tobytes().decode().replace('type="periodic"', 'type="noflux"')
    (tmp_path / "model.xml").write_text(text)
    with pytest.raises(UserError, match="is not periodic in every direction, but the model's network wraps around"):
        run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)


def test_a_model_of_another_lattice_is_refused_by_morpheus(tmp_path: Path) -> None:
    binary = plugin_binary()
    model = new_model(closure_model(tmp_path / "model.onnx"), squares((30, 30), 9), RunPlan(steps=1))
    text = model.tobytes().decode().replace('class="square"', 'class="hexagonal"')
    (tmp_path / "model.xml").write_text(text)
    with pytest.raises(UserError, match="lattice is hexagonal, but the model is for square ones"):
        run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
