"""A distillation as an ordinary model file."""

from __future__ import annotations

from pathlib import Path

import torch

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.distill import Behaviour, Distilled

from .export import export
from .hamiltonians import TERMS, Hamiltonian, Symbolic


def write_distilled(
    result: Distilled, source: Artifact, path: str | Path, behaviour: Behaviour | None = None
) -> Artifact:
    """Its terms as those of a model without a network; what is known of it goes along."""
    meta = source.metadata
    terms = []
    for name, values in result.terms.items():
        weights = {key: torch.as_tensor(value, dtype=torch.float64) for key, value in values.items()}
        terms.append(TERMS[name].from_weights(weights, result.orders.get(name)))
    return export(
        Hamiltonian(meta.types, Symbolic(*terms), lattice=meta.lattice, cells=meta.cells),
        path,
        name=f"{meta.name}, distilled",
        temperature=meta.temperature,
        extinction=meta.extinction,
        training={
            "distilled from": meta.name,
            "weights of that model": meta.weights_hash,
            "r2": result.r2,
            "r2 held out": result.r2_held_out,
            "decision mismatch": result.decision_mismatch,
            "network explained": result.network_explained,
            "flips": result.flips,
            "verdict of runs": None if behaviour is None else behaviour.verdict,
            "kept in runs": None if behaviour is None else behaviour.json()["kept"],
        },
    )
