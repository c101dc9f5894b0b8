"""The two functions CC3D calls a thousand times per Monte Carlo step.

CC3D calls them without arguments and dies of any exception, so they read their arguments from its wrapper objects,
never raise, and keep what went wrong. Everything they need is a local name: a call costs a few microseconds above
the engine's own.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import perf_counter
from typing import Any

from neuralcpm_bridge.hosting.callbacks import NOTHING_ASKED, REFUSED, Callbacks


class CC3DCallbacks(Callbacks):
    """`energy.changeEnergy` and `watcher.field3DChange` for CC3D to call."""

    def __init__(self, energy_wrapper: Any, change_wrapper: Any) -> None:
        """The wrappers are CC3D's (or stand-ins with `getChangePoint`, `getNewCell`, `getOldCell`)."""
        super().__init__()
        self.energy, self.watcher = Callee(), Callee()
        self._energy_wrapper, self._change_wrapper = energy_wrapper, change_wrapper
        self.watcher.field3DChange = self._make_watcher()
        self.hold()

    def answer_with(self, answer: Callable[[], float]) -> None:
        self.energy.changeEnergy = answer

    def answering(self) -> Callable[[], float]:
        return self._make_uniform() if self.factors is None else self._make_cellwise()

    def _make_uniform(self) -> Callable[[], float]:
        get_point, get_new = self._energy_wrapper.getChangePoint, self._energy_wrapper.getNewCell
        delta, factor, (height, width) = self.delta, self.factor, self.shape[-2:]
        tally, home, clock, here, shared = self.tally, self.thread, perf_counter, get_ident, self

        def change_energy() -> float:
            began = clock()
            try:
                point, cell = get_point(), get_new()
                new_id = 0 if cell is None else cell.id
                site = (point.z * height + point.y) * width + point.x
                value = delta(site, new_id)
                if value - value != 0.0 or here() != home:
                    return shared.unusual(value)
                shared.asked = (site, new_id)
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
        delta, weight, (height, width), (factors, combine) = self.delta, self.factor, self.shape[-2:], self.factors
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
                site = (point.z * height + point.y) * width + point.x
                value = delta(site, new_id)
                if value - value != 0.0 or here() != home:
                    return shared.unusual(value)
                shared.asked = (site, new_id)
                tally.calls += 1
                tally.seconds += clock() - began
                return weight * factor * value
            except BaseException as error:
                shared.keep(error)
                return REFUSED

        return change_energy

    def _make_watcher(self) -> Callable[[], None]:
        get_point, get_new = self._change_wrapper.getChangePoint, self._change_wrapper.getNewCell
        shared, tally, written = self, self.tally, self.written

        def field_change() -> None:
            if not shared.following:
                return
            try:
                point, cell = get_point(), get_new()
                height, width = shared.shape[-2:]
                change = ((point.z * height + point.y) * width + point.x, 0 if cell is None else cell.id)
                if change == shared.asked:
                    shared.asked = NOTHING_ASKED
                    shared.commit(*change)
                    tally.accepted += 1
                else:  # no answer of ours was accepted: someone writes the lattice
                    site, new_id = change
                    written[site] = new_id
                    if shared.error is None:
                        shared.hold()
            except BaseException as error:
                shared.keep(error)

        return field_change


class Callee:
    """An object whose one method is a function of its own: CC3D finds it by name at every call."""

    changeEnergy: Callable[[], float]
    field3DChange: Callable[[], None]
