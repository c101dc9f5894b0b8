"""A distilled model judged by what it does: runs of it beside the model's own, from cells scattered as single pixels.

A network may add little to most copies and yet be all that makes cells long: how much of ΔH a fit explains does not say
what becomes of the tissue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .._engine import Model
from ..artifact import Artifact, Metadata, SymbolicSpec, architecture_name
from ..metrics.comparing import Measured, comparable_measures
from ..sampling import GROWTH_MCS, sample_from_mixed
from ..snapshots import Snapshots
from ..terms import Values, described_terms
from .result import Distilled

STANDARD_ERRORS = 3
"""By how many of them a measure may differ for want of runs, and must differ for the network to be there for it: of
some thirty measures none should do so by chance."""
VISIBLE = 0.05
"""Share of a measure's value below which nobody sees a difference."""
MAY_BE_LOST = 0.2
"""Share of what the network changes that a good distillation may lose, or overdo."""
HALF = 0.5

Verdict = Literal["good", "partly", "lost"]


@dataclass(frozen=True)
class Runs:
    """How many runs, how long after their cells have grown, from which seed, on how many threads."""

    replicates: int
    mcs: int
    seed: int = 0
    threads: int = 1

    def of(self, artifact: Artifact, data: Snapshots, stream: int = 0) -> Snapshots:
        """Other streams are other random numbers."""
        seed = self.seed + 1000 * stream
        return sample_from_mixed(artifact, data, self.replicates, self.mcs, seed=seed, threads=self.threads)


@dataclass(frozen=True)
class Compared:
    """One measure of the model, of its distillation, and of the model without its network, where that can run."""

    model: Measured
    distilled: Measured
    without: Measured | None

    @property
    def change(self) -> float:
        """What the network does to the measure, 0 where that is not known."""
        return 0.0 if self.without is None else self.model.mean - self.without.mean

    @property
    def certainty(self) -> float:
        """That change in standard errors."""
        noise = 0.0 if self.without is None else float(np.hypot(self.model.error, self.without.error))
        return abs(self.change) / max(noise, 1e-12)

    @property
    def matters(self) -> bool:
        """Whether the network surely changes it, so far that half of the change would still be seen."""
        return self.certainty > STANDARD_ERRORS and HALF * abs(self.change) > VISIBLE * abs(self.model.mean)

    @property
    def kept(self) -> float:
        """Share of that change which the distilled model shows."""
        assert self.without is not None
        return (self.distilled.mean - self.without.mean) / self.change

    @property
    def holds(self) -> bool:
        """Whether the distilled model does what the model does, but for noise and what nobody sees."""
        allowed = max(MAY_BE_LOST * abs(self.change), VISIBLE * abs(self.model.mean))
        noise = STANDARD_ERRORS * float(np.hypot(self.model.error, self.distilled.error))
        return abs(self.distilled.mean - self.model.mean) <= allowed + noise


@dataclass(frozen=True)
class Behaviour:
    """All measures by their titles."""

    measures: dict[str, Compared]
    runs: Runs

    @property
    def mattering(self) -> dict[str, Compared]:
        """What the network is there for, the surest change first."""
        found = {title: row for title, row in self.measures.items() if row.matters}
        return dict(sorted(found.items(), key=lambda entry: -entry[1].certainty))

    @property
    def wrong(self) -> dict[str, Compared]:
        return {title: row for title, row in self.measures.items() if not row.holds}

    @property
    def verdict(self) -> Verdict:
        if not self.wrong:
            return "good"
        lost = any(row.kept < HALF for title, row in self.mattering.items() if title in self.wrong)
        return "lost" if lost or not self.mattering else "partly"

    def json(self) -> dict[str, Any]:
        measures = {}
        for title, row in self.measures.items():
            entry: dict[str, Any] = {"model": list(row.model), "distilled": list(row.distilled), "holds": row.holds}
            if row.without is not None:
                entry |= {"analytic_part": list(row.without), "kept": row.kept if row.matters else None}
            measures[title] = entry
        return {
            "replicates": self.runs.replicates,
            "mcs": GROWTH_MCS + self.runs.mcs,
            "verdict": self.verdict,
            "kept": {title: row.kept for title, row in self.mattering.items()},
            "measures": measures,
        }


class Judge:
    """Runs of a model and of its analytic part, made once; distillations are compared with them."""

    def __init__(
        self, artifact: Artifact, data: Snapshots, runs: Runs, tell: Callable[[str], None] = lambda message: None
    ) -> None:
        self.artifact, self.data, self.runs, self.tell = artifact, data, runs, tell
        tell("runs of the model")
        self.model = comparable_measures(runs.of(artifact, data), data)
        self.without: dict[str, Measured] | None = None
        alone = analytic_part(artifact)
        if alone is not None:
            tell("runs of its analytic part alone")
            self.without = comparable_measures(runs.of(alone, data), data)

    def compare(self, result: Distilled) -> Behaviour:
        self.tell("runs of the distilled model")
        model = in_memory(result.terms, result.orders, self.artifact.metadata)
        distilled = comparable_measures(self.runs.of(model, self.data), self.data)
        titles = [title for title in self.model if title in distilled]
        if self.without is not None:
            titles = [title for title in titles if title in self.without]
        rows = {
            title: Compared(self.model[title], distilled[title], self.without[title] if self.without else None)
            for title in titles
        }
        return Behaviour(rows, self.runs)


def in_memory(terms: dict[str, Values], orders: dict[str, int], meta: Metadata) -> Artifact:
    """A model of such terms in place of another one's, not yet a file."""
    weights = {f"symbolic.{term}.{key}": value for term, values in terms.items() for key, value in values.items()}
    spec = SymbolicSpec(weight=1.0, terms=described_terms(weights, orders))
    more = {"symbolic.weight": np.array(1.0), "symbolic.offset": np.array(0.0)}
    return _artifact(meta, spec, weights | more)


def analytic_part(artifact: Artifact) -> Artifact | None:
    """A closure without its network; None where a model has no such part, or nothing else."""
    meta = artifact.metadata
    if meta.symbolic is None or meta.neural is None or not {"contact", "volume"} & meta.symbolic.terms.keys():
        return None
    weights = {key: value for key, value in artifact.weights.items() if key.startswith("symbolic.")}
    return _artifact(meta, meta.symbolic, weights)


def _artifact(meta: Metadata, spec: SymbolicSpec, weights: dict[str, Any]) -> Artifact:
    analytic = Metadata(
        name=meta.name,
        architecture=architecture_name(set(spec.terms), None),
        parameters=0,
        types=meta.types,
        cells=meta.cells,
        fixed_lattice=meta.fixed_lattice if "external" in spec.terms else None,
        lattice=meta.lattice,
        temperature=meta.temperature,
        extinction=meta.extinction,
        symbolic=spec,
    )
    return Artifact(Path("memory.onnx"), analytic, Model(analytic.model_dump_json(), weights))
