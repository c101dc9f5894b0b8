"""A file with a property, a committee or a cubic lattice: one sentence from each thing that cannot serve it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from cc3d_steppables.check import check_fit as check_cc3d
from morpheus_xml.check import check_fit as check_morpheus
from morpheus_xml.inject import inject
from morpheus_xml.reader import read_model
from neuralcpm_bridge._engine import EngineError, Model
from neuralcpm_bridge.artifact import Artifact, LatticeEntry
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots
from neuralcpm_bridge.state import CellState
from training.config import make_config
from training.export import export
from training.hamiltonians import make_preset
from training.trainer import Trainer

from ..cc3d.fake_host import facts
from ..engine.models import LOCAL, metadata, network_weights
from ..morpheus.conftest import USER_MODEL


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    torch.manual_seed(0)
    folder, cubic = tmp_path_factory.mktemp("models"), LatticeEntry.of("cubic")
    made = {
        "property": make_preset("graph1", target_volume=20.0, properties=("age",)),
        "cubic": make_preset("graph1-closure", target_volume=20.0, lattice=cubic),
    }
    return {name: export(hamiltonian, folder / f"{name}.onnx") for name, hamiltonian in made.items()}


@pytest.fixture
def plane(tmp_path: Path) -> Snapshots:
    """Square states of cells that have no properties."""
    ids = np.zeros((2, 24, 24), dtype=np.int32)
    ids[:, 4:9, 4:9], ids[:, 9:14, 4:9] = 1, 2
    data = Snapshots(ids, np.array([[0, 1, 2]] * 2, dtype=np.int32), ("medium", "A", "B"))
    data.save(tmp_path / "plane.npz")
    return data


def user_model(folder: Path) -> Path:
    path = folder / "user.xml"
    path.write_text(USER_MODEL, encoding="utf-8")
    return path


def said(call: Callable[[], object]) -> str:
    with pytest.raises((UserError, EngineError, ValueError)) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_property(models: dict[str, Artifact], plane: Snapshots, tmp_path: Path, refused) -> None:
    model, data = models["property"], tmp_path / "plane.npz"
    assert "reads the property 'age' of every cell" in said(lambda: open_backend(model, plane[0]))
    assert "State 0 of" in said(lambda: load_snapshots(data, model))
    for verb in (["energy", model.path, data], ["evaluate", model.path, data]):
        assert "reads the property 'age'" in refused(*verb)
    assert "reads the property 'age'" in refused("cc3d", "new", model.path, "--state", data, "-o", tmp_path / "p")
    assert "reads the property 'age'" in refused("morpheus", "new", model.path, "--state", data, "-o", tmp_path / "x")
    assert "by their types alone" in refused("distill", model.path, "--data", data, "-o", tmp_path / "d.onnx")
    types = {"red": "A", "blue": "B"}
    assert "no property 'age'" in said(lambda: inject(user_model(tmp_path), model, types=types))
    config = make_config({"model": {"preset": "graph1", "properties": ["age"]}})
    assert "reads the property 'age'" in said(lambda: Trainer(config, plane))
    config = make_config({"model": {"preset": "local8-closure", "properties": ["age"]}})
    with_age = Snapshots(plane.ids, plane.types, properties=np.ones((2, 3, 1)), property_names=("age",))
    assert "is no cell graph" in said(lambda: Trainer(config, with_age))


@pytest.mark.parametrize(("key", "value"), [("members", 4), ("properties", ["age"])])
def test_a_committee_or_properties_of_convolutions(key: str, value: object) -> None:
    weights = network_weights(np.random.default_rng(0), LOCAL)
    description = json.dumps(metadata(weights, neural=LOCAL | {key: value}))
    assert "cell graphs alone have" in said(lambda: Model(description, weights))


def test_a_committee(plane: Snapshots) -> None:
    config = make_config({"model": {"preset": "local8-closure", "members": 4}})
    assert "committee of 4 members" in said(lambda: Trainer(config, plane))


def test_a_cubic_lattice(models: dict[str, Artifact], plane: Snapshots, tmp_path: Path, refused) -> None:
    model = models["cubic"]
    assert "square lattice, but the model is for cubic ones" in said(lambda: open_backend(model, plane[0]))
    assert "the model is for cubic ones" in refused("energy", model.path, tmp_path / "plane.npz")
    assert "the model is for cubic lattices" in said(lambda: check_cc3d(facts(), model, "neural"))
    file = read_model(user_model(tmp_path))
    assert "the model is for cubic lattices" in said(lambda: check_morpheus(file, model, "neural"))
    solid = CellState(np.zeros((12, 12, 12), dtype=np.int32), np.array([0]))
    assert "is for square ones" in said(lambda: open_backend(models["property"], solid))
    weights = network_weights(np.random.default_rng(0), LOCAL)
    description = json.dumps(metadata(weights, neural=LOCAL, geometry="cubic"))
    assert "2D square lattices" in said(lambda: Model(description, weights))
    config = make_config({"model": {"preset": "local8-closure"}})
    cubes = Snapshots.from_states([solid])
    cubes.ids[0, 2:6, 2:6, 2:6], cubes.types = 1, np.array([[0, 1]], dtype=np.int32)
    cubes.properties = np.zeros((1, 2, 0))
    assert "square ones only" in said(lambda: Trainer(config, cubes))
