"""Distilling: the energies that stock simulators know, fitted to a learned model's ΔH and judged by their runs.

NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable

from ..artifact import Artifact
from ..snapshots import Snapshots
from .behaviour import Behaviour, Judge, Runs
from .fit import Problem, fitted
from .refine import refined
from .report import report_json, report_text
from .result import Distilled, distill, named
from .sampling import FlipSample, sample_flips

__all__ = [
    "Behaviour",
    "Distilled",
    "FlipSample",
    "Runs",
    "distill",
    "distill_by_runs",
    "report_json",
    "report_text",
    "sample_flips",
]


def distill_by_runs(
    samples: list[FlipSample],
    artifact: Artifact,
    data: Snapshots,
    runs: Runs,
    *,
    simple: bool = False,
    host: str = "morpheus",
    tell: Callable[[str], None] = lambda message: None,
) -> tuple[Distilled, Behaviour]:
    """`distill`, compared with the model by runs; what its fit to copies loses is sought by a fit to runs."""
    problem = Problem(samples, artifact.metadata)
    fit = fitted(problem, artifact.metadata, simple, host)
    result, judge = named(problem, fit, artifact.metadata), Judge(artifact, data, runs, tell)
    behaviour = judge.compare(result)
    if behaviour.verdict != "good":
        tell("runs to fit to")
        better = refined(
            problem, fit, artifact, data, runs, lambda done, total: tell(f"fit to runs, {done} of {total}")
        )
        result = named(problem, better, artifact.metadata)
        result.refined = True
        behaviour = judge.compare(result)
    return result, behaviour
