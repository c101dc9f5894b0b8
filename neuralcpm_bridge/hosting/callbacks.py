"""Answers for a host that calls a thousand times per Monte Carlo step and must never see an exception.

What goes wrong in a callback is kept and raised at the next safe point; until then every copy is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf
from threading import get_ident
from typing import Any

from ..errors import UserError

REFUSED = 1e30
"""ΔH of a copy that must not happen: large and finite, for hosts add other terms to it."""
NOTHING_ASKED = (-1, -1)
"""Site and host id of the last proposal, when there is none."""

Delta = Callable[[int, int], float]
Commit = Callable[[int, int], None]


class Tally:
    """Counters since the last log line."""

    __slots__ = ("accepted", "calls", "seconds")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.calls = self.accepted = 0
        self.seconds = 0.0


class Callbacks(ABC):
    """What a host calls, and the policy behind it. A host's own class reads the arguments as that host gives them."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.error: BaseException | None = None
        self.factor = 1.0
        """What every ΔH of the model is multiplied with."""
        self.factors: tuple[dict[int, float], Callable[[float, float], float]] | None = None
        """Where amplitudes differ: a further factor of every host id, and how two make one."""
        self.written: dict[int, int] = {}
        """Pixels written outside the Metropolis algorithm: site → host id."""
        self.following = False
        """Whether the model has a lattice; before, every write will be seen when it is loaded."""
        self.before_next: Callable[[], None] = lambda: None
        """Called before the next ΔH after anything was written."""
        self.thread = 0
        self.shape: tuple[int, ...] = (0, 0)
        """Of the lattice that sites refer to."""
        self.asked = NOTHING_ASKED
        self.delta: Delta = _nothing_loaded
        self.commit: Commit = _nothing_loaded

    @abstractmethod
    def answer_with(self, answer: Callable[[], float]) -> None:
        """From now on the host's question goes to this function."""

    @abstractmethod
    def answering(self) -> Callable[[], float]:
        """The function that answers from the present `delta` and factors: fast, and never raising."""

    def serve(self, delta: Delta, commit: Commit, shape: tuple[int, ...]) -> None:
        """Answer with these, by site and host id, from now on."""
        self.delta, self.commit, self.shape = delta, commit, shape
        self.following = True
        if self.error is None:
            self.hold()

    def hold(self) -> None:
        """Ask `before_next` before the next ΔH is answered."""
        self.asked = NOTHING_ASKED
        self.answer_with(self._first)

    def keep(self, error: BaseException) -> None:
        """Remember the first thing that went wrong; nothing is accepted any more."""
        if self.error is None:
            self.error = error
        self.answer_with(_refuse)

    def unusual(self, value: float) -> float:
        """A forbidden extinction, an undefined ΔH or a second thread."""
        self.tally.calls += 1
        if get_ident() != self.thread:
            self.keep(
                UserError(
                    "The Potts algorithm has begun to run on several work nodes, but a learned term sees farther than "
                    "their sections: keep the number of work nodes at 1."
                )
            )
        elif value != inf:
            self.keep(UserError("The model's ΔH is not a number: its weights are out of range, export it again."))
        return REFUSED

    def _first(self) -> float:
        try:
            self.before_next()
            self.thread = get_ident()
            if self.error is not None:
                return REFUSED
            answer = self.answering()
            self.answer_with(answer)
            return answer()
        except BaseException as error:
            self.keep(error)
            return REFUSED


def _refuse() -> float:
    return REFUSED


def _nothing_loaded(site: int, host_id: int) -> Any:
    raise RuntimeError("no lattice has been loaded yet")
