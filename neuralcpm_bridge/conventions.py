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
    terms: frozenset[str] = frozenset({"contact", "volume"})
    """Analytic terms that the host's own elements carry exactly."""
    periodic_terms: frozenset[str] = frozenset()
    """Those that it carries with periodic boundaries only."""
    surface_scale: float = 1.0
    """Host surface per unit of S, a quarter of a cell's ordered Moore pairs with others."""


TARGETS = {
    "embedded": Target("embedded", 2, 1.0, {"periodic": "periodic", "free": "free"}, forbids_extinction=False),
    "cc3d": Target("CompuCell3D", 2, 0.25, {"periodic": "Periodic", "free": "NoFlux"}, forbids_extinction=False),
    "morpheus": Target(
        "Morpheus",
        2,
        0.25,
        # A constant border of a second medium whose contacts cost nothing; 'noflux' would be plain medium.
        {"periodic": "periodic", "free": "constant"},
        forbids_extinction=True,
        terms=frozenset({"contact", "volume", "volume_function"}),
        periodic_terms=frozenset({"surface"}),  # a border counts into the surface of the cells at it
        surface_scale=4.0,
    ),
}


@dataclass(frozen=True)
class VolumeFunction:
    """f(V) per type (entry 0 is the medium): a quartic between two volumes, continued quadratically outside.

    f(V) = p(u) + p'(u)·(V − u) + stiffness·(V − u)², u = V limited to low … high,
    p(u) = Σ over k = 1…4 of coefficients[type, k − 1]·(u − center)^k.
    """

    center: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    stiffness: NDArray[np.float64]

    def __call__(self, cell_type: int, volume: NDArray[np.float64]) -> NDArray[np.float64]:
        inside = np.clip(volume, self.low[cell_type], self.high[cell_type])
        x, beyond = inside - self.center[cell_type], volume - inside
        powers = np.arange(1, self.coefficients.shape[1] + 1)
        value = (self.coefficients[cell_type] * x[..., None] ** powers).sum(axis=-1)
        slope = (self.coefficients[cell_type] * powers * x[..., None] ** (powers - 1)).sum(axis=-1)
        return value + slope * beyond + self.stiffness[cell_type] * beyond**2


@dataclass(frozen=True)
class SymbolicValues:
    """What a host's own terms take, in its units; entry 0 is the medium. Terms a model lacks are zero or None."""

    contact: NDArray[np.float64]
    strength: NDArray[np.float64]
    target_volume: NDArray[np.float64]
    temperature: float
    surface_strength: NDArray[np.float64]
    target_surface: NDArray[np.float64]
    volume_function: VolumeFunction | None = None


def uncarried_terms(metadata: Metadata, target: Target) -> list[str]:
    """The model's analytic terms that a host's own elements cannot carry exactly."""
    carried = target.terms | (target.periodic_terms if metadata.boundary == "periodic" else frozenset())
    return sorted(set(metadata.symbolic.terms if metadata.symbolic is not None else ()) - carried)


def symbolic_values(metadata: Metadata, target: Target, energy_scale: float = 1.0) -> SymbolicValues:
    """w_S·J, w_S·λ, V* and T of a model in a host's units; `energy_scale` multiplies every energy and T alike."""
    if metadata.symbolic is None:
        raise UserError(
            f"The model ({metadata.architecture}) has no contact and volume terms to write into {target.host}: use it "
            "as the whole Hamiltonian (term 'full')."
        )
    left_over = uncarried_terms(metadata, target)
    if left_over:
        raise UserError(
            f"The model has a term {left_over[0]!r} that {target.host}'s own plugins cannot carry "
            f"({metadata.boundary} boundaries): use it as the whole Hamiltonian (term 'full')."
        )
    count = len(metadata.types)
    weight = metadata.symbolic.weight * energy_scale
    contact = metadata.symbolic.terms.get("contact", {})
    volume = metadata.symbolic.terms.get("volume", {})
    surface = metadata.symbolic.terms.get("surface", {})
    function = metadata.symbolic.terms.get("volume_function")
    return SymbolicValues(
        contact=target.contact_scale * weight * np.array(contact.get("J", np.zeros((count, count)))),
        strength=weight * np.array(volume.get("strength", np.zeros(count))),
        target_volume=np.array(volume.get("target", np.zeros(count)), dtype=np.float64),
        temperature=metadata.temperature * energy_scale,
        surface_strength=weight * np.array(surface.get("strength", np.zeros(count))) / target.surface_scale**2,
        target_surface=target.surface_scale * np.array(surface.get("target", np.zeros(count)), dtype=np.float64),
        volume_function=None if function is None else _scaled(function, weight),
    )


def _scaled(function: dict[str, list[float]], weight: float) -> VolumeFunction:
    values = {key: np.array(value, dtype=np.float64) for key, value in function.items()}
    return VolumeFunction(
        values["center"],
        values["low"],
        values["high"],
        weight * values["coefficients"],
        weight * values["stiffness"],
    )


def neural_scale(metadata: Metadata, host_temperature: float) -> float:
    """Factor of the neural ΔH in a host that runs at its own temperature: what it does to probabilities is kept."""
    return host_temperature / metadata.temperature
