"""Hamiltonians on the engine: torch weights as an engine model."""

from __future__ import annotations

import json
from typing import Any

from neuralcpm_bridge.artifact import ENGINE_KINDS
from neuralcpm_bridge.errors import UserError

from .export.artifact import weights_of
from .generator import engine_module
from .hamiltonians import Hamiltonian


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
