"""What training descends: the paper's persistent contrastive divergence, or conditional noise contrast.

Both compare data x⁺ with chain states x⁻ sampled under a reference Hamiltonian, the model itself when the round of
sampling began. `pcd` descends H(x⁺) − H(x⁻) (the paper's Algorithm 1 with one step per round). `conditional` descends

    softplus(−G),    G = [(H − H_ref)(x⁻) − (H − H_ref)(x⁺)] / T

A chain that leaves x⁺ under dynamics reversible for H_ref is proposed from x⁺ and x⁺ from it with odds e^{−ΔH_ref/T},
so G is the exact log-odds of telling datum from noise (conditional noise-contrastive estimation). At G = 0 its
gradient is that of contrastive divergence; further on it saturates. Samples may therefore serve several steps.

Every member of a committee has its own contrast. Chains are those of their mean, and so is the reference of chains that
have left their data; where a chain did not begin at its datum, there are no such odds, and a member is its own
reference.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from neuralcpm_bridge.snapshots import Snapshots

from .config import ObjectiveSection
from .hamiltonians import Hamiltonian, States


class Pairs:
    """Data x⁺ and as many chain states x⁻ behind them, `[2n, …]`."""

    def __init__(self, states: States) -> None:
        self.states = states

    @classmethod
    def of(cls, hamiltonian: Hamiltonian, data: Snapshots, chains: Snapshots) -> Pairs:
        """On a Hamiltonian's lattice; the properties are those that it reads."""
        ids, types, properties = (
            torch.from_numpy(np.concatenate([getattr(data, name), getattr(chains, name)]))
            for name in ("ids", "types", "properties")
        )
        return cls(hamiltonian.states(ids.long(), types.long(), properties))

    def __len__(self) -> int:
        return self.states.ids.shape[0] // 2

    def chosen(self, which: Tensor) -> Pairs:
        """Some of them, by number in ascending order; all of them know what was measured before."""
        if len(which) == len(self):
            return self
        return Pairs(self.states.chosen(torch.cat([which, which + len(self)])))

    def energies(self, hamiltonian: Hamiltonian) -> Contrast:
        return Contrast(hamiltonian.symbolic_energies(self.states)[:, None], hamiltonian.member_energies(self.states))


class Contrast(NamedTuple):
    """Energies of pairs, by member of a committee."""

    symbolic: Tensor
    """`[2n, 1]`."""
    members: Tensor
    """w_NN·H_NN, `[2n, K]`."""

    @property
    def total(self) -> Tensor:
        return self.symbolic + self.members

    @property
    def gap(self) -> Tensor:
        """H(x⁻) − H(x⁺), `[n, K]`."""
        data, chains = self.total.chunk(2)
        return chains - data

    def loss(
        self,
        objective: ObjectiveSection,
        temperature: float,
        reference: Tensor | None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """`reference`: H_ref(x⁻) − H_ref(x⁺), `[n, 1]`, of the conditional form; `weights`: of pairs, `[n, K]`, with
        the mean 1."""
        gap = self.gap / temperature
        contrasts = -gap if reference is None else F.softplus(reference / temperature - gap)
        contrast = contrasts.mean() if weights is None else (weights * contrasts).mean()
        if not objective.regularizer:
            return contrast
        # An energy's zero is arbitrary: what must not run away is the gap, to chains too slow to follow.
        bounded = gap
        if objective.regularize != "gap":
            energies = self.members if objective.regularize == "neural" else self.total
            bounded = math.sqrt(2) * energies / temperature
        return contrast + objective.regularizer * bounded.square().mean()
