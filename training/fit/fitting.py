"""The stages of a fit, one after the other, each told in a line."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.lattice import size_text
from neuralcpm_bridge.metrics.comparing import Measured
from neuralcpm_bridge.sampling import GROWTH_MCS, sample_from_mixed
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.timelapse import has_movies, mcs_per_frame

from ..config import Config, ModelSection
from ..export import export
from ..hamiltonians import Hamiltonian
from ..logs import named_parameters
from ..ranks import Ranks
from ..samplers import model_of
from ..trainer import Report, TrainingDiverged
from .analytic import Start, analytic_start, check_like, given, train_baseline
from .closure import (
    FEWEST_STEPS,
    MOST_STEPS,
    POOL,
    SWEEPS,
    Lengths,
    chain_speed,
    closure_config,
    closure_trainer,
    without_network,
)
from .judging import Judged, judge, rows_of, score, surprising, verdict
from .plan import Plan
from .preparing import Prepared, prepare
from .relaxation import relaxation

RESULT_FILE = "fit.json"
REPLICATES = 64
BASELINE_CHAINS, BASELINE_ROUNDS = 48, 48
RELAXING, TRAINING, SAMPLING = 0.04, 0.5, 0.15
"""Shares of the time for measuring how long cells take to settle, for training and for sampling a closure."""
SHORTEST_SETTLE = 60
GOOD = 1.5
"""Mean square distance from the states trained on, in standard errors, that needs no further attempt; 1 is chance."""
ROUNDS = (1, 2)
"""How far a network sees, in cells, attempt by attempt."""
SOMETHING = 4.0
"""Standard errors by which a baseline must miss the data, in a measure or in the network's energy, for a closure."""

Tell = Callable[[str], None]
Show = Callable[[str, float, float], None]
"""What is going on, how much of it is done, of how much."""


@dataclass(frozen=True)
class Wanted:
    """`like`: analytic energies, in units of the temperature, that stay as they are: the closure is what they miss."""

    minutes: float = 10.0
    members: int = 4
    seed: int = 0
    threads: int = 1
    like: Hamiltonian | None = None


@dataclass(frozen=True)
class Narrator:
    """Who is told: lines that stay, and progress."""

    tell: Tell = field(default=lambda line: None)
    show: Show = field(default=lambda what, done, total: None)


class Clock:
    """The time that a fit was given."""

    def __init__(self, minutes: float) -> None:
        self.began, self.seconds = time.monotonic(), 60 * minutes

    @property
    def spent(self) -> float:
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        return self.seconds - self.spent

    def until(self, share: float) -> float:
        """The end, on `time.monotonic`, of a share of what is left."""
        return time.monotonic() + max(share * self.left, 1.0)


class Attempt(NamedTuple):
    """A closure, its samples and how like the data they are."""

    rounds: int
    model: Hamiltonian
    samples: Snapshots
    judged: Judged
    trained: Judged
    """The same beside the states it was trained on: by these, not by those kept apart, one of several is chosen."""
    events: list[str]
    steps: int


class Fit(NamedTuple):
    """Both models, their fresh samples, and everything that was found, as JSON has it."""

    closure: Hamiltonian
    baseline: Hamiltonian
    samples: Snapshots
    baseline_samples: Snapshots
    found: dict[str, Any]


def fit(data: Snapshots, folder: Path, wanted: Wanted, narrator: Narrator | None = None) -> Fit:
    """Everything from a data set to a judged model; files are written into `folder`."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # some hundred cells: several threads would wait more than they work
    try:
        return Fitting(data, folder, wanted, narrator or Narrator()).run()
    finally:
        torch.set_num_threads(threads)


class Fitting:
    def __init__(self, data: Snapshots, folder: Path, wanted: Wanted, narrator: Narrator) -> None:
        self.data, self.folder, self.wanted, self.narrator = data, folder, wanted, narrator
        self.clock, self.ranks = Clock(wanted.minutes), Ranks.joined()
        self.prepared: Prepared = prepare(data, wanted.seed, may_coarsen=wanted.like is None)
        if wanted.like is not None:
            check_like(wanted.like, data)
        self.train = self.prepared.train
        self.wanted_rows: dict[str, Measured] = rows_of(self.prepared.judge, self.train)
        self.train_rows: dict[str, Measured] = rows_of(self.train, self.train)

    def run(self) -> Fit:
        self._say_what_was_found()
        plan = self._plan()
        baseline_samples = self._sample(plan.baseline, plan.lengths, 1)
        baseline = judge(baseline_samples, self.wanted_rows, self.train)
        if not self.prepared.learnable:
            closure, samples, adds, attempt, more = plan.baseline, baseline_samples, False, None, None
            judged = baseline
        else:
            attempt = self._best_closure(plan)
            adds = self._adds(attempt, baseline, baseline_samples)
            closure, samples, judged = attempt.model, attempt.samples, attempt.judged
            more = self._more_would_help(plan, attempt) if adds else None
            if not adds:
                closure = without_network(attempt.model, plan.baseline)
                samples, judged = baseline_samples, baseline
        found = self._found(plan, judged, baseline, adds, more, attempt) | self._time(closure)
        result = Fit(closure, plan.baseline, samples, baseline_samples, found)
        if self.ranks.first:
            self._write(result)
        return result

    # -- before the network --------------------------------------------------------------------------------------

    def _say_what_was_found(self) -> None:
        found, lattice = self.prepared.found, self.train.lattice
        cells = " to ".join(dict.fromkeys(str(count) for count in found.cells))
        types = ", ".join(f"{each.name} of {each.volume[0]:.0f} ± {each.volume[1]:.0f} sites" for each in found.types)
        self.narrator.tell(
            f"{found.states} states of {size_text(lattice.shape)} sites ({lattice.geometry.name}), {cells} cells each: "
            f"{types}; {len(self.train)} to train on, {len(self.prepared.judge)} to judge by."
        )
        for line in self.prepared.said:
            self.narrator.tell(line)

    def _plan(self) -> Plan:
        plan = Plan.read(self.folder, self._identity(), self.train)
        if plan is not None:
            self.narrator.tell(f"Continuing the fit in {self.folder}.")
            return plan
        plan = self._make_plan()
        if self.ranks.first:
            plan.write(self.folder, self._identity())
        self.ranks.wait()
        # As a continued run will read it: the same numbers in tensors of the same shapes.
        return Plan.read(self.folder, self._identity(), self.train) or plan

    def _make_plan(self) -> Plan:
        seed, threads, data = self.wanted.seed, self.wanted.threads, self.train
        torch.manual_seed(seed)
        start = self._analytic_start()
        section = start.section.model_copy(update={"properties": data.property_names})
        for line in start.said:
            self.narrator.tell(f"Note: {line}.")
        relaxed = relaxation(start.hamiltonian, data, seed, threads, RELAXING * self.clock.left)
        lengths = self._lengths(section, start.hamiltonian, relaxed.mcs)
        self.narrator.tell(
            f"Contacts to neighbours of order {section.order}, {100 * start.acceptance:.0f} % of copies accepted; "
            f"cells settle in {'about' if relaxed.settled else 'more than'} {relaxed.mcs} MCS. "
            f"In {self.wanted.minutes:g} minutes: up to {lengths.steps} training steps, {REPLICATES} samples of "
            f"{lengths.sample_mcs} MCS each."
        )
        if lengths.settle < relaxed.mcs:
            self.narrator.tell(
                f"Note: there is time for chains of {lengths.sample_mcs} MCS only; what forms more slowly is learned "
                "as far as it forms by then."
            )
        baseline, residual = copy.deepcopy(start.hamiltonian), None
        if self.wanted.like is None:
            residual = train_baseline(
                baseline, data, [lengths.from_scattered], BASELINE_CHAINS, seed, threads, BASELINE_ROUNDS
            )
        return Plan(section, start.hamiltonian, baseline, lengths, start.said, relaxed.mcs, relaxed.settled, residual)

    def _analytic_start(self) -> Start:
        if self.wanted.like is not None:
            return given(self.wanted.like, self.train, self.wanted.seed, self.wanted.threads)
        section = ModelSection(preset="cellsort", by_type=True)
        return analytic_start(self.train, section, self.wanted.seed, self.wanted.threads)

    def _lengths(self, section: ModelSection, analytic: Hamiltonian, relaxed: int) -> Lengths:
        """As long as cells take to settle, or as there is time for."""
        if not self.prepared.learnable:
            return Lengths(max(relaxed, SHORTEST_SETTLE), FEWEST_STEPS)
        trial = self._config(section, ROUNDS[0], self.wanted.members, Lengths(SHORTEST_SETTLE, FEWEST_STEPS))
        speed = chain_speed(trial, self.train, analytic, self.wanted.seed)
        longest = SAMPLING * self.clock.left * speed / (2 * REPLICATES)
        settle = int(np.clip(relaxed, SHORTEST_SETTLE, max(longest, SHORTEST_SETTLE)))
        first_settle = POOL * settle / speed
        seconds_per_step = POOL * 2 / 3 * 2 * SWEEPS / speed / 2
        affordable = (TRAINING * self.clock.left - first_settle) / seconds_per_step
        steps = int(np.clip(affordable, FEWEST_STEPS, MOST_STEPS)) // 2 * 2
        return Lengths(settle, self.ranks.agreed(steps))

    def _config(self, section: ModelSection, rounds: int, members: int, lengths: Lengths) -> Config:
        return closure_config(section, rounds, members, lengths, self.wanted.seed, self.wanted.threads)

    # -- the closure -----------------------------------------------------------------------------------------------

    def _best_closure(self, plan: Plan) -> Attempt:
        attempts: list[Attempt] = []
        for rounds in ROUNDS:
            began = time.monotonic()
            attempts.append(self._attempt(plan, rounds))
            took, last = time.monotonic() - began, attempts[-1]
            self.narrator.tell(
                f"A network that sees {rounds} {'cell' if rounds == 1 else 'cells'} far, {last.steps} steps: "
                f"{len(last.trained.reproduced)} of {len(last.trained.distances)} measures within two standard errors "
                f"of the states trained on (mean square distance {last.trained.misfit:.2g})."
            )
            # Each further round of messages costs about as much again as all before it.
            if last.trained.misfit <= GOOD or self.clock.left < 2.0 * took:
                break
        best = min(attempts, key=lambda each: (not each.trained.whole, each.trained.misfit))
        if len(attempts) > 1:
            # The best of several by the same samples flatters itself: what is reported comes from fresh starts.
            samples = self._sample(best.model, plan.lengths, 7)
            best = self._judged(best._replace(samples=samples))
        return best

    def _judged(self, attempt: Attempt) -> Attempt:
        """Measured anew."""
        return attempt._replace(
            judged=judge(attempt.samples, self.wanted_rows, self.train),
            trained=judge(attempt.samples, self.train_rows, self.train),
        )

    def _attempt(self, plan: Plan, rounds: int) -> Attempt:
        config = self._config(plan.section, rounds, self.wanted.members, plan.lengths)
        share = TRAINING / (TRAINING + SAMPLING + 0.15)
        folder = self.folder / f"closure{rounds}"

        def show(report: Report) -> None:
            self.narrator.show(f"training, {rounds} round{'s' * (rounds > 1)}", report.step, report.steps)

        trainer = closure_trainer(config, self.train, plan.analytic, folder)
        try:
            model, events = trainer.run(show, deadline=self.clock.until(share)), trainer.events
        except TrainingDiverged as error:
            model, events = trainer.last_good(), [*trainer.events, str(error)]
        for event in events:
            self.narrator.tell(f"Note: {event}.")
        samples = self._sample(model, plan.lengths, 2 + rounds)
        nothing = Judged({}, {})
        return self._judged(Attempt(rounds, model, samples, nothing, nothing, events, trainer.step))

    def _sample(self, model: Hamiltonian, lengths: Lengths, stream: int) -> Snapshots:
        """Fresh samples from scattered starts of the cells to judge by, by copies alone."""
        self.narrator.show("sampling", 0, 1)
        return sample_from_mixed(
            model_of(model),
            self.prepared.judge,
            REPLICATES,
            lengths.sample_mcs - GROWTH_MCS,
            seed=1000 * self.wanted.seed + stream,
            threads=self.wanted.threads,
        )

    def _adds(self, attempt: Attempt, baseline: Judged, baseline_samples: Snapshots) -> bool:
        """Whether the data show anything that contact and volume energies do not: in a measure, or in what the network
        says of states it has never seen."""
        beside_trained = judge(baseline_samples, self.train_rows, self.train)
        for judged, states in ((baseline, self.prepared.judge), (beside_trained, self.train)):
            if max(map(abs, judged.distances.values()), default=0.0) > surprising(SOMETHING, len(states)):
                return True
        seen, other = (self._network_energies(attempt.model, s) for s in (self.prepared.judge, baseline_samples))
        return score(other, seen) > surprising(SOMETHING, len(seen))

    @staticmethod
    def _network_energies(model: Hamiltonian, states: Snapshots) -> np.ndarray:
        with torch.no_grad():
            read = states.reading(model.properties)
            return np.array([model.of_states([state]).neural.item() for state in read])

    def _more_would_help(self, plan: Plan, attempt: Attempt) -> str | None:
        """Whether half of the states teach less: by one network trained on half of them."""
        if len(self.train) < 8 or self.clock.left < 20:
            return None
        half = self.train.chosen(np.arange(0, len(self.train), 2))
        config = self._config(plan.section, attempt.rounds, 1, plan.lengths)
        try:
            model = closure_trainer(config, half, plan.analytic).run(deadline=self.clock.until(0.6))
        except TrainingDiverged:
            return "yes"
        judged = judge(self._sample(model, plan.lengths, 11), self.train_rows, self.train)
        count = len(judged.distances)
        # Mean squares of normal deviates scatter by sqrt(2 / n), and measures are far from independent.
        return "yes" if judged.misfit > attempt.trained.misfit + 3 * np.sqrt(2 / max(count, 1)) else "no"

    # -- what is kept ------------------------------------------------------------------------------------------------

    def _found(
        self, plan: Plan, closure: Judged, baseline: Judged, adds: bool, more: str | None, attempt: Attempt | None
    ) -> dict[str, Any]:
        lattice = self.train.lattice
        columns = {"data": self.wanted_rows, "closure": closure.rows, "baseline": baseline.rows}
        titles = [title for title in self.wanted_rows if all(title in rows for rows in columns.values())]
        return {
            "verdict": verdict(closure, baseline, adds, more),
            "adds": adds,
            "measures": {title: {name: list(rows[title]) for name, rows in columns.items()} for title in titles},
            "reproduced": {"closure": len(closure.reproduced), "baseline": len(baseline.reproduced), "of": len(titles)},
            "misfit": {"closure": closure.misfit, "baseline": baseline.misfit},
            "more_snapshots": more,
            "seconds": self.clock.spent,
            "minutes": self.wanted.minutes,
            "members": self.wanted.members,
            "seed": self.wanted.seed,
            "lattice": {
                "geometry": lattice.geometry.name,
                "shape": list(lattice.shape),
                "boundary": list(lattice.boundary),
                "coarser": self.prepared.coarser,
            },
            "states": {"train": len(self.train), "judge": len(self.prepared.judge)},
            "replicates": REPLICATES,
            "sample_mcs": plan.lengths.sample_mcs,
            "relaxation_mcs": plan.relaxation,
            "settled": plan.settled,
            "order": plan.section.order,
            "rounds": None if attempt is None else attempt.rounds,
            "steps": None if attempt is None else attempt.steps,
            "events": [] if attempt is None else attempt.events,
            "remarks": [*self.prepared.said, *plan.said],
            "parameters": {
                "closure": named_parameters(plan.analytic if adds else plan.baseline),
                "baseline": named_parameters(plan.baseline),
            },
        }

    def _time(self, closure: Hamiltonian) -> dict[str, Any]:
        """How many Monte Carlo steps a frame of a time-lapse is."""
        if not has_movies(self.data):
            return {}
        try:
            found = mcs_per_frame(model_of(closure), self.data, seed=self.wanted.seed, threads=self.wanted.threads)
        except UserError as error:
            self.narrator.tell(f"Note: {error}")
            return {"mcs_per_frame": None, "time_notes": [str(error)]}
        self.narrator.tell(found.sentence)
        return found.as_json()

    def _write(self, result: Fit) -> None:
        found = result.found
        told = {"fit": found["verdict"], "seed": self.wanted.seed, "states": len(self.train)}
        told |= {key: found[key] for key in ("mcs_per_frame", "frame_interval", "time_unit") if found.get(key)}
        states = [self.prepared.judge[0]]
        for name, model in (("model", result.closure), ("baseline", result.baseline)):
            export(model, self.folder / f"{name}.onnx", name=self.folder.name, training=told, examples=states)
        self.prepared.judge.save(self.folder / "held-out.npz")
        result.samples.save(self.folder / "samples.npz")
        result.baseline_samples.save(self.folder / "samples-baseline.npz")
        with writing(self.folder / RESULT_FILE) as temporary:
            temporary.write_text(json.dumps(result.found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def _identity(self) -> dict[str, Any]:
        train = self.train
        return {
            "seed": self.wanted.seed,
            "members": self.wanted.members,
            "like": None if self.wanted.like is None else named_parameters(self.wanted.like),
            "states": [len(train), *train.lattice.shape],
            "sites of cells": int((train.ids > 0).sum()),
        }
