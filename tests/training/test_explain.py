"""What explain says is what the network computes, and what was planted in it is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralcpm_bridge.artifact import Artifact, LatticeEntry, Metadata, NeuralEntry
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.explain import Response, energy_picture, explain, explanation, responses, sentence
from neuralcpm_bridge.explain.analytic import analytic_energy
from neuralcpm_bridge.explain.cells import Cells, cells_of
from neuralcpm_bridge.explain.deformations import lengths, quantities
from neuralcpm_bridge.explain.network import Network, contact_shares
from neuralcpm_bridge.explain.responses import Coverage
from neuralcpm_bridge.explain.sentences import lowest
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.metrics import aspect_ratios
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState
from training.build import learn_statistics
from training.datasets import RECIPES, generate
from training.export import export
from training.export.examples import random_tissue
from training.hamiltonians import Hamiltonian, States, batch_states, make_preset
from training.hamiltonians.moments import Moments, axes
from training.samplers import model_of

from ..analytic import WEIGHT, artifact_of, blocks, metadata_of, weights_of
from .worlds import NAMES, World, compact_state, worlds

QUANTITIES = {quantity.name: quantity for quantity in quantities(NAMES, ["age"])}
LATTICES = [Lattice.of((38, 40)), Lattice.of((40, 38), "hexagonal", "free"), Lattice.of((18, 19, 20))]


def tissue(lattice: Lattice, seed: int) -> Cells:
    """Touching cells in medium, with a property."""
    rng = np.random.default_rng(seed)
    state = random_tissue(lattice, 9, len(NAMES), rng)
    return cells_of(replace(state, properties={"age": rng.normal(size=state.types.size)}), 2)


@pytest.fixture(autouse=True)
def _in_less_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MOST_CELLS", 24)
    monkeypatch.setattr(explanation, "FLIPS", 4000)


# -- energies ------------------------------------------------------------------------------------------------------


def in_memory(model: Hamiltonian) -> Artifact:
    entry = NeuralEntry(weight=1.0, **model.network.spec.model_dump())
    meta = Metadata(
        name="test",
        architecture="graph",
        parameters=0,
        types=NAMES,
        lattice=model.lattice,
        neural=entry,
        temperature=1.5,
    )
    return Artifact(Path("memory.onnx"), meta, model_of(model, 1.5))


@settings(max_examples=20)
@given(worlds(), st.sampled_from(["graph1", "graph2"]), st.sampled_from([0, 7]))
def test_energies_of_cells_are_those_of_torch_and_the_engine(world: World, preset: str, knots: int) -> None:
    torch.manual_seed(world.seed % 1000)
    sizes = {"order": world.order, "members": 2, "properties": ("age",), "knots": knots}
    model = make_preset(preset, NAMES, lattice=world.entry, target_volume=20.0, **sizes)
    for member in model.network.members if knots else ():
        torch.nn.init.normal_(member.pairs)
    artifact = in_memory(model)
    state = compact_state(world.lattice, world.rng)
    state = replace(state, properties={"age": world.rng.normal(size=state.types.size)})
    cells, network = cells_of(state, world.order), model.network.double()
    found = Network(artifact).energies(cells)
    wanted = network.cell_energies(network.describe(States.of([state], ["age"]))).detach().numpy()
    np.testing.assert_array_equal(cells.ids, state.cells)
    np.testing.assert_allclose(found[:, 0], wanted.T, atol=1e-5)
    assert found.mean(axis=0).sum() == pytest.approx(open_backend(artifact, state).energy().neural, abs=1e-3)


@settings(max_examples=20)
@given(worlds())
def test_analytic_terms_of_described_cells_are_those_of_the_state(world: World) -> None:
    terms = ("contact", "volume", "volume_function", "surface", "length")
    weights = weights_of(world.rng, terms, world.lattice.dimension)
    orders = dict.fromkeys(("contact", "surface"), world.order)
    meta = metadata_of(weights, world.lattice.geometry.name, world.lattice.boundary, orders)
    state = compact_state(world.lattice, world.rng)
    state = replace(state, types=np.where((state.volumes > 0) | (np.arange(6) == 0), state.types, -1))
    wanted = open_backend(artifact_of(weights, meta), state).energy().symbolic
    found = analytic_energy(meta, cells_of(state, world.order), world.order)
    assert found[0] == pytest.approx(wanted, rel=1e-6)
    assert WEIGHT != 1


def test_contacts_are_worth_what_they_save_over_medium(elongated: Artifact) -> None:
    """Two cells alone: their contact's share is the difference to both in medium, all else equal."""
    network = Network(elongated)
    ids = np.zeros((20, 20), dtype=np.int32)
    ids[4:10, 4:8], ids[4:10, 8:14] = 1, 2
    pair = cells_of(CellState(ids, np.array([0, 1, 2])), network.order)
    apart = replace(pair, contact=0 * pair.contact, medium=pair.medium + pair.summed(pair.contact))
    wanted = (network.totals(pair) - network.totals(apart)).mean()
    np.testing.assert_allclose(contact_shares(network, pair), [wanted, wanted])
    crowd = cells_of(blocks(np.random.default_rng(2), Lattice.of((18, 18)), cells=14), network.order)
    shares = contact_shares(network, crowd)
    np.testing.assert_array_equal(shares, shares[crowd.reverse])
    assert shares.any()


# -- deformations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lattice", LATTICES, ids=lambda lattice: lattice.geometry.name)
@pytest.mark.parametrize("name", QUANTITIES)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.02, 0.98))
def test_a_changed_cell_measures_what_it_was_changed_to(name: str, lattice: Lattice, seed: int, share: float) -> None:
    quantity, cells = QUANTITIES[name], tissue(lattice, seed)
    cell = int(cells.volume[0].argmax())  # a sliver of a few sites has no finer shape
    now = quantity.measured(cells)[0, cell]
    if np.isnan(now):
        return
    low, high = np.maximum(quantity.limits[0], -3), np.minimum(quantity.limits[1], 4)
    wanted = np.array([now, low + share * (high - low)])
    after = quantity.changed(cells, cell, wanted)
    if np.isnan(after.contact).any() or np.isnan(after.medium).any():
        assert name.startswith("share")
        return
    assert (after.medium >= 0).all()
    assert (after.contact >= 0).all()
    np.testing.assert_allclose(after.contact, after.contact[:, after.reverse])
    np.testing.assert_allclose(after.way, -after.way[:, after.reverse], atol=1e-9)
    for variant, value in enumerate(wanted):
        alone = replace(
            after,
            **{
                key: getattr(after, key)[[variant]]
                for key in ("volume", "shape", "medium", "contact", "way", "properties")
            },
        )
        assert quantity.measured(alone)[0, cell] == pytest.approx(value, rel=1e-6, abs=1e-4)
    # as it is, it stays
    np.testing.assert_allclose(after.inputs()[0], cells.inputs()[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(after.contact_inputs()[0], cells.contact_inputs()[0], rtol=1e-6, atol=1e-6)


def test_a_stretched_cell_keeps_its_volume_and_gains_surface() -> None:
    cells = tissue(LATTICES[0], 3)
    after = QUANTITIES["aspect ratio"].changed(cells, 0, np.array([1.0, 2.0, 4.0]))
    areas = np.linalg.det(after.shape[:, 0] + cells.geometry.site_moment * np.eye(2))
    np.testing.assert_allclose(areas, areas[0], rtol=1e-6)
    assert (np.diff(after.surface[:, 0]) > 0).all()
    assert (np.diff(lengths(after)[:, 0]) > 0).all()


@pytest.mark.parametrize("lattice", LATTICES, ids=lambda lattice: lattice.geometry.name)
def test_shapes_are_those_of_the_measures(lattice: Lattice) -> None:
    state = blocks(np.random.default_rng(5), lattice, cells=6)
    cells = cells_of(state, 1)
    np.testing.assert_allclose(QUANTITIES["aspect ratio"].measured(cells)[0], aspect_ratios(state)[state.cells])
    known = axes(Moments.of(States(*batch_states([state]), lattice)))[0, state.cells, 0]
    np.testing.assert_allclose(lengths(cells)[0], known.numpy(), atol=1e-9)


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_part_of_a_tissue_answers_for_the_whole(rounds: int) -> None:
    torch.manual_seed(1)
    network = Network(in_memory(make_preset(f"graph{rounds}", NAMES, target_volume=6.0)))
    cells = cells_of(blocks(np.random.default_rng(9), Lattice.of((40, 8), boundary="free"), cells=40), network.order)
    parts = 0
    for cell in range(0, cells.types.size, 5):
        part, (here,) = cells.around([cell], 2 * rounds + 1)
        parts += part.types.size < cells.types.size
        for name in ("volume", "aspect ratio", "share of contact with medium"):
            values = QUANTITIES[name].measured(cells)[0, cell] * np.array([1.0, 1.3])
            whole, small = (
                np.diff(network.totals(QUANTITIES[name].changed(tissue, place, values))[0])
                for tissue, place in ((cells, cell), (part, int(here)))
            )
            np.testing.assert_allclose(small, whole, atol=1e-9)
    assert parts


# -- sentences -----------------------------------------------------------------------------------------------------


def curve(energy: np.ndarray, members: np.ndarray | None = None) -> Response:
    x = np.linspace(1, 5, energy.size)
    coverage = Coverage(100, (1.2, 1.5, 2.0, 4.0, 4.8), np.ones(4))
    return Response("B", "length", "", x, energy, energy, energy, members, None, coverage, 100)


X = np.linspace(1, 5, 41)


@pytest.mark.parametrize(
    ("energy", "words"),
    [
        (-4.0 * X, "falls by 10 T as its length goes from 1.5 to 4, where most of the data lie; it still falls"),
        (2.0 * X, "rises by 5 T as its length goes from 1.5 to 4, where most of the data lie."),
        (
            8 * (X - 4.2) ** 2,
            "falls by 58 T as its length goes from 1.5 to 4, where most of the data lie; it is lowest near 4.2",
        ),
        (8 * (X - 3) ** 2, "is lowest where its length is 3 and rises by 18 T towards 1.5 and by 8 T towards 4"),
        (-8 * (X - 3) ** 2, "is highest where its length is 3 and falls by 18 T towards 1.5 and by 8 T towards 4"),
        (0.3 * X, "hardly depends on its length: it changes by 0.75 T from 1.5 to 4"),
    ],
)
def test_curves_are_put_into_words(energy: np.ndarray, words: str) -> None:
    assert words in sentence(curve(energy))
    assert "disagree" not in sentence(curve(energy))


def test_a_committee_that_disagrees_is_heard() -> None:
    energy = -4.0 * X
    assert "disagree by ± 6 T" in sentence(curve(energy, np.full(X.size, 6.0)))
    assert "disagree" not in sentence(curve(energy, np.full(X.size, 0.5)))


# -- what was planted is found -------------------------------------------------------------------------------------

PLANTED = 15.0
"""Length at which the energy of B is lowest."""


@pytest.fixture(scope="module")
def data():
    return generate(replace(RECIPES["elongation"], length=(0.3, 17.0)), samples=64, mcs=120, seed=1)


@pytest.fixture(scope="module")
def elongated(data, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A graph fitted, state by state, to energies in which B alone pays for its length."""
    torch.manual_seed(0)
    model = make_preset("graph1-closure", NAMES, cells=13, lattice=LatticeEntry.of(shape=(60, 60)), target_volume=80.0)
    learn_statistics(model.network, data)
    network = model.network.double()
    states = States(*batch_states(list(data)), data.lattice)
    graphs = network.describe(states)
    length = axes(Moments.of(states))[graphs.state, graphs.ids, 0]
    wanted = torch.where(graphs.types == 2, 0.2 * (length - PLANTED) ** 2, 0.0).double()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(400):
        optimizer.zero_grad()
        loss = (network.cell_energies(graphs)[:, 0] - wanted).square().mean()
        loss.backward()
        optimizer.step()
    assert loss < 0.3
    return export(model.float(), tmp_path_factory.mktemp("planted") / "model.onnx")


def test_a_planted_length_is_found(elongated: Artifact, data) -> None:
    found = explain(elongated, data)
    shape = {response.cell_type: response for response in found.responses if response.quantity == "aspect ratio"}
    place = lowest(shape["B"])
    assert place is not None
    assert np.interp(place, shape["B"].values, shape["B"].also[1]) == pytest.approx(PLANTED, abs=1.5)
    assert shape["A"].strength < 0.3 * shape["B"].strength
    strongest = max((r for r in found.responses if r.cell_type == "B"), key=lambda r: r.strength)
    assert strongest.quantity == "aspect ratio"
    # and the term that was planted is the one that comes closest
    values, shares = found.closest.values, found.closest.shares
    assert max(shares, key=lambda name: shares[name]) == "length(B)"
    assert 0.1 < values["length(B)"] < 0.4
    assert values["target_length(B)"] == pytest.approx(PLANTED, abs=1.5)
    assert "length of B" in found.sentences[0]
    assert json.loads(json.dumps(found.json()))["of"] == "data"


def test_the_verb_writes_a_page_a_picture_and_numbers(cli, elongated: Artifact, data, tmp_path: Path) -> None:
    data.save(tmp_path / "data.npz")
    code, said, _ = cli("explain", elongated.path, "--data", tmp_path / "data.npz", "-o", tmp_path / "out")
    assert code == 0
    assert "aspect ratio" in said
    assert "The energy of B" in said
    page = (tmp_path / "out" / "explain.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "http:" not in page.replace("http-equiv", "")
    kept = json.loads((tmp_path / "out" / "explain.json").read_text())
    assert kept["sentences"][0] in page.replace("\N{NO-BREAK SPACE}", " ")
    assert len(kept["state"]["cells"]) == 12
    assert (tmp_path / "out" / "energies.png").stat().st_size > 1000


def test_without_data_the_model_samples_for_itself(cli, elongated: Artifact) -> None:
    code, said, _ = cli("explain", elongated.path, "--json")
    assert code == 0
    found = json.loads(said)
    assert found["of"] == "samples of the model"
    assert {entry["type"] for entry in found["responses"]} == {"A", "B"}
    assert "the model's own samples lie" in " ".join(found["sentences"])


@pytest.mark.parametrize("lattice", LATTICES, ids=lambda lattice: lattice.geometry.name)
def test_every_lattice_has_its_picture(lattice: Lattice) -> None:
    torch.manual_seed(2)
    artifact = in_memory(make_preset("graph1", NAMES, lattice=World(lattice, 1, 0).entry, order=1, target_volume=8.0))
    states = [blocks(np.random.default_rng(seed), lattice, cells=9) for seed in range(3)]
    found = explain(artifact, Snapshots.from_states(states, type_names=NAMES))
    colours = {tuple(colour) for colour in np.asarray(energy_picture(found.energies, NAMES)).astype(int).reshape(-1, 3)}
    assert any(red > blue + 60 for red, _, blue in colours)
    assert any(blue > red + 60 for red, _, blue in colours)


@pytest.mark.parametrize("preset", ["mnist-cellsort", "local8-closure"])
def test_other_models_are_refused(refused, models: dict[str, Path], preset: str) -> None:
    assert "explain reads cell graphs" in refused("explain", models[preset])
