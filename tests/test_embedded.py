"""The embedded host and the verb simulate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.embedded import Dynamics, ProtocolChains, open_chains, run
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.snapshots import load_snapshots


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


def test_the_protocol_loop_has_the_engines_kinetics(models: dict[str, Path]) -> None:
    """Proposals and acceptances per step of the Python loop and of the engine agree within their noise."""
    artifact = load_artifact(models["mnist-cellsort"])
    start = initial_state(artifact, "scatter", cells=4, lattice=(36, 40))
    means, errors = [], []
    for kind in ("engine", "loop"):
        totals = []
        for seed in range(12):
            how = Dynamics(temperature=1.0, seed=100 * seed, forbid_extinction=True)
            if kind == "engine":
                chains = open_chains(artifact, [start], how)
            else:
                chains = ProtocolChains([open_backend(artifact, start)], how, periodic=True)
            chains.advance(4)
            totals.append([chains.counts.proposals, chains.counts.accepted])
        means.append(np.mean(totals, axis=0))
        errors.append(np.var(totals, axis=0, ddof=1) / 12)
    assert (np.abs(means[0] - means[1]) < 5 * np.sqrt(errors[0] + errors[1])).all()
    with pytest.raises(UserError, match="engine"):
        ProtocolChains([open_backend(artifact, start)], Dynamics(1.0, boundary_only=True), periodic=True)


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
