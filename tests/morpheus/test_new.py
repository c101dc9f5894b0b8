"""Models written from artifacts: exact energies, exact cells, what goes through the plugin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from morpheus_xml.check import check_model
from morpheus_xml.model import BORDER
from morpheus_xml.new import RunPlan, needs_plugin, new_model, type_names
from morpheus_xml.reader import read_model
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.importers.morpheus import read_xml
from neuralcpm_bridge.state import CellState

from ..strategies import random_state


def tissue(seed: int = 3) -> CellState:
    return random_state(np.random.default_rng(seed), (24, 31), 9, absent=False)


def test_energies_are_converted_exactly(sorting: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    new_model(sorting, tissue(), RunPlan(steps=50, seed=7, stepper="random")).write(path)
    model = read_model(path)
    assert check_model(model) == []
    # w_S·J/4 with w_S = 2
    found = {(c.type1, c.type2): float(c.value) for c in model.contacts}
    assert found == {("medium", "A"): 2, ("medium", "B"): 1.5, ("A", "A"): 1, ("A", "B"): 2.5, ("B", "B"): 1.25}
    constraints = [entry.volume.attributes for entry in model.cell_types if entry.volume]
    assert constraints == [{"target": "30", "strength": "1"}, {"target": "40", "strength": "2"}]
    assert (model.surface_scaling, str(model.surface_neighbourhood)) == ("none", "order 2")
    assert (str(model.lattice_neighbourhood), str(model.sampler_neighbourhood)) == ("order 2", "order 2")
    assert (model.stepper, model.temperature, model.stop_time) == ("random", "1", "50")
    assert not any(entry.learned for entry in model.types)


@pytest.mark.parametrize("boundary", ["periodic", "free"])
def test_cells_are_laid_out_node_by_node(
    boundary: str, sorting: Artifact, free_sorting: Artifact, tmp_path: Path
) -> None:
    state, path = tissue(), tmp_path / "model.xml"
    new_model(sorting if boundary == "periodic" else free_sorting, state, RunPlan()).write(path)
    [frame] = read_xml(path)
    first = 0 if boundary == "periodic" else 1
    np.testing.assert_array_equal(np.where(frame.labels > 0, frame.labels - first, 0), state.ids)
    assert frame.boundary == (boundary, boundary)
    assert frame.cell_types == {int(cell) + first: " AB"[state.types[cell]] for cell in state.cells}


def test_a_free_border_is_a_frozen_medium_without_contacts(free_sorting: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    new_model(free_sorting, tissue(), RunPlan()).write(path)
    model = read_model(path)
    assert [entry.name for entry in model.types if entry.is_medium] == ["medium", BORDER]
    assert model.types[1].element.find("FreezeMotion/Condition") is not None
    assert {e.attributes["value"] for e in model.root.all("CellPopulations/BoundaryValue")} == {BORDER}
    assert not any(BORDER in (contact.type1, contact.type2) for contact in model.contacts)
    assert model.boundaries == dict.fromkeys(("-x", "x", "-y", "y"), "constant")


def test_a_network_goes_through_the_plugin(closure: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    new_model(closure, tissue(), RunPlan(), library="/opt/libncpm.so").write(path)
    model = read_model(path)
    assert check_model(model) == []
    elements = [element for entry in model.types for element in entry.learned]
    assert len(elements) == 2
    expected = {"model": str(closure.path), "types": "A=A;B=B", "term": "neural", "weight": "1.0"}
    assert all(element.attributes == expected | {"library": "/opt/libncpm.so"} for element in elements)
    assert len(model.contacts) == 5
    assert needs_plugin(closure.metadata)


def test_names_morpheus_would_not_take_are_replaced(sorting: Artifact) -> None:
    meta = sorting.metadata.model_copy(update={"types": ("medium", "T cell", "T-cell", "border")})
    assert type_names(meta) == ("medium", "T_cell", "T_cell_", "border_")
