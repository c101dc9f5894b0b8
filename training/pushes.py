"""How hard a cell graph pushes: its ΔH of single flips of the data.

A network that is told only how chains differ from data may reach the same difference in many ways; left alone it finds
steep ones, which tear pixels off cells and jump from round to round. Bounding the root mean square of what it adds to
single flips calms it: what a closure adds to one copy is a correction of contact and volume energies.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from neuralcpm_bridge.snapshots import Snapshots

from .hamiltonians import CellGraph, CellGraphs, Hamiltonian, States
from .warmstart import reversible_flips

PARTS, STATES, FLIPS = 32, 16, 4
"""Parts of the flips, one per training step by turns; states in a part, flips of each state."""

STRICTNESS = 10.0
"""Weight of the squared excess beside the contrast, which is of order 1."""

SMALLEST = 1e-12
"""Where nothing is pushed, a root has no slope."""


class Pushes:
    """Single flips of the data, described once for all steps; `bound`: on the root mean square, in units of T."""

    def __init__(self, network: CellGraph, snapshots: Snapshots, bound: float, seed: int) -> None:
        self.bound, rng = bound, np.random.default_rng([seed, 13])
        self.parts = [self._part(network, snapshots, rng) for _ in range(PARTS)]

    def _part(
        self, network: CellGraph, snapshots: Snapshots, rng: np.random.Generator
    ) -> tuple[CellGraphs, CellGraphs, Tensor]:
        """Graphs of states, of the same with one site changed each, and which states these were."""
        before: list[States] = []
        after, which = [], []
        for number in rng.choice(len(snapshots), size=min(STATES, len(snapshots)), replace=False):
            flips = reversible_flips(snapshots, int(number), FLIPS, rng)
            which.append(torch.full((flips.sites.numel(),), len(before)))
            before.append(flips.states)
            after.append(flips.changed())
        return network.describe(_joined(before)), network.describe(_joined(after)), torch.cat(which)

    def excess(self, hamiltonian: Hamiltonian, temperature: float, step: int) -> tuple[Tensor, float]:
        """The penalty, and the root mean square of w_NN·ΔH_NN / T over the flips of this step's part."""
        network, weight = hamiltonian.network, hamiltonian.network_weight
        assert isinstance(network, CellGraph)
        assert weight is not None
        before, after, which = self.parts[step % len(self.parts)]
        deltas = network.member_energies(after) - network.member_energies(before)[which]  # [n, K]
        push = weight() / temperature * (deltas.square().mean(0) + SMALLEST).sqrt()
        return STRICTNESS * F.relu(push - self.bound).square().mean(), push.detach().mean().item()


def _joined(batches: list[States]) -> States:
    """Of one lattice and number of ids."""
    parts = ([getattr(each, name) for each in batches] for name in ("ids", "types", "properties"))
    ids, types, properties = (torch.cat(each) for each in parts)
    return States(ids, types, batches[0].lattice, properties)
