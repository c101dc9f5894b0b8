"""How sure a cell graph is: the spread of its committee, and cells unlike those of the training data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from neuralcpm_bridge.artifact import CELL_INPUTS, Artifact, load_artifact
from neuralcpm_bridge.backends.engine import EngineBackend
from neuralcpm_bridge.backends.onnxruntime import OnnxRuntimeBackend
from neuralcpm_bridge.delta import DeltaBackend
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState
from training.backend import TorchBackend
from training.export import export
from training.hamiltonians import States

from .test_cell_graph import Sizes, graph_on
from .worlds import World, compact_state, neighbour_flips, worlds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("committee")


def learned(world: World, sizes: Sizes, seen: CellState, path: Path) -> Artifact:
    """A model whose training data are one state."""
    hamiltonian = graph_on(world, sizes)
    hamiltonian.network.learn_statistics([hamiltonian.network.describe(States.of([seen]))])
    return export(hamiltonian, path, examples=[seen])


@settings(max_examples=6)
@given(worlds())
def test_back_ends_are_as_sure(folder: Path, world: World) -> None:
    rng = world.rng
    seen, other = compact_state(world.lattice, rng), compact_state(world.lattice, rng, 8)
    artifact = learned(world, Sizes(2, 3), seen, folder / "m.onnx")
    backends: list[DeltaBackend] = [
        TorchBackend.exact(artifact, seen),
        EngineBackend(artifact, seen),
        OnnxRuntimeBackend(artifact, seen, threads=1),
    ]
    for backend in backends:
        assert backend.inside_range().all()
        backend.reset(other)
    flips = [(int(site), int(new)) for site, new in zip(*neighbour_flips(other, rng, 4), strict=True)]
    spreads = [[backend.spread(), *(backend.delta_spread(*flip) for flip in flips)] for backend in backends]
    members = EngineBackend(artifact, other).engine.member_energies()
    assert spreads[1][0] == pytest.approx(np.std(members))
    assert spreads[0][0] > 0
    np.testing.assert_allclose(spreads[1:], [spreads[0]] * 2, rtol=1e-5, atol=2e-4)
    inside = [backend.inside_range() for backend in backends]
    np.testing.assert_array_equal(inside[1:], [inside[0]] * 2)
    absent = (other.volumes == 0) | (np.arange(other.types.size) == 0)
    assert inside[0][absent].all()
    low, high = (artifact.weights[f"neural.{end}"] for end in ("low", "high"))
    for cell in np.flatnonzero(~absent):
        known = low[other.types[cell], 0] <= other.volumes[cell] <= high[other.types[cell], 0]
        assert known or not inside[0][cell]


@pytest.mark.parametrize("name", ["mnist-cellsort", "local8-closure", "mnist-cnn"])
def test_other_models_are_their_only_member(name: str, models: dict[str, Path]) -> None:
    artifact = load_artifact(models[name])
    state = artifact.metadata.example_states()[0]
    kinds = [OnnxRuntimeBackend, EngineBackend] if artifact.engine_serves else [OnnxRuntimeBackend]
    for backend in (kind(artifact, state) for kind in kinds):
        assert (backend.spread(), backend.delta_spread(5, 1)) == (0.0, 0.0)
        np.testing.assert_array_equal(backend.inside_range(), np.ones(state.types.size, dtype=bool))


def test_what_is_printed(cli, tmp_path: Path) -> None:
    world = World(Lattice.of((20, 21)), 2, 4)
    seen = compact_state(world.lattice, world.rng)
    artifact = learned(world, Sizes(1, 2), seen, tmp_path / "m.onnx")
    ids = seen.ids.copy()
    ids[ids == 1] = 0
    ids[:8, :9] = 1  # larger than any cell of the data
    strange = CellState(ids, seen.types, world.lattice)
    Snapshots.from_states([seen, strange], type_names=artifact.metadata.types).save(tmp_path / "states.npz")

    code, out, err = cli("energy", artifact.path, tmp_path / "states.npz", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert list(found) == ["energy", "symbolic", "neural", "spread", "outside"]
    for number, state in enumerate((seen, strange)):
        backend = EngineBackend(artifact, state)
        assert found["neural"][number] == backend.energy().neural
        assert found["spread"][number] == backend.spread() > 0
    assert found["outside"][0] == []
    assert 1 in found["outside"][1]
    _, out, _ = cli("energy", artifact.path, tmp_path / "states.npz")
    assert "spread" in out
    assert "outside" in out

    printed = json.loads(cli("info", artifact.path, "--json")[1])
    assert printed["neural"]["members"] == 2
    assert {cell_type: list(inputs) for cell_type, inputs in printed["ranges"].items()} == {
        name: list(CELL_INPUTS) for name in ("A", "B") if (seen.types[1:4] == ("A", "B").index(name) + 1).any()
    }
    volumes = seen.volumes[1:][seen.volumes[1:] > 0]
    ranges = [inputs["volume"] for inputs in printed["ranges"].values()]
    assert min(low for low, _ in ranges) == pytest.approx(volumes.min(), rel=1e-4)
    assert max(high for _, high in ranges) == pytest.approx(volumes.max(), rel=1e-4)
    _, out, _ = cli("info", artifact.path)
    assert "a committee of 2" in out
    assert "training data, A" in out or "training data, B" in out
