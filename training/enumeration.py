"""Every state of a tiny lattice, the Boltzmann distribution on them and the stationary one of the copy dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from neuralcpm_bridge.snapshots import Snapshots

from .hamiltonians import Hamiltonian


class Enumeration:
    """All states of `shape` in which every cell has a pixel and the medium none, and their energies.

    Copies cannot bring back a medium that is gone, so on a tiny lattice no other states recur; samplers that draw any
    id at any site can, and `medium` counts the states with it, too.
    """

    def __init__(
        self, hamiltonian: Hamiltonian, types: list[int], shape: Sequence[int], *, medium: bool = False
    ) -> None:
        self.lattice, self.types = hamiltonian.lattice.with_shape(shape), np.array(types, dtype=np.int32)
        every = np.array(list(product(range(len(types)), repeat=self.lattice.sites)), dtype=np.int32)
        alive = np.all([(every == cell).any(1) for cell in range(1, len(types))], axis=0)
        if not medium:
            alive &= (every > 0).all(1)
        self.states = every[alive]
        self.code = np.full(len(every), -1)
        self.code[np.flatnonzero(alive)] = np.arange(len(self.states))
        with torch.no_grad():
            ids = torch.from_numpy(self.ids(np.arange(len(self.states)))).long()
            energies = hamiltonian(ids, torch.tensor(types)[None].expand(len(ids), -1))
        self.energies = energies.total.numpy()
        self.parts = (energies.symbolic.numpy(), energies.neural.numpy())

    def ids(self, numbers: NDArray[np.integer]) -> NDArray[np.int32]:
        """The states with these numbers, `[n, *shape]`."""
        return self.states[numbers].reshape(-1, *self.lattice.shape)

    def snapshots(self, numbers: NDArray[np.integer]) -> Snapshots:
        """The same as a data set: where chains start."""
        types = np.repeat(self.types[None], len(numbers), axis=0)
        return Snapshots(self.ids(numbers), types, lattice=self.lattice)

    def index(self, ids: NDArray[np.int32]) -> NDArray[np.intp]:
        """Numbers of states `[n, *shape]`; −1 for one that is not among them."""
        powers = len(self.types) ** np.arange(ids[0].size)[::-1]
        return self.code[ids.reshape(len(ids), -1) @ powers]

    def boltzmann(self, temperature: float = 1.0) -> NDArray[np.float64]:
        weights = np.exp(-(self.energies - self.energies.min()) / temperature)
        return weights / weights.sum()

    def copy_step(self, temperature: float = 1.0, *, staged: bool = False) -> NDArray[np.float64]:
        """Chances of every state after one attempt to copy a uniform neighbour's id into a uniform site.

        `staged`: both parts of the energy have to let a copy pass, one after the other.
        """
        hurdles = self.parts if staged else (self.energies,)
        around = self.lattice.neighbours(self.lattice.geometry.moore_order)
        powers = len(self.types) ** np.arange(self.lattice.sites)[::-1]
        codes = self.states @ powers
        step = np.zeros((len(self.states), len(self.states)))
        for site, neighbours in enumerate(around):
            for other in neighbours[neighbours >= 0]:
                change = self.states[:, other] - self.states[:, site]
                target = self.code[codes + change * powers[site]]
                allowed = (change != 0) & (target >= 0)
                source, target = np.flatnonzero(allowed), target[allowed]
                rise = sum(np.maximum(energy[target] - energy[source], 0) for energy in hurdles)
                np.add.at(step, (source, target), np.exp(-rise / temperature) / around.size)
        step[np.diag_indices(len(step))] = 1 - step.sum(axis=1)
        return step

    def copy_dynamics(self, temperature: float = 1.0, *, staged: bool = False) -> NDArray[np.float64]:
        """The stationary distribution of such attempts."""
        step = self.copy_step(temperature, staged=staged)
        for _ in range(20):  # 2²⁰ steps: far beyond any relaxation time here
            step = step @ step
        return step.mean(axis=0)


def total_variation(counts: NDArray[np.int64], p: NDArray[np.float64]) -> float:
    return float(0.5 * np.abs(counts / counts.sum() - p).sum())


def expected_total_variation(p: NDArray[np.float64], independent: float) -> float:
    """Mean distance of that many independent draws from their own distribution."""
    return float(0.5 * np.sqrt(2 * p * (1 - p) / (np.pi * independent)).sum())
