"""Every state of a tiny lattice, the Boltzmann distribution on them and the stationary one of the copy dynamics."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from .hamiltonians import Hamiltonian


class Enumeration:
    """All states of `shape` in which every cell has a pixel and the medium none, and their energies.

    Copies cannot bring back a medium that is gone, so on a tiny lattice no other states recur.
    """

    def __init__(self, hamiltonian: Hamiltonian, types: list[int], shape: tuple[int, int]) -> None:
        self.shape, self.types = shape, np.array(types, dtype=np.int32)
        every = np.array(list(product(range(len(types)), repeat=shape[0] * shape[1])), dtype=np.int32)
        alive = np.all([(every == cell).any(1) == (cell > 0) for cell in range(len(types))], axis=0)
        self.states = every[alive]
        self.code = np.full(len(every), -1)
        self.code[np.flatnonzero(alive)] = np.arange(len(self.states))
        ids = torch.from_numpy(self.states.reshape(-1, *shape)).long()
        with torch.no_grad():
            kinds = torch.tensor(types)[None].expand(len(ids), -1)
            energies = hamiltonian(ids, kinds)
        self.energies = energies.total.numpy()
        self.parts = (energies.symbolic.numpy(), energies.neural.numpy())
        self.periodic = hamiltonian.boundary == "periodic"

    def index(self, ids: NDArray[np.int32]) -> NDArray[np.intp]:
        """Numbers of states `[n, H, W]`."""
        powers = len(self.types) ** np.arange(ids[0].size)[::-1]
        return self.code[ids.reshape(len(ids), -1) @ powers]

    def boltzmann(self, temperature: float = 1.0) -> NDArray[np.float64]:
        weights = np.exp(-(self.energies - self.energies.min()) / temperature)
        return weights / weights.sum()

    def neighbours(self, site: int) -> list[int]:
        """Flat indices of the eight neighbours; −1 beyond a free border."""
        height, width = self.shape
        row, col = divmod(site, width)
        found = []
        for down, right in product((-1, 0, 1), repeat=2):
            if (down, right) == (0, 0):
                continue
            r, c = row + down, col + right
            inside = self.periodic or (0 <= r < height and 0 <= c < width)
            found.append((r % height) * width + c % width if inside else -1)
        return found

    def copy_step(self, temperature: float = 1.0, *, staged: bool = False) -> NDArray[np.float64]:
        """Chances of every state after one attempt to copy a uniform neighbour's id into a uniform site.

        `staged`: both parts of the energy have to let a copy pass, one after the other.
        """
        hurdles = self.parts if staged else (self.energies,)
        sites = self.states.shape[1]
        powers = len(self.types) ** np.arange(sites)[::-1]
        codes = self.states @ powers
        step = np.zeros((len(self.states), len(self.states)))
        for site in range(sites):
            for other in self.neighbours(site):
                if other < 0:
                    continue
                change = self.states[:, other] - self.states[:, site]
                target = self.code[codes + change * powers[site]]
                allowed = (change != 0) & (target >= 0)
                source, target = np.flatnonzero(allowed), target[allowed]
                rise = sum(np.maximum(energy[target] - energy[source], 0) for energy in hurdles)
                np.add.at(step, (source, target), np.exp(-rise / temperature) / (8 * sites))
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
