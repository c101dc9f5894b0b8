"""Analytic models of any lattice, made from arrays: without torch, without a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge._engine import Model
from neuralcpm_bridge.artifact import Artifact, LatticeEntry, Metadata, SymbolicSpec
from neuralcpm_bridge.lattice import GEOMETRIES, Lattice
from neuralcpm_bridge.state import CellState
from neuralcpm_bridge.terms import TERMS, described_terms

TYPES = ("medium", "A", "B")
WEIGHT = 0.7


def weights_of(rng: np.random.Generator, terms: tuple[str, ...], dimension: int = 2, degree: int = 4) -> dict[str, Any]:
    """Random numbers for the named terms, volumes and lengths of a size that small states have."""
    count = len(TYPES)
    weights: dict[str, NDArray[np.float64]] = {}
    if "contact" in terms:
        contact = rng.normal(2, 3, (count, count))
        contact = (contact + contact.T) / 2
        contact[0, 0] = 0
        weights["symbolic.contact.J"] = contact
    for term, size in {"volume": 9.0, "surface": 7.0, "length": 4.0}.items():
        if term in terms:
            weights[f"symbolic.{term}.strength"] = rng.uniform(0.1, 1, count)
            weights[f"symbolic.{term}.target"] = rng.uniform(0.5, 1.5, count) * size
    if "length" in terms and dimension == 3:
        weights["symbolic.length.minor_target"] = rng.uniform(0.5, 1.5, count)
    if "volume_function" in terms:
        scale = 0.3 ** np.arange(degree)
        weights |= {
            "symbolic.volume_function.center": np.full(count, 6.0),
            "symbolic.volume_function.low": np.full(count, 2.0),
            "symbolic.volume_function.high": np.full(count, 11.0),
            "symbolic.volume_function.coefficients": rng.normal(size=(count, degree)) * scale,
            "symbolic.volume_function.stiffness": rng.uniform(0.1, 1, count),
        }
    return weights


def metadata_of(
    weights: dict[str, Any],
    geometry: str = "square",
    boundary: Any = "periodic",
    orders: dict[str, int] | None = None,
    **more: Any,
) -> Metadata:
    moore = {name: GEOMETRIES[geometry].moore_order for name, spec in TERMS.items() if spec.ordered}
    terms = described_terms(weights, moore | (orders or {}))
    defaults = {"name": "test", "architecture": "analytic", "parameters": 0, "types": TYPES, "temperature": 1.5}
    return Metadata(
        lattice=LatticeEntry.of(geometry, boundary),
        symbolic=SymbolicSpec(weight=WEIGHT, terms=terms),
        **(defaults | more),
    )


def artifact_of(weights: dict[str, Any], meta: Metadata) -> Artifact:
    weights = weights | {"symbolic.weight": np.array(WEIGHT), "symbolic.offset": np.array(0.0)}
    model = Model(meta.model_dump_json(), weights)
    return Artifact(Path("memory.onnx"), meta, model)


def blocks(rng: np.random.Generator, lattice: Lattice, cells: int = 4) -> CellState:
    """Ragged boxes away from the borders, so that no cell wraps."""
    ids = np.zeros(lattice.shape, dtype=np.int32)
    for cell in range(1, cells + 1):
        sides = [
            slice(start, start + int(rng.integers(2, 4))) for start in rng.integers(1, np.array(lattice.shape) - 4)
        ]
        box = ids[tuple(sides)]
        box[rng.random(box.shape) < 0.8] = cell
    return CellState(ids, np.concatenate([[0], rng.integers(1, len(TYPES), size=cells)]), lattice)
