"""How many Monte Carlo steps lie between two frames of a time-lapse.

A model learned from snapshots knows no time. Its chains do: started at a frame they move, lose sites and change shape
as its cells do, and after some number of Monte Carlo steps as much as the next frame of the movie. That number, found
for displacements of cells' centres, for the sites that they keep and for their shapes, is the frame's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .artifact import Artifact
from .errors import UserError
from .movies import Frame, Pair, cell_changes, frame_pairs, has_movies, is_tracked, time_unit
from .sampling import ChainRules
from .snapshots import Snapshots

if TYPE_CHECKING:
    from ._engine import Model

__all__ = ["FrameTime", "Measure", "frame_note", "has_movies", "mcs_per_frame"]

MEASURES = ("displacement", "overlap", "shape")
"""Columns of `cell_changes`."""
LINKED = 0.5
"""Share of cells that must be found again by their place in frames whose numbers follow no cells."""
FEW_PAIRS = 8
"""Below so many pairs of frames, the bootstrap draws cells instead of pairs."""
DRAWS = 300
"""Of the bootstrap."""
BEYOND = 3.0
"""Chains run so many times as long as the frames' interval, as far as it is known by then: errors reach there."""
FLAT = 0.1
"""A measure that rose by a smaller share while time grew fourfold has come to rest."""
UNBOUNDED = 0.05
"""Share of draws without an answer from which on there is only a lower bound."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measure:
    """What one measure says: its mean between consecutive frames, and Monte Carlo steps per frame with their standard
    error, or, where it cannot tell longer times from each other, how many they are at least (95 %)."""

    between_frames: float
    mcs_per_frame: float | None
    error: float | None
    at_least: float | None


@dataclass(frozen=True)
class FrameTime:
    """Monte Carlo steps per frame, `interval` of the movie's time, with their standard error; None, with `at_least`,
    where frames are farther apart than the model's cells remember."""

    mcs_per_frame: float | None
    error: float | None
    at_least: float | None
    interval: float
    unit: str
    pairs: int
    tracked: bool
    measures: dict[str, Measure]
    notes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        frame = f"One frame ({self.interval:g} {self.unit})" if self.unit != "frames" else "One frame"
        if self.mcs_per_frame is None:
            return f"{frame} is at least {self.at_least:.3g} Monte Carlo steps."
        return f"{frame} is {self.mcs_per_frame:.3g} ± {self.error:.2g} Monte Carlo steps."

    def as_json(self) -> dict[str, Any]:
        known = None if self.mcs_per_frame is None else [self.mcs_per_frame, self.error]
        return {
            "mcs_per_frame": known,
            "mcs_per_frame_at_least": self.at_least,
            "frame_interval": self.interval,
            "time_unit": self.unit,
            "frame_pairs": self.pairs,
            "tracked": self.tracked,
            "time_measures": {name: vars(measure) for name, measure in self.measures.items()},
            "time_notes": list(self.notes),
        }


def frame_note(training: Mapping[str, Any]) -> str:
    """`1 frame (10 min) = 12.3 ± 0.8 MCS`, from what a model file says of its training; nothing where it does not.

    Goes into scripts that hosts run, and the file may be a stranger's: numbers and one plain word.
    """
    known, interval = training.get("mcs_per_frame"), training.get("frame_interval")
    unit = str(training.get("time_unit", ""))
    if not isinstance(known, (list, tuple)) or len(known) != 2 or not all(map(_is_number, known)):
        return ""
    timed = _is_number(interval) and re.fullmatch(r"[^\W\d_]{1,20}", unit) and unit != "frames"
    return f"1 frame{f' ({interval:g} {unit})' if timed else ''} = {known[0]:.3g} ± {known[1]:.2g} MCS"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def mcs_per_frame(
    model: Artifact | Model,
    snapshots: Snapshots,
    *,
    seed: int = 0,
    threads: int = 1,
    replicates: int = 2,
    most_mcs: int = 1000,
    most_pairs: int = 24,
) -> FrameTime:
    """Estimate the time scale of movies under a model, whose temperature and rules its chains have.

    `replicates` chains start at the first frame of each of up to `most_pairs` pairs of consecutive frames and run until
    they have changed as much as the second one, and some time beyond, but no longer than `most_mcs`. Where intervals
    differ, one rate serves all of them, and the answer is for the median one. Refused where no two frames follow each
    other, or where cells cannot be found again.
    """
    every = frame_pairs(snapshots)
    chosen = [
        every[k] for k in np.unique(np.linspace(0, len(every) - 1, min(most_pairs, len(every))).round().astype(int))
    ]
    tracked = is_tracked(snapshots, chosen)
    seen = _Seen(model, snapshots, chosen, tracked)
    chains = _Simulated(model, seen, replicates, seed, threads)
    while not chains.long_enough(most_mcs):
        chains.go_on()
    return _answer(seen, chains, seed, time_unit(snapshots), tracked)


class _Seen:
    """The pairs of frames: `changes[n, 3]` of all cells, and the pair that each belongs to, `pair[n]`."""

    def __init__(self, model: Artifact | Model, snapshots: Snapshots, pairs: list[Pair], tracked: bool) -> None:
        place: Callable[[Any], Any] = model.place if isinstance(model, Artifact) else lambda state: state
        states = {number: place(snapshots[number]) for pair in pairs for number in pair[:2]}
        self.tracked = tracked
        self.before = [Frame(states[pair.before]) for pair in pairs]
        found = [
            cell_changes(before, Frame(states[pair.after]), tracked)
            for before, pair in zip(self.before, pairs, strict=True)
        ]
        cells = sum(before.state.cells.size for before in self.before)
        self.found = sum(map(len, found)) / max(cells, 1)
        if self.found < LINKED:
            why = "share no ids" if tracked else "cover too little of each other, and their numbers do not follow cells"
            raise UserError(
                f"Only {self.found:.0%} of the cells were found again in the next frame, because consecutive frames "
                f"{why}: track the cells, take frames more often, or check the order of the frames."
            )
        self.starts = Snapshots.from_states([before.state for before in self.before])
        self.changes = np.concatenate(found)
        self.pair = np.repeat(np.arange(len(pairs)), [len(one) for one in found])
        self.cells = np.bincount(self.pair, minlength=len(pairs))
        intervals = np.array([pair.interval for pair in pairs])
        self.interval = float(np.median(intervals))
        self.ratio: Floats = intervals / self.interval

    def means(self, weights: Floats | None = None) -> Floats:
        """Of all cells, each with a weight `[n]`: `[3]`."""
        return np.average(self.changes, axis=0, weights=weights)


class _Simulated:
    """Chains from the first frame of every pair, and what became of their cells at some times."""

    def __init__(self, model: Artifact | Model, seen: _Seen, replicates: int, seed: int, threads: int) -> None:
        self.engine = model.model if isinstance(model, Artifact) else model
        if isinstance(model, Artifact) and not model.engine_serves:
            raise UserError(
                f"The time between frames is found by chains, but the engine runs none of the architecture "
                f"{model.metadata.architecture!r}: distil the model (neuralcpm distill) or use another one."
            )
        engine = self.engine
        self.rules = ChainRules(engine.temperature, threads, forbid_extinction=engine.forbids_extinction)
        self.seen, self.replicates = seen, replicates
        self.starts = np.tile(np.arange(len(seen.starts)), replicates)
        self.states = seen.starts.chosen(self.starts)
        self.seeds = np.random.default_rng([seed, 23])
        nothing = np.zeros((replicates, len(seen.starts), len(MEASURES)))
        self.times, self.curves = [0], [nothing]
        """Times in Monte Carlo steps, and means over cells at each, `[replicates, pairs, 3]`."""

    def go_on(self) -> None:
        """To the next time: one step longer at first, then a fifth."""
        last = self.times[-1]
        steps = max(1, round(0.19 * last))
        self.states, _ = self.rules.run(self.engine, self.states, steps, int(self.seeds.integers(2**63)))
        self.times.append(last + steps)
        means = self.curves[-1].reshape(-1, len(MEASURES)).copy()  # stay where no cell is found again
        for chain, (start, state) in enumerate(zip(self.starts, self.states, strict=True)):
            changes = cell_changes(self.seen.before[start], Frame(state), self.seen.tracked)
            if len(changes):
                means[chain] = changes.mean(axis=0)
        self.curves.append(means.reshape(self.replicates, -1, len(MEASURES)))

    def long_enough(self, most_mcs: int) -> bool:
        now = self.times[-1]
        if now * 1.2 > most_mcs and now > 0:
            return True
        times, means = self.curve(np.ones(len(self.seen.ratio)))
        if len(times) < 4:
            return False
        wanted = self.seen.means()
        for column, value in zip(means.T, wanted, strict=True):
            reached = np.flatnonzero(column >= value)
            if reached.size and times[-1] < BEYOND * times[reached[0]]:
                return False
            if not reached.size and not at_rest(times, column):
                return False
        return True

    def curve(self, weights: Floats, chosen: NDArray[np.intp] | None = None) -> tuple[Floats, Floats]:
        """Times per median interval and the measures' means at them, `[times, 3]`; pairs weigh as `weights[pairs]`
        says, `chosen` replicates serve."""
        curves = np.array(self.curves) if chosen is None else np.array(self.curves)[:, chosen]
        by_pair = curves.mean(axis=1)  # [times, pairs, 3]
        known, ratio = np.array(self.times, dtype=np.float64), self.seen.ratio
        times = known[known * ratio.max() <= known[-1]]
        at = np.empty((len(times), *by_pair.shape[1:]))
        for pair, factor in enumerate(ratio):
            for column in range(len(MEASURES)):
                at[:, pair, column] = np.interp(times * factor, known, by_pair[:, pair, column])
        shares = weights * self.seen.cells
        return times, np.einsum("tpk,p->tk", at, shares / shares.sum())


def at_rest(times: Floats, column: Floats) -> bool:
    """Whether a measure has stopped rising."""
    end = times[-1]
    late, earlier = times >= end / 2, (times >= end / 8) & (times <= end / 4)
    return bool(end >= 16 and column[late].mean() <= (1 + FLAT) * column[earlier].mean())


def crossing(times: Floats, column: Floats, value: float) -> float:
    """When a rising curve through noise reaches a value; infinite where it does not."""
    rising = isotonic(column)
    if value >= rising[-1]:
        return float("inf")
    # Ends of level stretches carry no time of their own: of each the middle.
    levels, where = np.unique(rising, return_inverse=True)
    middles = np.bincount(where, times) / np.bincount(where)
    return float(np.interp(value, levels, middles))


def isotonic(values: Floats) -> Floats:
    """The nearest sequence that never falls (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (a, m), (b, n) = blocks[-2:]
            blocks[-2:] = [((a * m + b * n) / (m + n), m + n)]
    return np.concatenate([np.full(count, value) for value, count in blocks])


# -- from curves to an answer ------------------------------------------------------------------------------------------


def _draws(seen: _Seen, chains: _Simulated, seed: int) -> Iterator[Floats]:
    """Monte Carlo steps per frame by every measure, `[3]`, in draws of pairs (few of them: of cells) and chains."""
    rng, pairs = np.random.default_rng([seed, 29]), len(seen.ratio)
    for _ in range(DRAWS):
        if pairs >= FEW_PAIRS:
            weights = np.bincount(rng.integers(pairs, size=pairs), minlength=pairs).astype(np.float64)
            of_cells = weights[seen.pair]
        else:
            count = len(seen.changes)
            of_cells = np.bincount(rng.integers(count, size=count), minlength=count).astype(np.float64)
            weights = np.bincount(seen.pair, of_cells, minlength=pairs) / seen.cells
        times, means = chains.curve(weights, rng.integers(chains.replicates, size=chains.replicates))
        wanted = seen.means(of_cells)
        yield np.array([crossing(times, column, value) for column, value in zip(means.T, wanted, strict=True)])


def _answer(seen: _Seen, chains: _Simulated, seed: int, unit: str, tracked: bool) -> FrameTime:
    drawn = np.array(list(_draws(seen, chains, seed)))
    times, means = chains.curve(np.ones(len(seen.ratio)))
    wanted = seen.means()
    found: dict[str, Measure] = {}
    for number, name in enumerate(MEASURES):
        own, value = drawn[:, number], crossing(times, means[:, number], wanted[number])
        if np.isinf(value) or np.isinf(own).mean() > UNBOUNDED:
            found[name] = Measure(float(wanted[number]), None, None, float(np.quantile(own, 0.05, method="lower")))
            continue
        spread = own[np.isfinite(own)].std()
        found[name] = Measure(float(wanted[number]), value, float(spread), None)
    notes = _notes(found, chains, means, seen, tracked)
    known = [number for number, name in enumerate(MEASURES) if found[name].mcs_per_frame is not None]
    if not known:
        least = max(measure.at_least or 0.0 for measure in found.values())
        least = min(least, float(times[-1]))
        return FrameTime(None, None, least, seen.interval, unit, len(seen.ratio), tracked, found, notes)
    values = np.array([found[MEASURES[number]].mcs_per_frame for number in known], dtype=np.float64)
    errors = np.maximum([found[MEASURES[number]].error or 0.0 for number in known], 1e-3 * values)
    weights = errors**-2 / (errors**-2).sum()
    finite = drawn[np.isfinite(drawn[:, known]).all(axis=1)][:, known]
    best, error = float(values @ weights), float((finite @ weights).std())
    tension = float(np.sqrt((((values - best) / errors) ** 2).sum() / max(len(known) - 1, 1)))
    if tension > 2:
        notes = (*notes, _disagreement(found))
        error *= tension
    return FrameTime(best, error, None, seen.interval, unit, len(seen.ratio), tracked, found, notes)


def _notes(found: dict[str, Measure], chains: _Simulated, means: Floats, seen: _Seen, tracked: bool) -> tuple[str, ...]:
    notes = []
    if not tracked:
        notes.append(
            f"The numbers of cells do not follow them from frame to frame: the {seen.found:.0%} that stay mostly in "
            "place were compared."
        )
    times = np.array(chains.times, dtype=np.float64)
    for column, (name, measure) in zip(means.T, found.items(), strict=True):
        if measure.mcs_per_frame is not None:
            continue
        if at_rest(times[: len(column)], column):
            notes.append(
                f"By {name}, frames are farther apart than the model's cells remember, so it tells only that one is at "
                f"least {measure.at_least:.3g} Monte Carlo steps."
            )
        else:
            notes.append(
                f"By {name}, a frame is longer than the {times[-1]:.0f} Monte Carlo steps that were simulated: search "
                "longer."
            )
    return tuple(notes)


def _disagreement(found: dict[str, Measure]) -> str:
    told = ", ".join(
        f"{measure.mcs_per_frame:.3g} ± {measure.error:.2g} by {name}"
        for name, measure in found.items()
        if measure.mcs_per_frame is not None
    )
    return (
        f"The measures disagree ({told}) by more than their errors, and the error was enlarged for it: the model's "
        "cells do not move as those of the movie do, or its frames drift or are segmented unevenly."
    )
