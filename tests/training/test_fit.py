"""fit: energies, orders and targets are found from data, runs are judged, and a killed fit goes on as it began."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from neuralcpm_bridge.artifact import LatticeEntry, load_artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.metrics.comparing import Measured
from neuralcpm_bridge.sampling import ChainRules
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots
from neuralcpm_bridge.state import CellState
from training.config import ChainSection, ModelSection
from training.datasets import RECIPES, TYPE_NAMES, generate, scattered_cells
from training.engine import engine_model
from training.fit import Given, Narrator, Wanted, analytic, fit, sight
from training.fit import fitting as stages
from training.fit import pairs as pairing
from training.fit import relaxation as relaxing
from training.fit.analytic import (
    analytic_start,
    best_order,
    correct_volumes,
    fit_flips,
    fresh,
    leave_data,
    train_baseline,
    volumes_drift,
    warmer,
)
from training.fit.closure import Lengths, Sight, closure_config, closure_model
from training.fit.fitting import Fitting
from training.fit.judging import NO_BETTER, NOTHING, Judged, judge, surprising, verdict
from training.fit.pairs import Job, Pairs, committee, odds, surprise
from training.fit.preparing import coarsened, prepare
from training.hamiltonians import CellGraph, Hamiltonian

from .quick import MINUTES, make_quick

SECTION = ModelSection(preset="cellsort", by_type=True)
SMALL = replace(RECIPES["elongation"], side=40, cells=6, radius=11.0, mcs=200)


@pytest.fixture(scope="module")
def elongated() -> Snapshots:
    return generate(SMALL, samples=40, seed=1)


def drawn(order: int, samples: int = 64) -> Snapshots:
    """Cells of two sizes and stiffnesses, with contacts of a given order."""
    lattice = replace(SMALL, side=36).lattice
    weights = {
        "symbolic.contact.J": replace(SMALL, J=(3.0, 2.5, 2.0, 3.0, 1.5)).contact,
        "symbolic.volume.strength": np.array([0.0, 0.8, 0.3]),
        "symbolic.volume.target": np.array([0.0, 60.0, 40.0]),
    }
    model = engine_model(TYPE_NAMES, LatticeEntry.of("square"), weights, orders={"contact": order})
    starts = [scattered_cells(lattice, 8, 12.0, np.random.default_rng([5, k])) for k in range(samples)]
    ended, _ = ChainRules().run(model, Snapshots.from_states(starts, type_names=TYPE_NAMES), 400, 7)
    return ended


def test_single_flips_find_order_energies_and_targets_of_each_type() -> None:
    for order in (1, 3):
        data = drawn(order)
        assert best_order(data, SECTION, 0) == order
        hamiltonian = fresh(data, SECTION.model_copy(update={"order": order}))
        fit_flips(hamiltonian, data, 0)
        volume, contact = hamiltonian.terms["volume"], hamiltonian.terms["contact"]
        np.testing.assert_allclose(volume.target.tolist(), [60, 40], atol=1.5)
        np.testing.assert_allclose(volume.strength().tolist(), [0.8, 0.3], rtol=0.35)
        np.testing.assert_allclose(contact.energies.tolist(), [3.0, 2.5, 2.0, 3.0, 1.5], atol=0.5)


def test_volumes_that_drift_are_corrected_by_chains() -> None:
    data = drawn(2)
    hamiltonian = analytic_start(data, SECTION, 0, 1).hamiltonian
    assert not volumes_drift(leave_data(hamiltonian, data, 0, 1)[1], data)
    volume = hamiltonian.terms["volume"]
    volume.strength.set(torch.tensor([0.2, 0.08]))
    assert volumes_drift(leave_data(hamiltonian, data, 0, 1)[1], data)
    correct_volumes(hamiltonian, data, 0, 1)
    assert not volumes_drift(leave_data(hamiltonian, data, 3, 1)[1], data)


def test_a_baseline_without_time_is_trained_for_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    data, made = drawn(2, samples=8), list[int]()
    hamiltonian = analytic_start(data, SECTION, 0, 1).hamiltonian
    slopes = analytic.slopes

    def counted(*given: Any) -> torch.Tensor:
        made.append(1)
        return slopes(*given)

    monkeypatch.setattr(analytic, "slopes", counted)
    chains = [ChainSection(start="mixed", reset=0.1, settle=30)]
    train_baseline(hamiltonian, data, chains, 8, 0, 1, 20, time.monotonic() - 1)
    assert len(made) / 2 == 3  # of data and of chains: a round in which they settle, one that is timed, a last one


def test_without_time_the_network_stays_as_pairs_have_left_it(
    elongated: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_quick(monkeypatch)
    monkeypatch.setattr(stages, "CHANCE", 0.0)
    monkeypatch.setattr(stages, "WORTH_TRAINING", 1e12)
    found = fit(elongated, tmp_path, Wanted(MINUTES, 1, 0, 1)).found
    assert found["steps"] == 0
    assert any("no time for training by chains" in event for event in found["events"])


def test_pairs_kept_apart_tell_a_mechanism_from_none(elongated: Snapshots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "PARTS", 30)
    monkeypatch.setattr(pairing, "MOST_STEPS", 300)
    plain = generate(replace(SMALL, length=None), samples=40, seed=1)
    found = {}
    for name, data in (("length", elongated), ("none", plain)):
        start = analytic_start(data, SECTION, 0, 1)
        config = closure_config(start.section, Sight(1), 1, Lengths(60, 120), 0, 1)
        model = closure_model(config, data, start.hamiltonian)
        assert isinstance(model.network, CellGraph)
        trained = Pairs(model.network, start.hamiltonian, data, 0, 1, time.monotonic() + 600).train(Job(model), 600)
        found[name] = surprise(trained.gains)
    assert found["length"] > 5
    assert found["none"] < 3


def test_networks_trained_side_by_side_are_the_members_of_a_committee(
    elongated: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "PARTS", 10)
    monkeypatch.setattr(pairing, "MOST_STEPS", 50)
    start = analytic_start(elongated, SECTION, 0, 1)

    def closure(members: int, seed: int) -> Hamiltonian:
        config = closure_config(start.section, Sight(1, 8), members, Lengths(60, 120), seed, 1)
        return closure_model(config, elongated, start.hamiltonian)

    network = closure(1, 0).network
    assert isinstance(network, CellGraph)
    pairs = Pairs(network, start.hamiltonian, elongated, 0, 2, time.monotonic() + 600)
    jobs = [Job(closure(1, seed), seed) for seed in range(3)]
    side_by_side = pairs.train_each(jobs, time.monotonic() + 600)
    alone = [pairs.train(job, 600).model for job in [Job(closure(1, seed), seed) for seed in range(3)]]
    together = committee(closure(3, 0), [trained.model for trained in side_by_side])
    with torch.no_grad():
        of_each = torch.cat([odds(model, pairs.apart[0]) for model in alone], dim=1)
        torch.testing.assert_close(odds(together, pairs.apart[0]), of_each, rtol=1e-4, atol=1e-4)
    assert of_each.std(1).min() > 0


def test_pairs_by_chains_of_a_closure_hide_what_it_knows(elongated: Snapshots, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PARTS": 10, "CLOSURE_PARTS": 6, "MOST_STEPS": 100}.items():
        monkeypatch.setattr(pairing, name, value)
    start = analytic_start(elongated, SECTION, 0, 1)
    config = closure_config(start.section, Sight(1), 1, Lengths(60, 120), 0, 1)
    model = closure_model(config, elongated, start.hamiltonian)
    assert isinstance(model.network, CellGraph)
    pairs = Pairs(model.network, start.hamiltonian, elongated, 0, 1, time.monotonic() + 600)
    fresh_one = copy.deepcopy(model)
    closure = pairs.train(Job(model), 600).model
    assert pairs.gains(closure).mean() > 0
    parts = pairs.follow(closure, time.monotonic() + 600)
    np.testing.assert_allclose(pairs.gains(closure, parts), 0, atol=1e-4)
    assert pairs.gains(fresh_one, parts).mean() < 0
    assert len(pairs.all) == len(pairs.half) == 2
    assert pairs.apart[-len(parts) :] == parts


@pytest.mark.parametrize(("hard", "generations"), [(2.0, 1), (-2.0, sight.GENERATIONS)])
def test_generations_follow_until_pairs_are_hard_to_tell(
    elongated: Snapshots, monkeypatch: pytest.MonkeyPatch, hard: float, generations: int
) -> None:
    for name, value in {"PARTS": 4, "CLOSURE_PARTS": 4, "MOST_STEPS": 10}.items():
        monkeypatch.setattr(pairing, name, value)
    monkeypatch.setattr(sight, "HARD", hard)
    start = analytic_start(elongated, SECTION, 0, 1)
    config = closure_config(start.section, Sight(1), 1, Lengths(60, 120), 0, 1)
    model = closure_model(config, elongated, start.hamiltonian)
    assert isinstance(model.network, CellGraph)
    pairs = Pairs(model.network, start.hamiltonian, elongated, 0, 1, time.monotonic() + 600)
    sight.follow(pairs, model, time.monotonic() + 600, Narrator())
    assert len(pairs.all) == 1 + generations


def test_what_is_no_tissue_is_refused_in_a_sentence(elongated: Snapshots) -> None:
    shuffled = np.random.default_rng(0).permuted(elongated.ids.reshape(40, -1), axis=1)
    noise = replace(elongated, ids=shuffled.reshape(elongated.ids.shape))
    with pytest.raises(UserError, match="labels are no cells"):
        prepare(noise, 0)
    with pytest.raises(UserError, match="are the same"):
        prepare(elongated.chosen([3, 3, 3]), 0)
    empty = replace(elongated, ids=np.zeros_like(elongated.ids))
    with pytest.raises(UserError, match="no cells"):
        prepare(empty, 0)


def test_states_with_a_cell_around_the_lattice_are_left_out(elongated: Snapshots) -> None:
    torn = elongated.chosen(range(20))
    torn.ids[4, :, 0] = 1
    prepared = prepare(torn, 0)
    assert len(prepared.train) + len(prepared.judge) == 19
    assert any("1 of 20 states" in line for line in prepared.said)


def test_large_cells_are_made_coarser() -> None:
    ids = np.zeros((8, 120, 120), dtype=np.int32)
    for number, state in enumerate(ids):
        state[20 + number : 70 + number, 20:70] = 1
        state[20 + number : 70 + number, 70:112] = 2
    data = Snapshots(ids, np.tile(np.array([0, 1, 1], dtype=np.int32), (8, 1)))
    prepared = prepare(data, 0)
    assert prepared.coarser == 4
    assert prepared.train.lattice.shape == (30, 30)
    sliver = data.ids[:1].copy()
    sliver[0, 0, 0] = 3
    lost = coarsened(Snapshots(sliver, np.array([[0, 1, 1, 1]], dtype=np.int32)), 3)
    assert lost.types[0].tolist() == [0, 1, 1, -1]


def test_samples_of_the_data_are_judged_alike_and_others_are_not(elongated: Snapshots) -> None:
    from training.fit.judging import rows_of

    first, second = elongated.chosen(range(20)), elongated.chosen(range(20, 40))
    wanted = rows_of(first, elongated)
    same = judge(second, wanted, elongated)
    other = judge(generate(replace(SMALL, length=None), samples=20, seed=2), wanted, elongated)
    assert same.misfit < 3 < other.misfit
    assert "aspect ratio, B less A" in other.missed
    words = verdict(same, other, None, "no")
    assert "aspect ratio" in words
    assert "More snapshots would help: no." in words
    assert "nothing to add" in verdict(same, same, NOTHING, None)


def test_few_states_need_more_to_surprise() -> None:
    """Student's quantiles at the odds of four normal deviations: 11.2 for six states, 4.5 for forty."""
    assert surprising(4, 6) > 9
    assert surprising(4, 41) == pytest.approx(4.47, abs=0.05)
    assert surprising(4, 10**6) == pytest.approx(4, abs=1e-3)


def test_broken_cells_are_said() -> None:
    def judged(p: float, distance: float) -> Judged:
        title = "states with at most 3 broken cells (p_unfragmented)"
        return Judged({title: Measured(p, 0.0)}, {title: distance})

    broken, whole = judged(0.5, 20.0), judged(1.0, 0.0)
    assert "do not use this model" in verdict(broken, whole, None, None)
    assert "do not use this model" not in verdict(whole, broken, None, None)
    assert "do not use this model" in verdict(broken, broken, NO_BETTER, None)
    assert "do not use this model" in verdict(replace(whole, volume=0.01), whole, None, None)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    make_quick(monkeypatch)


@pytest.mark.usefixtures("quick")
def test_a_fit_leaves_what_it_promises_and_goes_on(tmp_path: Path, elongated: Snapshots) -> None:
    wanted = Wanted(minutes=MINUTES, members=2, seed=3)
    run = tmp_path / "run"
    first = fit(elongated, run, wanted)
    kept = json.loads((run / "fit.json").read_text(encoding="utf-8"))
    assert kept == json.loads(json.dumps(first.found))
    assert {"verdict", "measures", "seconds", "members", "lattice", "sample_mcs"} <= kept.keys()
    for columns in kept["measures"].values():
        assert [len(columns[name]) for name in ("data", "closure", "baseline")] == [2, 2, 2]
    for name in ("samples.npz", "samples-baseline.npz", "held-out.npz"):
        assert load_snapshots(run / name).type_names == elongated.type_names
    assert load_artifact(run / "baseline.onnx").metadata.neural is None
    closure = load_artifact(run / "model.onnx")
    assert closure.metadata.neural is not None
    assert closure.metadata.neural.members == 2
    again = fit(elongated, run, wanted)
    assert again.found["verdict"] == first.found["verdict"]
    assert (again.samples.ids == first.samples.ids).all()
    with pytest.raises(UserError, match="other data or with other settings"):
        fit(elongated, run, replace(wanted, seed=4))


@pytest.mark.usefixtures("quick")
def test_chains_that_lead_away_leave_the_network_as_pairs_have_trained_it(
    tmp_path: Path, elongated: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Fitting(elongated, tmp_path, Wanted(minutes=MINUTES, members=2, seed=3), Narrator())
    plan = run._plan()
    assert plan.closure is not None
    by_pairs = {name: values.clone() for name, values in plan.closure.state_dict().items()}
    misfits = iter((10.0, 11.0))
    monkeypatch.setattr(stages, "judge", lambda *_: SimpleNamespace(misfit=next(misfits)))
    kept, _, events = run._closure(plan)
    assert "kept as pairs have left it" in events[-1]
    assert run.steps == 0
    assert all(torch.equal(values, by_pairs[name]) for name, values in kept.state_dict().items())


@pytest.mark.usefixtures("quick")
def test_given_energies_stay_as_they_are(tmp_path: Path, elongated: Snapshots) -> None:
    like = analytic_start(elongated, SECTION, 0, 1).hamiltonian
    found = fit(elongated, tmp_path / "run", Wanted(minutes=MINUTES, members=1, like=Given(like)))
    assert found.closure.terms["contact"].energies.tolist() == pytest.approx(like.terms["contact"].energies.tolist())
    assert found.closure.terms["volume"].target.tolist() == pytest.approx(like.terms["volume"].target.tolist())
    free = [CellState(state.ids, state.types, replace(state.lattice, boundary=("free", "free"))) for state in elongated]
    with pytest.raises(UserError, match="boundary"):
        fit(Snapshots.from_states(free, type_names=TYPE_NAMES), tmp_path / "other", Wanted(like=Given(like)))


@pytest.mark.usefixtures("quick")
def test_too_few_cells_for_a_network_are_fitted_by_contact_and_volume(tmp_path: Path, elongated: Snapshots) -> None:
    found = fit(elongated.chosen(range(4)), tmp_path / "run", Wanted(minutes=MINUTES, members=1))
    assert not found.found["adds"]
    assert any("too few to learn a network" in line for line in found.found["remarks"])


def test_chains_live_as_long_as_training_lasts() -> None:
    """When they are young, the true energy itself would not have brought them to a pattern that forms slowly."""
    for settle, life in ((100, 300 * 8), (5000, 5000)):
        leaving, scattered = Lengths(settle, 600).chains
        assert (leaving.start, leaving.reset, scattered.start) == ("data", 1.0, "mixed")
        assert scattered.sweeps[0] / scattered.reset == pytest.approx(life)
        assert scattered.settle == settle


def test_cells_have_settled_when_chains_from_both_sides_have_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaxing, "LONGEST", 500)
    data = drawn(2)
    hamiltonian = analytic_start(data, SECTION, 0, 1).hamiltonian
    met = relaxing.relaxation(hamiltonian, data, 0, 1, np.inf)
    assert met.settled
    assert met.mcs < 500
    warmer(hamiltonian, 8.0)  # of energies: now so stiff that cells which have grown into each other stay there
    apart = relaxing.relaxation(hamiltonian, data, 0, 1, np.inf)
    assert not apart.settled
    assert 250 < apart.mcs <= 500
