"""Models with energies of a living tissue, for tests in and around CompuCell3D."""

from __future__ import annotations

from pathlib import Path

import torch

from neuralcpm_bridge.artifact import Artifact
from training.export import export
from training.hamiltonians import Hamiltonian, make_preset


def raw(value: float) -> float:
    """What a positive parameter keeps: the inverse of softplus."""
    return float(torch.log(torch.expm1(torch.tensor(value, dtype=torch.float64))))


def tissue(
    preset: str = "local8-closure",
    *,
    types: tuple[str, ...] = ("medium", "A", "B"),
    target_volume: float = 40.0,
    strength: float = 0.5,
    network_weight: float = 2.0,
    boundary: str = "periodic",
    padding: str | None = None,
    seed: int = 0,
) -> Hamiltonian:
    """Cells that hold together, sort slowly and keep their size; the network's part is a nudge."""
    torch.manual_seed(seed)
    model = make_preset(preset, types=types, target_volume=target_volume, boundary=boundary, padding=padding)  # type: ignore[arg-type]
    with torch.no_grad():
        if model.symbolic is not None:
            energies = model.symbolic.contact.energies
            energies.copy_(torch.linspace(4.0, 6.0, energies.numel()))
            model.symbolic.volume.strength.raw.fill_(raw(strength))
            if hasattr(model.symbolic.weight, "raw"):
                model.symbolic.weight.raw.fill_(raw(1.0))
        if model.network is not None and hasattr(model.network_weight, "raw"):
            model.network_weight.raw.fill_(raw(network_weight))
    return model


def tissue_model(path: Path, preset: str = "local8-closure", **options: object) -> Artifact:
    exported = {key: options.pop(key) for key in ("extinction", "temperature") if key in options}
    return export(tissue(preset, **options), path, **exported)  # type: ignore[arg-type]
