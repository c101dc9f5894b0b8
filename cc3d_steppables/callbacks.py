"""The two functions CC3D calls a thousand times per Monte Carlo step, in Python.

The way of models that the engine does not serve, and of a CompuCell3D whose compiled code cannot ask the engine itself
(native.py). CC3D calls them without arguments and dies of any exception, so they read their arguments from its wrapper
objects, never raise, and keep what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import thread_time
from typing import Any

from neuralcpm_bridge.hosting.callbacks import NOTHING_ASKED, REFUSED, TIMED_EVERY, Callbacks
from neuralcpm_bridge.hosting.facts import AMPLITUDES


class CC3DCallbacks(Callbacks):
    """`energy.changeEnergy` and `watcher.field3DChange` for CC3D to call."""

    def __init__(self, energy_wrapper: Any, change_wrapper: Any) -> None:
        """The wrappers are CC3D's (or stand-ins with `getChangePoint`, `getNewCell`, `getOldCell`)."""
        super().__init__()
        self.energy, self.watcher = Callee(), Callee()
        self._energy_wrapper, self._change_wrapper = energy_wrapper, change_wrapper
        self.watcher.field3DChange = self._field_change
        self.hold()

    def pointers(self) -> tuple[Any, Any]:
        """What Potts registers: the energy and the watcher."""
        self._energy_wrapper.registerPyEnergyFunction(self.energy)
        self._change_wrapper.registerPyChangeWatcher(self.watcher)
        return (
            self._energy_wrapper.getEnergyFunctionPyWrapperPtr(),
            self._change_wrapper.getChangeWatcherPyWrapperPtr(),
        )

    def answer_with(self, answer: Callable[[], float]) -> None:
        self.energy.changeEnergy = answer

    def answering(self) -> Callable[[], float]:
        get_point, get_new = self._energy_wrapper.getChangePoint, self._energy_wrapper.getNewCell
        delta, factor_of, (height, width) = self.delta, self._factor(), self.shape[-2:]
        tally, home, here, shared, shrinking = self.tally, self.thread, get_ident, self, self.scaling.shrink > 0

        def answer() -> float:
            point, cell = get_point(), get_new()
            new_id = 0 if cell is None else cell.id
            site = (point.z * height + point.y) * width + point.x
            value = delta(site, new_id)
            if value - value != 0.0 or here() != home:
                return shared.unusual(value)
            shared.asked = (site, new_id)
            if shrinking:
                value = shared.shrunk(value, site, new_id)
            return factor_of(cell) * value

        def change_energy() -> float:
            try:
                tally.calls += 1
                if tally.calls % TIMED_EVERY:
                    return answer()
                began = thread_time()
                value = answer()
                tally.seconds += thread_time() - began
                tally.timed += 1
                return value
            except BaseException as error:
                shared.keep(error)
                return REFUSED

        return change_energy

    def _factor(self) -> Callable[[Any], float]:
        """The factor of a copy of a cell (None: the medium) into what is there."""
        weight, factors = self.scaling.factor, self.scaling.factors
        if factors is None:
            return lambda new: weight
        get_old, combine = self._energy_wrapper.getOldCell, AMPLITUDES[self.scaling.combine]

        def factor_of(new: Any) -> float:
            old = get_old()
            if new is None or old is None:
                return weight * factors[(old if new is None else new).id]
            return weight * combine(factors[new.id], factors[old.id])

        return factor_of

    def _field_change(self) -> None:
        if not self.following:
            return
        try:
            point, cell = self._change_wrapper.getChangePoint(), self._change_wrapper.getNewCell()
            height, width = self.shape[-2:]
            site, new_id = (point.z * height + point.y) * width + point.x, 0 if cell is None else cell.id
            if (site, new_id) == self.asked:
                self.asked = NOTHING_ASKED
                self.accepted(site, new_id)
            else:  # no answer of ours was accepted: someone writes the lattice
                self.pixels[site] = new_id
                if self.error is None:
                    self.hold()
        except BaseException as error:
            self.keep(error)


class Callee:
    """An object whose one method is a function of its own: CC3D finds it by name at every call."""

    changeEnergy: Callable[[], float]
    field3DChange: Callable[[], None]
