"""Every term on every lattice: one energy in torch, in ONNX Runtime and in the engine, and ΔH its difference."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralcpm_bridge._engine import State
from neuralcpm_bridge.artifact import Metadata, load_artifact
from neuralcpm_bridge.lattice import GEOMETRIES, Lattice
from neuralcpm_bridge.state import CellState
from neuralcpm_bridge.terms import TERMS as DECLARED
from training.backend import TorchBackend
from training.export import export, hamiltonian_from_artifact
from training.export.artifact import symbolic_spec, weights_of
from training.export.graph import build_model
from training.hamiltonians import TERMS, Flips, Hamiltonian, Length, States, batch_states
from training.samplers import model_of

from .worlds import NAMES, World, compact_state, neighbour_flips, noise_state, random_hamiltonian, worlds

FORMAT1 = Path(__file__).parents[1] / "data" / "format1"
ANY_SHAPE = tuple(name for name in TERMS if name != "length")
"""Terms that are defined for cells of any width."""


def session_of(hamiltonian: Hamiltonian) -> onnxruntime.InferenceSession:
    weights = weights_of(hamiltonian)
    metadata = Metadata(
        name="x",
        architecture=hamiltonian.architecture,
        parameters=0,
        types=NAMES,
        lattice=hamiltonian.lattice,
        fixed_lattice=hamiltonian.lattice.shape,
        symbolic=symbolic_spec(hamiltonian, weights),
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(build_model(metadata, weights).SerializeToString(), options)


def check_agreement(hamiltonian: Hamiltonian, states: list[CellState]) -> None:
    """Energies and ΔH of all three are the same."""
    ids, types = batch_states(states)
    with torch.no_grad():
        truth = hamiltonian(ids, types).symbolic.numpy()
    served = session_of(hamiltonian).run(["symbolic"], {"ids": ids.numpy(), "types": types.numpy()})[0]
    np.testing.assert_allclose(served, truth, rtol=1e-10, atol=1e-6)
    model = model_of(hamiltonian)
    for number, state in enumerate(states):
        engine = State(model, state.ids, types[number].int().numpy())
        assert engine.energy()[0] == pytest.approx(truth[number], rel=1e-10, abs=1e-5)
        sites, new_ids = neighbour_flips(state, np.random.default_rng(number))
        with torch.no_grad():
            flips = (torch.from_numpy(array)[None] for array in (sites, new_ids))
            deltas = hamiltonian.flip_deltas(States.of([state]), *flips)
        np.testing.assert_allclose(engine.deltas(sites, new_ids)[:, 0], deltas[0], rtol=1e-9, atol=1e-5)


@given(worlds())
@settings(max_examples=30)
def test_engine_onnx_runtime_and_torch_agree_on_every_lattice(world: World) -> None:
    rng = world.rng
    check_agreement(random_hamiltonian(world), [compact_state(world.lattice, rng) for _ in range(2)])


def agree_on_rows(hamiltonian: Hamiltonian, state: CellState) -> None:
    """Energies and ΔH of hexagons as CompuCell3D stores them, at their sides and round every ring."""
    truth = TorchBackend(hamiltonian, state)
    lattice = state.lattice
    engine = State(model_of(hamiltonian), state.ids, state.types, layout=lattice.layout, boundary=lattice.boundary)
    assert engine.energy()[0] == pytest.approx(truth.energy().symbolic, rel=1e-10, abs=1e-5)
    sites, new_ids = neighbour_flips(state, np.random.default_rng(0))
    found = engine.deltas(sites, new_ids)[:, 0]
    np.testing.assert_allclose(found, truth.deltas(sites, new_ids)[:, 0], rtol=1e-9, atol=1e-5)


@given(worlds(layout="rows"))
@settings(max_examples=20)
def test_torch_knows_hexagons_in_rows(world: World) -> None:
    agree_on_rows(random_hamiltonian(world), compact_state(world.lattice, world.rng))


@given(worlds(narrow=True, layout="rows"))
@settings(max_examples=20)
def test_torch_knows_few_rows_and_narrow_ones(world: World) -> None:
    agree_on_rows(random_hamiltonian(world, *ANY_SHAPE), noise_state(world.lattice, world.rng))


@given(worlds(narrow=True))
@settings(max_examples=40)
def test_they_agree_on_lattices_narrower_than_neighbourhoods(world: World) -> None:
    rng = world.rng
    hamiltonian = random_hamiltonian(world, *ANY_SHAPE)
    check_agreement(hamiltonian, [noise_state(world.lattice, rng) for _ in range(2)])


@pytest.mark.parametrize("name", TERMS)
@given(worlds())
@settings(max_examples=15)
def test_the_delta_of_every_term_is_a_difference_of_energies(name: str, world: World) -> None:
    rng = world.rng
    state = compact_state(world.lattice, rng)
    term = random_hamiltonian(world, name).terms[name]
    sites, new_ids = (torch.from_numpy(array)[None] for array in neighbour_flips(state, rng))
    flips = Flips(States(*batch_states([state]), world.lattice), sites, new_ids)
    with torch.no_grad():
        torch.testing.assert_close(term.flip_delta(flips), flips.differences(term), rtol=1e-9, atol=1e-9)
        features = term.features(flips)
    if features is not None:  # what a warm start fits is the same ΔH, taken apart
        energies = torch.linspace(0.5, 1.5, features.shape[2], dtype=torch.float64)
        term.start_at(energies)
        with torch.no_grad():
            torch.testing.assert_close(features @ energies, term.flip_delta(flips), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
@settings(max_examples=8)
def test_turns_and_mirrors_leave_the_energy_unchanged(geometry: str, seed: int, order: int) -> None:
    side = 8 if geometry == "cubic" else 12
    lattice = Lattice.of((side,) * GEOMETRIES[geometry].dimension, geometry)
    world = World(lattice, order, seed)
    state = compact_state(lattice, world.rng)
    turned = [
        CellState(state.ids.ravel()[turn].reshape(state.shape), state.types, lattice) for turn in lattice.symmetries()
    ]
    assert len(turned) == {"square": 8, "hexagonal": 12, "cubic": 48}[geometry]
    hamiltonian = random_hamiltonian(world, *(name for name in TERMS if name != "external"))
    with torch.no_grad():
        energies = hamiltonian.of_states([state, *turned]).total
    torch.testing.assert_close(energies, energies[:1].expand_as(energies), rtol=1e-10, atol=1e-6)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_lengths_are_those_of_known_shapes(geometry: str) -> None:
    """A row of n sites one apart has the variance (n² − 1)/12 along it and none across, in every direction."""
    named = GEOMETRIES[geometry]
    lattice = Lattice.of((16,) * named.dimension, geometry)
    factor = 4.0 if named.dimension == 2 else 2 * np.sqrt(5)
    for offset in named.offsets(1):
        ids = np.zeros(lattice.shape, dtype=np.int32)
        for step in range(5):
            ids[tuple((14 + step * offset) % 16)] = 1  # across the border
        states = States(*batch_states([CellState(ids, np.array([0, 1, 1]), lattice)]), lattice)
        longest, shortest = Length(torch.ones(1), torch.ones(1)).measured(states)[0].T
        np.testing.assert_allclose(longest[1:], [factor * np.sqrt(2.0), 0.0], atol=1e-12)
        np.testing.assert_allclose(shortest[1:], 0.0, atol=1e-12)


@given(worlds())
@settings(max_examples=6)
def test_a_model_comes_back_from_its_file(tmp_path_factory: pytest.TempPathFactory, world: World) -> None:
    hamiltonian = random_hamiltonian(world)
    path = tmp_path_factory.mktemp("models") / "model.onnx"
    artifact = export(hamiltonian, path)
    again = hamiltonian_from_artifact(load_artifact(path))
    assert (again.lattice, again.orders, again.type_names) == (world.entry, hamiltonian.orders, NAMES)
    assert artifact.metadata.architecture == again.architecture == "external"
    weights = weights_of(again)
    for name, value in weights_of(hamiltonian).items():
        np.testing.assert_allclose(weights[name], value, rtol=1e-12, atol=1e-15, err_msg=name)
    assert list(artifact.metadata.symbolic.terms) == list(TERMS)


def test_training_and_runtime_declare_the_same_terms() -> None:
    assert list(TERMS) == list(DECLARED)
    world = World(Lattice.of((8, 8, 8), "cubic"), 2, 0)
    hamiltonian = random_hamiltonian(world)
    for name, term in hamiltonian.terms.items():
        spec = DECLARED[name]
        assert list(term.weights(len(NAMES))) == list(spec.weights)
        assert (term.order is not None) == spec.ordered
    assert hamiltonian.orders == {name: 2 for name, spec in DECLARED.items() if spec.ordered}


@pytest.mark.parametrize("name", sorted(path.stem for path in FORMAT1.glob("*.onnx")))
def test_square_lattices_keep_every_energy(name: str) -> None:
    """Files of format 1 with the numbers that torch gave when they were kept."""
    artifact = load_artifact(FORMAT1 / f"{name}.onnx")
    exact = hamiltonian_from_artifact(artifact).double()
    numbers = json.loads((FORMAT1 / "numbers.json").read_text())[name]["examples"]
    for state, example in zip(artifact.metadata.example_states(), artifact.metadata.examples, strict=True):
        with torch.no_grad():
            found = exact.of_states([state])
        assert found.symbolic.item() == pytest.approx(example.symbolic, rel=1e-12)
        assert found.neural.item() == pytest.approx(example.neural, rel=1e-9, abs=1e-9)
    assert len(numbers) == len(artifact.metadata.examples)
