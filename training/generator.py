"""Analytic models that data sets are drawn from, on the engine: numpy alone, so that data can be made without torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.errors import UserError


def engine_module() -> Any:
    """The compiled engine; training without it has only the approximate sampler."""
    try:
        from neuralcpm_bridge import _engine
    except ImportError:
        raise UserError("The engine is not built into this installation: reinstall neuralcpm-bridge.") from None
    return _engine


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
