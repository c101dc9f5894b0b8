"""Hamiltonians on the engine: torch weights, or the analytic terms of a data generator, as an engine model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import ENGINE_KINDS
from neuralcpm_bridge.errors import UserError

from .export.artifact import weights_of
from .hamiltonians import Hamiltonian


def engine_module() -> Any:
    """The compiled engine; training without it has only the approximate sampler."""
    try:
        from neuralcpm_bridge import _engine
    except ImportError:
        raise UserError(
            "The engine is not built into this installation: reinstall neuralcpm-bridge."
        ) from None
    return _engine


def engine_model(hamiltonian: Hamiltonian) -> Any:
    """An engine model with the Hamiltonian's current weights."""
    network = hamiltonian.network
    if network is not None and network.spec.kind not in ENGINE_KINDS:
        raise UserError(
            f"The engine runs no chains of the architecture {hamiltonian.architecture!r}: "
            "set sampler.kind = 'parallel'."
        )
    weights = weights_of(hamiltonian)
    description: dict[str, Any] = {"types": hamiltonian.type_names, "boundary": hamiltonian.boundary}
    if network is not None:
        description["neural"] = {**network.spec.model_dump(), "weight": float(weights["neural.weight"])}
    return engine_module().Model(json.dumps(description), weights)


def generator_model(
    types: Sequence[str],
    J: NDArray[np.float64],
    strength: float,
    target: float,
    *,
    boundary: str = "periodic",
    length: tuple[Sequence[float], Sequence[float]] | None = None,
    external: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> Any:
    """The analytic model a data set is drawn from.

    `J[T, T]` contact energies, one volume `strength` λ and `target` V* for all cells, `length` = (strength, target)
    of each type, `external` = (field `[K, H, W]`, coupling `[T, K]`).
    """
    count = len(types)
    cells = np.r_[0.0, np.ones(count - 1)]
    weights = {
        "symbolic.contact.J": np.ascontiguousarray(J, dtype=np.float64),
        "symbolic.volume.strength": strength * cells,
        "symbolic.volume.target": target * cells,
    }
    if length is not None:
        weights["symbolic.length.strength"] = np.asarray(length[0], dtype=np.float64)
        weights["symbolic.length.target"] = np.asarray(length[1], dtype=np.float64)
    if external is not None:
        weights["symbolic.external.field"] = np.ascontiguousarray(external[0], dtype=np.float64)
        weights["symbolic.external.coupling"] = np.ascontiguousarray(external[1], dtype=np.float64)
    return engine_module().Model(json.dumps({"types": list(types), "boundary": boundary}), weights)
