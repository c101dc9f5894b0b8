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
from neuralcpm_bridge.distill import Runs, distill, distill_by_runs, report_json, report_text, sample_flips
from neuralcpm_bridge.distill.behaviour import Behaviour, Compared, Judge, analytic_part
from neuralcpm_bridge.distill.features import flip_changes, type_pairs
from neuralcpm_bridge.distill.fit import Problem, fitted
from neuralcpm_bridge.distill.refine import refined
from neuralcpm_bridge.distill.result import named
from neuralcpm_bridge.distill.sampling import FlipSample, proposals
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.metrics.comparing import Measured
from neuralcpm_bridge.sampling import sample_from_mixed
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState
from training.distilled import write_distilled
from training.export import export, hamiltonian_from_artifact
from training.export.artifact import weights_of as exported_weights
from training.hamiltonians import (
    Contact,
    Hamiltonian,
    States,
    Surface,
    Symbolic,
    VolumeFunction,
    batch_states,
    make_preset,
)
from training.hamiltonians.moments import Moments, axes
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


def longest(state: CellState) -> np.ndarray:
    """Lengths of all ids, as the term has them."""
    return axes(Moments.of(States(*batch_states([state]), state.lattice)))[0, :, 0].numpy()


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
                assert [values[number, side] for values in changes.volume] == [state.volumes[cell], after.volumes[cell]]
                known = [before[cell], after.surfaces(order)[cell]]
                assert [values[number, side] for values in changes.surface] == pytest.approx(known)
                known = [longest(state)[cell], longest(after)[cell]]
                assert [values[number, side] for values in changes.length] == pytest.approx(known, abs=1e-9)
            else:
                assert changes.length.before[number, side] == changes.length.after[number, side] == 0


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


def two_types(lengths: tuple[float, float], strengths: tuple[float, float] = (0.2, 0.4)) -> dict[str, np.ndarray]:
    """Sorting cells of 35 sites with constraints on their lengths."""
    return {
        "symbolic.contact.J": np.array([[0.0, 4, 4], [4, 3, 4], [4, 4, 3]]),
        "symbolic.volume.strength": np.array([0.0, 0.5, 0.5]),
        "symbolic.volume.target": np.array([0.0, 35, 35]),
        "symbolic.length.strength": np.array([0.0, *strengths]),
        "symbolic.length.target": np.array([0.0, *lengths]),
    }


@pytest.mark.parametrize(
    ("geometry", "boundary", "host", "offered"),
    [
        ("square", "periodic", "morpheus", True),
        ("hexagonal", "free", "morpheus", True),
        ("cubic", "periodic", "morpheus", False),
        ("square", "free", "cc3d", True),
        ("square", "periodic", "cc3d", False),
        ("cubic", "free", "cc3d", False),
    ],
)
def test_lengths_are_recovered_where_a_host_has_them(geometry: str, boundary: str, host: str, offered: bool) -> None:
    rng = np.random.default_rng(4)
    weights = weights_of(rng, ("contact", "volume", "length"))
    meta = metadata_of(weights, geometry, boundary)
    lattice = Lattice.of((14,) * meta.geometry.dimension, geometry, boundary)
    data = Snapshots.from_states([blocks(rng, lattice, cells=10) for _ in range(5)])
    result = distill(sample_flips(artifact_of(weights, meta), data, 4000, runs=(1, 3)), meta, host=host)
    assert ("length" in result.terms) == offered
    if offered:
        for name, unit in {"strength": WEIGHT, "target": 1.0}.items():
            known = unit * weights[f"symbolic.length.{name}"][1:]
            np.testing.assert_allclose(result.terms["length"][name][1:], known, rtol=1e-5)


def test_a_force_on_lengths_becomes_a_constraint_within_reach() -> None:
    """A target far away is a force: the longest target taken comes nearest. No constraint pushes away."""
    weights = two_types((-30.0, 400.0), (0.01, 0.002))
    meta = metadata_of(weights)
    data = data_for(artifact_of(weights, meta), states=6)
    result = distill(sample_flips(artifact_of(weights, meta), data, 4000, runs=(1, 5)), meta)
    strength, target = result.terms["length"]["strength"], result.terms["length"]["target"]
    assert result.r2_held_out > 0.999
    assert (strength[1:] > 0).all()
    assert target[1] == 0
    assert 10 < target[2] < 100
    weights = two_types((14.0, 8.0), (0.5, -0.3))
    meta = metadata_of(weights)
    away = distill(sample_flips(artifact_of(weights, meta), data, 4000, runs=(1,)), meta)
    assert away.terms["length"]["strength"][1] == pytest.approx(0.5 * WEIGHT, rel=0.1)
    assert away.terms["length"]["strength"][2] >= 0


# -- what a distilled model does -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_cells() -> tuple[Artifact, Snapshots]:
    """An analytic model whose type B is elongated, and states of it."""
    weights = two_types((7.0, 14.0))
    artifact = artifact_of(weights, metadata_of(weights, temperature=1.0))
    return artifact, sample_from_mixed(artifact, data_for(artifact, states=4), 6, 60, seed=1)


def test_runs_say_what_is_kept_and_what_is_lost(long_cells: tuple[Artifact, Snapshots]) -> None:
    artifact, data = long_cells
    samples = sample_flips(artifact, data, 3000, runs=(1, 5))
    runs = Runs(replicates=12, mcs=60, seed=3)
    result, behaviour = distill_by_runs(samples, artifact, data, runs)
    assert behaviour.verdict == "good"
    assert not result.refined
    assert "little is lost" in " ".join(report_text(result, artifact.metadata, behaviour))
    poor, behaviour = distill_by_runs(samples, artifact, data, runs, simple=True)
    assert poor.r2_held_out > 0.85  # as if little were lost
    assert poor.refined
    assert behaviour.verdict == "lost"
    assert "aspect ratio of B" in behaviour.wrong
    said = report_text(poor, artifact.metadata, behaviour)
    assert "loses what the network is there for" in said[1]
    assert "little is lost" not in " ".join(said)
    assert json.loads(json.dumps(report_json(poor, behaviour)))["behaviour"]["verdict"] == "lost"


def test_a_fit_that_misses_is_tuned_by_runs(long_cells: tuple[Artifact, Snapshots]) -> None:
    artifact, data = long_cells
    meta = artifact.metadata
    problem = Problem(sample_flips(artifact, data, 3000, runs=(1, 5)), meta)
    exact = fitted(problem, meta, simple=False, host="morpheus")
    lengths = np.array([column.quantity == "length" for column in exact.columns])
    weak = problem.judged(exact.columns, np.where(lengths, 0.2 * exact.coefficients, exact.coefficients))
    runs = Runs(replicates=12, mcs=60, seed=3)
    tuned = refined(problem, weak, artifact, data, runs)
    judge = Judge(artifact, data, runs)
    wrong, right = (judge.compare(named(problem, fit, meta)).measures["aspect ratio of B"] for fit in (weak, tuned))
    assert not wrong.holds
    assert right.holds


def test_what_a_network_does_is_told_from_noise() -> None:
    def compared(model: float, distilled: float, without: float | None, error: float = 0.02) -> Compared:
        known = None if without is None else Measured(without, error)
        return Compared(Measured(model, error), Measured(distilled, error), known)

    kept, lost, quiet = compared(2.8, 2.7, 1.4), compared(2.8, 1.5, 1.4), compared(1.40, 1.42, 1.41)
    assert kept.matters
    assert kept.holds
    assert kept.kept == pytest.approx(13 / 14)
    assert lost.matters
    assert not lost.holds
    assert not quiet.matters
    assert quiet.holds
    assert not compared(2.8, 2.0, None).holds
    runs = Runs(4, 10)
    assert Behaviour({"a": kept, "b": quiet}, runs).verdict == "good"
    assert Behaviour({"a": lost, "b": quiet}, runs).verdict == "lost"
    assert Behaviour({"a": compared(2.8, 2.3, 1.4), "b": quiet}, runs).verdict == "partly"
    assert list(Behaviour({"b": quiet, "a": kept}, runs).json()["kept"]) == ["a"]
    assert list(Behaviour({"a": compared(2.8, 2.8, 2.4), "b": kept}, runs).mattering) == ["b", "a"]


def test_a_closure_is_compared_with_its_analytic_part(closure: Artifact) -> None:
    alone = analytic_part(closure)
    assert alone is not None
    state = data_for(closure, side=60)[0]
    flips = proposals(state, 50, np.random.default_rng(1))
    symbolic = open_backend(closure, state).deltas(*flips)[:, 0]
    np.testing.assert_allclose(open_backend(alone, state).deltas(*flips).sum(axis=1), symbolic, atol=1e-9)


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
    few = ("--flips", 2000, "--steps", 5, "--replicates", 3, "--mcs", 5)
    code, said, _ = cli("distill", sorting.path, "--data", data, "-o", out, *few, "--json")
    assert code == 0
    report = json.loads(said)
    assert report.keys() >= {"r2", "r2_heldout", "decision_mismatch", "terms"}
    assert report["behaviour"]["verdict"] == "good"
    assert all(entry.keys() == {"value", "share"} for entry in report["terms"].values())
    distilled = load_artifact(out)
    assert distilled.metadata.architecture == "cellsort"
    assert not needs_plugin(distilled.metadata)
    new_model(distilled, data_for(sorting)[0], RunPlan()).write(tmp_path / "distilled.xml")
    code, said, _ = cli("distill", sorting.path, "--data", data, "-o", out, *few)
    assert code == 0
    assert said.index("little is lost") < said.index("explain 100.0 %")
    code, said, _ = cli("distill", sorting.path, "--data", data, "-o", out, *few, "--replicates", 0)
    assert code == 0
    assert "was not compared" in said


def test_one_state_is_enough_and_none_is_refused(refused, sorting: Artifact, save, tmp_path: Path) -> None:
    one = data_for(sorting, states=1)
    result = distill(sample_flips(sorting, one, 2000), sorting.metadata)
    assert result.r2_held_out > 0.999
    empty = save(ids=np.zeros((1, 20, 20), dtype=np.int32), types=np.array([0, 1]))
    assert "no boundary between cells" in refused("distill", sorting.path, "--data", empty, "-o", tmp_path / "x.onnx")
    assert not (tmp_path / "x.onnx").exists()
