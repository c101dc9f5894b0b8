"""From a configuration and a data set's description to a Hamiltonian ready to train."""

from __future__ import annotations

from typing import Literal, cast

import torch
from pydantic import BaseModel, ConfigDict
from torch import nn

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots

from .config import ModelSection
from .hamiltonians import Hamiltonian, LocalNeuralHamiltonian, Volume, make_preset
from .hamiltonians.terms import Positive
from .warmstart import AnalyticFit, mean_volume

ALIASES = {"cellsort": "mnist-cellsort", "external": "mnist-external"}
"""Analytic models have no sizes, so the experiment in a preset's name says nothing."""


class Description(BaseModel):
    """What a model must know of its data; kept in the checkpoint, so that a run can be read without its data."""

    model_config = ConfigDict(frozen=True)

    types: tuple[str, ...]
    boundary: Literal["periodic", "free"]
    cells: int
    lattice: tuple[int, int]
    target_volume: float

    @classmethod
    def of(cls, snapshots: Snapshots, target_volume: float | None = None) -> Description:
        count = int(snapshots.types.max()) + 1
        names = snapshots.type_names or ("medium", *(f"type{number}" for number in range(1, count)))
        if len(names) < count:
            raise UserError(
                f"The data set names {len(names)} types, but has cells of type {count - 1}: name every type, "
                "the medium first."
            )
        height, width = snapshots.ids.shape[1:]
        return cls(
            types=names,
            boundary=cast(Literal["periodic", "free"], snapshots.boundary),
            cells=snapshots.types.shape[1],
            lattice=(height, width),
            target_volume=target_volume or mean_volume(snapshots),
        )


def build_hamiltonian(section: ModelSection, described: Description) -> Hamiltonian:
    """A freshly initialised Hamiltonian; draws from torch's global generator."""
    padding = section.padding
    if padding is None and section.preset.startswith("local"):
        padding = "circular" if described.boundary == "periodic" else "zeros"
    hamiltonian = make_preset(
        ALIASES.get(section.preset, section.preset),
        described.types,
        cells=described.cells,
        lattice=described.lattice,
        target_volume=described.target_volume,
        boundary=described.boundary,
        padding=padding,
    )
    scale_head(hamiltonian, section.head_gain)
    if section.freeze_symbolic and hamiltonian.symbolic is not None:
        hamiltonian.symbolic.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in hamiltonian.parameters()):
        raise UserError(
            f"model.freeze_symbolic leaves nothing to train in the preset {section.preset!r}: set it to false or "
            "use a closure."
        )
    return hamiltonian


def scale_head(hamiltonian: Hamiltonian, gain: float) -> None:
    """Multiply the network's initial output layer: how loudly it speaks before it has learned anything."""
    network = hamiltonian.network
    if network is None or gain == 1.0:
        return
    if isinstance(network, LocalNeuralHamiltonian):
        outputs = [network.cell_head.out, network.background_head.out]
    else:
        outputs = [cast(nn.Linear, network.out)]
    with torch.no_grad():
        for layer in outputs:
            layer.weight.mul_(gain)


def apply_fit(hamiltonian: Hamiltonian, fit: AnalyticFit) -> None:
    """Put fitted contact and volume energies into a Hamiltonian, with w_S = 1."""
    symbolic = hamiltonian.symbolic
    if symbolic is None or symbolic.contact is None or symbolic.volume is None:
        raise UserError(
            "A warm start fits contact and volume energies, which this model lacks: set warmstart.symbolic = false."
        )
    trains = symbolic.contact.energies.requires_grad
    J = torch.from_numpy(fit.J)
    with torch.no_grad():
        rows, cols = (list(ends) for ends in zip(*symbolic.contact.pairs, strict=True))
        symbolic.contact.energies.copy_(J[rows, cols])
    weight_trains = symbolic.weight.raw.requires_grad
    symbolic.weight = Positive(torch.tensor(1.0, dtype=torch.float64), trainable=weight_trains)
    symbolic.volume = Volume(torch.tensor([fit.strength]), torch.tensor([fit.target])).requires_grad_(trains)
    symbolic.volume.target.requires_grad_(False)
