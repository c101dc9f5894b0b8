"""How like the data a model's samples are: every measure with its error, and what follows from them, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neuralcpm_bridge.metrics.comparing import (
    MEASURES,
    WITHIN,
    Measured,
    distance,
    is_share,
    measured,
    measures_by_state,
)
from neuralcpm_bridge.snapshots import Snapshots

NAMED = 4
"""Measures that a verdict names at most."""
VOLUME_OFF = 1.5
"""Factor between mean volumes of samples and data from which a model is not fit for use."""
MEAN_VOLUME = MEASURES["volume_mean"]
WHOLE = 0.95
"""Share of states with whole cells and the data's volumes below which a model is not fit for use."""


@dataclass(frozen=True)
class Judged:
    """Measures of one set of samples beside those of data, by title."""

    rows: dict[str, Measured]
    distances: dict[str, float]
    """From the data, in standard errors of both."""
    volume: float = 1.0
    """Mean volume over that of the data."""

    @property
    def reproduced(self) -> list[str]:
        return [title for title, distance in self.distances.items() if abs(distance) <= WITHIN]

    @property
    def missed(self) -> list[str]:
        """Farthest first."""
        far = [title for title, distance in self.distances.items() if abs(distance) > WITHIN]
        return sorted(far, key=lambda title: -abs(self.distances[title]))

    @property
    def misfit(self) -> float:
        """Mean square of the distances: about 1 for samples of the data's own distribution."""
        return float(np.mean([min(abs(d), 20.0) ** 2 for d in self.distances.values()]))

    @property
    def whole(self) -> bool:
        """Whether cells stay in one piece, as in the data, and keep their volumes; where the data's own are very
        different from each other, cells that all shrink would still be among them."""
        kept = 1 / VOLUME_OFF < self.volume < VOLUME_OFF
        return kept and all(row.mean >= WHOLE for title, row in self.rows.items() if is_share(title))


def rows_of(states: Snapshots, data: Snapshots) -> dict[str, Measured]:
    return {title: measured(values) for title, values in measures_by_state(states, data).items()}


def judge(samples: Snapshots, wanted: Mapping[str, Measured], data: Snapshots) -> Judged:
    """Samples beside the measures of states that the training never saw; `data`: for its range of volumes."""
    rows = rows_of(samples, data)
    distances = {title: distance(rows[title], wanted[title], title) for title in wanted if title in rows}
    return Judged(rows, distances, rows[MEAN_VOLUME].mean / wanted[MEAN_VOLUME].mean)


NOTHING = "Contact and volume energies describe these data: there is nothing to add, and the network is silent"
NO_BETTER = "A network came no nearer to the data than contact and volume energies alone, and is silent"
ALONE = "Contact and volume energies alone were fitted"
"""Why a closure adds nothing."""


def verdict(closure: Judged, baseline: Judged, why_silent: str | None, more: str | None) -> str:
    """What a biologist is told first."""
    count = len(closure.distances)
    if why_silent:
        said = [f"{why_silent}; {len(baseline.reproduced)} of {count} measures lie within two standard errors."]
        missed = baseline.missed
    else:
        said = [
            f"{len(closure.reproduced)} of {count} measures lie within two standard errors of the data; of the "
            f"baseline (contact and volume energies alone) {len(baseline.reproduced)}."
        ]
        missed = closure.missed
        worst = max(baseline.distances, key=lambda title: abs(baseline.distances[title]))
        left = abs(closure.distances[worst])
        said.append(
            f"What the baseline misses most: {worst}, by {abs(baseline.distances[worst]):.0f} standard errors; the "
            f"closure by {left:.{int(left < 10)}f}."
        )
    if missed:
        rest = f" and {len(missed) - NAMED} more" if len(missed) > NAMED else ""
        said.append(f"Not reproduced: {'; '.join(missed[:NAMED])}{rest}.")
    if not (baseline if why_silent else closure).whole:
        said.append("Cells do not stay whole or lose their volumes: do not use this model before it is trained longer.")
    if more is not None:
        said.append(f"More snapshots would help: {more}.")
    return " ".join(said)


def surprising(deviations: float, states: int) -> float:
    """The standard errors that are as improbable for a mean over few states as so many deviations of a normal one
    (Student's quantile by Cornish and Fisher's expansion)."""
    free, z = max(states - 1, 1), deviations
    return z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
