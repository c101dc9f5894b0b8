"""Training away from the square lattice: data, warm starts, chains, runs, files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.metrics import mean_aspect_ratios
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots
from training import samplers
from training.chains import Chains, turned
from training.config import ChainSection
from training.datasets import RECIPES, Recipe, generate
from training.export import export
from training.hamiltonians import make_preset
from training.logs import named_parameters
from training.reproduce import Setting, reproduce
from training.samplers import ExactChains
from training.trainer import Trainer
from training.verify import verify_backends
from training.warmstart import fit_analytic

from .tiny import RECIPE, tiny_config

TINY: dict[str, Recipe] = {
    "hexagonal": replace(RECIPE, geometry="hexagonal", radius=5.5),
    "cubic": replace(RECIPE, geometry="cubic", side=18, radius=4.0, target=40.0),
}


@pytest.fixture(scope="module", params=TINY)
def data(request: pytest.FixtureRequest) -> Snapshots:
    return generate(TINY[request.param], samples=6, mcs=40)


def short(**sections: dict) -> dict:
    return {
        "model": {"preset": "cellsort", "freeze_symbolic": False},
        "objective": {"kind": "pcd"},
        "warmstart": {"steps": 0},
        "optimizer": {"steps": 3, "batch": 2, "refresh": 1, "lr": 0.01},
        **sections,
    }


def test_recipes_go_to_other_lattices() -> None:
    for name in ("cellsort-a", "cellsort-b", "elongation"):
        hexagonal, cubic = (RECIPES[name].on(geometry) for geometry in ("hexagonal", "cubic"))
        assert (hexagonal.cells, hexagonal.target) == (RECIPES[name].cells, RECIPES[name].target)
        assert cubic.lattice.dimension == 3
        for recipe in (hexagonal, cubic):
            made = generate(recipe, samples=1, mcs=2)
            assert made.lattice == recipe.lattice
            assert made.provenance["recipe"]["geometry"] == recipe.geometry
            assert (made[0].volumes[1:] > 0).all()
    assert RECIPES["cellsort-a"].on("square") is RECIPES["cellsort-a"]
    with pytest.raises(UserError, match="square lattices only"):
        RECIPES["bipolar"].on("hexagonal")


@pytest.mark.parametrize(("geometry", "mcs"), [("hexagonal", 200), ("cubic", 300)])
def test_the_length_constraint_elongates_type_two(geometry: str, mcs: int) -> None:
    data = generate(RECIPES["elongation"].on(geometry), samples=2, mcs=mcs)
    of_types = np.mean([mean_aspect_ratios(state, 3) for state in data], axis=0)
    assert of_types[2] > 1.25 * of_types[1]


@pytest.mark.parametrize("geometry", TINY)
def test_single_flips_recover_contact_and_volume_energies(geometry: str) -> None:
    recipe = replace(TINY[geometry], cells=12, mcs=200, side=2 * TINY[geometry].side // 3 + 14)
    symbolic = make_preset("mnist-cellsort", target_volume=recipe.target).symbolic
    fit_analytic(symbolic, generate(recipe, samples=8)).put_into(symbolic)
    truth = np.array([*recipe.J, recipe.strength])
    found = np.array([*symbolic.contact.energies.tolist(), symbolic.volume.strength().item()])
    assert np.linalg.norm(found - truth) < 0.2 * np.linalg.norm(truth)


def test_a_run_trains_and_its_model_is_exported(data: Snapshots, tmp_path: Path) -> None:
    model = Trainer(tiny_config(**short()), data, tmp_path / "run").run()
    artifact = export(model, tmp_path / "model.onnx")
    assert artifact.metadata.lattice.shape == data.lattice.shape
    assert artifact.metadata.lattice.geometry == data.lattice.geometry.name
    assert verify_backends(artifact, [data[0]], 50, 0)["ok"]


def test_further_terms_and_orders_are_trained(data: Snapshots) -> None:
    settings = {"preset": "cellsort", "terms": ["length", "surface"], "order": 2, "freeze_symbolic": False}
    trainer = Trainer(tiny_config(**short(model=settings)), data)
    assert trainer.hamiltonian.orders == {"contact": 2, "surface": 2}
    before = named_parameters(trainer.hamiltonian)
    after = named_parameters(trainer.run())
    assert {"length_strength1", "length_target2", "surface_strength1", "surface_target2"} <= set(after)
    assert all(after[name] != before[name] for name in after)


def test_parallel_chains_train_too(data: Snapshots) -> None:
    chosen = {
        "sampler": {"kind": "parallel", "flips": 40},
        "chains": [{"start": "data", "reset": 1.0, "sweeps": [0.1]}],
    }
    trainer = Trainer(tiny_config(**short(**chosen)), data)
    trainer.run()
    assert 0 < trainer.acceptance < 1


def test_networks_of_convolutions_are_refused_in_one_sentence(data: Snapshots) -> None:
    with pytest.raises(UserError, match="square ones only") as caught:
        Trainer(tiny_config(model={"preset": "local8-closure"}), data)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="square lattices only"):
        reproduce("bipolar", Setting(lattice="hexagonal"))


def test_symmetries_turn_states_as_the_lattice_allows() -> None:
    lattice = Lattice.of((6, 6), "hexagonal")
    ids = np.zeros((1, 6, 6), dtype=np.int32)
    ids[0, 2, 1:4] = 1
    snapshots = Snapshots(ids, np.array([[0, 1]], dtype=np.int32), (), lattice)
    drawn = turned(snapshots.chosen([0] * 200), np.random.default_rng(0))
    images = {state.tobytes() for state in drawn.ids}
    assert images == {ids[0].ravel()[turn].tobytes() for turn in lattice.symmetries()}
    assert (snapshots.ids == ids).all()


def test_all_chains_of_a_round_share_one_engine_model(data: Snapshots, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    make = samplers.model_of
    monkeypatch.setattr(samplers, "model_of", lambda hamiltonian: built.append(0) or make(hamiltonian))
    groups = (ChainSection(start="data", sweeps=(1, 2)), ChainSection(start="mixed", sweeps=(1,), settle=2))
    trainer = Trainer(tiny_config(**short()), data)
    together = Chains(groups, 4)
    for expected in (1, 2):
        partners = data.chosen(range(4))
        together.advance(trainer.hamiltonian, ExactChains(), partners, np.random.default_rng(1))
        assert len(built) == expected


def test_recovery_runs_on_every_lattice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from training.reproduce import cellsort

    monkeypatch.setitem(cellsort.STEPS, "small", 2)
    for geometry, recipe in TINY.items():
        tiny = replace(recipe, name="cellsort-b", samples=4, mcs=20)
        monkeypatch.setitem(RECIPES, "cellsort-b", tiny)
        results = reproduce("cellsort-b", Setting(lattice=geometry, folder=tmp_path / geometry))
        assert results["lattice"] == geometry
        assert results["relative_error"] == pytest.approx(results["norm_t1"] / np.linalg.norm([*tiny.J, tiny.strength]))
        assert load_snapshots(tmp_path / geometry / "data.npz").lattice.geometry.name == geometry


def test_gradients_reach_every_parameter(data: Snapshots) -> None:
    terms = {"surface": (9.0, 8.0), "length": (5.0, 6.0), "volume_function": (25.0, 25.0)}
    lattice = Trainer(tiny_config(**short()), data).hamiltonian.lattice
    hamiltonian = make_preset("mnist-cellsort", terms=terms, lattice=lattice)
    hamiltonian.of_states([data[0]]).total.sum().backward()
    trained = [p for p in hamiltonian.parameters() if p.requires_grad]
    assert len(trained) >= 7
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in trained)
