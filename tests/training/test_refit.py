"""refit: uncertain lattices are where chains start, with a datum's cells, and never data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from neuralcpm_bridge.app.cli import run as command
from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots
from neuralcpm_bridge.state import CellState
from training.datasets import RECIPES, generate
from training.fit import Given, Wanted, fit, refitting
from training.fit.analytic import analytic_start
from training.fit.refitting import Returning, compared, in_place_of
from training.trainer import Trainer

from ..strategies import random_state
from .quick import MINUTES, make_quick
from .test_fit import SECTION

SMALL = replace(RECIPES["elongation"], side=60, cells=8, radius=13.0, mcs=200)


@pytest.fixture(scope="module")
def elongated() -> Snapshots:
    return generate(SMALL, samples=40, seed=1)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["square", "hexagonal", "cubic"]), st.booleans())
def test_a_datum_takes_the_places_of_cells_of_its_types(seed: int, geometry: str, free: bool) -> None:
    rng = np.random.default_rng(seed)
    dimension = 3 if geometry == "cubic" else 2

    def drawn(ids: int) -> CellState:
        shape = tuple(int(side) for side in rng.integers(5, 12, size=dimension))
        lattice = Lattice.of(shape, geometry, "free" if free else "periodic")
        state = random_state(rng, shape, ids, lattice=lattice)
        state.ids.flat[0] = 1
        return state

    other, datum = drawn(int(rng.integers(2, 7))), drawn(int(rng.integers(2, 7)))
    made = in_place_of(other, datum, rng)
    assert made.lattice == datum.lattice
    assert (made.types == datum.types).all()
    assert (made.types[np.unique(made.ids)][1:] > 0).all()
    if other.lattice == datum.lattice:
        kept = (made.ids > 0) & (other.ids > 0)
        lone = np.bincount(made.ids.ravel(), minlength=made.types.size)[made.ids] == 1
        assert (made.types[made.ids] == other.types[other.ids])[kept & ~lone].all()


def test_states_of_the_same_cells_stay_what_they_are_but_for_numbers(elongated: Snapshots) -> None:
    rng = np.random.default_rng(0)
    made = in_place_of(elongated[3], elongated[5], rng)
    assert ((made.ids > 0) == (elongated[3].ids > 0)).all()
    assert (made.types[made.ids] == elongated[3].types[elongated[3].ids]).all()
    assert len(np.unique(made.ids)) == len(np.unique(elongated[3].ids))


def test_half_of_the_scattered_chains_leave_the_lattices(elongated: Snapshots) -> None:
    returning, rng = Returning(elongated.chosen([7])), np.random.default_rng(1)
    begun = [returning("mixed", elongated[0], rng) for _ in range(200)]
    grown = sum(int(state.volumes[1:].max()) > 1 for state in begun)
    assert 60 < grown < 140
    assert (returning("data", elongated[0], rng).ids == elongated[0].ids).all()


def test_cells_without_a_shape_are_no_start(elongated: Snapshots) -> None:
    torn = elongated.chosen([0])
    torn.ids[0, :, 0] = 1
    assert Returning(torn).leaving(elongated[1], np.random.default_rng(0)) is None


@pytest.fixture(scope="module")
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        make_quick(patched, pair_steps=400, pool=12, replicates=32)
        patched.setattr(refitting, "JUDGED", 8)
        yield


@pytest.fixture(scope="module")
def run(quick: None, elongated: Snapshots, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished fit beside given energies."""
    folder = tmp_path_factory.mktemp("fits") / "run"
    like = Given(analytic_start(elongated, SECTION, 0, 1).hamiltonian, "mine.cc3d", 6.0, ("fields",))
    fit(elongated, folder, Wanted(MINUTES, members=2, seed=3, like=like))
    return folder


@pytest.fixture(scope="module")
def uncertain(elongated: Snapshots, run: Path) -> Path:
    """Lattices of another size, as a host saves them, with types in another order."""
    ids = np.pad(elongated.ids[:3], ((0, 0), (4, 4), (0, 0)))
    types = np.array([0, 2, 1], dtype=np.int32)[elongated.types[:3]]
    lattices = Snapshots(ids, types, ("medium", "B", "A"), Lattice.of(ids.shape[1:]))
    lattices.save(run.parent / "uncertain.npz")
    return run.parent / "uncertain.npz"


def test_a_refit_goes_on_from_the_fit_and_is_judged_like_it(
    run: Path,
    uncertain: Path,
    elongated: Snapshots,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = {}
    train = Trainer.run

    def watched(self: Trainer, *arguments: object, **options: object) -> object:
        seen["began"] = {name: value.clone() for name, value in self.hamiltonian.state_dict().items()}
        seen["data"], seen["starts"] = self.train, self.chains.starts
        return train(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Trainer, "run", watched)
    again = run.parent / "again"
    verb = ["refit", str(run), "--with", str(uncertain), "-o", str(again), "--minutes", str(MINUTES), "--json"]
    assert command(verb) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((again / "fit.json").read_text(encoding="utf-8"))
    before = json.loads((run / "fit.json").read_text(encoding="utf-8"))
    assert {key: found[key] for key in ("members", "seed", "like", "not_read", "sample_mcs")} == {
        key: before[key] for key in ("members", "seed", "like", "not_read", "sample_mcs")
    }
    assert found["refit"]["of"] == "run"
    assert found["refit"]["lattices"] == 3
    assert found["refit"]["misfit"].keys() == {"before", "after"}
    old, new = load_artifact(run / "model.onnx"), load_artifact(again / "model.onnx")
    for name, value in old.weights.items():
        if name.startswith("neural.") and name != "neural.weight":
            assert torch.equal(seen["began"][f"network.{name.removeprefix('neural.')}"], torch.tensor(value))
    assert old.metadata.symbolic == new.metadata.symbolic
    assert old.metadata.weights_hash != new.metadata.weights_hash
    for end in ("low", "high"):  # what is known is what the data had
        np.testing.assert_allclose(old.weights[f"neural.{end}"], new.weights[f"neural.{end}"], rtol=1e-5, atol=1e-6)
    assert found["refit"]["scattered"] == {"before": before["misfit"]["closure"], "after": found["misfit"]["closure"]}
    assert found["verdict"].endswith((" Keep run.", " Use it in place of run."))
    assert isinstance(seen["starts"], Returning)
    known = {state.tobytes() for state in elongated.ids}
    assert all(state.tobytes() in known for state in seen["data"].ids)
    assert (again / "report.html").exists()
    assert command(verb) == 0  # what is there is not trained again
    assert json.loads(capsys.readouterr().out)["measures"] == found["measures"]
    assert (load_snapshots(again / "held-out.npz").ids == load_snapshots(run / "held-out.npz").ids).all()


def test_the_verdict_compares() -> None:
    def told(returning: float, scattered: float) -> dict[str, object]:
        of = {"misfit": {"before": 10.0, "after": returning}, "scattered": {"before": 2.0, "after": scattered}}
        return {"of": "run", **of}

    assert compared(told(3.0, 2.5)).endswith("Use it in place of run.")
    assert compared(told(3.0, 4.0)).endswith("Keep run.")
    assert compared(told(11.0, 1.0)).endswith("Keep run.")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda folder: (folder / "fit.json").unlink(), "is no folder of a finished fit"),
        (lambda folder: (folder / "data.npz").unlink(), "does not hold the data"),
        (
            lambda folder: (folder / "fit.json").write_text(
                (folder / "fit.json").read_text(encoding="utf-8").replace('"adds": true', '"adds": false'),
                encoding="utf-8",
            ),
            "is silent",
        ),
    ],
)
def test_what_cannot_be_trained_on_is_refused(
    change: object, sentence: str, run: Path, uncertain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    shutil.copytree(run, tmp_path / "run")
    change(tmp_path / "run")  # type: ignore[operator]
    assert command(["refit", str(tmp_path / "run"), "--with", str(uncertain), "-o", str(tmp_path / "new")]) == 2
    assert sentence in capsys.readouterr().err


def test_lattices_that_do_not_belong_to_the_fit_are_refused(
    run: Path, elongated: Snapshots, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(elongated, type_names=("medium", "A", "C")).save(tmp_path / "other.npz")
    assert command(["refit", str(run), "--with", str(tmp_path / "other.npz"), "-o", str(tmp_path / "new")]) == 2
    assert "has cells of type C, but the model knows medium, A, B" in capsys.readouterr().err
    torn = elongated.chosen([0])
    torn.ids[0, :, :] = 1
    torn.save(tmp_path / "torn.npz")
    assert command(["refit", str(run), "--with", str(tmp_path / "torn.npz"), "-o", str(tmp_path / "new")]) == 2
    assert "None of the 1 uncertain lattices has room" in capsys.readouterr().err
