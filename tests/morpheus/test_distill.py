"""Distilling: what is expressible is recovered, what is not is reported, and the result is an ordinary model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from morpheus_xml.new import RunPlan, needs_plugin, new_model
from neuralcpm_bridge.artifact import Artifact, LatticeEntry, load_artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.distill import distill, report_text, sample_flips
from neuralcpm_bridge.distill.features import flip_changes, type_pairs
from neuralcpm_bridge.distill.sampling import FlipSample, proposals
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState
from training.distilled import write_distilled
from training.export import export, hamiltonian_from_artifact
from training.export.artifact import weights_of as exported_weights
from training.hamiltonians import Contact, Hamiltonian, Surface, Symbolic, VolumeFunction, make_preset
from training.verify import verify_backends

from ..analytic import WEIGHT, artifact_of, blocks, metadata_of, weights_of
from ..strategies import random_state
from ..test_embedded import LATTICES, lattice_name


def data_for(artifact: Artifact, states: int = 6, side: int = 36, area: int = 35) -> Snapshots:
    """A dozen cells of about that area in a disc."""
    weights = {"symbolic.volume.strength": np.ones(3), "symbolic.volume.target": np.full(3, float(area))}
    sized = artifact_of(weights, metadata_of(weights, boundary=artifact.metadata.boundary))
    return Snapshots.from_states(
        [initial_state(sized, "blob", seed=seed, cells=12, lattice=(side, side)) for seed in range(states)],
        type_names=artifact.metadata.types,
    )


def shaped_model(path: Path, boundary: str = "periodic") -> Artifact:
    """Contacts, a volume energy that is no parabola, and surfaces."""

    def tensor(values: object) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64)

    symbolic = Symbolic(
        Contact(tensor([[0, 4, 3], [4, 2, 5], [3, 5, 2]])),
        Surface(tensor([0.1, 0.05]), tensor([18, 20])),
        VolumeFunction(
            center=tensor([0, 40, 50]),
            low=tensor([0, 5, 5]),
            high=tensor([0, 120, 120]),
            coefficients=tensor([[0] * 4, [0.1, 0.2, 0.004, 0.0002], [-0.2, 0.1, -0.003, 0.0003]]),
            stiffness=tensor([0, 0.5, 0.5]),
        ),
    )
    return export(Hamiltonian(("medium", "A", "B"), symbolic, lattice=LatticeEntry.of(boundary=boundary)), path)


@pytest.mark.parametrize("boundary", ["periodic", "free"])
def test_every_back_end_knows_the_distilled_terms(boundary: str, tmp_path: Path) -> None:
    artifact = shaped_model(tmp_path / "shaped.onnx", boundary)
    rng = np.random.default_rng(2)
    states = [random_state(rng, (14, 17), 8) for _ in range(4)]  # volumes below, within and above the function's range
    report = verify_backends(artifact, states, 200, seed=0)
    assert report["ok"]
    assert max(entry["max_abs_error"] for entry in report["backends"].values()) < 1e-8
    again = exported_weights(hamiltonian_from_artifact(artifact))
    assert all(np.array_equal(again[name], value) for name, value in artifact.weights.items())


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("lattice", LATTICES, ids=lattice_name)
def test_changes_of_a_flip_are_those_of_the_whole_state(lattice: Lattice, order: int) -> None:
    rng = np.random.default_rng(1)
    state = blocks(rng, lattice, cells=6)
    sites, new_ids = proposals(state, 40, rng)
    nothing = np.zeros(sites.size)
    changes = flip_changes(FlipSample(state, sites, new_ids, nothing, nothing, False), 3, order)
    weight = lattice.geometry.pair_weight(order)
    before = state.surfaces(order)
    for number, (site, new_id) in enumerate(zip(sites, new_ids, strict=True)):
        ids = state.ids.copy()
        ends = [int(ids.ravel()[site]), int(new_id)]
        assert ends[0] != ends[1]
        ids.ravel()[site] = new_id
        after = CellState(ids, state.types, lattice)
        difference = (after.contacts(3, order) - state.contacts(3, order)) * weight
        np.testing.assert_allclose(changes.contacts[number], [difference[pair] for pair in type_pairs(3)])
        for side, cell in enumerate(ends):
            if cell:
                assert changes.volumes[number, side] == state.volumes[cell]
                assert changes.surfaces[number, side] == before[cell]
                assert changes.surface_change[number, side] == pytest.approx(after.surfaces(order)[cell] - before[cell])


@pytest.mark.parametrize("lattice", [lattice for lattice in LATTICES if lattice.layout == "axes"], ids=lattice_name)
def test_an_analytic_model_of_any_lattice_is_recovered(lattice: Lattice) -> None:
    rng = np.random.default_rng(2)
    weights = weights_of(rng, ("contact", "volume"))
    meta = metadata_of(weights, lattice.geometry.name, lattice.boundary, {"contact": 3})
    data = Snapshots.from_states([blocks(rng, lattice, cells=8) for _ in range(5)])
    result = distill(sample_flips(artifact_of(weights, meta), data, 3000, runs=(1, 3)), meta)
    assert min(result.r2, result.r2_held_out) > 0.999999
    assert result.orders == {"contact": 3}
    np.testing.assert_allclose(result.terms["contact"]["J"], WEIGHT * weights["symbolic.contact.J"], rtol=1e-6)
    np.testing.assert_allclose(
        result.terms["volume"]["strength"][1:], WEIGHT * weights["symbolic.volume.strength"][1:], rtol=1e-6
    )
    np.testing.assert_allclose(result.terms["volume"]["target"][1:], weights["symbolic.volume.target"][1:], rtol=1e-6)


@pytest.mark.parametrize("boundary", ["periodic", "free", ("free", "periodic")])
def test_surfaces_are_offered_where_morpheus_has_them(boundary: str) -> None:
    rng = np.random.default_rng(4)
    weights = weights_of(rng, ("contact", "volume", "surface"))
    meta = metadata_of(weights, "hexagonal", boundary)
    lattice = Lattice.of((16, 16), "hexagonal", boundary)
    data = Snapshots.from_states([blocks(rng, lattice, cells=8) for _ in range(5)])
    result = distill(sample_flips(artifact_of(weights, meta), data, 3000, runs=(1, 3)), meta)
    assert ("surface" in result.terms) == (boundary == "periodic")


@pytest.mark.parametrize("boundary", ["periodic", "free"])
def test_a_cell_sorting_model_is_recovered(boundary: str, sorting: Artifact, free_sorting: Artifact) -> None:
    artifact = sorting if boundary == "periodic" else free_sorting
    result = distill(sample_flips(artifact, data_for(artifact), 3000), artifact.metadata)
    assert min(result.r2, result.r2_held_out) > 0.999
    assert result.decision_mismatch < 1e-6
    expected = {"J(medium,A)": 8, "J(medium,B)": 6, "J(A,A)": 4, "J(A,B)": 10, "J(B,B)": 5}
    expected |= {"lambda(A)": 1, "target_volume(A)": 30, "lambda(B)": 2, "target_volume(B)": 40}
    assert result.values.keys() == expected.keys()
    for name, value in expected.items():
        assert result.values[name] == pytest.approx(value, rel=0.01)
    assert sum(result.shares.values()) == pytest.approx(result.r2, abs=1e-3)


def test_volume_functions_and_surfaces_are_recovered(tmp_path: Path) -> None:
    artifact = shaped_model(tmp_path / "shaped.onnx")
    data = data_for(artifact, states=8, area=54)
    result = distill(sample_flips(artifact, data, 6000, runs=(1, 5)), artifact.metadata)
    assert min(result.r2, result.r2_held_out) > 0.999
    assert list(result.terms) == ["contact", "volume_function", "surface"]
    np.testing.assert_allclose(result.terms["surface"]["strength"][1:], [0.1, 0.05], rtol=0.01)
    distilled = write_distilled(result, artifact, tmp_path / "distilled.onnx")
    assert list(distilled.metadata.symbolic.terms) == ["contact", "volume_function", "surface"]
    simple = distill(sample_flips(artifact, data, 2000, runs=()), artifact.metadata, simple=True)
    assert list(simple.terms) == ["contact", "volume"]
    assert simple.r2 < result.r2
    state = data[0]
    flips = proposals(state, 200, np.random.default_rng(5))
    deltas = [open_backend(model, state).deltas(*flips).sum(axis=1) for model in (artifact, distilled)]
    np.testing.assert_allclose(deltas[0], deltas[1], atol=1e-6 * np.abs(deltas[0]).max())


def test_a_network_is_reported_honestly(tmp_path: Path) -> None:
    torch.manual_seed(3)
    hamiltonian = make_preset("local8")
    strong = Hamiltonian(hamiltonian.type_names, network=hamiltonian.network, network_weight=50.0)
    artifact = export(strong, tmp_path / "network.onnx")
    data = data_for(artifact, states=12, side=60, area=60)
    result = distill(sample_flips(artifact, data, 8000, runs=(1,)), artifact.metadata)
    assert 0 < result.r2 < 0.999
    assert abs(result.r2 - result.r2_held_out) <= 0.02
    text = " ".join(report_text(result, artifact.metadata))
    assert f"{100 * result.r2_held_out:.1f} %" in text
    assert result.network_explained is None


def test_a_closure_says_what_becomes_of_its_network(closure: Artifact) -> None:
    """Contacts and volumes, which are explained anyway, do not hide that a network's part is lost."""
    result = distill(sample_flips(closure, data_for(closure, side=60), 3000, runs=(1,)), closure.metadata)
    assert result.r2_held_out > 0.9
    assert result.network_explained is not None
    assert result.network_explained < result.r2_held_out
    assert "little is lost" not in " ".join(report_text(result, closure.metadata))


def test_the_verb_writes_an_ordinary_model(cli, sorting: Artifact, tmp_path: Path) -> None:
    data, out = tmp_path / "data.npz", tmp_path / "distilled.onnx"
    data_for(sorting).save(data)
    code, said, _ = cli("distill", sorting.path, "--data", data, "-o", out, "--flips", 2000, "--steps", 5, "--json")
    assert code == 0
    report = json.loads(said)
    assert report.keys() == {"r2", "r2_heldout", "decision_mismatch", "terms"}
    assert all(entry.keys() == {"value", "share"} for entry in report["terms"].values())
    distilled = load_artifact(out)
    assert distilled.metadata.architecture == "cellsort"
    assert not needs_plugin(distilled.metadata)
    new_model(distilled, data_for(sorting)[0], RunPlan()).write(tmp_path / "distilled.xml")
    code, said, _ = cli("distill", sorting.path, "--data", data, "-o", out, "--flips", 2000, "--steps", 5)
    assert code == 0
    assert "little is lost" in said


def test_one_state_is_enough_and_none_is_refused(refused, sorting: Artifact, save, tmp_path: Path) -> None:
    one = data_for(sorting, states=1)
    result = distill(sample_flips(sorting, one, 2000), sorting.metadata)
    assert result.r2_held_out > 0.999
    empty = save(ids=np.zeros((1, 20, 20), dtype=np.int32), types=np.array([0, 1]))
    assert "no boundary between cells" in refused("distill", sorting.path, "--data", empty, "-o", tmp_path / "x.onnx")
    assert not (tmp_path / "x.onnx").exists()
