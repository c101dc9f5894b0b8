"""ΔH through torch: training's own back end and, in float64, the ground truth of the others."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.backends.full import FullEnergyBackend
from neuralcpm_bridge.delta import Part
from neuralcpm_bridge.state import CellState

from .export import hamiltonian_from_artifact
from .hamiltonians import CellGraph, Hamiltonian, States


class TorchBackend(FullEnergyBackend):
    """Full energies by a torch Hamiltonian, in its own precision and on its own device."""

    def __init__(self, hamiltonian: Hamiltonian, state: CellState, *, part: Part = "full") -> None:
        self.hamiltonian = hamiltonian
        parameter = next(hamiltonian.parameters())
        self.device = parameter.device
        self.name = f"torch ({str(parameter.dtype).removeprefix('torch.')}, {self.device})"
        means = {name: mean for name, (mean, _) in hamiltonian.property_spreads.items()}
        super().__init__(state, part, means)

    @classmethod
    def exact(cls, artifact: Artifact, state: CellState) -> TorchBackend:
        """The artifact's energy in float64."""
        return cls(hamiltonian_from_artifact(artifact).double(), artifact.place(state))

    def energies(
        self, ids: NDArray[np.int64], types: NDArray[np.int64], properties: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        with torch.no_grad():
            parts = self.hamiltonian.of(self._states(ids, types, properties))
        return np.stack([part.cpu().numpy() for part in parts], axis=1)

    def members(
        self, ids: NDArray[np.int64], types: NDArray[np.int64], properties: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        with torch.no_grad():
            return self.hamiltonian.member_energies(self._states(ids, types, properties)).cpu().numpy()

    def inside_range(self) -> NDArray[np.bool_]:
        inside, network = super().inside_range(), self.hamiltonian.network
        if isinstance(network, CellGraph):
            graphs = network.describe(self._states(self._ids[None], self._types, self._properties))
            inside[graphs.ids.cpu().numpy()] = network.inside_range(graphs).cpu().numpy()
        return inside

    def _states(self, ids: NDArray[np.int64], types: NDArray[np.int64], properties: NDArray[np.float64]) -> States:
        tensors = (torch.from_numpy(array).to(self.device) for array in (ids, types[None], properties[None]))
        batch = [tensor.expand(len(ids), *tensor.shape[1:]) for tensor in tensors]
        return self.hamiltonian.states(batch[0], batch[1], batch[2], self.lattice.layout)
