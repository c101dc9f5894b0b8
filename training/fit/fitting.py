"""The stages of a fit, one after the other, each told in a line."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
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

from ..chains import Starts, started
from ..config import ModelSection
from ..export import export
from ..hamiltonians import Hamiltonian
from ..logs import named_parameters
from ..ranks import Ranks
from ..samplers import model_of
from ..trainer import Report, Trainer, TrainingDiverged
from .analytic import Start, analytic_start, check_like, given_start, train_baseline
from .closure import (
    FEWEST_STEPS,
    MOST_STEPS,
    POOL,
    SWEEPS,
    Lengths,
    chain_speed,
    closure_config,
    silent,
)
from .judging import ALONE, NO_BETTER, NOTHING, Judged, judge, rows_of, surprising, verdict
from .plan import Plan, numbers
from .preparing import Prepared, prepare
from .relaxation import LONGER, Relaxation, relaxation
from .sight import from_pairs
from .task import Clock, Narrator, Wanted

RESULT_FILE = "fit.json"
CLOSURE_FOLDER = "closure"
BASELINE_SAMPLES = "samples-baseline.npz"
BASELINE_STREAM, CLOSURE_STREAM, PAIRS_STREAM = 1, 2, 3
"""Of random numbers that samples are drawn by."""
DATA_FILE = "data.npz"
"""The data as they were given."""
REPLICATES = 64
BASELINE_CHAINS, BASELINE_ROUNDS = 48, 48
RELAXING, PAIRS, BASELINE, SAMPLING, RESERVE = 0.2, 0.4, 0.2, 0.3, 0.1
"""Shares of the time that is left for measuring how long cells take to settle, for pairs, for the baseline, for
samples, and for what comes last."""
SAMPLED = 3
"""Models that are sampled: the baseline, the closure by pairs, the closure by chains."""
WORTH_TRAINING = 1.0
"""Times as long as a model's samples take that there must be for training it by chains."""
JUDGING = 0.1
"""Share of all the time for what comes behind the last samples: judging them, writing everything down."""
CHANCE, FARTHEST = 1.2, 3.0
"""Misfit, and standard errors of any measure, up to which samples are as like the data as chance lets them be."""
SHORTEST_SETTLE = 20
"""Monte Carlo steps, however little time there is: cells have just grown."""
SOMETHING, MISSED = 3.0, 4.0
"""Standard errors by which a network must know more than nothing, or a baseline miss a measure, for a closure."""

KEPT_IN_MODELS = ("mcs_per_frame", "frame_interval", "time_unit", "like", "not_read")
"""Of what was found, in the model files too."""


class Fit(NamedTuple):
    """Both models, their fresh samples, and everything that was found, as JSON has it."""

    closure: Hamiltonian
    baseline: Hamiltonian
    samples: Snapshots
    baseline_samples: Snapshots
    found: dict[str, Any]


def fit(data: Snapshots, folder: Path, wanted: Wanted, narrator: Narrator | None = None) -> Fit:
    """Everything from a data set to a judged model; files are written into `folder`."""
    with on_one_thread():
        return Fitting(data, folder, wanted, narrator or Narrator()).run()


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Of torch: a batch is some hundred cells, and several threads would wait more than they work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Fitting:
    starts: Starts = staticmethod(started)
    """Of chains of the closure."""

    def __init__(self, data: Snapshots, folder: Path, wanted: Wanted, narrator: Narrator) -> None:
        self.data, self.folder, self.wanted, self.narrator = data, folder, wanted, narrator
        self.clock, self.ranks = Clock(wanted.minutes), Ranks.joined()
        self.prepared: Prepared = prepare(data, wanted.seed, may_coarsen=wanted.like is None)
        if wanted.like is not None:
            check_like(wanted.like.hamiltonian, data)
        self.train = self.prepared.train
        self.wanted_rows: dict[str, Measured] = rows_of(self.prepared.judge, self.train)
        self.train_rows: dict[str, Measured] = rows_of(self.train, self.train)

    def run(self) -> Fit:
        self._say_what_was_found()
        plan = self._plan()
        baseline_samples = self._sample(plan.baseline, plan.lengths, BASELINE_STREAM)
        baseline = judge(baseline_samples, self.wanted_rows, self.train)
        adds = self._adds(plan, baseline, baseline_samples)
        why_silent, events = None if adds else NOTHING if plan.closure else ALONE, list[str]()
        if adds:
            closure, samples, events = self._closure(plan)
            judged = judge(samples, self.wanted_rows, self.train)
            proven = self._is_known(plan) and judged.whole and not plan.arrives
            if judged.misfit > baseline.misfit and not proven:
                why_silent = NO_BETTER
        if why_silent:
            closure = plan.baseline if plan.closure is None else silent(plan.closure, plan.baseline)
            samples, judged = baseline_samples, baseline
        found = self._found(plan, judged, baseline, why_silent, events) | self._time(closure)
        result = Fit(closure, plan.baseline, samples, baseline_samples, found)
        if self.ranks.first:
            self._write(result)
        return result

    # -- before chains of the closure ------------------------------------------------------------------------------

    def _say_what_was_found(self) -> None:
        found, lattice = self.prepared.found, self.train.lattice
        cells = " to ".join(dict.fromkeys(str(count) for count in found.cells))
        types = ", ".join(f"{each.name} of {each.volume[0]:.0f} ± {each.volume[1]:.0f} sites" for each in found.types)
        self.narrator.tell(
            f"{found.states} state{'s' * (found.states != 1)} of {size_text(lattice.shape)} sites "
            f"({lattice.geometry.name}), {cells} cells each: {types}; {len(self.train)} to train on, "
            f"{len(self.prepared.judge)} to judge by."
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
            self.data.save(self.folder / DATA_FILE)
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
        closure, seen = None, None
        if self.prepared.learnable:
            closure, seen = from_pairs(
                data, section, start.hamiltonian, self.wanted, self.clock.until(PAIRS), self.narrator
            )
        moving = closure or start.hamiltonian
        relaxed = relaxation(moving, data, seed, threads, RELAXING * self.clock.left)
        lengths = self._lengths(moving, relaxed)
        self.narrator.tell(
            f"Contacts to neighbours of order {section.order}, {100 * start.acceptance:.0f} % of copies accepted; "
            f"cells settle in {'about' if relaxed.settled else 'more than'} {relaxed.mcs} MCS. "
            f"In {self.wanted.minutes:g} minute{'s' * (self.wanted.minutes != 1)}: up to {lengths.steps} steps of "
            f"training by chains, {REPLICATES} samples of {lengths.sample_mcs} MCS each."
        )
        baseline, residual = copy.deepcopy(start.hamiltonian), None
        if self.wanted.like is None:
            residual = train_baseline(
                baseline,
                data,
                [lengths.from_scattered(lengths.settle)],
                BASELINE_CHAINS,
                seed,
                threads,
                BASELINE_ROUNDS,
                self.clock.until(BASELINE),
            )
        plan = Plan(
            section,
            start.hamiltonian,
            baseline,
            closure,
            seen,
            lengths,
            start.said,
            relaxed.mcs,
            relaxed.settled,
            residual,
        )
        if not plan.arrives:
            self.narrator.tell(
                f"Note: samples of {lengths.sample_mcs} MCS show what forms by then; chains that train live longer."
            )
        return plan

    def _analytic_start(self) -> Start:
        if self.wanted.like is not None:
            return given_start(self.wanted.like.hamiltonian, self.train, self.wanted.seed, self.wanted.threads)
        section = ModelSection(preset="cellsort", by_type=True)
        return analytic_start(self.train, section, self.wanted.seed, self.wanted.threads)

    def _lengths(self, moving: Hamiltonian, relaxed: Relaxation) -> Lengths:
        """As long as cells take to settle, or as there is time for."""
        speed = chain_speed(moving, self.train, self.wanted.seed, self.wanted.threads)
        longest = SAMPLING * self.clock.left * speed / (SAMPLED * REPLICATES)
        settle = int(np.clip(LONGER * relaxed.mcs, SHORTEST_SETTLE, max(longest, SHORTEST_SETTLE)))
        seconds_per_step = POOL * 2 / 3 * 2 * SWEEPS / speed / 2
        time_left = (1 - SAMPLING - RESERVE) * self.clock.left - POOL * settle / speed
        steps = int(np.clip(time_left / seconds_per_step, FEWEST_STEPS, MOST_STEPS)) // 2 * 2
        return Lengths(self.ranks.agreed(settle), self.ranks.agreed(steps))

    def _adds(self, plan: Plan, baseline: Judged, samples: Snapshots) -> bool:
        """Whether the data show anything that contact and volume energies do not: to the network, about pairs it has
        never seen, or in a measure."""
        if plan.closure is None or plan.seen is None:
            return False
        if self._is_known(plan):
            return True
        beside_trained = judge(samples, self.train_rows, self.train)
        return any(
            max(map(abs, judged.distances.values()), default=0.0) > surprising(MISSED, len(states))
            for judged, states in ((baseline, self.prepared.judge), (beside_trained, self.train))
        )

    @staticmethod
    def _is_known(plan: Plan) -> bool:
        """Whether pairs that it has never seen prove that the network knows something."""
        return plan.seen is not None and plan.seen.surprise > surprising(SOMETHING, plan.seen.states)

    # -- the closure -----------------------------------------------------------------------------------------------

    def _closure(self, plan: Plan) -> tuple[Hamiltonian, Snapshots, list[str]]:
        """As pairs have left it, or trained on by chains where its samples are unlike the states it was trained on, if
        that brings them nearer; with its samples."""
        assert plan.closure is not None
        began = self.clock.spent
        samples = self._sample(plan.closure, plan.lengths, PAIRS_STREAM)
        sampling = self.clock.spent - began
        before = judge(samples, self.train_rows, self.train)
        self.steps = 0
        if before.misfit <= CHANCE and max(map(abs, before.distances.values())) <= FARTHEST:
            self.narrator.tell("Its samples are as like the data as chance lets them be: no chains are needed.")
            return plan.closure, samples, []
        seconds = self.clock.left - 1.2 * sampling - JUDGING * self.clock.seconds  # a trained model may be slower
        if seconds < WORTH_TRAINING * sampling:
            short = "there is no time for training by chains: the network is as pairs have left it"
            self.narrator.tell(f"Note: {short}; more --minutes would help.")
            return plan.closure, samples, [short]
        trained, events = self._train(plan, time.monotonic() + seconds)
        fresh = self._sample(trained, plan.lengths, CLOSURE_STREAM)
        if judge(fresh, self.train_rows, self.train).misfit <= before.misfit:
            return trained, fresh, events
        kept = "training by chains led away from the data: the network is kept as pairs have left it"
        self.narrator.tell(f"Note: {kept}.")
        self.steps = 0
        return plan.closure, samples, [*events, kept]

    def _train(self, plan: Plan, deadline: float) -> tuple[Hamiltonian, list[str]]:
        """By chains from scattered starts and from data, from where pairs have led; `deadline`: of `time.monotonic`."""
        assert plan.closure is not None
        assert plan.seen is not None
        wanted = self.wanted
        config = closure_config(
            plan.section, plan.seen.sight, wanted.members, plan.lengths, wanted.seed, wanted.threads
        )
        start = copy.deepcopy(plan.closure)  # training changes it, and pairs' may be the one that is kept
        trainer = Trainer(config, self.train, self.folder / CLOSURE_FOLDER, start, self.starts)

        def show(report: Report) -> None:
            self.narrator.show("training by chains", report.step, report.steps)

        try:
            model, events = trainer.run(show, deadline=deadline), trainer.events
        except TrainingDiverged:
            kept = f"it left the rails too often: the weights of step {trainer.good.step} are kept"
            model, events = trainer.last_good(), [*trainer.events, f"step {trainer.step}: {kept}"]
        for event in events:
            self.narrator.tell(f"Note: {event}.")
        self.steps = trainer.step
        return model, events

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

    # -- what is kept ------------------------------------------------------------------------------------------------

    def _found(
        self, plan: Plan, closure: Judged, baseline: Judged, why_silent: str | None, events: list[str]
    ) -> dict[str, Any]:
        lattice, seen, adds = self.train.lattice, plan.seen, why_silent is None
        columns = {"data": self.wanted_rows, "closure": closure.rows, "baseline": baseline.rows}
        titles = [title for title in self.wanted_rows if all(title in rows for rows in columns.values())]
        # Of states that are judged by themselves nobody can tell whether more of them would help.
        tellable = seen is not None and adds and self.prepared.judge is not self.train
        more = None if not tellable else "yes" if seen is not None and seen.more_helps else "no"
        return {
            "verdict": verdict(closure, baseline, why_silent, more),
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
            "rounds": None if seen is None else seen.sight.rounds,
            "distances": None if seen is None else seen.sight.knots > 0,
            "pairs": None if seen is None else {"gain": seen.gain, "standard_errors": seen.surprise},
            "steps": self.steps if adds else None,
            "events": events,
            "remarks": [*self.prepared.said, *plan.said],
            **(self.wanted.like.told() if self.wanted.like is not None else {}),
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
        told |= {key: found[key] for key in KEPT_IN_MODELS if found.get(key)}
        states = [self.prepared.judge[0]]
        for name, model in (("model", result.closure), ("baseline", result.baseline)):
            export(model, self.folder / f"{name}.onnx", name=self.folder.name, training=told, examples=states)
        self.prepared.judge.save(self.folder / "held-out.npz")
        result.samples.save(self.folder / "samples.npz")
        result.baseline_samples.save(self.folder / BASELINE_SAMPLES)
        with writing(self.folder / RESULT_FILE) as temporary:
            temporary.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def _identity(self) -> dict[str, Any]:
        """What must be the same for a folder to be continued."""
        train = self.train
        return {
            "seed": self.wanted.seed,
            "members": self.wanted.members,
            "like": None if self.wanted.like is None else numbers(self.wanted.like.hamiltonian),
            "states": [len(train), *train.lattice.shape],
            "sites of cells": int((train.ids > 0).sum()),
        }
