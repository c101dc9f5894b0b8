"""The two functions CC3D calls a thousand times per Monte Carlo step.

CC3D calls them without arguments and dies of any exception, so they read their arguments from its wrapper objects,
never raise, and keep what went wrong. Everything they need is a local name: a call costs a few microseconds above
the engine's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from threading import get_ident
from time import perf_counter
from typing import Any

from neuralcpm_bridge.errors import UserError

REFUSED = 1e30
"""ΔH of a copy that must not happen: large and finite, for CC3D adds other terms to it."""


NOTHING_ASKED = (-1, -1, -1, 0)
"""Row, column, host id and model id of the last proposal, when there is none."""


class Tally:
    """Counters since the last log line."""

    __slots__ = ("accepted", "calls", "seconds")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.calls = self.accepted = 0
        self.seconds = 0.0


class Callbacks:
    """`energy.changeEnergy` and `watcher.field3DChange` for CC3D to call."""

    def __init__(self, energy_wrapper: Any, change_wrapper: Any, index_of: Mapping[int, int]) -> None:
        """The wrappers are CC3D's (or stand-ins with `getChangePoint`, `getNewCell`, `getOldCell`)."""
        self.energy, self.watcher = Callee(), Callee()
        self.tally = Tally()
        self.error: BaseException | None = None
        self.factor = 1.0
        """What every ΔH of the model is multiplied with."""
        self.factors: tuple[dict[int, float], Callable[[float, float], float]] | None = None
        """Where amplitudes differ: a further factor of every host id, and how two make one."""
        self.written: dict[tuple[int, int], int] = {}
        """Pixels written outside the Metropolis algorithm: (row, col) → host id."""
        self.following = False
        """Whether the model has a lattice; before, every write will be seen when it is loaded."""
        self.before_next: Callable[[], None] = lambda: None
        """Called before the next ΔH after anything was written."""
        self.thread = 0
        self._asked = NOTHING_ASKED
        self._index_of = index_of
        self._energy_wrapper, self._change_wrapper = energy_wrapper, change_wrapper
        self._delta: Callable[[int, int, int], float] = _nothing_loaded
        self._commit: Callable[[int, int, int], None] = _nothing_loaded
        self.watcher.field3DChange = self._make_watcher()
        self.hold()

    def serve(self, delta: Callable[[int, int, int], float], commit: Callable[[int, int, int], None]) -> None:
        """Answer with these from now on."""
        self._delta, self._commit = delta, commit
        self.following = True
        if self.error is None:
            self.hold()

    def hold(self) -> None:
        """Ask `before_next` before the next ΔH is answered."""
        self._asked = NOTHING_ASKED
        self.energy.changeEnergy = self._first

    def keep(self, error: BaseException) -> None:
        """Remember the first thing that went wrong; nothing is accepted any more."""
        if self.error is None:
            self.error = error
        self.energy.changeEnergy = _refuse

    def _choose(self) -> None:
        if self.error is None:
            self.energy.changeEnergy = self._make_uniform() if self.factors is None else self._make_cellwise()

    def _first(self) -> float:
        try:
            self.before_next()
            self.thread = get_ident()
            self._choose()
            return float(self.energy.changeEnergy())
        except BaseException as error:
            self.keep(error)
            return REFUSED

    def _make_uniform(self) -> Callable[[], float]:
        get_point, get_new = self._energy_wrapper.getChangePoint, self._energy_wrapper.getNewCell
        index_of, delta, factor = self._index_of, self._delta, self.factor
        tally, home, clock, here, shared = self.tally, self.thread, perf_counter, get_ident, self

        def change_energy() -> float:
            began = clock()
            try:
                point, cell = get_point(), get_new()
                new_id = 0 if cell is None else cell.id
                row, col, index = point.y, point.x, index_of[new_id]
                value = delta(row, col, index)
                if value - value != 0.0 or here() != home:
                    return shared._unusual(value, home)
                shared._asked = (row, col, new_id, index)
                tally.calls += 1
                tally.seconds += clock() - began
                return factor * value
            except BaseException as error:
                shared.keep(error)
                return REFUSED

        return change_energy

    def _make_cellwise(self) -> Callable[[], float]:
        assert self.factors is not None
        get_point, get_new = self._energy_wrapper.getChangePoint, self._energy_wrapper.getNewCell
        get_old = self._energy_wrapper.getOldCell
        index_of, delta, weight, (factors, combine) = self._index_of, self._delta, self.factor, self.factors
        tally, home, clock, here, shared = self.tally, self.thread, perf_counter, get_ident, self

        def change_energy() -> float:
            began = clock()
            try:
                point, cell, old = get_point(), get_new(), get_old()
                if cell is None:
                    new_id, factor = 0, factors[old.id]
                else:
                    new_id = cell.id
                    factor = factors[new_id] if old is None else combine(factors[new_id], factors[old.id])
                row, col, index = point.y, point.x, index_of[new_id]
                value = delta(row, col, index)
                if value - value != 0.0 or here() != home:
                    return shared._unusual(value, home)
                shared._asked = (row, col, new_id, index)
                tally.calls += 1
                tally.seconds += clock() - began
                return weight * factor * value
            except BaseException as error:
                shared.keep(error)
                return REFUSED

        return change_energy

    def _unusual(self, value: float, home: int) -> float:
        """A forbidden extinction, an undefined ΔH or a second thread."""
        self.tally.calls += 1
        if get_ident() != home:
            self.keep(
                UserError(
                    "The Potts algorithm has begun to run on several work nodes, but a learned term sees farther than "
                    "their sections: keep the number of work nodes at 1."
                )
            )
        elif value != inf:
            self.keep(UserError("The model's ΔH is not a number: its weights are out of range, export it again."))
        return REFUSED

    def _make_watcher(self) -> Callable[[], None]:
        get_point, get_new = self._change_wrapper.getChangePoint, self._change_wrapper.getNewCell
        shared, tally, written = self, self.tally, self.written

        def field_change() -> None:
            if not shared.following:
                return
            try:
                point, cell = get_point(), get_new()
                row, col, new_id = point.y, point.x, 0 if cell is None else cell.id
                asked_row, asked_col, asked_id, index = shared._asked
                if row == asked_row and col == asked_col and new_id == asked_id:
                    shared._asked = NOTHING_ASKED
                    shared._commit(row, col, index)
                    tally.accepted += 1
                else:  # no answer of ours was accepted: someone writes the lattice
                    written[row, col] = new_id
                    if shared.error is None:
                        shared.hold()
            except BaseException as error:
                shared.keep(error)

        return field_change


class Callee:
    """An object whose one method is a function of its own: CC3D finds it by name at every call."""

    changeEnergy: Callable[[], float]
    field3DChange: Callable[[], None]


def _refuse() -> float:
    return REFUSED


def _nothing_loaded(row: int, col: int, new_id: int) -> Any:
    raise RuntimeError("no lattice has been loaded yet")
