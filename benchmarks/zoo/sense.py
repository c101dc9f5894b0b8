"""What `neuralcpm fit` makes of data that hold no mechanism: a usable model or a clear sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.metrics import p_unfragmented, p_volume, volume_range
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots
from neuralcpm_bridge.state import CellState

from .fits import Fitted, fit
from .nonsense import data_file, ring
from .statistics import mean_and_error

STATES, COPIES = 16, 500
"""States, and copies in each, whose acceptance is looked at."""


def judged(name: str, folder: Path) -> dict[str, Any]:
    """One line: how the fit ended, and what the data set is there to ask."""
    data = data_file(name, folder)
    fitted = fit(data, folder / "runs" / name, seed=0)
    found: dict[str, Any] = {
        "data": name,
        "code": fitted.code,
        "minutes": fitted.minutes,
        "processor_minutes": fitted.processor_minutes,
        "said": fitted.found.get("verdict", fitted.said),
    }
    if fitted.code:
        return found
    return found | usable(fitted, load_snapshots(data), with_ring=name == "ring")


def usable(fitted: Fitted, data: Snapshots, with_ring: bool) -> dict[str, Any]:
    """Whether the model's cells hold together, and how much its learned term does."""
    samples = {"closure": fitted.samples("samples"), "baseline": fitted.samples("samples-baseline")}
    # a fit may have made cells coarser: then their volumes are others
    same = samples["closure"].lattice.shape == data.lattice.shape
    allowed = volume_range(data) if same else volume_range(samples["baseline"])
    found: dict[str, Any] = {
        "p_volume": {name: p_volume(states, allowed) for name, states in samples.items()},
        "p_unfragmented": {name: p_unfragmented(states) for name, states in samples.items()},
        "acceptance_change": acceptance_change(fitted.folder / "model.onnx", samples["baseline"]),
    }
    if with_ring:
        sets = {"data": data, **samples}
        found["ring"] = {name: list(mean_and_error(ring(states))) for name, states in sets.items()}
    return found


def acceptance_change(model: Path, states: Snapshots) -> dict[str, float]:
    """How much the learned term changes the probability that a copy is accepted: mean and largest of many copies."""
    artifact, random = load_artifact(model), np.random.default_rng(0)
    placed = [artifact.place(state) for state in list(states)[:STATES]]
    backend = open_backend(artifact, placed[0])
    changes = []
    for state in placed:
        backend.reset(state)
        sites, new = _copies(state, random)
        deltas = np.asarray(backend.deltas(sites, new)) / artifact.metadata.temperature
        alone, whole = (np.exp(-np.maximum(energy, 0)) for energy in (deltas[:, 0], deltas.sum(axis=1)))
        changes.append(np.abs(whole - alone))
    every = np.concatenate(changes)
    return {"mean": float(every.mean()), "largest": float(every.max())}


def _copies(state: CellState, random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Sites and ids of neighbours, as hosts propose them."""
    flat = state.ids.ravel()
    around = state.lattice.neighbours(state.lattice.geometry.moore_order)
    sites, column = np.nonzero((around >= 0) & (flat[around] != flat[:, None]))
    new = flat[around[sites, column]]
    allowed = np.flatnonzero((flat[sites] == 0) | (state.volumes[flat[sites]] > 1))
    chosen = random.choice(allowed, min(COPIES, allowed.size), replace=False)
    return sites[chosen], new[chosen]


def table(results: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| data | ended | minutes (CPU) | p_volume | p_unfragmented | acceptance changed by: mean, most | said |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in results:
        ended = "model" if each["code"] == 0 else f"exit code {each['code']}"
        shares = [f"{each[key]['closure']:.2f}" if key in each else "" for key in ("p_volume", "p_unfragmented")]
        change = each.get("acceptance_change")
        said = each["said"]
        if "ring" in each:
            said += " Ring: " + ", ".join(f"{name} {m:.3f} ± {e:.3f}" for name, (m, e) in each["ring"].items()) + "."
        changed = f"{change['mean']:.3f}, {change['largest']:.3f}" if change else ""
        minutes = f"{each['minutes']:.1f} ({each['processor_minutes']:.1f})"
        lines.append(f"| {each['data']} | {ended} | {minutes} | {' | '.join(shares)} | {changed} | {said} |")
    return "\n".join(lines)
