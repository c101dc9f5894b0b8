"""Models with energies of a living tissue, for tests in and around CompuCell3D."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from neuralcpm_bridge.artifact import Artifact, LatticeEntry
from training.export import export
from training.hamiltonians import Hamiltonian, Symbolic, make_preset
from training.hamiltonians.terms import Contact, Length, Surface, Volume

TYPES = ("medium", "A", "B")


def tissue(
    preset: str = "local8-closure",
    *,
    types: tuple[str, ...] = TYPES,
    target_volume: float = 40.0,
    strength: float = 0.5,
    network_weight: float = 2.0,
    boundary: str | Sequence[str] = "periodic",
    padding: str | None = None,
    properties: tuple[str, ...] = (),
    geometry: str = "square",
    members: int = 1,
    order: int | None = None,
    knots: int = 0,
    seed: int = 0,
) -> Hamiltonian:
    """Cells that hold together, sort slowly and keep their size; the network's part is a nudge.

    `knots`: of energies by distance, random ones.
    """
    torch.manual_seed(seed)
    lattice = LatticeEntry.of(geometry, boundary)
    model = make_preset(
        preset,
        types=types,
        target_volume=float(target_volume),
        lattice=lattice,
        padding=padding,
        properties=properties,
        members=members,
        order=order,
        knots=knots,
    )
    with torch.no_grad():
        if model.symbolic is not None:
            energies = model.symbolic.contact.energies
            energies.copy_(torch.linspace(4.0, 6.0, energies.numel()))
            model.symbolic.volume.strength.set(torch.full_like(model.symbolic.volume.strength.raw, strength))
            model.symbolic.weight.set(torch.tensor(1.0))
        if knots and model.network is not None:
            model.network.reach.fill_(2.0 * knots)
            for member in model.network.members:
                member.pairs.normal_()
        if model.network is not None and hasattr(model.network_weight, "raw"):
            model.network_weight.set(torch.tensor(network_weight))
    return model


def tissue_model(path: Path, preset: str = "local8-closure", **options: object) -> Artifact:
    exported = {key: options.pop(key) for key in ("extinction", "temperature") if key in options}
    return export(tissue(preset, **options), path, **exported)  # type: ignore[arg-type]


def analytic_model(
    path: Path,
    geometry: str = "square",
    boundary: str | Sequence[str] = "free",
    order: int | None = None,
    terms: Sequence[str] = ("contact", "volume", "surface", "length"),
    *,
    volume: float = 40.0,
    length: float = 9.0,
    extinction: bool = True,
) -> Artifact:
    """Analytic terms with different numbers for two types, on any lattice; 3D lengths with a minor axis."""
    minor = torch.tensor([length / 2, length / 3]) if geometry == "cubic" else None
    made = {
        "contact": Contact(torch.tensor([[0.0, 4.5, 5.5], [4.5, 4.0, 6.0], [5.5, 6.0, 5.0]]), order=order),
        "volume": Volume(torch.tensor([0.5, 0.75]), torch.tensor([volume, 0.8 * volume])),
        "surface": Surface(torch.tensor([0.02, 0.03]), torch.tensor([0.5 * volume, 0.6 * volume]), order=order),
        "length": Length(torch.tensor([0.3, 0.2]), torch.tensor([length, 0.7 * length]), minor_target=minor),
    }
    lattice = LatticeEntry.of(geometry, boundary)
    hamiltonian = Hamiltonian(TYPES, Symbolic(*(made[term] for term in terms)), lattice=lattice)
    return export(hamiltonian, path, extinction=extinction)
