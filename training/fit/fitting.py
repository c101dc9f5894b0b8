"""The stages of a fit, one after the other, each told in a line."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

from ..chains import Starts, started
from ..config import ModelSection
from ..export import export
from ..hamiltonians import CellGraph, Hamiltonian
from ..logs import named_parameters
from ..ranks import Ranks
from ..samplers import model_of
from ..trainer import Report, Trainer, TrainingDiverged
from .analytic import Given, Start, analytic_start, check_like, given_start, train_baseline
from .closure import (
    FEWEST_STEPS,
    MOST_STEPS,
    POOL,
    SWEEPS,
    Lengths,
    Sight,
    chain_speed,
    closure_config,
    closure_model,
    knots_for,
    silent,
)
from .judging import ALONE, NO_BETTER, NOTHING, Judged, judge, rows_of, surprising, verdict
from .pairs import Job, Pairs, committee, surprise
from .plan import Plan, Seen, numbers
from .preparing import Prepared, prepare
from .relaxation import LONGER, Relaxation, relaxation

RESULT_FILE = "fit.json"
CLOSURE_FOLDER = "closure"
BASELINE_SAMPLES = "samples-baseline.npz"
BASELINE_STREAM, CLOSURE_STREAM, PAIRS_STREAM = 1, 2, 3
"""Of random numbers that samples are drawn by."""
DATA_FILE = "data.npz"
"""The data as they were given."""
REPLICATES = 64
BASELINE_CHAINS, BASELINE_ROUNDS = 48, 48
RELAXING, PAIRS, SAMPLING, RESERVE = 0.2, 0.3, 0.3, 0.1
"""Shares of the time for measuring how long cells take to settle, for pairs, for samples, and for what comes last."""
SAMPLED = 3
"""Models that are sampled: the baseline, the closure by pairs, the closure by chains."""
CHANCE, FARTHEST = 1.2, 3.0
"""Misfit, and standard errors of any measure, up to which samples are as like the data as chance lets them be."""
MAKING = 0.4
"""Of the time for pairs, for making them."""
ASKING = 0.45
"""Of the time for training on them, for whether to see far."""
SHORTEST_SETTLE = 60
ROUNDS = (1, 2)
"""How far a network may see, in cells."""
FARTHER = 2.0
"""Standard errors by which a network that sees farther must know more, to be taken."""
SOMETHING, MISSED = 3.0, 4.0
"""Standard errors by which a network must know more than nothing, or a baseline miss a measure, for a closure."""
HELPS = 0.02
"""Gain, in units of log 2, that all states must have over half of them for more of them to help."""

KEPT_IN_MODELS = ("mcs_per_frame", "frame_interval", "time_unit", "like", "not_read")
"""Of what was found, in the model files too."""

Tell = Callable[[str], None]
Show = Callable[[str, float, float], None]
"""What is going on, how much of it is done, of how much."""


@dataclass(frozen=True)
class Wanted:
    """`like`: analytic energies that stay as they are: the closure is what they miss."""

    minutes: float = 10.0
    members: int = 4
    seed: int = 0
    threads: int = 1
    like: Given | None = None


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
        closure, seen = self._from_pairs(section, start.hamiltonian) if self.prepared.learnable else (None, None)
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

    def _from_pairs(self, section: ModelSection, analytic: Hamiltonian) -> tuple[Hamiltonian, Seen]:
        """A closure trained on pairs, which sees as far as pairs kept apart show to be worth it."""
        deadline = self.clock.until(PAIRS)

        def fresh(sight: Sight, members: int = 1, number: int = 0) -> Hamiltonian:
            trial, seed = Lengths(SHORTEST_SETTLE, FEWEST_STEPS), self.wanted.seed + 1000 * number
            config = closure_config(section, sight, members, trial, seed, self.wanted.threads)
            return closure_model(config, self.train.reading(section.properties), analytic)

        def show(done: float, total: float) -> None:
            self.narrator.show("training on pairs", round(done, 2), total)

        near, farther, wide = Sight(ROUNDS[0]), Sight(ROUNDS[1]), Sight(ROUNDS[0], knots_for(self.train))
        network = fresh(wide).network
        assert isinstance(network, CellGraph)
        making = time.monotonic() + MAKING * (deadline - time.monotonic())
        pairs = Pairs(network, analytic, self.train, self.wanted.seed, self.wanted.threads, making)
        # One network for each question, then the others of the committee: they take about as long together.
        asking = time.monotonic() + ASKING * (deadline - time.monotonic())
        asked = [near, farther, *([wide] if wide.knots else [])]
        answers = dict(zip(asked, pairs.train_each([Job(fresh(sight)) for sight in asked], asking, show), strict=True))

        def worth(sight: Sight) -> bool:
            return sight in answers and surprise(answers[sight].gains - answers[near].gains) > FARTHER

        chosen = Sight((farther if worth(farther) else near).rounds, wide.knots if worth(wide) else 0)
        known = {chosen: answers[chosen]} if chosen in answers else {}
        missing = [number for number in range(self.wanted.members) if number or not known]
        others = [Job(fresh(chosen, number=number), number) for number in missing]
        half, *trained = pairs.train_each([Job(fresh(chosen), half=True), *others], deadline, show)
        members = [*known.values(), *trained]
        closure = committee(fresh(chosen, self.wanted.members), [each.model for each in members])
        gains, alone = pairs.gains(closure), members[0]
        sure = f"{surprise(gains):.1f} standard errors above nothing"
        self.narrator.tell(
            f"A network that sees {chosen} knows {gains.mean() / np.log(2):.0%} of what could be known of pairs kept "
            f"apart ({sure if len(gains) > 1 else 'of one snapshot, so how sure that is cannot be told'})."
        )
        more = alone.gains - half.gains
        helps = surprise(more) > FARTHER and more.mean() > HELPS * np.log(2)
        return closure, Seen(chosen, float(gains.mean()), surprise(gains), len(gains), bool(helps))

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
        samples = self._sample(plan.closure, plan.lengths, PAIRS_STREAM)
        before = judge(samples, self.train_rows, self.train)
        self.steps = 0
        if before.misfit <= CHANCE and max(map(abs, before.distances.values())) <= FARTHEST:
            self.narrator.tell("Its samples are as like the data as chance lets them be: no chains are needed.")
            return plan.closure, samples, []
        trained, events = self._train(plan)
        fresh = self._sample(trained, plan.lengths, CLOSURE_STREAM)
        if judge(fresh, self.train_rows, self.train).misfit <= before.misfit:
            return trained, fresh, events
        kept = "training by chains led away from the data: the network is kept as pairs have left it"
        self.narrator.tell(f"Note: {kept}.")
        self.steps = 0
        return plan.closure, samples, [*events, kept]

    def _train(self, plan: Plan) -> tuple[Hamiltonian, list[str]]:
        """By chains from scattered starts and from data, from where pairs have led."""
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

        last = SAMPLING / SAMPLED
        share = (1 - SAMPLING - RESERVE) / (1 - SAMPLING + last)
        try:
            model, events = trainer.run(show, deadline=self.clock.until(share)), trainer.events
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
        more = None if seen is None or not adds else "yes" if seen.more_helps else "no"
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
