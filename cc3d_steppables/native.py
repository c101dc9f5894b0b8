"""CC3D's compiled code asks the engine itself: one call of a C++ function per attempted copy, no Python in between.

CC3D wants objects of its classes EnergyFunction and CellGChangeWatcher and calls one virtual function of each. Such an
object is memory that begins with the address of a table of functions; which place of the table CC3D calls, and how it
passes points and cells, is found out by letting CC3D call a table of probes. Where anything is other than expected
there is no native way, and the callbacks in Python serve (callbacks.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neuralcpm_bridge._engine import HostCalls
from neuralcpm_bridge._engine import Mirror as EngineMirror
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.callbacks import Scaling, Tally
from neuralcpm_bridge.hosting.facts import HostCell
from neuralcpm_bridge.hosting.mirror import Mirror

PLACES = 16
"""Of a table: more than CC3D's classes have virtual functions."""
PROBED_POINT = (3, 5, 7)
Function = ctypes.CFUNCTYPE(
    ctypes.c_double, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int16), ctypes.c_void_p, ctypes.c_void_p
)
BeforeNext = ctypes.CFUNCTYPE(ctypes.c_int)


class NativeCallbacks:
    """Answers for CC3D's compiled code; see `Answering`. Cells are known by their addresses."""

    def __init__(self, places: tuple[int, int], pointers: tuple[Any, Any]) -> None:
        """`places` of the tables that CC3D calls for an energy and for a change, and its `pointers` to such objects."""
        self.before_next: Callable[[], None] = lambda: None
        self._error: BaseException | None = None
        self._called_back = BeforeNext(self._first)  # the engine holds its address only
        self.calls = HostCalls(_address(self._called_back))
        self.objects = [
            self.calls.object([entry if place == called else HostCalls.ignore_entry for place in range(PLACES)])
            for called, entry in zip(places, (HostCalls.answer_entry, HostCalls.change_entry), strict=True)
        ]
        self._pointers = pointers

    def pointers(self) -> tuple[Any, Any]:
        """What Potts registers: the energy and the watcher."""
        for pointer, address in zip(self._pointers, self.objects, strict=True):
            redirect(pointer, address)
        return self._pointers

    @property
    def error(self) -> BaseException | None:
        if self._error is None and self.calls.error:
            self._error = UserError(self.calls.error)
        return self._error

    def serve(self, mirror: Mirror, cells: Sequence[HostCell], scaling: Scaling) -> None:
        assert isinstance(mirror.copy, EngineMirror)
        factors = scaling.factors
        self.calls.serve(
            mirror.copy,
            np.array([cell.address for cell in cells], dtype=np.int64),
            np.array([cell.id for cell in cells], dtype=np.int64),
            np.ones(len(cells)) if factors is None else np.array([factors[cell.id] for cell in cells], dtype=float),
            factor=scaling.factor,
            combine="" if factors is None else scaling.combine,
            temperature=scaling.temperature,
            committee=scaling.committee,
            shrink=scaling.shrink,
        )

    def hold(self) -> None:
        self.calls.hold()

    def has_written(self) -> bool:
        return self.calls.has_written

    def written(self, cells: Sequence[HostCell]) -> dict[int, int]:
        """A cell that is gone by now has no pixel left, so the last write of every site is that of a living one."""
        found = self.calls.written()
        if not found:
            return found
        ids = {0: 0} | {cell.address: cell.id for cell in cells}
        return {site: ids[address] for site, address in found.items() if address in ids}

    def forget_written(self) -> None:
        self.calls.forget_written()

    def take_tally(self) -> Tally:
        return Tally(*self.calls.take_tally())

    def _first(self) -> int:
        try:
            self.before_next()
            return 1
        except BaseException as error:
            self._error = self._error or error
            return 0


def native_callbacks(compucell: Any, potts: Any) -> NativeCallbacks | None:
    """The native way with this CompuCell3D (its module `cc3d.cpp.CompuCell`) and Potts; None where there is none."""
    try:
        energy = _energy_pointer(compucell)
        change = compucell.ChangeWatcherPyWrapper().getChangeWatcherPyWrapperPtr()
        energy_place = _found_place(compucell, energy, _asking_calculator(compucell, potts))
        change_place = _found_place(compucell, change, lambda pointer, *args: pointer.field3DChange(*args))
        if energy_place is None or change_place is None:
            return None
        return NativeCallbacks((energy_place, change_place), (energy, change))
    except (AttributeError, TypeError, ValueError, NotImplementedError):  # another CompuCell3D than those we know
        return None


def _energy_pointer(compucell: Any) -> Any:
    return compucell.EnergyFunctionPyWrapper().getEnergyFunctionPyWrapperPtr()


def _asking_calculator(compucell: Any, potts: Any) -> Callable[..., float]:
    """CC3D's own loop over energies, with none but the one to be probed."""

    def ask(pointer: Any, point: Any, new: Any, old: Any) -> float:
        calculator = compucell.EnergyFunctionCalculator()
        calculator.setPotts(potts)
        calculator.registerEnergyFunctionWithName(pointer, "neuralcpm_probe")
        return float(calculator.changeEnergy(point, new, old, 0))

    return ask


def _found_place(compucell: Any, pointer: Any, ask: Callable[..., float | None]) -> int | None:
    """The place of the table that CC3D calls; None unless it passes what the engine reads and takes what it answers."""
    heard: list[tuple[int, tuple[int, ...], int | None, int | None]] = []

    def probe(place: int) -> Any:
        def called(_object: int, point: Any, new: int | None, old: int | None) -> float:
            heard.append((place, tuple(point[:3]), new, old))
            return 0.5 + place

        return Function(called)

    probes = [probe(place) for place in range(PLACES)]
    table = (ctypes.c_void_p * PLACES)(*(_address(function) for function in probes))
    memory = (ctypes.c_void_p * 2)(ctypes.addressof(table), None)
    genuine = _swig(pointer)
    redirect(pointer, ctypes.addressof(memory))
    try:
        new, old = compucell.CellG(), compucell.CellG()
        answer = ask(pointer, compucell.Point3D(*PROBED_POINT), new, old)
    finally:
        redirect(pointer, genuine)
    if len(heard) != 1:
        return None
    place, point, got_new, got_old = heard[0]
    expected = (PROBED_POINT, _swig(new), _swig(old))
    return place if (point, got_new, got_old) == expected and answer in (None, 0.5 + place) else None


def redirect(pointer: Any, address: int) -> None:
    """Let one of SWIG's pointers lead to another place."""
    swig = getattr(pointer, "this", pointer)
    place = ctypes.c_void_p.from_address(id(swig) + object.__basicsize__)
    if place.value != int(swig):
        raise NotImplementedError("this SWIG keeps pointers elsewhere")
    place.value = address


def _swig(proxy: Any) -> int:
    """The address behind one of SWIG's objects."""
    return int(getattr(proxy, "this", proxy))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
