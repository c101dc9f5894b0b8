"""All back ends of a model against float64 torch on random flips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import Artifact, allowed_error
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.state import CellState

from .backend import TorchBackend

MISMATCH_ALLOWED = 1e-4
FARTHER = 3.0
"""How far away copies may come from, in the nearest neighbours' distance: farther than any host takes them, but not so
far that a cell would span half of a periodic lattice, where its length is ambiguous."""


def acceptance(delta: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Metropolis' p = min(1, e^{−ΔH/T})."""
    return np.exp(-np.maximum(delta, 0.0) / temperature)


def random_flips(state: CellState, count: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sites and new ids `[count]`: copies of a neighbour across a boundary, one in eight from farther away, one in
    sixteen of a cell that has no pixels, where there is one."""
    ids, lattice, geometry = state.ids.ravel(), state.lattice, state.lattice.geometry
    boundary = np.flatnonzero(state.boundary())
    sites = rng.choice(boundary if boundary.size else np.arange(lattice.sites), size=count)
    new_ids = ids[sites].astype(np.int64)
    drawn = rng.integers(16, size=count)
    for order, chosen in ((geometry.moore_order, drawn >= 2), (geometry.order_within(FARTHER), drawn < 2)):
        around = lattice.neighbours(order, sites[chosen])
        source = around[np.arange(len(around)), rng.integers(around.shape[1], size=len(around))]
        new_ids[chosen] = np.where(source >= 0, ids[source], ids[sites[chosen]])
    empty = np.flatnonzero((state.types >= 1) & (state.volumes == 0))
    if empty.size:
        new_ids[drawn == 0] = rng.choice(empty, size=int((drawn == 0).sum()))
    return sites, new_ids


def verify_backends(artifact: Artifact, states: Sequence[CellState], flips: int, seed: int) -> dict[str, Any]:
    """`{"ok", "flips", "backends": {name: {"max_abs_error", "decision_mismatch"}}}`."""
    if not states:
        raise UserError(f"{artifact.path} holds no example states: give some with --states.")
    rng = np.random.default_rng(seed)
    temperature = artifact.metadata.temperature
    backends = ["engine", "onnxruntime"] if artifact.engine_serves else ["onnxruntime"]
    errors: dict[str, list[NDArray[np.float64]]] = {name: [] for name in backends}
    mismatches: dict[str, list[NDArray[np.float64]]] = {name: [] for name in backends}
    allowed = 0.0
    exact = TorchBackend.exact(artifact, states[0])
    served = {name: open_backend(artifact, states[0], prefer=name) for name in backends}
    for number, given in enumerate(states):
        state = artifact.place(given)
        share = flips // len(states) + (number < flips % len(states))
        sites, new_ids = random_flips(state, share, rng)
        exact.reset(state)
        truth = exact.deltas(sites, new_ids).sum(axis=1)
        allowed = max(allowed, allowed_error(*exact.energy()))
        for name, backend in served.items():
            backend.reset(state)
            found = backend.deltas(sites, new_ids).sum(axis=1)
            errors[name].append(np.abs(found - truth))
            mismatches[name].append(np.abs(acceptance(found, temperature) - acceptance(truth, temperature)))
    results = {
        name: {
            "max_abs_error": float(np.concatenate(errors[name]).max(initial=0.0)),
            "decision_mismatch": float(np.concatenate(mismatches[name]).mean()),
        }
        for name in backends
    }
    agreed = all(r["max_abs_error"] <= allowed and r["decision_mismatch"] <= MISMATCH_ALLOWED for r in results.values())
    return {"ok": agreed, "flips": flips, "backends": results}
