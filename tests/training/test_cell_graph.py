"""The cell graph: torch in float64, ONNX Runtime and the engine say what a plain reference says, on every lattice."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from neuralcpm_bridge._engine import State
from neuralcpm_bridge.artifact import LatticeEntry, Metadata, NeuralEntry, NeuralSpec, load_artifact
from neuralcpm_bridge.backends.onnxruntime import make_session
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState
from training.build import learn_statistics
from training.config import Config
from training.export import export, hamiltonian_from_artifact
from training.export.artifact import weights_of
from training.export.graph import build_model
from training.hamiltonians import CellGraph, Hamiltonian, States, batch_states, make_preset
from training.samplers import model_of
from training.trainer import Trainer, split
from training.verify import verify_backends

from .tiny import tiny_config, tiny_data
from .worlds import NAMES, World, compact_state, neighbour_flips, worlds

Weights = dict[str, NDArray[np.float64]]

# -- a reference that knows nothing of tensors --------------------------------------------------------------------


def nearest(way: NDArray[np.float64], lattice: Lattice) -> NDArray[np.float64]:
    """Images of ways along the lattice's axes, each within half a ring (its end included)."""
    sizes = np.array(lattice.shape, dtype=float)
    return np.where(lattice.periodic, way - sizes * np.ceil(way / sizes - 0.5), way)


def silu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x / (1 + np.exp(-x))


def soft(x: list[float], weights: Weights, name: str) -> NDArray[np.float64]:
    z = (np.array(x) - weights[f"{name}_mean"]) / weights[f"{name}_deviation"]
    return z / np.sqrt(1 + z**2 / 9)


class Cell(NamedTuple):
    volume: int
    middle: NDArray[np.float64]
    shape: NDArray[np.float64]


def measured(state: CellState, cell: int) -> Cell:
    lattice = state.lattice
    places = lattice.coordinates(np.flatnonzero(state.ids.ravel() == cell)).astype(float)
    ways = nearest(places - places[0], lattice)
    return Cell(len(ways), places[0] + ways.mean(0), np.atleast_2d(np.cov(lattice.in_space(ways).T, bias=True)))


def contacts_of(state: CellState, order: int) -> NDArray[np.float64]:
    """Neighbour pairs of two ids, times 2/|N|, `[C, C]`."""
    counts = np.zeros((state.types.size,) * 2)
    ids = state.ids.ravel()
    for here, there in state.lattice.pairs(order):
        a, b = ids[here], ids[there]
        np.add.at(counts, (a[a != b], b[a != b]), 1)
    return (counts + counts.T) * state.lattice.geometry.pair_weight(order)


def reference(state: CellState, spec: NeuralSpec, weights: Weights, properties: Weights | None = None) -> list[float]:
    """H of every member."""
    lattice, dimension = state.lattice, state.lattice.dimension
    alive = [cell for cell in range(1, state.types.size) if (state.ids == cell).any()]
    cells = {cell: measured(state, cell) for cell in alive}
    contacts = contacts_of(state, spec.order)
    surface = contacts.sum(1)
    share = contacts / np.sqrt(weights["surface"] ** 2 + surface**2)[:, None]

    def inputs(cell: int) -> NDArray[np.float64]:
        volume, _, shape = cells[cell]
        trace = np.trace(shape)
        away = shape - np.eye(dimension) * trace / dimension
        anisotropy = np.sqrt((away**2).sum() * dimension / (dimension - 1)) / trace if trace > 0 else 0.0
        raw = [volume, anisotropy, np.sqrt(trace), surface[cell]]
        raw += [properties[name][cell] for name in spec.properties] if properties else []
        one_hot = np.arange(1, len(NAMES)) == state.types[cell]
        return np.concatenate([one_hot, soft(raw, weights, "cell")])

    def edge(a: int, b: int) -> NDArray[np.float64]:
        way = lattice.in_space(nearest(cells[b].middle - cells[a].middle, lattice))
        distance = np.sqrt((way**2).sum())
        traces = [np.trace(cells[end].shape) for end in (a, b)]
        radii = [np.sqrt(trace / dimension) for trace in traces]
        if distance > 0:
            u = way / distance
            radii = [np.sqrt(max(u @ cells[end].shape @ u, 0)) for end in (a, b)]
        both = traces[0] * traces[1]
        alignment = (cells[a].shape * cells[b].shape).sum() / both if both > 0 else 0.0
        return soft([contacts[a, b], distance, alignment, *radii], weights, "edge")

    edges = {(a, b): edge(a, b) for a in alive for b in alive if a != b and contacts[a, b] > 0}
    energies = []
    for member in range(spec.members):

        def of(name: str, member: int = member) -> NDArray[np.float64]:
            return weights[f"members.{member}.{name}"]

        def affine(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
            return of(f"{name}.weight") @ x + of(f"{name}.bias")

        h = {cell: affine("embed_more", silu(affine("embed", inputs(cell)))) for cell in alive}
        for number in range(spec.rounds):
            name, later = f"rounds.{number}", {}
            for cell in alive:
                own = affine(f"{name}.own", h[cell])
                total = share[cell, 0] * np.minimum(silu(own + of(f"{name}.medium")), 255)
                for (a, b), e in edges.items():
                    if a == cell:
                        heard = own + of(f"{name}.other.weight") @ h[b] + of(f"{name}.edge.weight") @ e
                        total = total + share[a, b] * np.minimum(silu(heard), 255)
                psi = silu(affine(f"{name}.psi0", np.concatenate([h[cell], total])))
                later[cell] = h[cell] + affine(f"{name}.psi1", psi)
            h = later
        energies.append(sum(float(affine("out", silu(affine("hidden", h[cell])))[0]) for cell in alive))
    return energies


# -- what is compared ----------------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    rounds: int
    members: int


SIZES = st.sampled_from([Sizes(1, 1), Sizes(2, 1), Sizes(3, 1), Sizes(1, 2), Sizes(2, 3)])


def graph_on(world: World, sizes: Sizes, loudness: float = 1.0, properties: tuple[str, ...] = ()) -> Hamiltonian:
    """Random weights, energies of a few units per cell; statistics of other cells than those that come, so that many
    inputs are clamped."""
    torch.manual_seed(world.seed)
    spec = NeuralSpec(
        kind="cell_graph", rounds=sizes.rounds, members=sizes.members, order=world.order, properties=properties
    )
    network = CellGraph(spec, len(NAMES), world.entry, volume=8.0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(loudness)
        for member in network.members:
            member.out.weight.mul_(10)
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
@given(worlds(), SIZES, st.sampled_from([1.0, 4.0]))
def test_flips_cost_what_whole_energies_say(world: World, sizes: Sizes, loudness: float) -> None:
    """Contacts and cells that appear and vanish among them; loud networks reach the messages' bound."""
    hamiltonian = graph_on(world, sizes, loudness)
    state, rng = compact_state(world.lattice, world.rng), world.rng
    sites, new_ids = neighbour_flips(state, rng)
    exact = graph_on(world, sizes, loudness).double()
    with torch.no_grad():
        flips = (torch.from_numpy(array)[None] for array in (sites, new_ids))
        truth = exact.flip_deltas(States.of([state]), *flips)[0]
    engine = State(model_of(hamiltonian), state.ids, state.types)
    found = engine.deltas(sites.astype(np.int64), new_ids)[:, 1]
    largest = max(abs(engine.energy()[1]), float(truth.abs().max()))
    np.testing.assert_allclose(found, truth, rtol=0, atol=max(2e-4, 1e-5 * largest))


@settings(max_examples=12)
@given(worlds(), SIZES)
def test_the_exported_graph_says_it_too(world: World, sizes: Sizes) -> None:
    hamiltonian = graph_on(world, sizes)
    weights, spec = named(hamiltonian), hamiltonian.network.spec
    session = session_of(hamiltonian)
    states = states_of(world)
    ids, types = (tensor.numpy() for tensor in batch_states(states))
    members = np.array([reference(state, spec, weights) for state in states])
    energy, symbolic, neural, spread = session.run(None, {"ids": ids, "types": types})
    np.testing.assert_allclose(neural, 1.5 * members.mean(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(spread, 1.5 * members.std(1), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(energy, neural)
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


# -- statistics ----------------------------------------------------------------------------------------------------


def test_statistics_are_those_of_the_data() -> None:
    lattice = Lattice.of((20, 20))
    ids = np.zeros((20, 20), dtype=np.int32)
    ids[2:5, 2:6], ids[5:8, 2:6], ids[12:14, 12:18] = 1, 2, 3
    state = CellState(ids, np.array([0, 1, 1, 2]), lattice)
    network = CellGraph(NeuralSpec(kind="cell_graph", order=2), 4, LatticeEntry())
    network.learn_statistics([network.describe(States(*batch_states([state]), lattice))] * 2)
    assert network.cell_mean[0] == 12
    assert network.cell_deviation[0] == 1  # all of one volume
    aspects = [(3, 4), (3, 4), (2, 6)]
    radii = [np.sqrt((a**2 + b**2 - 2) / 12) for a, b in aspects]
    assert network.cell_mean[2] == pytest.approx(np.mean(radii))
    assert network.cell_deviation[2] == pytest.approx(np.std(radii))
    assert network.edge_mean[1] == pytest.approx(3)
    assert network.surface == pytest.approx(network.cell_mean[3])
    assert network.low[1, 2] == pytest.approx(radii[0], rel=1e-4)
    assert network.low[1, 2] < radii[0] < network.high[1, 2] < network.low[2, 2] < radii[2]
    assert not network.high[3].any()  # no such cell was seen
    with pytest.raises(UserError, match="no cells"):
        network.learn_statistics(
            [network.describe(States(torch.zeros(1, 20, 20).long(), torch.zeros(1, 1).long(), lattice))]
        )


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
        "kind": "cell_graph", "weight": 1.0, "rounds": 2, "width": 16, "members": 2, "order": 2, "properties": (),
    }  # fmt: skip
    assert verify_backends(artifact, meta.example_states(), 24, 0)["ok"]
    again = hamiltonian_from_artifact(load_artifact(artifact.path))
    for key, value in weights_of(hamiltonian).items():
        np.testing.assert_allclose(weights_of(again)[key], value, rtol=1e-12, err_msg=key)


def test_one_file_runs_at_any_size(tmp_path: Path) -> None:
    torch.manual_seed(2)
    artifact = export(make_preset("graph1", target_volume=15.0), tmp_path / "m.onnx")
    session, exact = make_session(artifact), hamiltonian_from_artifact(artifact).double()
    for number, (shape, batch) in enumerate((((12, 30), 1), ((25, 16), 3), ((40, 40), 2))):
        world = World(Lattice.of(shape), 2, number)
        rng = world.rng
        states = [compact_state(world.lattice, rng, 4 + 3 * k) for k in range(batch)]
        ids, types = batch_states(states)
        with torch.no_grad():
            truth = exact(ids, types).neural
        found = session.run(["neural"], {"ids": ids.numpy(), "types": types.numpy()})[0]
        np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-5)


def test_named_properties_are_inputs() -> None:
    world = World(Lattice.of((12, 13)), 2, 11)
    hamiltonian = graph_on(world, Sizes(1, 2), properties=("age", "marker"))
    state = compact_state(world.lattice, world.rng)
    values = world.rng.normal(size=(state.types.size, 2))
    by_name = {"age": values[:, 0], "marker": values[:, 1]}
    truth = 1.5 * np.mean(reference(state, hamiltonian.network.spec, named(hamiltonian), by_name))
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


# -- training ------------------------------------------------------------------------------------------------------


def graph_config(**sections: dict[str, Any]) -> Config:
    return tiny_config(
        **{
            "model": {"preset": "graph1-closure", "freeze_symbolic": True, "members": 2},
            "objective": {"kind": "conditional", "push": 0.01},
            "optimizer": {"batch": 4},
            **sections,
        }
    )


def test_an_interrupted_run_of_a_committee_ends_with_the_same_weights(tmp_path: Path) -> None:
    data = tiny_data()
    whole = Trainer(graph_config(), data, tmp_path / "whole").run()
    Trainer(graph_config(), data, tmp_path / "parts").run(until=7)
    parts = Trainer(graph_config(), data, tmp_path / "parts").run()
    network = CellGraph(whole.network.spec, 3, whole.lattice)
    learn_statistics(network, split(data, 0.1, 0)[0])
    for key, value in whole.network.state_dict().items():
        assert torch.equal(value, parts.network.state_dict()[key])
        if not key.startswith("members"):
            torch.testing.assert_close(value, network.state_dict()[key])  # of the training data, and never trained
    artifact = export(whole, tmp_path / "m.onnx", examples=[data[0]])
    assert verify_backends(artifact, [data[1]], 12, 0)["ok"]


def test_a_bounded_push_stays_small() -> None:
    seen: dict[float, list[float]] = {}
    for bound in (1e-3, 1e3):
        steps = seen.setdefault(bound, [])
        config = graph_config(
            objective={"kind": "conditional", "push": bound}, optimizer={"steps": 40, "batch": 4, "lr": 0.02}
        )
        Trainer(config, tiny_data()).run(lambda report, steps=steps: steps.append(report.values["push"]))
    assert seen[1e-3][-1] < 0.5 * seen[1e3][-1]


def test_data_whose_cells_have_no_shape_are_refused() -> None:
    data = tiny_data()
    data.ids[2, 3, :14] = 1
    with pytest.raises(UserError, match="Cell 1 of state"):
        Trainer(graph_config(data={"holdout": 0.0}), data)


def test_what_belongs_to_cell_graphs_is_refused_elsewhere() -> None:
    with pytest.raises(UserError, match="no cell graph"):
        make_preset("local8-closure", members=2)
    with pytest.raises(UserError, match=r"objective\.push"):
        Trainer(tiny_config(objective={"push": 1.0}), tiny_data())
