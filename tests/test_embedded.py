"""The embedded host and the verb simulate."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge.artifact import Artifact, load_artifact
from neuralcpm_bridge.backends.engine import EngineBackend
from neuralcpm_bridge.backends.full import FullEnergyBackend
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.embedded import Dynamics, ProtocolChains, open_chains, run
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.lattice import GEOMETRIES, Lattice
from neuralcpm_bridge.snapshots import load_snapshots
from neuralcpm_bridge.state import CellState

from .analytic import artifact_of, blocks, metadata_of, weights_of
from .test_format1 import kept

LATTICES = [
    Lattice.of((16, 18)),
    Lattice.of((16, 18), boundary=("free", "periodic")),
    Lattice.of((14, 16), "hexagonal"),
    Lattice.of((14, 16), "hexagonal", "free", "rows"),
    Lattice.of((8, 9, 10), "cubic", ("periodic", "free", "periodic")),
]


def lattice_name(lattice: Lattice) -> str:
    return "-".join([lattice.geometry.name, lattice.layout, *lattice.boundary])


@pytest.mark.parametrize("layout", ["blob", "scatter"])
def test_layouts(models: dict[str, Path], layout: str) -> None:
    artifact = load_artifact(models["mnist-cellsort"])
    state = initial_state(artifact, layout, seed=1, cells=12, lattice=(70, 60))
    assert state.shape == (70, 60)
    assert np.bincount(state.types).tolist() == [1, 6, 6]
    volumes = state.volumes[1:]
    assert volumes.min() > 40
    assert volumes.mean() == pytest.approx(97, rel=0.1)
    assert (state.fragments()[1:] == 1).all()
    again = initial_state(artifact, layout, seed=1, cells=12, lattice=(70, 60))
    np.testing.assert_array_equal(state.ids, again.ids)
    with pytest.raises(UserError, match="do not fit"):
        initial_state(artifact, layout, cells=100, lattice=(30, 30))


def test_snapshots_do_not_change_the_run(models: dict[str, Path]) -> None:
    artifact = load_artifact(models["mnist-cellsort"])
    start = initial_state(artifact, "blob", cells=4, lattice=(36, 40))
    dynamics = Dynamics(temperature=1.0, seed=3)
    ends = []
    for snapshots in (1, 4):
        chains = open_chains(artifact, [start, start], dynamics, threads=2)
        found = [(done, states) for done, states in run(chains, 8, snapshots) if states is not None]
        assert [done for done, _ in found] == [8 * k // snapshots for k in range(snapshots + 1)]
        assert chains.counts.attempts == 2 * 8 * 36 * 40
        ends.append(found[-1][1])
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one.ids, other.ids)
    assert (ends[0][0].ids != ends[0][1].ids).any()


@pytest.mark.parametrize("lattice", LATTICES, ids=lattice_name)
def test_the_protocol_loop_has_the_engines_kinetics(lattice: Lattice) -> None:
    """Proposals and acceptances per step of the Python loop and of the engine agree within their noise."""
    rng = np.random.default_rng(3)
    weights = weights_of(rng, ("contact", "volume"))
    artifact = artifact_of(weights, metadata_of(weights, lattice.geometry.name, lattice.boundary))
    start = blocks(rng, lattice, cells=6)
    means, errors = [], []
    for protocol in (False, True):
        totals = []
        for seed in range(12):
            how = Dynamics(temperature=3.0, seed=100 * seed, forbid_extinction=True)
            chains = (
                ProtocolChains([open_backend(artifact, start)], how)
                if protocol
                else open_chains(artifact, [start], how)
            )
            chains.advance(4)
            assert chains.counts.attempts == 4 * lattice.sites
            assert chains.states()[0].lattice == lattice
            totals.append([chains.counts.proposals, chains.counts.accepted])
        means.append(np.mean(totals, axis=0))
        errors.append(np.var(totals, axis=0, ddof=1) / 12)
    assert (np.abs(means[0] - means[1]) < 5 * np.sqrt(errors[0] + errors[1])).all()
    with pytest.raises(UserError, match="engine"):
        ProtocolChains([open_backend(artifact, start)], Dynamics(1.0, boundary_only=True))


PROTOCOL_RUNS = {
    ("cellsort", "moore"): "5d25cf2f4bd0216b56ee43f6d977c35913dcc92836dc1ac75975c1b1c5bacd4a",
    ("cellsort", "von_neumann"): "4a5002c5e997f2d2de884a7d01f70c6b8d0b1070ed74bac9a9f28a28affdbf39",
    ("analytic", "moore"): "c03f7ba6b8b8bf68a6742cecd96438854f85bfdf7297bf2beabc986d9dd9f992",
    ("analytic", "von_neumann"): "251c177c7c58a0ddb6901abdf7b70c367157b39b6cfcd9d5fca6905adcd5fccf",
}
"""Of version 0.1: two chains, two steps, hash of both lattices."""


@pytest.mark.parametrize(("name", "neighbourhood"), PROTOCOL_RUNS)
def test_the_protocol_loop_draws_as_it_always_did(name: str, neighbourhood: str) -> None:
    artifact = kept(name)
    backends = [open_backend(artifact, artifact.metadata.example_states()[0]) for _ in range(2)]
    chains = ProtocolChains(backends, Dynamics(3.0, 5, neighbourhood=neighbourhood, forbid_extinction=True))
    chains.advance(1)
    chains.advance(1)
    ids = b"".join(state.ids.astype("<i4").tobytes() for state in chains.states())
    assert hashlib.sha256(ids).hexdigest() == PROTOCOL_RUNS[name, neighbourhood]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_copies_come_from_a_word_or_an_order(geometry: str) -> None:
    lattice = Lattice.of((8,) * GEOMETRIES[geometry].dimension, geometry)
    rng = np.random.default_rng(0)
    weights = weights_of(rng, ("contact", "volume"))
    artifact, start = artifact_of(weights, metadata_of(weights, geometry)), blocks(rng, lattice)

    def end(neighbourhood: object) -> bytes:
        chains = open_chains(artifact, [start], Dynamics(3.0, 1, neighbourhood=neighbourhood))
        chains.advance(3)
        return chains.states()[0].ids.tobytes()

    moore = GEOMETRIES[geometry].moore_order
    assert end("moore") == end(moore) != end(moore + 1)
    assert end("von_neumann") == end(1)
    for wrong, word in {"nearest": "von_neumann", 0: "order", 99: "order"}.items():
        with pytest.raises(UserError, match=word):
            end(wrong)


def test_states_that_a_model_cannot_take() -> None:
    rng = np.random.default_rng(0)
    weights = weights_of(rng, ("contact", "volume"))
    artifact = artifact_of(weights, metadata_of(weights, "hexagonal", "free"))
    square, cubic = (blocks(rng, Lattice.of((8,) * dimension)) for dimension in (2, 3))
    for state in (square, cubic):
        with pytest.raises(UserError, match=f"{state.lattice.geometry.name} lattice, but the model is for hexagonal"):
            artifact.place(state)
    rows = blocks(rng, Lattice.of((8, 8), "hexagonal", "periodic", "rows"))
    placed = artifact.place(rows)
    assert (placed.lattice.boundary, placed.lattice.layout) == (("free", "free"), "rows")
    assert artifact.place(placed) is placed


class FullByEngine(FullEnergyBackend):
    """Full energies, each from a state of its own."""

    name = "full energies"

    def __init__(self, artifact: Artifact, state: CellState) -> None:
        self.artifact = artifact
        super().__init__(artifact.place(state), "full")

    def energies(self, ids: np.ndarray, types: np.ndarray, _: np.ndarray) -> np.ndarray:
        states = [CellState(own, types, self.lattice) for own in ids]
        return np.array([EngineBackend(self.artifact, state).energy() for state in states])


@pytest.mark.parametrize("lattice", LATTICES, ids=lattice_name)
def test_a_back_end_of_full_energies_follows_the_engine(lattice: Lattice) -> None:
    """Flips, many pixels at once, new types and new cells, by site in two and three dimensions."""
    rng = np.random.default_rng(5)
    # Without lengths: flips anywhere spread cells over more than half of the lattice, where they have none.
    weights = weights_of(rng, ("contact", "volume", "volume_function", "surface"))
    meta = metadata_of(weights, lattice.geometry.name, lattice.boundary, {"contact": 4, "surface": 1})
    artifact, start = artifact_of(weights, meta), blocks(rng, lattice)
    backends = [open_backend(artifact, start), FullByEngine(artifact, start)]

    def flips(count: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.integers(lattice.sites, size=count), rng.integers(start.types.size, size=count)

    for round_ in range(3):
        sites, new_ids = flips(12)
        found, expected = (backend.deltas(sites, new_ids) for backend in backends)
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(backends[0].energy().total))
        assert backends[0].delta(int(sites[0]), int(new_ids[0])) == pytest.approx(found[0].sum())
        for backend in backends:
            backend.commit(int(sites[0]), int(new_ids[0]))
            backend.change_pixels(sites[1:6], new_ids[1:6])
            backend.set_type(1 + round_, 1 + round_ % 2)
            backend.set_type(start.types.size + round_, 2)
        one, other = (backend.state() for backend in backends)
        np.testing.assert_array_equal(one.ids, other.ids)
        np.testing.assert_array_equal(one.types, other.types)
        assert one.lattice == other.lattice == lattice
        np.testing.assert_allclose(backends[0].energy(), backends[1].energy(), rtol=1e-9)
    smaller = blocks(rng, Lattice.of([side - 1 for side in lattice.shape], lattice.geometry, lattice.boundary))
    for backend in backends:
        backend.reset(smaller)
    np.testing.assert_allclose(backends[0].energy(), backends[1].energy(), rtol=1e-9)


def test_simulate(cli, models: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    how = ("--init", "blob", "--cells", 5, "--lattice", "36x40", "--mcs", 6, "--seed", 2, "--chains", 2)
    code, _, err = cli("simulate", models["mnist-cellsort"], *how, "--snapshots", 3, "-o", folder)
    assert code == 0, err
    found = load_snapshots(folder / "snapshots.npz")
    assert found.ids.shape == (8, 36, 40)
    assert found.type_names == ("medium", "A", "B")
    assert found.arrays["mcs"].tolist() == [0, 0, 2, 2, 4, 4, 6, 6]
    assert found.arrays["chain"].tolist() == [0, 1] * 4
    assert found.provenance["seed"] == 2
    code, _, err = cli(
        "simulate",
        models["mnist-cellsort"],
        "--state",
        f"{folder}/snapshots.npz:6",
        "--mcs",
        2,
        "-o",
        tmp_path / "more",
    )
    assert code == 0, err
    more = load_snapshots(tmp_path / "more" / "snapshots.npz")
    np.testing.assert_array_equal(more.ids[0], found.ids[6])


def test_simulate_says_who_runs_what_the_engine_does_not_cover(cli, models: dict[str, Path], tmp_path: Path) -> None:
    how = ("--init", "scatter", "--mcs", 0, "--lattice", "36x40", "--cells", 8)
    code, _, err = cli("simulate", models["mnist-cnn"], *how, "-o", tmp_path)
    assert code == 0, err
    assert "onnxruntime" in err
    assert "does not cover" in err


def test_simulate_refuses(refused, models: dict[str, Path], tmp_path: Path) -> None:
    model = models["mnist-cellsort"]
    assert "--init" in refused("simulate", model, "-o", tmp_path)
    assert "--init" in refused("simulate", model, "-o", tmp_path, "--init", "blob", "--state", "x.npz")
    assert "x.npz" in refused("simulate", model, "-o", tmp_path, "--state", "x.npz")
    assert "100x150" in refused("simulate", model, "-o", tmp_path, "--init", "blob", "--lattice", "big")
    assert "fit" in refused("simulate", model, "-o", tmp_path, "--init", "blob", "--lattice", "20x20", "--cells", 50)
    assert "layout" in refused("simulate", model, "-o", tmp_path, "--state", "x.npz", "--cells", 3)
