"""What a model does not know, while a host runs it: members that disagree, cells unlike those it was trained on.

Disagreement is the standard deviation of what a committee's members say about a copy, in units of the temperature of
training: 1 makes an acceptance uncertain by a factor of e. It is taken over accepted copies.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..artifact import Artifact
from ..errors import UserError
from .callbacks import Tally

Policy = Literal["warn", "stop", "shrink"]
POLICIES = ("warn", "stop", "shrink")
INTERVAL = 20
"""Monte Carlo steps between two looks."""
MOST_LATTICES = 32
"""That are kept for retraining."""
TABLE, LATTICES, CHART = "uncertainty.csv", "uncertain.npz", "uncertainty.png"
COLUMNS = ("mcs", "disagreement", "disagreement_max", "outside", "weight", "uncertain")


@dataclass(frozen=True)
class Limits:
    """Above which a run is uncertain, and what is done then."""

    policy: Policy = "warn"
    disagreement: float = 1.0
    outside: float = 0.1

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise UserError(f"uncertain is {self.policy!r}, but {', '.join(POLICIES)} exist: choose one.")
        if not self.disagreement > 0:
            raise UserError(f"limit is {self.disagreement}, but a number above 0 is needed: 1 is the temperature.")
        if not 0 <= self.outside <= 1:
            raise UserError(f"outside_limit is {self.outside}, but a share of the cells from 0 to 1 is needed.")

    def options(self) -> list[str]:
        """As arguments in Python, those that are not the default."""
        default = Limits()
        chosen = (
            ("uncertain", self.policy, default.policy),
            ("limit", self.disagreement, default.disagreement),
            ("outside_limit", self.outside, default.outside),
        )
        return [f"{name}={value!r}" for name, value, usual in chosen if value != usual]

    def check(self, artifact: Artifact) -> None:
        network = artifact.metadata.neural
        if self.policy == "shrink" and (network is None or network.members == 1) and not artifact.ranges:
            raise UserError(
                "uncertain is 'shrink', but the model is no committee and does not know the range of its training "
                "data: use a cell graph, or 'warn'."
            )


@dataclass(frozen=True)
class Interval:
    """One look; None: the model cannot tell."""

    mcs: int
    disagreement: float | None
    disagreement_max: float | None
    outside: float | None
    weight: float
    """Mean over accepted copies of what `shrink` left of the network."""

    def exceeds(self, limits: Limits) -> bool:
        return (self.disagreement or 0.0) > limits.disagreement or (self.outside or 0.0) > limits.outside

    def sentence(self, limits: Limits | None = None) -> str:
        """What was found, with the limits where they are given; empty where the model cannot tell."""
        said = []
        if self.disagreement is not None:
            limit = f" (limit {limits.disagreement:g})" if limits else ""
            said.append(f"the members disagree by {self.disagreement:.2g} T on accepted copies{limit}")
        if self.outside is not None:
            limit = f" (limit {limits.outside:.0%})" if limits else ""
            said.append(f"{self.outside:.0%} of the cells lie outside of the training data's range{limit}")
        if self.weight < 1:
            said.append(f"weight {self.weight:.2f}")
        return ", ".join(said)


class Watch:
    """Looks at a model in a run: a table of intervals, and what the limits say."""

    def __init__(self, artifact: Artifact, limits: Limits, table: Path, say: Callable[[str], None]) -> None:
        limits.check(artifact)
        network = artifact.metadata.neural
        self.committee = network is not None and network.members > 1
        self.knows_range = bool(artifact.ranges)
        self.limits, self._table, self._say = limits, table, say
        self._uncertain = self._begun = self._failed = False

    def look(self, mcs: int, tally: Tally, cells: tuple[int, int]) -> Interval:
        """`cells`: those that are seen, and those of them outside of the range."""
        made = max(tally.accepted, 1)
        return Interval(
            mcs,
            tally.disagreement / made if self.committee else None,
            tally.most if self.committee else None,
            cells[1] / max(cells[0], 1) if self.knows_range else None,
            tally.weight / made if tally.accepted else 1.0,
        )

    def note(self, interval: Interval) -> bool:
        """Write it down; whether it is uncertain. Raises where that stops the run."""
        uncertain = interval.exceeds(self.limits)
        if self.committee or self.knows_range:
            self._write(interval, uncertain)
        first, self._uncertain = uncertain and not self._uncertain, uncertain
        sentence = f"MCS {interval.mcs} is uncertain: {interval.sentence(self.limits)}."
        if uncertain and self.limits.policy == "stop":
            raise UserError(f"{sentence} Retrain with lattices like these, or set uncertain='warn' to go on.")
        if first:
            self._say(f"WARNING: {sentence}")
        return uncertain

    def _write(self, interval: Interval, uncertain: bool) -> None:
        row = ["" if value is None else f"{value:.6g}" for value in (getattr(interval, name) for name in COLUMNS[:-1])]
        try:
            self._table.parent.mkdir(parents=True, exist_ok=True)
            with self._table.open("a" if self._begun else "w", encoding="utf-8", newline="") as stream:
                writer = csv.writer(stream)
                if not self._begun:
                    writer.writerow(COLUMNS)
                writer.writerow([*row, int(uncertain)])
            self._begun = True
        except OSError as error:  # no reason to end a simulation
            if not self._failed:
                self._say(f"{self._table} cannot be written ({error.strerror}): the table of uncertainty is left out.")
            self._failed = True


class Kept:
    """A few of many things, evenly spaced over all that came, without knowing how many will come."""

    def __init__(self, most: int = MOST_LATTICES) -> None:
        self.entries: list[Any] = []
        self._most, self._every, self._seen = most, 1, 0

    def wants(self) -> bool:
        """Whether the one that comes now is to be added."""
        wanted = self._seen % self._every == 0
        self._seen += 1
        return wanted

    def add(self, entry: Any) -> None:
        self.entries.append(entry)
        if len(self.entries) > self._most:
            self.entries, self._every = self.entries[::2], 2 * self._every


def read_table(file: Path) -> list[dict[str, float | None]]:
    """Rows of a run's table."""
    with file.open(encoding="utf-8", newline="") as stream:
        return [{name: float(text) if text else None for name, text in row.items()} for row in csv.DictReader(stream)]


def summary(rows: Sequence[dict[str, float | None]], lattices: str | None) -> dict[str, Any]:
    """A run in a few numbers; `lattices`: the file of uncertain ones, if there are."""
    uncertain = [int(row["mcs"] or 0) for row in rows if row["uncertain"]]

    def mean(name: str) -> float | None:
        values = [value for value in (row[name] for row in rows) if value is not None]
        return sum(values) / len(values) if values else None

    return {
        "intervals": len(rows),
        "uncertain": len(uncertain),
        "first_uncertain_mcs": uncertain[0] if uncertain else None,
        "disagreement": mean("disagreement"),
        "outside": mean("outside"),
        "file": lattices,
    }
