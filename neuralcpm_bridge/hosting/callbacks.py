"""Answers for a host that calls a thousand times per Monte Carlo step and must never see an exception.

What goes wrong in a callback is kept and raised at the next safe point; until then every copy is refused. A host whose
compiled code can ask the engine itself does so (`_engine.HostCalls`); here is the way through the interpreter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf
from threading import get_ident
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import UserError
from .facts import HostCell

if TYPE_CHECKING:
    from .mirror import Mirror

REFUSED = 1e30
"""ΔH of a copy that must not happen: large and finite, for hosts add other terms to it."""
NOTHING_ASKED = (-1, -1)
"""Site and host id of the last proposal, when there is none."""
TIMED_EVERY = 64
"""A look at the processor's clock costs as much as a small ΔH: one in so many answers is timed."""

Delta = Callable[[int, int], float]
Commit = Callable[[int, int], None]
Opinion = Callable[[int, int], tuple[float, float]]
Outside = Callable[[int, int], float]


@dataclass
class Tally:
    """Counters of an interval. Disagreements (in units of the training temperature) and weights: sums over accepted
    copies."""

    calls: int = 0
    accepted: int = 0
    timed: int = 0
    seconds: float = 0.0
    """Of processor time, of the `timed` calls."""
    disagreement: float = 0.0
    most: float = 0.0
    weight: float = 0.0

    def add(self, other: Tally) -> None:
        for name in (field.name for field in fields(self)):
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, max(mine, theirs) if name == "most" else mine + theirs)

    @property
    def each(self) -> float:
        """Seconds of processor time per call."""
        return self.seconds / self.timed if self.timed else 0.0


@dataclass(frozen=True)
class Scaling:
    """What a model's ΔH is multiplied with on its way to the host."""

    factor: float = 1.0
    factors: Mapping[int, float] | None = None
    """Where amplitudes differ: a further factor of every host id."""
    combine: str = ""
    """... and which of AMPLITUDES makes one of two."""
    temperature: float = 1.0
    """Of training: what disagreement is counted in."""
    committee: bool = False
    shrink: float = 0.0
    """Disagreement at which the network's part is halved; it also falls by the share of the copy's cells outside of the
    training data's range. 0: it stays."""


class Answering(Protocol):
    """What a host calls, as the adapter sees it."""

    before_next: Callable[[], None]
    """Called before the next ΔH after anything was written, and after `serve`."""

    @property
    def error(self) -> BaseException | None:
        """What went wrong first: from then on every copy is refused."""

    def serve(self, mirror: Mirror, cells: Sequence[HostCell], scaling: Scaling) -> None:
        """Answer with this from now on."""

    def hold(self) -> None:
        """Ask `before_next` before the next ΔH is answered."""

    def has_written(self) -> bool:
        """Whether anyone has written pixels outside the Metropolis algorithm."""

    def written(self, cells: Sequence[HostCell]) -> dict[int, int]:
        """Those pixels: site → host id."""

    def forget_written(self) -> None: ...

    def take_tally(self) -> Tally:
        """Counters since the last time."""


class Callbacks(ABC):
    """Answers through the interpreter. A host's own class reads the arguments as that host gives them."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._error: BaseException | None = None
        self.before_next: Callable[[], None] = lambda: None
        self.scaling = Scaling()
        self.pixels: dict[int, int] = {}
        """Written outside the Metropolis algorithm: site → host id."""
        self.following = False
        """Whether the model has a lattice; before, every write will be seen when it is loaded."""
        self.thread = 0
        self.shape: tuple[int, ...] = (0, 0)
        """Of the lattice that sites refer to."""
        self.asked = NOTHING_ASKED
        self.weight = 1.0
        """Of the network in the last answer."""
        self.delta: Delta = _nothing_loaded
        self.commit: Commit = _nothing_loaded
        self.opinion: Opinion = _nothing_loaded
        self.outside: Outside = _nothing_loaded

    @property
    def error(self) -> BaseException | None:
        return self._error

    @abstractmethod
    def answer_with(self, answer: Callable[[], float]) -> None:
        """From now on the host's question goes to this function."""

    @abstractmethod
    def answering(self) -> Callable[[], float]:
        """The function that answers from the present `delta` and scaling: fast, and never raising."""

    def serve(self, mirror: Mirror, cells: Sequence[HostCell], scaling: Scaling) -> None:
        assert mirror.lattice is not None
        self.delta, self.commit, self.opinion, self.outside = mirror.calls()
        self.shape, self.scaling = mirror.lattice.shape, scaling
        self.following = True
        if self.error is None:
            self.hold()

    def hold(self) -> None:
        self.asked = NOTHING_ASKED
        self.answer_with(self._first)

    def has_written(self) -> bool:
        return bool(self.pixels)

    def written(self, cells: Sequence[HostCell]) -> dict[int, int]:
        return self.pixels

    def forget_written(self) -> None:
        self.pixels.clear()

    def take_tally(self) -> Tally:
        taken = Tally(**vars(self.tally))
        vars(self.tally).update(vars(Tally()))
        return taken

    # -- for the functions that a host calls ---------------------------------------------------------------------

    def keep(self, error: BaseException) -> None:
        """Remember the first thing that went wrong; nothing is accepted any more."""
        if self._error is None:
            self._error = error
        self.answer_with(_refuse)

    def unusual(self, value: float) -> float:
        """A forbidden extinction, an undefined ΔH or a second thread."""
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

    def shrunk(self, value: float, site: int, host_id: int) -> float:
        """A ΔH whose network's part falls where members disagree (a copy and its reverse are weakened alike) and where
        cells are unlike the training data's."""
        mean, spread = self.opinion(site, host_id)
        doubt = spread / self.scaling.temperature / self.scaling.shrink
        self.weight = (1.0 - self.outside(site, host_id)) / (1.0 + doubt**2)
        return value - (1.0 - self.weight) * mean

    def accepted(self, site: int, host_id: int) -> None:
        """The last answer's copy was made."""
        tally = self.tally
        if self.scaling.committee:
            disagreement = self.opinion(site, host_id)[1] / self.scaling.temperature
            tally.disagreement += disagreement
            tally.most = max(tally.most, disagreement)
        tally.weight += self.weight
        tally.accepted += 1
        self.commit(site, host_id)

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
