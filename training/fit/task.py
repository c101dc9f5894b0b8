"""What a fit is asked for, the time it was given, and who is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .analytic import Given

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
