"""Targets: the exact conversion of one convention into another, per host, and nowhere else.

The training convention (docs/artifact.md):

    H_S = 1/4 Σ over unordered Moore pairs J(τ_i, τ_j)·[id_i ≠ id_j] + Σ over cells λ (V − V*)²
    accept with min(1, exp(−ΔH/T))

For a closure the values to convert are w_S·J and w_S·λ; the neural ΔH carries w_NN already.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .artifact import Boundary, Metadata
from .errors import UserError


@dataclass(frozen=True)
class Target:
    """How one host writes the energy of the training convention."""

    host: str
    neighbor_order: int
    """The host's name for the Moore neighbourhood."""
    contact_scale: float
    """Host contact energy per unit of J."""
    boundary_words: dict[Boundary, str]
    """What the host calls each boundary."""
    forbids_extinction: bool
    """Whether the host itself never takes a cell's last pixel."""


TARGETS = {
    "embedded": Target("embedded", 2, 1.0, {"periodic": "periodic", "free": "free"}, forbids_extinction=False),
    "cc3d": Target("CompuCell3D", 2, 0.25, {"periodic": "Periodic", "free": "NoFlux"}, forbids_extinction=False),
    "morpheus": Target("Morpheus", 2, 0.25, {"periodic": "periodic", "free": "noflux"}, forbids_extinction=True),
}


@dataclass(frozen=True)
class SymbolicValues:
    """What a host's own contact and volume terms take, in its units; entry 0 is the medium."""

    contact: NDArray[np.float64]
    strength: NDArray[np.float64]
    target_volume: NDArray[np.float64]
    temperature: float


def symbolic_values(metadata: Metadata, target: Target, energy_scale: float = 1.0) -> SymbolicValues:
    """w_S·J, w_S·λ, V* and T of a model in a host's units; `energy_scale` multiplies every energy and T alike."""
    if metadata.symbolic is None:
        raise UserError(
            f"The model ({metadata.architecture}) has no contact and volume terms to write into {target.host}: use it "
            "as the whole Hamiltonian (term 'full')."
        )
    unknown = set(metadata.symbolic.terms) - {"contact", "volume"}
    if unknown:
        raise UserError(
            f"The model has a term {sorted(unknown)[0]!r} that {target.host}'s contact and volume plugins cannot "
            "carry: use it as the whole Hamiltonian (term 'full')."
        )
    count = len(metadata.types)
    weight = metadata.symbolic.weight * energy_scale
    contact = metadata.symbolic.terms.get("contact", {})
    volume = metadata.symbolic.terms.get("volume", {})
    return SymbolicValues(
        contact=target.contact_scale * weight * np.array(contact.get("J", np.zeros((count, count)))),
        strength=weight * np.array(volume.get("strength", np.zeros(count))),
        target_volume=np.array(volume.get("target", np.zeros(count)), dtype=np.float64),
        temperature=metadata.temperature * energy_scale,
    )


def neural_scale(metadata: Metadata, host_temperature: float) -> float:
    """Factor of the neural ΔH in a host that runs at its own temperature: what it does to probabilities is kept."""
    return host_temperature / metadata.temperature
