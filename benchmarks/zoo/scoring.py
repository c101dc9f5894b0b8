"""How much of a mechanism a model has learned: its statistic on fresh samples, between none (0) and the truth (1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neuralcpm_bridge.metrics import p_unfragmented, p_volume, volume_range
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

from .data import reference, without_mechanism
from .fits import Fitted
from .mechanisms import Mechanism
from .statistics import mean_and_error, per_state

ENOUGH, TOO_MUCH = 0.8, 1.2
"""Shares of a mechanism that count as learned."""
WHOLE = 0.95
"""Least p_volume and p_unfragmented of a usable model."""
FAR = 2.0
"""Standard errors that count as a difference."""


class Value(NamedTuple):
    """A mean over states and its standard error."""

    mean: float
    error: float


def measured(mechanism: Mechanism, states: Snapshots) -> Value:
    return Value(*mean_and_error(per_state(mechanism.statistic, states)))


def share(value: Value, none: Value, truth: Value) -> Value:
    """(value − none) / (truth − none), with the errors of all three."""
    whole = truth.mean - none.mean
    part = (value.mean - none.mean) / whole
    errors = (value.error, (1 - part) * none.error, part * truth.error)
    return Value(part, float(np.sqrt(np.sum(np.square(errors))) / abs(whole)))


def row(mechanism: Mechanism, seed: int, data_file: Path, fitted: Fitted) -> dict[str, Any]:
    """One line of the results; a fit that ended without a model has `failed` instead of figures."""
    start: dict[str, Any] = {
        "mechanism": mechanism.name,
        "seed": seed,
        "minutes": fitted.minutes,
        "processor_minutes": fitted.processor_minutes,
    }
    if fitted.code:
        return start | {"failed": fitted.said or f"exit code {fitted.code}"}
    found, data = fitted.found, load_snapshots(data_file)
    keep = ("verdict", "sample_mcs", "members", "rounds", "steps", "events", "misfit", "reproduced")
    samples = {"closure": fitted.samples("samples"), "baseline": fitted.samples("samples-baseline")}
    values = {name: measured(mechanism, states) for name, states in samples.items()}
    references = truths(mechanism, data, int(found["sample_mcs"]), data_file.parent)
    none, truth = references["none"], references["truth"]
    shares = {name: share(value, none, truth) for name, value in values.items()}
    allowed = volume_range(data)
    return {
        **start,
        **{key: found[key] for key in keep if key in found},
        "statistic": {name: list(value) for name, value in {**references, **values}.items()},
        "share": {name: list(value) for name, value in shares.items()},
        "p_volume": {name: p_volume(states, allowed) for name, states in samples.items()},
        "p_unfragmented": {name: p_unfragmented(states) for name, states in samples.items()},
        "worse_than_baseline": worse(values["closure"], values["baseline"], truth),
    }


def truths(mechanism: Mechanism, data: Snapshots, mcs: int, folder: Path) -> dict[str, Value]:
    """The statistic of the data, of no mechanism, and of what a perfect model would show after so many steps.

    That is the data's, unless the true energy itself, run as long from scattered cells, does not get there.
    """
    of_data, reached = measured(mechanism, data), measured(mechanism, reference(mechanism, mcs, folder))
    differs = abs(reached.mean - of_data.mean) > FAR * np.hypot(reached.error, of_data.error)
    return {
        "data": of_data,
        "none": measured(mechanism, without_mechanism(mechanism, mcs, folder)),
        "reached": reached,
        "truth": reached if differs else of_data,
    }


def worse(closure: Value, baseline: Value, truth: Value) -> bool:
    """Whether a closure is farther from the truth than the baseline, by more than chance."""
    farther = abs(closure.mean - truth.mean) - abs(baseline.mean - truth.mean)
    return bool(farther > FAR * np.hypot(closure.error, baseline.error))


def learned(result: dict[str, Any]) -> bool:
    """Whether one fit did what is asked of it."""
    return (
        "failed" not in result
        and ENOUGH <= result["share"]["closure"][0] <= TOO_MUCH
        and min(result["p_volume"]["closure"], result["p_unfragmented"]["closure"]) >= WHOLE
        and not result["worse_than_baseline"]
    )
