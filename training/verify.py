"""All back ends of a model against float64 torch on random flips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.state import CellState

from .backend import TorchBackend

MISMATCH_ALLOWED = 1e-4


def acceptance(delta: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Metropolis' p = min(1, e^{−ΔH/T})."""
    return np.exp(-np.maximum(delta, 0.0) / temperature)


def random_flips(state: CellState, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`[count, 3]` row, col, new id: copies of a Moore neighbour across a boundary, one in eight of any cell."""
    height, width = state.shape
    boundary = np.argwhere(state.boundary())
    if not len(boundary):
        boundary = np.argwhere(np.ones(state.shape, dtype=bool))
    sites = boundary[rng.integers(len(boundary), size=count)]
    steps = rng.integers(-1, 2, size=(count, 2))
    new_ids = state.ids[tuple(((sites + steps) % (height, width)).T)].astype(np.int64)
    exists = np.flatnonzero(state.types >= 0)
    anywhere = rng.random(count) < 1 / 8
    new_ids[anywhere] = rng.choice(exists, size=int(anywhere.sum()))
    return np.column_stack([sites, new_ids])


def verify_backends(artifact: Artifact, states: Sequence[CellState], flips: int, seed: int) -> dict[str, Any]:
    """`{"ok", "flips", "backends": {name: {"max_abs_error", "decision_mismatch"}}}`."""
    if not states:
        raise UserError(f"{artifact.path} holds no example states: give some with --states.")
    rng = np.random.default_rng(seed)
    temperature = artifact.metadata.temperature
    backends = ["engine", "onnxruntime"] if artifact.engine_serves else ["onnxruntime"]
    errors: dict[str, list[NDArray[np.float64]]] = {name: [] for name in backends}
    mismatches: dict[str, list[NDArray[np.float64]]] = {name: [] for name in backends}
    scale = 0.0
    exact = TorchBackend.exact(artifact, states[0])
    served = {name: open_backend(artifact, states[0], prefer=name) for name in backends}
    for number, state in enumerate(states):
        share = flips // len(states) + (number < flips % len(states))
        rows, cols, new_ids = random_flips(state, share, rng).T
        exact.reset(state)
        truth = exact.deltas(rows, cols, new_ids).sum(axis=1)
        scale = max(scale, abs(exact.energy().neural))
        for name, backend in served.items():
            backend.reset(state)
            found = backend.deltas(rows, cols, new_ids).sum(axis=1)
            errors[name].append(np.abs(found - truth))
            mismatches[name].append(np.abs(acceptance(found, temperature) - acceptance(truth, temperature)))
    results = {
        name: {
            "max_abs_error": float(np.concatenate(errors[name]).max(initial=0.0)),
            "decision_mismatch": float(np.concatenate(mismatches[name]).mean()),
        }
        for name in backends
    }
    allowed = 1e-4 + 1e-5 * scale
    agreed = all(r["max_abs_error"] <= allowed and r["decision_mismatch"] <= MISMATCH_ALLOWED for r in results.values())
    return {"ok": agreed, "flips": flips, "backends": results}
