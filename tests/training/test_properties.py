"""Named properties of cells, from the data set through training to the model file and every back end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralcpm_bridge._engine import Mirror, State, run_chains
from neuralcpm_bridge.artifact import Artifact, LatticeEntry, NeuralSpec, load_artifact
from neuralcpm_bridge.backends.engine import EngineBackend
from neuralcpm_bridge.backends.onnxruntime import OnnxRuntimeBackend
from neuralcpm_bridge.delta import DeltaBackend
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.initial import initial_state, scattered_like
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.sampling import ChainRules, chain_seeds, sample_from_mixed
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots
from neuralcpm_bridge.state import CellState
from training.backend import TorchBackend
from training.chains import started
from training.datasets import scattered_cells
from training.engine import engine_model
from training.export import export
from training.hamiltonians import CellGraph, Hamiltonian, make_preset
from training.samplers import ExactChains, ParallelSampler, model_of
from training.trainer import Trainer, load_run
from training.verify import verify_backends

from .tiny import tiny_config
from .worlds import NAMES, World, compact_state, neighbour_flips, worlds

READ = ("age", "marker")


def graph_on(world: World, rounds: int = 1, members: int = 1) -> Hamiltonian:
    """Random weights that make something of two properties, of which cells have 2 ± 3 and 0 ± 1."""
    torch.manual_seed(world.seed)
    spec = NeuralSpec(kind="cell_graph", rounds=rounds, members=members, order=world.order, properties=READ)
    network = CellGraph(spec, len(NAMES), world.entry, volume=8.0)
    with torch.no_grad():
        network.cell_mean[-2:] = torch.tensor([2.0, 0.0])
        network.cell_deviation[-2:] = torch.tensor([3.0, 1.0])
        network.low[1:, -2:] = torch.tensor([[-1.0, -1.0], [0.5, 0.0]])
        network.high[1:, -2:] = torch.tensor([[5.0, 1.0], [3.5, 2.0]])
        for member in network.members:
            member.out.weight.mul_(10)
    return Hamiltonian(NAMES, None, network, network_weight=1.5, lattice=world.entry)


def with_properties(state: CellState, rng: np.random.Generator) -> CellState:
    """And with one that no model here reads, first."""
    drawn = {name: rng.normal(1.0, 2.0, size=state.types.size) for name in ("colour", *READ[::-1])}
    return replace(state, properties=drawn)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("properties")


@pytest.fixture(scope="module")
def artifact(folder: Path) -> Artifact:
    return export(graph_on(World(Lattice.of((14, 15)), 2, 3), rounds=2, members=2), folder / "reads.onnx")


# -- back ends -----------------------------------------------------------------------------------------------------


@settings(max_examples=8)
@given(worlds(), st.sampled_from([(1, 1), (2, 1), (1, 3)]))
def test_back_ends_agree_through_any_history(folder: Path, world: World, sizes: tuple[int, int]) -> None:
    """Properties that change, cells that appear, die and come back, beside flips."""
    model = export(graph_on(world, *sizes), folder / "history.onnx")
    rng = world.rng
    start = with_properties(compact_state(world.lattice, rng), rng)
    backends: list[DeltaBackend] = [
        EngineBackend(model, start),
        OnnxRuntimeBackend(model, start, threads=1),
        TorchBackend.exact(model, start),
    ]
    new = start.types.size
    for number in range(3):
        living = np.flatnonzero(backends[0].state().types > 0)
        cell, name, value = int(rng.choice(living)), str(rng.choice(READ)), float(rng.normal(1, 4))
        sites, new_ids = neighbour_flips(backends[0].state(), rng, 6)
        for backend in backends:
            backend.set_property(cell, name, value)
            if number == 0:  # more of them could spread a cell over half of a ring
                backend.commit(int(sites[0]), int(new_ids[0]))
            # A cell that appears has the mean of the training data, whoever had its id before.
            backend.set_type(new, 1 + number % 2)
            backend.change_pixels(sites[1:2], [new])
        compare(backends, sites, new_ids)
        for backend in backends:
            backend.set_property(new, "age", value)
        compare(backends, sites, new_ids)
        for backend in backends:
            backend.change_pixels(sites[1:2], [0])
            backend.set_type(new, -1)
    engine = backends[0]
    assert isinstance(engine, EngineBackend)
    kept = engine.energy()
    engine.engine.rebuild()
    assert engine.energy() == kept


def compare(backends: list[DeltaBackend], sites: np.ndarray, new_ids: np.ndarray) -> None:
    truth, exact = backends[-1].deltas(sites, new_ids), backends[-1].energy()
    for backend in backends[:-1]:
        np.testing.assert_allclose(backend.energy(), exact, rtol=1e-5, atol=2e-4)
        np.testing.assert_allclose(backend.deltas(sites, new_ids), truth, rtol=1e-5, atol=2e-4)
        one, other = backend.state(), backends[-1].state()
        assert list(one.properties) == list(other.properties) == list(READ)
        for name in READ:
            np.testing.assert_array_equal(one.properties[name], other.properties[name])
        np.testing.assert_array_equal(one.types, other.types)


@pytest.mark.parametrize("backend", [EngineBackend, OnnxRuntimeBackend])
def test_what_cannot_be_set_is_one_sentence_and_changes_nothing(artifact: Artifact, backend: type) -> None:
    state = artifact.metadata.example_states()[0]
    opened = backend(artifact, state)
    before = opened.energy()
    for arguments, says in (
        ((1, "colour", 1.0), "'colour' was to be set, but the model reads only age, marker"),
        ((0, "age", 1.0), "cell 0 .*no such cell"),
        ((99, "age", 1.0), "cell 99 .*no such cell"),
        ((1, "age", np.nan), "'age' of cell 1 .*finite number"),
    ):
        with pytest.raises(UserError, match=says) as caught:
            opened.set_property(*arguments)
        assert "\n" not in str(caught.value)
    assert opened.energy() == before
    plain = artifact.place(state)
    with pytest.raises(UserError, match="no properties of cells"):
        backend(pretrained(), CellState(plain.ids, np.minimum(plain.types, 1))).set_property(1, "age", 1.0)


def pretrained() -> Artifact:
    return load_artifact("pretrained:cell-sorting")


def test_a_state_that_lacks_a_property_is_refused(artifact: Artifact) -> None:
    state = artifact.metadata.example_states()[0]
    for properties, found in (({}, "none"), ({"age": state.properties["age"]}, "only age")):
        with pytest.raises(UserError, match=f"reads the property .* but the cells here have {found}") as caught:
            EngineBackend(artifact, replace(state, properties=properties))
        assert "\n" not in str(caught.value)


# -- the model file ------------------------------------------------------------------------------------------------


def test_the_file_says_what_it_reads_and_its_examples_have_it(artifact: Artifact) -> None:
    again = load_artifact(artifact.path)
    assert again.metadata.properties == READ
    assert tuple(again.model.properties) == READ
    assert again.property_means == {"age": 2.0, "marker": 0.0}
    assert again.property_ranges["age"].tolist() == [[0, 0], [-1, 5], [0.5, 3.5]]
    for state in again.metadata.example_states():
        assert tuple(state.properties) == READ
        assert state.properties["age"][1:].std() > 0
    assert verify_backends(again, again.metadata.example_states(), 60, 0)["ok"]


def test_layouts_deal_properties_over_the_range_of_training(artifact: Artifact) -> None:
    state = initial_state(artifact, "scatter", cells=8, lattice=(40, 40))
    for cell_type, (low, high) in ((1, (-1, 5)), (2, (0.5, 3.5))):
        own = state.properties["age"][state.types == cell_type]
        np.testing.assert_allclose(np.sort(own), np.linspace(low, high, 4))


@pytest.mark.parametrize("names", [("age", "age"), ("my age",), ("",)])
def test_names_of_properties(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="different names"):
        NeuralSpec(kind="cell_graph", properties=names)


def test_other_networks_read_none() -> None:
    with pytest.raises(ValueError, match="nh has no properties"):
        NeuralSpec(kind="nh", properties=("age",))
    with pytest.raises(UserError, match="asks for age, but the preset 'local8-closure' is no cell graph"):
        make_preset("local8-closure", properties=("age",))


def test_info_and_energy_say_what_a_model_reads(artifact: Artifact, tmp_path: Path, cli) -> None:
    code, out, _ = cli("info", artifact.path)
    assert code == 0
    for words in ("age (-1 to 5 in training)", "marker (-1 to 2 in training)", "a committee of 2"):
        assert words in " ".join(out.replace("│", " ").split())
    assert json.loads(cli("info", artifact.path, "--json")[1])["neural"]["properties"] == list(READ)
    data = snapshots_with_properties()
    data.save(tmp_path / "data.npz")
    code, out, _ = cli("energy", artifact.path, tmp_path / "data.npz")
    assert code == 0
    assert "reads age, marker" in " ".join(out.split())


# -- data sets and chains ------------------------------------------------------------------------------------------


def snapshots_with_properties(states: int = 3) -> Snapshots:
    rng = np.random.default_rng(5)
    lattice = Lattice.of((14, 15))
    made = [with_properties(compact_state(lattice, rng, 5 + k), rng) for k in range(states)]
    return Snapshots.from_states(made, type_names=NAMES)


def test_data_sets_are_read_in_the_order_of_the_model(artifact: Artifact, tmp_path: Path) -> None:
    data = snapshots_with_properties()
    data.save(tmp_path / "data.npz")
    read = load_snapshots(tmp_path / "data.npz", artifact)
    assert read.property_names == READ
    np.testing.assert_array_equal(read.properties, data.properties[..., [2, 1]])
    data.reading(("age",)).save(tmp_path / "lacks.npz")
    with pytest.raises(UserError, match=r"State 0 of .*lacks.npz: The model reads the property 'marker'"):
        load_snapshots(tmp_path / "lacks.npz", artifact)


@pytest.mark.parametrize("start", ["data", "permuted", "mixed"])
def test_cells_keep_their_properties_where_chains_start(start: str) -> None:
    data = snapshots_with_properties()
    begun = [started(start, datum, np.random.default_rng(1)) for datum in data]
    for datum, state in zip(data, begun, strict=True):
        for cells in (state, datum):
            assert set(cells.properties) == set(data.property_names)
        pairs = [
            sorted(zip(s.types.tolist(), s.properties["age"].tolist(), s.properties["colour"].tolist(), strict=True))
            for s in (datum, state)
        ]
        assert pairs[0] == pairs[1]
    if start == "mixed":
        assert (scattered_like(data[0], np.random.default_rng(0)).volumes[1:] <= 1).all()


@pytest.mark.parametrize("sampler", [ExactChains(), ExactChains(trades=9, temperature=9.0), ParallelSampler(flips=3)])
def test_chains_carry_properties_along(sampler: ExactChains | ParallelSampler) -> None:
    data = snapshots_with_properties().reading(READ)
    hamiltonian = graph_on(World(data.lattice, 2, 3))
    ended, moves = sampler.on(hamiltonian)(data, 3, seed=4)
    assert moves.accepted > 0
    np.testing.assert_array_equal(ended.properties, data.properties)
    np.testing.assert_array_equal(ended.types, data.types)
    with pytest.raises(UserError, match="'age'"):
        sampler.on(hamiltonian)(data.reading(()), 3, seed=4)


def test_cells_trade_places_with_all_they_are() -> None:
    """Cells of one type, told apart by a property alone."""
    data = snapshots_with_properties(1).reading(READ)
    data.types[:, 1:] = np.where(data.types[:, 1:] > 0, 1, -1)
    model = model_of(graph_on(World(data.lattice, 2, 3)))
    state = State(model, data.ids[0], data.types[0], properties=data.properties[0])
    before = sorted(map(tuple, state.properties.tolist()))
    counts = state.sweep(1, 50.0, 1, trades=40)
    assert counts["traded"] > 0
    assert sorted(map(tuple, state.properties.tolist())) == before
    kept = state.energy()
    state.rebuild()
    assert state.energy() == kept
    # Renumbered, so that every id has its own properties again, it is the same tissue.
    later, _ = ChainRules(temperature=50.0, trades=40, forbid_extinction=False).run(model, data, 1, seed=1)
    again = State(model, data.ids[0], data.types[0], properties=data.properties[0])
    again.sweep(1, 50.0, chain_seeds(1, 1)[0], boundary_only=True, trades=40)
    renumbered = State(model, later.ids[0], later.types[0], properties=later.properties[0])
    assert renumbered.energy() == pytest.approx(again.energy(), abs=1e-5)
    assert not np.array_equal(again.properties, data.properties[0])


def test_samples_from_mixed_starts_keep_properties(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    from neuralcpm_bridge import sampling

    monkeypatch.setattr(sampling, "GROWTH_MCS", 1)
    data = snapshots_with_properties()
    drawn = sample_from_mixed(artifact, data, 3, 2)
    assert drawn.property_names == READ
    assert drawn.properties[drawn.types > 0].std() > 0
    found = {tuple(row) for row in drawn.properties[drawn.types > 0].round(9).tolist()}
    assert found <= {tuple(row) for row in data.reading(READ).properties.reshape(-1, 2).round(9).tolist()}


# -- mirrors -------------------------------------------------------------------------------------------------------


def test_a_mirror_sets_properties_by_the_hosts_ids(artifact: Artifact) -> None:
    state = artifact.metadata.example_states()[0]
    rng = np.random.default_rng(2)
    host_of = np.concatenate([[0], 100 + rng.permutation(state.types.size - 1)])
    mirror = Mirror(artifact.model, state.shape)
    cells, types = host_of[1:], state.types[1:]
    table = state.property_table()
    mirror.load(host_of[state.ids], cells, types)
    mirror.set_properties(cells, np.ascontiguousarray(table[1:]))
    assert mirror.energy()[1] == pytest.approx(EngineBackend(artifact, state).energy().neural, abs=1e-6)
    # What the host did unseen is taken over, and its cells stay who they are.
    changed = state.ids.copy()
    changed.ravel()[np.flatnonzero(changed)[:3]] = 0
    assert mirror.compare(host_of[changed])[0] == 3
    assert mirror.energy()[1] == pytest.approx(
        EngineBackend(artifact, replace(state, ids=changed)).energy().neural, abs=1e-6
    )
    with pytest.raises(ValueError, match="one per cell"):
        mirror.set_properties(cells[:2], np.ascontiguousarray(table[1:]))


# -- training ------------------------------------------------------------------------------------------------------

OLD, YOUNG = 3.0, 1.0


def aged_data(samples: int = 12) -> Snapshots:
    """Cells of one type, of which the old ones are three times as large as the young."""
    contact = np.full((3, 3), 2.0)
    contact[0, 0] = 0.0
    weights = {
        "symbolic.contact.J": contact,
        "symbolic.volume.strength": np.array([0.0, 0.4, 0.4]),
        "symbolic.volume.target": np.array([0.0, 16.0, 48.0]),
    }
    lattice = Lattice.of((22, 22), "square", "free")
    model = engine_model(("medium", "young", "old"), LatticeEntry.of("square", "free"), weights)
    states = []
    for number in range(samples):
        rng = np.random.default_rng(number)
        start = scattered_cells(lattice, 6, 6.0, rng)
        chain = State(model, start.ids, start.types, forbid_extinction=True)
        run_chains([chain], 40, 1.0, [number], boundary_only=True)
        properties = {"colour": rng.normal(size=7), "age": np.where(start.types == 2, OLD, YOUNG)}
        states.append(CellState(chain.ids, np.minimum(chain.types, 1), lattice, properties))
    return Snapshots.from_states(states, type_names=("medium", "cell"))


def aged_config(**model: object) -> object:
    return tiny_config(
        model={"preset": "graph1-closure", "freeze_symbolic": True, "properties": ["age"], **model},
        objective={"kind": "conditional", "regularizer": 0.0},
        warmstart={"steps": 24, "sweeps": [1, 2, 4]},
        sampler={"pool": 12},
        optimizer={"steps": 24, "batch": 12, "refresh": 2, "lr": 1e-2, "clip": 10.0},
    )


def test_training_learns_what_a_property_does(tmp_path: Path) -> None:
    data = aged_data()
    trainer = Trainer(aged_config(), data, tmp_path / "run")
    trained = trainer.run()
    swapped = data.properties.copy()
    age = swapped[..., 1]
    age[:] = np.where(age == OLD, YOUNG, np.where(age == YOUNG, OLD, 0.0))
    with torch.no_grad():
        right, wrong = (trained.of_states(list(states)).neural for states in (data, replace(data, properties=swapped)))
    assert (wrong - right).min() > 2.0  # in units of T: large young cells are not what was seen
    network = trained.network
    assert isinstance(network, CellGraph)
    assert network.cell_mean[-1].item() == pytest.approx(2.0, abs=0.01)
    assert (network.low[1, -1].item(), network.high[1, -1].item()) == pytest.approx((YOUNG, OLD), abs=1e-3)
    loaded, config, _ = load_run(tmp_path / "run")
    assert config.model.properties == ("age",)
    written = export(loaded, tmp_path / "aged.onnx")
    assert written.metadata.properties == ("age",)
    read = load_snapshots_of(data, written, tmp_path)
    assert verify_backends(written, list(read)[:2], 20, 0)["ok"]


def load_snapshots_of(data: Snapshots, model: Artifact, folder: Path) -> Snapshots:
    data.save(folder / "data.npz")
    return load_snapshots(folder / "data.npz", model)


def test_a_run_is_resumed_with_the_properties_of_its_chains(tmp_path: Path) -> None:
    data, config = (
        aged_data(6),
        tiny_config(
            model={"preset": "graph1-closure", "properties": ["age"]},
            objective={"push": 1.0},
            optimizer={"steps": 8},
            warmstart={"steps": 0},
        ),
    )
    whole = Trainer(config, data).run().state_dict()
    Trainer(config, data, tmp_path).run(until=6)
    again = Trainer(config, data, tmp_path)
    assert again.step == 4
    assert again.chains.states is not None
    assert set(np.unique(again.chains.states.properties)) == {0.0, YOUNG, OLD}
    resumed = again.run().state_dict()
    for key, value in whole.items():
        torch.testing.assert_close(resumed[key], value)


def test_data_that_lack_a_property_are_refused() -> None:
    with pytest.raises(UserError, match="'age' of every cell, but the cells here have only colour"):
        Trainer(aged_config(), aged_data(2).reading(("colour",)))
    with pytest.raises(UserError, match="twice"):
        aged_config(properties=["age", "age"])
    with pytest.raises(UserError, match="no cell graph"):
        Trainer(aged_config(preset="local8-closure"), aged_data(2))
