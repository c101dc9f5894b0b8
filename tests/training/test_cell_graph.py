"""The cell graph: torch in float64, ONNX Runtime and the engine say what a plain reference says, on every lattice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralcpm_bridge._engine import State
from neuralcpm_bridge.artifact import LatticeEntry, Metadata, NeuralEntry, NeuralSpec, load_artifact
from neuralcpm_bridge.backends.engine import EngineBackend
from neuralcpm_bridge.backends.onnxruntime import make_session
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState
from training.backend import TorchBackend
from training.export import export, hamiltonian_from_artifact
from training.export.artifact import weights_of
from training.export.graph import build_model
from training.hamiltonians import CellGraph, Hamiltonian, States, batch_states, make_preset
from training.samplers import model_of
from training.verify import verify_backends

from ..cell_graph import Weights, reference
from .worlds import NAMES, World, compact_state, neighbour_flips, worlds

# -- what is compared ----------------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    rounds: int
    members: int
    knots: int = 0


SIZES = st.sampled_from([Sizes(1, 1), Sizes(2, 1, 3), Sizes(3, 1), Sizes(1, 2, 6), Sizes(2, 3)])


def graph_on(world: World, sizes: Sizes, loudness: float = 1.0, properties: tuple[str, ...] = ()) -> Hamiltonian:
    """Random weights, energies of a few units per cell; statistics of other cells than those that come, so that many
    inputs are clamped."""
    torch.manual_seed(world.seed)
    spec = NeuralSpec(kind="cell_graph", order=world.order, properties=properties, **sizes._asdict())
    network = CellGraph(spec, len(NAMES), world.entry, volume=8.0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(loudness)
        for member in network.members:
            member.out.weight.mul_(10)
            if sizes.knots:
                member.pairs.normal_()
    return Hamiltonian(NAMES, None, network, network_weight=1.5, lattice=world.entry)


def sparse_state(world: World) -> CellState:
    """Lone cells, cells of one pixel, two of them side by side."""
    rng, lattice = world.rng, world.lattice
    ids = np.zeros(lattice.sites, dtype=np.int32)
    places = rng.permutation(lattice.sites)[:4]
    ids[places] = [1, 2, 3, 4]
    near = lattice.neighbours(1, places[:1])[0]
    ids[near[near >= 0][0]] = 5
    return CellState(ids.reshape(lattice.shape), np.array([0, 1, 2, 1, 2, 2, 1, -1]), lattice)


def states_of(world: World) -> list[CellState]:
    nothing = CellState(np.zeros(world.lattice.shape, dtype=np.int32), np.array([0, 1]), world.lattice)
    return [compact_state(world.lattice, world.rng), sparse_state(world), nothing]


def named(hamiltonian: Hamiltonian) -> Weights:
    return {key.removeprefix("neural."): value.astype(float) for key, value in weights_of(hamiltonian).items()}


@settings(max_examples=25)
@given(worlds(), SIZES)
def test_torch_and_the_engine_say_what_the_reference_says(world: World, sizes: Sizes) -> None:
    hamiltonian = graph_on(world, sizes)
    weights, spec = named(hamiltonian), hamiltonian.network.spec
    model = model_of(hamiltonian)
    states = states_of(world)
    truth = [1.5 * np.mean(reference(state, spec, weights)) for state in states]
    with torch.no_grad():
        single, double = (
            each.of_states(states).neural.numpy() for each in (hamiltonian, graph_on(world, sizes).double())
        )
    np.testing.assert_allclose(double, truth, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(single, truth, rtol=1e-5, atol=1e-5)
    for state, energy in zip(states, truth, strict=True):
        engine = State(model, state.ids, state.types)
        assert engine.energy() == pytest.approx((0.0, energy), abs=2e-4)


@settings(max_examples=15)
@given(worlds(layout="rows"), SIZES)
def test_torch_knows_hexagons_in_rows(world: World, sizes: Sizes) -> None:
    hamiltonian = graph_on(world, sizes).double()
    for state in states_of(world):
        truth = 1.5 * np.mean(reference(state, hamiltonian.network.spec, named(hamiltonian)))
        assert TorchBackend(hamiltonian, state).energy().neural == pytest.approx(truth, rel=1e-10, abs=1e-10)


def hard_flips(state: CellState, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Copies from around; the last pixels of cells taken by the medium and by a neighbour; a cell's first pixel, in the
    medium and in place of another's."""
    sites, new_ids = neighbour_flips(state, rng)
    last = np.flatnonzero(state.volumes[state.ids.ravel()] == 1)[:3]
    beside = [state.ids.ravel()[near[near >= 0][-1]] for near in state.lattice.neighbours(1, last)]
    empty = np.flatnonzero((state.types > 0) & (state.volumes == 0))[:1]
    anywhere = rng.integers(state.lattice.sites, size=4 * empty.size)
    new = [new_ids, np.zeros(last.size), np.array(beside), np.repeat(empty, 4)]
    return np.concatenate([sites, last, last, anywhere]), np.concatenate(new).astype(np.int64)


@settings(max_examples=15)
@given(worlds(), SIZES, st.sampled_from([1.0, 4.0]), st.booleans())
def test_flips_cost_what_whole_energies_say(world: World, sizes: Sizes, loudness: float, sparse: bool) -> None:
    """Contacts and cells that appear and vanish among them; loud networks reach the messages' bound."""
    hamiltonian = graph_on(world, sizes, loudness)
    rng = world.rng
    state = sparse_state(world) if sparse else compact_state(world.lattice, rng)
    sites, new_ids = hard_flips(state, rng)
    exact = graph_on(world, sizes, loudness).double()
    states = States.of([state])
    with torch.no_grad():
        truth = exact.flip_deltas(states, torch.from_numpy(sites)[None], torch.from_numpy(new_ids)[None])[0].numpy()
    engine = State(model_of(hamiltonian), state.ids, state.types)
    largest = max(abs(engine.energy()[1]), float(np.abs(truth).max()))
    tolerance = {"rtol": 0, "atol": max(2e-4, 1e-5 * largest)}
    np.testing.assert_allclose(engine.deltas(sites.astype(np.int64), new_ids)[:, 1], truth, **tolerance)
    flipped = np.repeat(state.ids.reshape(1, -1), 1 + sites.size, axis=0).astype(np.int64)
    flipped[np.arange(1, 1 + sites.size), sites] = new_ids
    inputs = {
        "ids": flipped.reshape(-1, *state.shape),
        "types": np.repeat(state.types[None], len(flipped), axis=0).astype(np.int64),
    }
    energies = session_of(hamiltonian).run(["neural"], inputs)[0]
    np.testing.assert_allclose(energies[1:] - energies[0], truth, **tolerance)


@settings(max_examples=12)
@given(worlds(), SIZES)
def test_the_exported_graph_says_it_too(world: World, sizes: Sizes) -> None:
    hamiltonian = graph_on(world, sizes)
    weights, spec = named(hamiltonian), hamiltonian.network.spec
    session = session_of(hamiltonian)
    states = states_of(world)
    ids, types = (tensor.numpy() for tensor in batch_states(states))
    members = np.array([reference(state, spec, weights) for state in states])
    energy, symbolic, neural, spread, of_members, inside = session.run(None, {"ids": ids, "types": types})
    np.testing.assert_allclose(neural, 1.5 * members.mean(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(spread, 1.5 * members.std(1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(of_members, 1.5 * members, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(energy, neural)
    assert inside.shape == types.shape
    assert not symbolic.any()


def session_of(hamiltonian: Hamiltonian) -> onnxruntime.InferenceSession:
    """ONNX Runtime on the exported graph, without a file."""
    weights = weights_of(hamiltonian)
    metadata = Metadata(
        name="graph",
        architecture=hamiltonian.architecture,
        parameters=0,
        types=NAMES,
        lattice=hamiltonian.lattice,
        neural=NeuralEntry(**hamiltonian.network.spec.model_dump(), weight=float(weights["neural.weight"])),
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(build_model(metadata, weights).SerializeToString(), options)


# -- invariances ---------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(worlds(), st.data())
def test_energies_do_not_depend_on_numbers_places_turns_and_mirrors(world: World, data: st.DataObject) -> None:
    lattice, rng = world.lattice, world.rng
    exact = graph_on(world, Sizes(2, 1)).double()
    state = compact_state(lattice, rng)
    number = np.concatenate([[0], 1 + rng.permutation(state.types.size - 1)])
    types = np.empty_like(state.types)
    types[number] = state.types
    renumbered = CellState(number[state.ids].astype(np.int32), types, lattice)
    axes = zip(lattice.shape, lattice.periodic, strict=True)
    shift = [data.draw(st.integers(0, size - 1)) if wraps else 0 for size, wraps in axes]
    shifted = CellState(np.roll(state.ids, shift, tuple(range(lattice.dimension))), state.types, lattice)
    turn = data.draw(st.sampled_from(lattice.symmetries()))
    turned = CellState(state.ids.ravel()[turn].reshape(lattice.shape), state.types, lattice)
    with torch.no_grad():
        first, *others = exact.of_states([state, renumbered, shifted, turned]).neural.tolist()
    assert others == pytest.approx([first] * 3, rel=1e-10, abs=1e-10)


def test_empty_and_absent_ids_change_nothing() -> None:
    world = World(Lattice.of((12, 13), "hexagonal", "free"), 1, 5)
    exact = graph_on(world, Sizes(2, 2)).double()
    state = compact_state(world.lattice, world.rng)
    more = CellState(state.ids, np.concatenate([state.types, [1, -1, 2]]), world.lattice)
    with torch.no_grad():
        first, second = exact.of_states([state, more]).neural.tolist()
    assert first == pytest.approx(second, rel=1e-12)


def test_far_from_the_data_the_energy_goes_flat() -> None:
    world = World(Lattice.of((40, 40)), 2, 3)
    exact = graph_on(world, Sizes(1, 1)).double()

    def energy(side: int) -> float:
        ids = np.zeros((40, 40), dtype=np.int32)
        ids[:side, :side] = 1
        with torch.no_grad():
            return exact.of_states([CellState(ids, np.array([0, 1]), world.lattice)]).neural.item()

    near, far = (abs(energy(side + 1) - energy(side)) for side in (3, 18))
    assert far < 0.05 * near


# -- model files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", ["square", "hexagonal", "cubic"])
def test_a_closure_through_a_file_and_back(geometry: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    lattice = LatticeEntry.of(geometry, "free")
    hamiltonian = make_preset("graph2-closure", lattice=lattice, members=2, order=2, target_volume=20.0)
    artifact = export(hamiltonian, tmp_path / "m.onnx")
    meta = artifact.metadata
    assert meta.architecture == "graph_closure"
    assert artifact.engine_serves
    assert meta.neural.model_dump() == {
        "kind": "cell_graph", "weight": 1.0, "rounds": 2, "width": 16, "members": 2, "order": 2,
        "knots": 0, "properties": (),
    }  # fmt: skip
    assert verify_backends(artifact, meta.example_states(), 24, 0)["ok"]
    again = hamiltonian_from_artifact(load_artifact(artifact.path))
    for key, value in weights_of(hamiltonian).items():
        np.testing.assert_allclose(weights_of(again)[key], value, rtol=1e-12, err_msg=key)


@pytest.mark.parametrize("geometry", ["square", "hexagonal", "cubic"])
def test_one_file_runs_at_any_size(geometry: str, tmp_path: Path) -> None:
    """Lattices of three sizes, and of each states with ever more cells."""
    torch.manual_seed(2)
    entry = LatticeEntry.of(geometry, "periodic")
    artifact = export(make_preset("graph1", lattice=entry, target_volume=15.0), tmp_path / "m.onnx")
    session, exact = make_session(artifact), hamiltonian_from_artifact(artifact).double()
    shapes = ((12, 30), (25, 16), (40, 40)) if geometry != "cubic" else ((8, 9, 14), (11, 8, 8), (16, 16, 16))
    for number, shape in enumerate(shapes):
        world = World(Lattice.of(shape, geometry), 2, number)
        rng = world.rng
        states = [compact_state(world.lattice, rng, 4 + 3 * k) for k in range(1 + number)]
        ids, types = batch_states(states)
        with torch.no_grad():
            truth = exact(ids, types).neural
        found = session.run(["neural"], {"ids": ids.numpy(), "types": types.numpy()})[0]
        np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-5)
        engine = [EngineBackend(artifact, state).energy().neural for state in states]
        np.testing.assert_allclose(engine, truth, rtol=1e-5, atol=2e-4)


def test_named_properties_are_inputs() -> None:
    world = World(Lattice.of((12, 13)), 2, 11)
    hamiltonian = graph_on(world, Sizes(1, 2), properties=("age", "marker"))
    state = compact_state(world.lattice, world.rng)
    values = world.rng.normal(size=(state.types.size, 2))
    state = replace(state, properties={"age": values[:, 0], "marker": values[:, 1]})
    truth = 1.5 * np.mean(reference(state, hamiltonian.network.spec, named(hamiltonian)))
    ids, types = batch_states([state])
    with torch.no_grad():
        found = 1.5 * hamiltonian.network(ids, types, torch.from_numpy(values)[None])
    assert found.item() == pytest.approx(truth, rel=1e-5)
    inputs = {"ids": ids.numpy(), "types": types.numpy(), "properties": values[None]}
    assert session_of(hamiltonian).run(["neural"], inputs)[0] == pytest.approx(truth, rel=1e-5)
    with pytest.raises(UserError, match="age, marker"):
        hamiltonian.network(ids, types)


@pytest.mark.parametrize("kind", ["cell_graph", "local_nh"])
def test_sizes_of_another_kind_are_refused(kind: str) -> None:
    foreign = {"stride": 3} if kind == "cell_graph" else {"rounds": 2}
    with pytest.raises(ValueError, match=f"{kind} has no"):
        NeuralSpec(kind=kind, **foreign)
