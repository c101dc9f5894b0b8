"""A fit's closure trained on with lattices that a host was not sure of.

Such lattices are what the model made, and not what the data show: they never count as data. Chains start from them,
with the cells of a datum, and are compared with data when they are as old as chains from scattered starts are then.
What the model still does there that the data do not show costs energy from then on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots
from neuralcpm_bridge.state import CellState

from ..build import without_shape
from ..chains import started
from ..export.artifact import hamiltonian_from_artifact
from ..hamiltonians import Hamiltonian, States
from ..samplers import ExactChains
from .analytic import Given
from .closure import Lengths
from .fitting import (
    BASELINE_SAMPLES,
    BASELINE_STREAM,
    CLOSURE_STREAM,
    DATA_FILE,
    RESULT_FILE,
    Fit,
    Fitting,
    on_one_thread,
)
from .judging import Judged, judge
from .plan import Plan, read_analytic
from .task import Narrator, Wanted

MODEL_FILE = "model.onnx"
RETURNING = 0.5
"""Share of chains from scattered starts that leave uncertain lattices instead."""
TRAINING = 0.75
"""Share of the time for training; the rest is for sampling and judging."""
AS_GOOD = 1.5
"""Factor of a mean square distance that chance alone makes."""
JUDGED = 32
"""Chains from uncertain lattices that are judged before and after."""


class Returning:
    """Starts of chains of which some leave given lattices."""

    def __init__(self, lattices: Snapshots) -> None:
        self.lattices = lattices

    def __call__(self, start: str, datum: CellState, rng: np.random.Generator) -> CellState:
        if start == "mixed" and rng.random() < RETURNING:
            return self.leaving(datum, rng) or started(start, datum, rng)
        return started(start, datum, rng)

    def leaving(self, datum: CellState, rng: np.random.Generator) -> CellState | None:
        """The datum's cells in one of the lattices; None where some would have no place or no shape there."""
        begun = in_place_of(self.lattices[int(rng.integers(len(self.lattices)))], datum, rng)
        cells = datum.types > 0
        if (begun.volumes[cells] == 0).any() or bool(without_shape(States.of([begun])).any()):
            return None
        return begun


def in_place_of(other: CellState, datum: CellState, rng: np.random.Generator) -> CellState:
    """A datum's cells where another state has cells of the same types; those too many there leave medium behind, and
    those it lacks begin as single pixels inside of others."""
    ids = _window(other, datum.lattice.shape, rng)
    number_of, lacking = np.zeros(other.types.size, dtype=np.int32), list[int]()
    for cell_type in np.unique(datum.types[datum.types > 0]):
        mine = rng.permutation(np.flatnonzero(datum.types == cell_type))
        there = np.unique(ids[ids > 0])
        theirs = rng.permutation(there[other.types[there] == cell_type])
        count = min(mine.size, theirs.size)
        number_of[theirs[:count]] = mine[:count]
        lacking += mine[count:].tolist()
    placed = number_of[ids].ravel()
    tissue = np.flatnonzero(placed)
    if lacking and tissue.size >= len(lacking):
        placed[rng.choice(tissue, len(lacking), replace=False)] = lacking
    return replace(datum, ids=placed.reshape(datum.lattice.shape))


def _window(state: CellState, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int32]:
    """As many sites of a state as another lattice has, around any of its cells; medium where it has fewer."""
    ids = state.ids
    middle = np.unravel_index(rng.choice(np.flatnonzero(ids)), ids.shape)
    for axis, (have, want) in enumerate(zip(ids.shape, shape, strict=True)):
        if have > want:
            first = int(middle[axis]) - want // 2
            if not state.lattice.periodic[axis]:
                first = int(np.clip(first, 0, have - want))
            ids = np.take(ids, first + np.arange(want), axis=axis, mode="wrap")
        else:
            sides = [(0, 0)] * ids.ndim
            sides[axis] = ((want - have) // 2, want - have - (want - have) // 2)
            ids = np.pad(ids, sides)
    return ids


class Refitting(Fitting):
    """A fit that begins where another one ended."""

    def __init__(
        self, run: Path, misfit: float, lattices: Snapshots, folder: Path, wanted: Wanted, narrator: Narrator
    ) -> None:
        super().__init__(load_snapshots(run / DATA_FILE), folder, wanted, narrator)
        self.run_before, self.misfit_before, self.lattices = run, misfit, lattices
        self.starts = self.returning = Returning(lattices)
        begun = [
            self.returning.leaving(datum, np.random.default_rng(number)) for number, datum in enumerate(self.train)
        ]
        if not any(begun):
            raise UserError(
                f"None of the {len(lattices)} uncertain lattices has room for the cells of the data in shapes that are "
                "defined: give lattices of tissues like those that the model was fitted to."
            )

    def _make_plan(self) -> Plan:
        """That of the fit before, with the closure as it left it."""
        plan = Plan.read(self.run_before, None, self.train)
        if plan is None or plan.closure is None:
            raise UserError(f"{self.run_before} has no plan of a closure: let neuralcpm fit finish it first.")
        before = hamiltonian_from_artifact(load_artifact(self.run_before / MODEL_FILE))
        assert plan.closure.network is not None
        assert plan.closure.network_weight is not None
        assert before.network is not None
        assert before.network_weight is not None
        plan.closure.network.load_state_dict(before.network.state_dict())
        plan.closure.network_weight.set(before.network_weight().detach())
        return plan

    def _sample(self, model: Hamiltonian, lengths: Lengths, stream: int) -> Snapshots:
        """Samples of the baseline are there: it is as it was."""
        if stream == BASELINE_STREAM:
            return load_snapshots(self.run_before / BASELINE_SAMPLES)
        return super()._sample(model, lengths, stream)

    def _closure(self, plan: Plan) -> tuple[Hamiltonian, Snapshots, list[str]]:
        """Trained in any case: it is the user who compares, by what the verdict says of both."""
        model, events = self._train(plan, self.clock.until(TRAINING))
        return model, self._sample(model, plan.lengths, CLOSURE_STREAM), events

    def _train(self, plan: Plan, deadline: float) -> tuple[Hamiltonian, list[str]]:
        assert plan.closure is not None
        before = self._return(plan.closure, plan)
        model, events = super()._train(plan, deadline)
        after = self._return(model, plan)
        self.returned = {"lattices": len(self.lattices), "misfit": {"before": before.misfit, "after": after.misfit}}
        return model, events

    def _return(self, model: Hamiltonian, plan: Plan) -> Judged:
        """Where chains from the uncertain lattices are when they are as old as samples."""
        self.narrator.show("leaving uncertain lattices", 0, 1)
        rng, data = np.random.default_rng([self.wanted.seed, 47]), self.prepared.judge
        drawn = [data[int(rng.integers(len(data)))] for _ in range(JUDGED)]
        begun = [self.returning.leaving(datum, rng) or started("mixed", datum, rng) for datum in drawn]
        starts = Snapshots.from_states(begun, type_names=data.type_names)
        ended, _ = ExactChains(threads=self.wanted.threads).on(model)(starts, plan.lengths.sample_mcs, self.wanted.seed)
        return judge(ended, self.wanted_rows, self.train)

    def _found(self, plan: Plan, closure: Judged, *rest: Any) -> dict[str, Any]:
        found = super()._found(plan, closure, *rest)
        scattered = {"before": self.misfit_before, "after": closure.misfit}
        told = {"of": self.run_before.name, "scattered": scattered, **self.returned}
        return found | {"refit": told, "verdict": f"{found['verdict']} {compared(told)}"}

    def _identity(self) -> dict[str, Any]:
        digest = hashlib.sha256(self.lattices.ids.tobytes()).hexdigest()
        return super()._identity() | {"refit": [str(self.run_before.resolve()), digest]}


def compared(told: Mapping[str, Any]) -> str:
    """Whether to use it, in words: nearer to the data from the uncertain lattices, and about as near from elsewhere."""
    returning, scattered = told["misfit"], told["scattered"]
    better = returning["after"] < returning["before"]
    as_good = scattered["after"] <= max(AS_GOOD * scattered["before"], AS_GOOD)
    away = [f"{each['after']:.1f} (before: {each['before']:.1f})" for each in (returning, scattered)]
    return (
        f"Mean square distances from the data of chains that leave the uncertain lattices: {away[0]}; from scattered "
        f"starts: {away[1]}. {'Use it in place of' if better and as_good else 'Keep'} {told['of']}."
    )


def refit(
    run: Path, uncertain: Path, folder: Path, minutes: float | None, threads: int, narrator: Narrator | None = None
) -> Fit:
    """Train the closure of a finished fit on, with its own settings, judge it again, and write all into `folder`."""
    told = _told(run)
    lattices = load_snapshots(uncertain, load_artifact(run / MODEL_FILE))
    if not (run / DATA_FILE).is_file():
        raise UserError(f"{run} does not hold the data that it was fitted to ({DATA_FILE}): fit them again.")
    like = None
    if told.get("like") is not None:
        own = read_analytic(run, load_snapshots(run / DATA_FILE))
        like = Given(own, told["like"], told["like_temperature"], tuple(told["not_read"]))
    wanted = Wanted(minutes or told["minutes"], told["members"], told["seed"], threads, like)
    with on_one_thread():
        return Refitting(run, told["misfit"]["closure"], lattices, folder, wanted, narrator or Narrator()).run()


def _told(run: Path) -> dict[str, Any]:
    """fit.json of a fit that has a closure."""
    try:
        told = json.loads((run / RESULT_FILE).read_text(encoding="utf-8"))
        if not told["adds"]:
            raise UserError(
                f"The network of {run} is silent, for contact and volume energies describe its data: there is nothing "
                "to train on."
            )
        known = {key: told[key] for key in ("minutes", "members", "seed", "misfit")}
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{run} is no folder of a finished fit: give the RUN of neuralcpm fit DATA -o RUN.") from None
    return told | known
