"""Properties of cells in Morpheus models: written by `new`, asked for by `inject` and `check`, read from a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from morpheus_xml.check import check_model
from morpheus_xml.inject import inject
from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.reader import read_model
from morpheus_xml.snapshots import read_snapshots
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.state import CellState
from training.export import export
from training.hamiltonians import make_preset

from .conftest import USER_MODEL
from .test_snapshots import plotted

TYPES = {"red": "A", "blue": "B"}
AGE = '<Property symbol="age" value="2"/>'


@pytest.fixture(scope="session")
def aged(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    torch.manual_seed(0)
    made = make_preset("graph1-closure", target_volume=16.0, properties=("age", "size"))
    return export(made, tmp_path_factory.mktemp("aged") / "aged.onnx")


def small_state() -> CellState:
    ids = np.zeros((12, 14), dtype=np.int32)
    ids[2:6, 2:6], ids[2:6, 7:11] = 1, 3
    columns = {"size": [0, 0.1, 0, -4e-9], "age": [0, 1 / 3, 0, 5]}
    return CellState(ids, np.array([0, 2, -1, 1]), properties=columns)


def test_new_writes_properties_and_what_each_cell_has(aged: Artifact, tmp_path: Path) -> None:
    model = new_model(aged, small_state(), RunPlan(steps=10, snapshots=2))
    model.write(tmp_path / "model.xml")
    assert check_model(read_model(tmp_path / "model.xml")) == []
    for cell_type in model.root.iterfind("CellTypes/CellType[@class='biological']"):
        assert [p.get("symbol") for p in cell_type.iterfind("Property")] == ["age", "size"]
    found = {
        cell.get("id"): {data.get("symbol-ref"): float(data.get("value", "")) for data in cell.iterfind("PropertyData")}
        for cell in model.root.iter("Cell")
    }
    assert found == {"1": {"age": 1 / 3, "size": 0.1}, "3": {"age": 5.0, "size": -4e-9}}
    logged = [symbol.get("symbol-ref") for symbol in model.root.iterfind("Analysis/Logger/Input/Symbol")]
    assert logged == ["age", "size"]
    # A symbol is one thing: the lattice's size makes room for a cell's.
    taken = [element.get("symbol") for element in model.root.iter("Size", "SpaceSymbol", "TimeSymbol")]
    assert taken == ["size_", "space", "time"]


def test_a_state_without_them_is_refused(aged: Artifact) -> None:
    with pytest.raises(UserError, match="reads the property 'age' of every cell"):
        new_model(aged, replace(small_state(), properties={}), RunPlan())


def user_model(folder: Path, red: str, blue: str, shared: str = "") -> Path:
    text = USER_MODEL.replace('symbol="size"', 'symbol="lattice"')
    text = text.replace('name="blue"/>', f'name="blue">{blue}</CellType>')
    text = text.replace('<VolumeConstraint target="80"', f'{red}<VolumeConstraint target="80"')
    text = text.replace("<Global>", f"<Global>{shared}")
    path = folder / "user.xml"
    path.write_text(text, encoding="utf-8")
    return path


SIZE = '<Constant symbol="size" value="3"/>'


@pytest.mark.parametrize(
    ("red", "blue", "shared", "sentence"),
    [
        ("", "", SIZE, "<CellType>: it has no property 'age'.* add <Property symbol=\"age\"> to the cell type 'red'"),
        (AGE, "", SIZE, "property 'age'.* cell type 'blue'"),
        (AGE, AGE, "", "property 'size'.* cell type 'red'"),
    ],
)
def test_a_cell_type_that_lacks_one_is_refused(
    red: str, blue: str, shared: str, sentence: str, aged: Artifact, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        inject(user_model(tmp_path, red, blue, shared), aged, types=TYPES)
    assert "\n" not in str(caught.value)


def test_cell_types_that_have_them_are_taken(aged: Artifact, tmp_path: Path) -> None:
    """Of its own, or for all cells alike; types that the model does not see need none."""
    content = inject(user_model(tmp_path, AGE, AGE, SIZE), aged, types=TYPES).content
    assert content.count(b"<NeuralHamiltonian") == 2
    content = inject(user_model(tmp_path, AGE, "", SIZE), aged, types={"red": "A", "blue": "medium"}).content
    path = tmp_path / "unseen.xml"
    path.write_bytes(content)
    assert check_model(read_model(path)) == []


def test_check_looks_into_the_model_file(aged: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "learned.xml"
    path.write_bytes(inject(user_model(tmp_path, AGE, AGE, SIZE), aged, types=TYPES).content)
    assert check_model(read_model(path)) == []
    path.write_text(path.read_text().replace(AGE, "", 1))
    (finding,) = check_model(read_model(path))
    assert "no property 'age'" in str(finding)
    (tmp_path / "broken.onnx").write_text("nothing")
    path.write_text(path.read_text().replace(str(aged.path.resolve()), "broken.onnx"))
    assert any("broken.onnx" in str(finding) for finding in check_model(read_model(path)))


@pytest.mark.parametrize("times", [(0, 5, 10), (0, 10)])
def test_a_run_gives_back_the_properties_of_its_cells(times: tuple[int, ...], aged: Artifact, tmp_path: Path) -> None:
    """Page by page, where the table has as many times as there are images."""
    state = small_state()
    new_model(aged, state, RunPlan(steps=10, snapshots=2)).write(tmp_path / "model.xml")
    model = read_model(tmp_path / "model.xml")
    plotted([state] * 3, model, tmp_path)
    lines = ['"time","cell.id","age","size"']
    for time in times:
        lines += [f"{time},1,{time + 0.5},7", f"{time},3,-1,8", ""]
    (tmp_path / "properties.csv").write_text("\n".join(lines))
    found = read_snapshots(tmp_path, model)
    assert found is not None
    if len(times) == 3:
        assert found.property_names == ("age", "size")
        assert found.properties[:, 1, 0].tolist() == [0.5, 5.5, 10.5]
        assert found.properties[2, 3].tolist() == [-1, 8]
    else:
        assert found.property_names == ()
