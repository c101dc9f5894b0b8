"""What many runs left: a table of them, one data set of all that ended well, a word about the others."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from neuralcpm_bridge.files import writing
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

from .plan import Outcome, Run

RUNS_FILE = "runs.csv"
SNAPSHOTS_FILE = "snapshots.npz"


def write_table(file: Path, outcomes: Sequence[Outcome]) -> None:
    """A line per run: its values and how it ended; `state` is waiting, done or failed."""
    keys = list(outcomes[0].run.values)
    with writing(file) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["run", "replicate", "seed", *keys, "state", "attempts", "seconds", "error"])
        for outcome in outcomes:
            run = outcome.run
            state = "failed" if outcome.error else "done" if outcome.attempts else "waiting"
            values = [run.values[key] for key in keys]
            ended = (state, outcome.attempts, f"{outcome.seconds:.3g}", outcome.error or "")
            rows.writerow([run.name, run.replicate, run.seed, *values, *ended])


def gather(folder: Path, outcomes: Sequence[Outcome]) -> Path | None:
    """One data set of all runs that ended well, with `run`, `replicate` and the scanned numbers of every state; None
    where no run left one, or where their lattices differ.
    """
    found = [(run, load_snapshots(file)) for run, file in _left(folder, outcomes)]
    if not found or any(snapshots.lattice != found[0][1].lattice for _, snapshots in found):
        return None
    columns: dict[str, list[Any]] = {"run": [], "replicate": []}
    for run, snapshots in found:
        for key, value in ({"run": run.number, "replicate": run.replicate} | _numbers(run)).items():
            columns.setdefault(key, []).extend([value] * len(snapshots))
        for key, values in snapshots.arrays.items():
            columns.setdefault(key, []).extend(values)
    states = [state for _, snapshots in found for state in snapshots]
    file = folder / SNAPSHOTS_FILE
    Snapshots.from_states(
        states,
        type_names=found[0][1].type_names,
        provenance={
            "runs": [{"run": run.number, "seed": run.seed, "values": run.values} for run, _ in found],
            "first": found[0][1].provenance,
        },
        arrays={key: np.array(values) for key, values in columns.items() if len(values) == len(states)},
    ).save(file)
    return file


def _left(folder: Path, outcomes: Sequence[Outcome]) -> list[tuple[Run, Path]]:
    """Runs that ended well, and the data sets they left."""
    files = [(outcome.run, folder / outcome.run.name / SNAPSHOTS_FILE) for outcome in outcomes if outcome.error is None]
    return [(run, file) for run, file in files if file.is_file()]


def _numbers(run: Run) -> dict[str, float]:
    """Scanned values that are numbers, by names that a data set's file can have."""
    numbers = {}
    for key, value in run.values.items():
        with suppress(ValueError):
            numbers[re.sub(r"\W+", "_", key).strip("_")] = float(value)
    return numbers


def summary(outcomes: Sequence[Outcome], file: Path | None, folder: Path) -> str:
    """How it went, the failed ones by name."""
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    where = f", gathered in {file}" if file is not None else ""
    lines = [f"{len(outcomes) - len(failed)} of {len(outcomes)} runs finished{where}; table: {folder / RUNS_FILE}."]
    alone = [file for _, file in _left(folder, outcomes)]
    if file is None and alone:
        lines.append(f"Their lattices differ, so every run keeps its own states: {alone[0]} and so on.")
    lines += [f"{outcome.run} failed {outcome.attempts} times: {outcome.error}" for outcome in failed]
    return "\n".join(lines)
