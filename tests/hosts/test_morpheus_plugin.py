"""The plugin in a real Morpheus: its ΔH is the engine's, and it follows whatever happens to the cells."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from lxml import etree

from benchmarks.morpheus_speed import measure
from morpheus_xml.model import MorpheusModel
from morpheus_xml.new import RunPlan, learned_attributes, new_model
from morpheus_xml.run import run_model
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.state import CellState

from .morpheus_host import TYPES, closure_model, plugin_binary, shaped_model, sorting_model, squares

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


@pytest.mark.parametrize("boundary", ["periodic", "free"])
def test_every_difference_is_the_engines(boundary: str, tmp_path: Path) -> None:
    binary = plugin_binary()
    artifact = closure_model(tmp_path / "model.onnx", boundary=boundary)
    state = initial_state(artifact, "blob", seed=1, cells=50, lattice=(100, 100))
    if boundary == "periodic":
        state = CellState(np.roll(state.ids, (50, 40), (0, 1)), state.types)
    model = new_model(artifact, state, RunPlan(steps=14, snapshots=1))
    set_everywhere(model, log="deltas.txt")
    model.write(tmp_path / "model.xml")
    result = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    backend = open_backend(artifact, state, term="neural")
    first = 0 if boundary == "periodic" else 1
    errors, committed = [], 0
    for line in (tmp_path / "run" / "deltas.txt").read_text().splitlines():
        kind, x, y, cell, *delta = line.split()
        new_id = max(int(cell) - first, 0)
        if kind == "d":
            errors.append(abs(backend.delta(int(y), int(x), new_id) - float(delta[0])))
        else:
            backend.commit(int(y), int(x), new_id)
            committed += 1
    print(boundary, len(errors), "proposals, largest error", max(errors))
    assert len(errors) >= 10_000
    assert max(errors) <= LARGEST_ERROR
    assert committed > 1_000
    assert result.snapshots is not None
    np.testing.assert_array_equal(backend.state().ids, result.snapshots[-1].ids)


@pytest.mark.parametrize("boundary", ["periodic", "free"])
def test_contact_energies_through_the_plugin_give_the_native_trajectory(boundary: str, tmp_path: Path) -> None:
    binary = plugin_binary()
    artifact = sorting_model(tmp_path / "model.onnx", boundary)
    state, plan = squares((40, 40), 4, gap=1), RunPlan(steps=1000, snapshots=20, seed=3)
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


def growing(artifact: Artifact, tmp_path: Path, xml: str, steps: int = 60) -> tuple[Path, MorpheusModel]:
    model = new_model(artifact, squares((60, 60), 10, gap=2), RunPlan(steps=steps, snapshots=4, seed=2))
    add_to_types(model, xml)
    set_everywhere(model, check="1")
    model.write(tmp_path / "model.xml")
    return tmp_path / "model.xml", model


DIVISION = '<CellDivision division-plane="major"><Condition>rand_uni(0,1) &lt; 0.02</Condition></CellDivision>'
DEATH = "<CellDeath><Condition>rand_uni(0,1) &lt; 0.01</Condition></CellDeath>"
CHANGE = (
    '<ChangeCellType newCellType="ct2"><Condition>cell.type == celltype.ct1.id and rand_uni(0,1) &lt; 0.05</Condition>'
    "<Triggers/></ChangeCellType>"
)


@pytest.mark.parametrize(("event", "xml"), [("division", DIVISION), ("death", DEATH), ("type change", CHANGE)])
def test_the_energy_follows_what_happens_to_cells(event: str, xml: str, tmp_path: Path) -> None:
    binary = plugin_binary()
    path, _ = growing(closure_model(tmp_path / "model.onnx"), tmp_path, xml)
    result = run_model(path, tmp_path / "run", binary=binary)
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


def test_twenty_steps_a_second_with_a_local_closure(tmp_path: Path) -> None:
    """In the program's own processor time, which other work on the machine does not lengthen."""
    plugin_binary()
    rate = measure(closure_model(tmp_path / "model.onnx"))["mcs_per_second"]
    print(f"{rate:.1f} MCS per second of processor time")
    assert rate >= 20


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
    with pytest.raises(UserError, match="is not periodic, but the model was trained so"):
        run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
