"""Engine models in memory, for chains: from weights and a lattice. Without torch, so that data can be made without."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge._engine import Model
from neuralcpm_bridge.artifact import LatticeEntry, NeuralEntry
from neuralcpm_bridge.errors import engine_speaking


def engine_model(
    types: Sequence[str],
    lattice: LatticeEntry,
    weights: Mapping[str, NDArray[Any]],
    *,
    orders: Mapping[str, int] | None = None,
    neural: NeuralEntry | None = None,
    name: str = "",
    temperature: float = 1.0,
) -> Model:
    """The model with these named weights (docs/artifact.md); `orders`: neighbour orders of terms other than all around.

    Chains of training never take a cell's last pixel, and the model says so.
    """
    description = {
        "name": name,
        "types": list(types),
        "lattice": {"geometry": lattice.geometry, "boundary": lattice.boundary},
        "symbolic": {"terms": {term: {"order": order} for term, order in (orders or {}).items()}},
        "neural": None if neural is None else neural.model_dump(),
        "temperature": temperature,
        "extinction": True,
    }
    with engine_speaking():
        return Model(json.dumps(description), {key: np.asarray(value, order="C") for key, value in weights.items()})
