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
from .hamiltonians import Hamiltonian


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
        tensors = (torch.from_numpy(array).to(self.device) for array in (ids, types[None], properties[None]))
        with torch.no_grad():
            parts = self.hamiltonian(*(tensor.expand(len(ids), *tensor.shape[1:]) for tensor in tensors))
        return np.stack([part.cpu().numpy() for part in parts], axis=1)
