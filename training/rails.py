"""What tells that a run has left the rails, and the last good weights to go back to.

A large gap between chains and data is no divergence by itself: chains that are slow to follow have one. Falling
acceptance is, and so are odds that jump within one step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from .config import RunSection

PATIENCE = 3
"""Steps in a row that must look wrong: one odd batch is no divergence."""
JUMP = 2.0
"""By which the mean loss may grow within a round: a step or two made data seven times less likely."""
FREEZING = 0.4
"""Share of the acceptance that chains had at first, below which they freeze."""
FIRST_ROUNDS = 12
"""Over which that acceptance is taken; their later half, when chains have left their starts."""


@dataclass
class Rails:
    """Judges steps by the limits of a run and by how it began."""

    limits: RunSection
    odds: bool
    """Whether losses are odds (the conditional objective), which tell of jumps."""
    suspicious: int = 0
    first_loss: float | None = None
    """Of the round; members of a committee that disagree have large ones without anything being wrong."""
    acceptances: list[float] = field(default_factory=list)

    def new_round(self, acceptance: float) -> None:
        self.first_loss = None
        if len(self.acceptances) < FIRST_ROUNDS:
            self.acceptances.append(acceptance)

    @property
    def usual_acceptance(self) -> float | None:
        """What chains accepted when the run began; None as long as it is not known."""
        if len(self.acceptances) < FIRST_ROUNDS:
            return None
        return float(np.median(self.acceptances[FIRST_ROUNDS // 2 :]))

    def trouble(self, loss: float, gap: float, acceptance: float) -> str | None:
        """What is wrong after a step, in words, once it has been wrong for a while."""
        first = self.first_loss is None
        found = self._looks_wrong(loss, gap, acceptance)
        if found:
            self.suspicious += 1
        elif not first:  # the first step of a round cannot jump, so it clears nobody
            self.suspicious = 0
        return found if found and (self.suspicious >= PATIENCE or not math.isfinite(loss)) else None

    def _looks_wrong(self, loss: float, gap: float, acceptance: float) -> str | None:
        usual = self.usual_acceptance
        if not math.isfinite(loss) or abs(gap) > self.limits.max_gap:
            return f"energies ran away (loss {loss:.3g}, gap {gap:.3g})"
        if self.first_loss is None:
            self.first_loss = loss
        if self.odds and loss > self.first_loss + JUMP:
            return f"the odds of the data jumped (loss {loss:.3g} after {self.first_loss:.3g})"
        if acceptance < self.limits.min_acceptance or (usual is not None and acceptance < FREEZING * usual):
            before = "" if usual is None else f" after {usual:.2%}"
            return f"chains froze (acceptance {acceptance:.2%}{before})"
        return None
