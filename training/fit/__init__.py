"""From a data set to a judged model, with no setting to tune (docs/fit.md).

`fit` reads the data, fits contact and volume energies, measures how long cells take to settle, trains an analytic
baseline and a committee of cell graphs as a closure, samples both from scattered starts and says how like the data they
are. What it chose is kept in `plan.json`, so that a run that was killed goes on as it began.
"""

from __future__ import annotations

from .analytic import Given
from .fitting import Fit, fit
from .task import Narrator, Wanted

__all__ = ["Fit", "Given", "Narrator", "Wanted", "fit"]
