"""An artifact says what torch says, whatever the architecture, lattice, number of cells and batch."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuralcpm_bridge.artifact import LatticeEntry, load_artifact
from neuralcpm_bridge.backends.onnxruntime import OnnxRuntimeBackend, make_session
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from training.backend import TorchBackend
from training.export import artifact as exporting
from training.export import export, hamiltonian_from_artifact
from training.hamiltonians import batch_states, make_preset
from training.verify import verify_backends

from ..strategies import random_state

ANYWHERE = ("mnist-cellsort", "mnist-nh", "mnist-nh-cnn", "local8-closure")


@pytest.mark.parametrize("name", ANYWHERE)
def test_one_artifact_runs_at_any_size(name: str, models: dict[str, Path]) -> None:
    artifact = load_artifact(models[name])
    exact = hamiltonian_from_artifact(artifact).double()
    session = make_session(artifact)
    rng = np.random.default_rng(0)
    for shape, ids, batch in (((40, 37), 3, 1), ((61, 48), 9, 2), ((36, 90), 20, 3)):
        states = [random_state(rng, shape, ids) for _ in range(batch)]
        grids, types = batch_states(states)
        with torch.no_grad():
            truth = exact(grids, types)
        energy, symbolic, neural = session.run(None, {"ids": grids.numpy(), "types": types.numpy()})
        np.testing.assert_allclose(symbolic, truth.symbolic, rtol=1e-9)
        np.testing.assert_allclose(neural, truth.neural, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(energy, symbolic + neural, rtol=1e-12)


def test_free_boundary_and_circular_padding_are_exported(tmp_path: Path) -> None:
    torch.manual_seed(0)
    hamiltonian = make_preset("local8-closure", lattice=LatticeEntry.of(boundary="free"), padding="circular")
    artifact = export(hamiltonian, tmp_path / "m.onnx")
    assert artifact.metadata.boundary == ("free", "free")
    assert artifact.metadata.neural.padding == "circular"
    states = [random_state(np.random.default_rng(k), (31, 40), 6) for k in range(2)]
    assert verify_backends(artifact, states, 20, 0)["ok"]


def test_fixed_models_refuse_other_sizes(models: dict[str, Path]) -> None:
    cnn = load_artifact(models["mnist-cnn"])
    with pytest.raises(UserError, match="fixed to 9"):
        cnn.place(random_state(np.random.default_rng(0), (36, 40), 8))
    external = load_artifact(models["mnist-external"])
    with pytest.raises(UserError, match="36 × 40"):
        external.place(random_state(np.random.default_rng(0), (40, 40), 8))
    with pytest.raises(UserError, match="at least 18"):
        load_artifact(models["mnist-nh"]).place(random_state(np.random.default_rng(0), (15, 40), 8))


def test_back_to_torch_for_fine_tuning(models: dict[str, Path], tmp_path: Path) -> None:
    artifact = load_artifact(models["local8-closure"])
    hamiltonian = hamiltonian_from_artifact(artifact)
    again = export(hamiltonian, tmp_path / "again.onnx")
    assert again.metadata.parameters == artifact.metadata.parameters
    for name, value in artifact.weights.items():
        np.testing.assert_allclose(again.weights[name], value, rtol=1e-9, err_msg=name)
    hamiltonian.of_states([random_state(np.random.default_rng(0), (30, 30), 5)]).total.sum().backward()


def test_a_file_that_disagrees_is_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = exporting.build_model

    def faulty(metadata, weights):
        model = build(metadata, weights)
        for node in model.graph.node:
            if node.op_type == "Sigmoid":
                node.op_type = "Tanh"
                break
        return model

    monkeypatch.setattr(exporting, "build_model", faulty)
    target = tmp_path / "m.onnx"
    target.write_text("what the user had")
    with pytest.raises(UserError, match="disagrees"):
        export(make_preset("local8"), target)
    assert target.read_text() == "what the user had"
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_unfinished_weights_are_refused(tmp_path: Path) -> None:
    hamiltonian = make_preset("local8")
    with torch.no_grad():
        hamiltonian.network.embedding.bias[0] = float("nan")
    with pytest.raises(UserError, match="not finite"):
        export(hamiltonian, tmp_path / "m.onnx")


def test_back_ends_keep_step_through_changes(models: dict[str, Path]) -> None:
    artifact = load_artifact(models["mnist-nh-cnn"])
    state = random_state(np.random.default_rng(5), (36, 36), 6, absent=False)
    served = [OnnxRuntimeBackend(artifact, state), TorchBackend.exact(artifact, state)]
    for backend in served:
        backend.commit(state.lattice.site(3, 4), 2)
        backend.change_pixels([state.lattice.site(row, 10) for row in (10, 11, 12)], [3, 3, 3])
        backend.set_type(3, 1)
        backend.set_type(6, 2)  # a cell appears …
        backend.change_pixels([state.lattice.site(20, col) for col in (20, 21)], [6, 6])  # … and gets its pixels
    fast, exact = (backend.energy() for backend in served)
    assert fast.neural == pytest.approx(exact.neural, rel=1e-5, abs=1e-4)
    np.testing.assert_array_equal(served[0].state().ids, served[1].state().ids)
    assert served[0].state().types[6] == 2


def test_graphs_know_hexagons_on_skewed_axes_only(tmp_path: Path) -> None:
    artifact = export(make_preset("graph1-closure", lattice=LatticeEntry.of("hexagonal")), tmp_path / "m.onnx")
    lattice = Lattice.of((8, 8), "hexagonal", "periodic", "rows")
    state = random_state(np.random.default_rng(0), lattice.shape, 4, lattice=lattice)
    with pytest.raises(UserError, match="skewed axes"):
        OnnxRuntimeBackend(artifact, state)


def test_weights_are_plain_named_initialisers(models: dict[str, Path]) -> None:
    model = onnx.load(models["local8-closure"], load_external_data=False)
    named = {tensor.name: tensor for tensor in model.graph.initializer}
    artifact = load_artifact(models["local8-closure"])
    for name, value in artifact.weights.items():
        assert named[name].raw_data == value.tobytes()
        assert tuple(named[name].dims) == value.shape
    assert exporting.weights_hash(artifact.weights) == artifact.metadata.weights_hash


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_bit_changed_is_refused(models: dict[str, Path], tmp_path: Path, place: float, bit: int) -> None:
    content = bytearray(models["graph1-closure"].read_bytes())
    # the seal's own entry, its two tags and lengths in front of the key, is what it does not cover
    content[int(place * (content.rindex(exporting.SEAL.encode()) - 4))] ^= 1 << bit
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    with pytest.raises(UserError):
        load_artifact(file)
