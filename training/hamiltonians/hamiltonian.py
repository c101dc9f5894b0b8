"""A Hamiltonian: w_S · (analytic terms) + w_NN · (network)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from neuralcpm_bridge.artifact import Boundary, architecture_name
from neuralcpm_bridge.state import CellState

from .networks import CellwiseNetwork, ConvNetwork
from .terms import Contact, ExternalPotential, Positive, Surface, Volume, VolumeFunction


class Energies(NamedTuple):
    """w_S·H_S and w_NN·H_NN of every state, `[B]` float64."""

    symbolic: Tensor
    neural: Tensor

    @property
    def total(self) -> Tensor:
        return self.symbolic + self.neural


class Symbolic(nn.Module):
    """w_S · (offset + contact + volume + surface + external potential)."""

    TERMS = ("contact", "volume", "volume_function", "surface", "external")

    def __init__(
        self,
        contact: Contact | None = None,
        volume: Volume | None = None,
        external: ExternalPotential | None = None,
        surface: Surface | None = None,
        volume_function: VolumeFunction | None = None,
        weight: float = 1.0,
        offset: float = 0.0,
        train_weight: bool = False,
    ) -> None:
        super().__init__()
        self.contact, self.volume, self.external = contact, volume, external
        self.surface, self.volume_function = surface, volume_function
        self.weight = Positive(torch.tensor(weight, dtype=torch.float64), trainable=train_weight)
        self.offset = nn.Parameter(torch.tensor(offset, dtype=torch.float64), requires_grad=False)

    @property
    def terms(self) -> set[str]:
        return {name for name in self.TERMS if getattr(self, name) is not None}

    def forward(self, ids: Tensor, types: Tensor, count: int) -> Tensor:
        energy = self.offset.double().expand(ids.shape[0])
        if self.contact is not None:
            energy = energy + self.contact(ids, types)
        if self.volume is not None:
            energy = energy + self.volume(ids, types, count)
        for term in (self.volume_function, self.surface, self.external):
            if term is not None:
                energy = energy + term(ids, types)
        return self.weight() * energy


class Hamiltonian(nn.Module):
    """H of a state; what training optimises and export writes."""

    def __init__(
        self,
        types: tuple[str, ...],
        symbolic: Symbolic | None = None,
        network: CellwiseNetwork | ConvNetwork | None = None,
        network_weight: float = 1.0,
        train_network_weight: bool = False,
        boundary: Boundary = "periodic",
        cells: int | None = None,
    ) -> None:
        super().__init__()
        if symbolic is None and network is None:
            raise ValueError("a Hamiltonian needs analytic terms, a network or both")
        contact = symbolic.contact if symbolic is not None else None
        if contact is not None and contact.periodic != (boundary == "periodic"):
            raise ValueError(f"the contact term's boundary is not the Hamiltonian's, which is {boundary}")
        self.type_names, self.boundary, self.cells = types, boundary, cells
        self.symbolic, self.network = symbolic, network
        self.network_weight = None
        if network is not None:
            weight = torch.tensor(network_weight, dtype=torch.float64)
            self.network_weight = Positive(weight, trainable=train_network_weight)

    @property
    def architecture(self) -> str:
        terms = self.symbolic.terms if self.symbolic is not None else set()
        return architecture_name(terms, self.network.spec.kind if self.network is not None else None)

    def forward(self, ids: Tensor, types: Tensor) -> Energies:
        """ids `[B, H, W]` int64, types `[B, C]` int64 (−1 = no such cell)."""
        symbolic = neural = torch.zeros(ids.shape[0], dtype=torch.float64, device=ids.device)
        if self.symbolic is not None:
            symbolic = self.symbolic(ids, types, len(self.type_names))
        if self.network is not None and self.network_weight is not None:
            neural = self.network_weight() * self.network(ids, types)
        return Energies(symbolic, neural)

    def of_states(self, states: list[CellState]) -> Energies:
        """Energies of states of one lattice size; missing ids are filled up as non-existent."""
        device = next(self.parameters()).device
        return self(*(tensor.to(device) for tensor in batch_states(states)))


def batch_states(states: list[CellState]) -> tuple[Tensor, Tensor]:
    """ids `[B, H, W]` and types `[B, C]`."""
    cells = max(state.types.size for state in states)
    types = torch.full((len(states), cells), -1, dtype=torch.int64)
    for row, state in zip(types, states, strict=True):
        row[: state.types.size] = torch.from_numpy(state.types)
    ids = torch.stack([torch.from_numpy(state.ids).long() for state in states])
    return ids, types
