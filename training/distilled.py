"""A distillation as an ordinary model file."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.distill import Distilled

from .export import export
from .hamiltonians import Contact, Hamiltonian, Surface, Symbolic, Volume, VolumeFunction


def write_distilled(result: Distilled, source: Artifact, path: str | Path) -> Artifact:
    """Contacts, volumes and surfaces as the analytic terms of a model without a network."""
    meta = source.metadata
    periodic = meta.boundary == "periodic"
    symbolic = Symbolic(contact=Contact(_tensor(result.contact), periodic=periodic))
    if result.strength is not None and result.target_volume is not None:
        symbolic.volume = Volume(_tensor(result.strength)[1:], _tensor(result.target_volume)[1:])
    if result.volume_function is not None:
        parts = (getattr(result.volume_function, part) for part in VolumeFunction.PARTS)
        symbolic.volume_function = VolumeFunction(*map(_tensor, parts))
    if result.surface_strength is not None and result.target_surface is not None:
        strength, target = _tensor(result.surface_strength), _tensor(result.target_surface)
        symbolic.surface = Surface(strength, target, periodic=periodic)
    return export(
        Hamiltonian(meta.types, symbolic, boundary=meta.boundary, cells=meta.cells),
        path,
        name=f"{meta.name}, distilled",
        lattice=meta.lattice,
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
        },
    )


def _tensor(values: object) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float64)
