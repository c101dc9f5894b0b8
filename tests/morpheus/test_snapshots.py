"""Images of a run as a data set, as a TiffPlotter of the real program writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.reader import ModelFile, read_model
from morpheus_xml.snapshots import read_snapshots
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

from .test_lattices import SHAPES, made, tissue


def plotted(states: list[CellState], model: ModelFile, folder: Path, name: str = "cell.id_cell.type.tif") -> None:
    """For every time all planes, and for every plane cell.id and cell.type; media are numbered before the cells."""
    media = sum(entry.is_medium for entry in model.types)
    pages = []
    for state in states:
        ids = np.where(state.ids > 0, state.ids + media - 1, 0)
        types = np.where(state.ids > 0, state.types[state.ids] + media - 1, 0)
        for plane in zip(np.atleast_3d(ids.T).T, np.atleast_3d(types.T).T, strict=True):
            pages += [Image.fromarray(channel.astype(np.uint16)) for channel in plane]
    pages[0].save(folder / name, save_all=True, append_images=pages[1:])


@pytest.mark.parametrize("boundary", ["periodic", "free"])
@pytest.mark.parametrize("geometry", ["square", "hexagonal", "cubic"])
def test_states_are_those_of_the_images(geometry: str, boundary: str, tmp_path: Path) -> None:
    lattice = Lattice.of(SHAPES[geometry], geometry, boundary)
    states = [tissue(lattice, seed) for seed in range(3)]
    _, artifact = made(("contact",), geometry, boundary)
    new_model(artifact, states[0], RunPlan(steps=40, snapshots=2)).write(tmp_path / "model.xml")
    model = read_model(tmp_path / "model.xml")
    assert read_snapshots(tmp_path, model) is None
    plotted(states, model, tmp_path)
    found = read_snapshots(tmp_path, model)
    assert found is not None
    assert (found.lattice, found.type_names) == (lattice, ("medium", "A", "B"))
    assert found.arrays["mcs"].tolist() == [0, 20, 40]
    for state, read in zip(states, found, strict=True):
        np.testing.assert_array_equal(read.ids, state.ids)
        present = np.unique(state.ids)
        np.testing.assert_array_equal(read.types[present], state.types[present])


def test_an_image_for_every_time_and_other_images(tmp_path: Path) -> None:
    lattice = Lattice.of(SHAPES["square"])
    states = [tissue(lattice, seed) for seed in range(2)]
    _, artifact = made(("contact",), "square")
    path = tmp_path / "model.xml"
    new_model(artifact, states[0], RunPlan()).write(path)
    text = path.read_text()
    model = read_model(path)
    for number, state in enumerate(states):
        plotted([state], model, tmp_path, f"cell.id_cell.type_{number:05}.tif")
    found = read_snapshots(tmp_path, model)
    assert found is not None
    assert len(found) == 2
    for channels in ('<Channel symbol-ref="cell.id"/>', '<Channel symbol-ref="cell.id"/><Channel symbol-ref="c"/>'):
        start, end = text.index("<Channel"), text.index("</TiffPlotter>")
        path.write_text(text[:start] + channels + text[end:])
        plotted(states, model, tmp_path, "cell.id_c.tif")
        assert read_snapshots(tmp_path, read_model(path)) is None
    path.write_text(text.replace('class="square"', 'class="linear"'))
    assert read_snapshots(tmp_path, read_model(path)) is None
