"""The chains of a training run: where they start, when they start anew, how far they go in a round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.snapshots import Snapshots

from .config import ChainSection
from .hamiltonians import Hamiltonian
from .samplers import Ids, Moves, Sampler

GROWTH_SWEEPS = 30
"""Sweeps in which single pixels grow into cells before a mixed chain counts as a sample."""


class Chains:
    """`ids[n, H, W]` and `types[n, C]` of persistent chains, each of one group of the configuration."""

    def __init__(self, groups: tuple[ChainSection, ...], count: int) -> None:
        self.groups = groups
        shares = np.cumsum([group.share for group in groups]) / sum(group.share for group in groups)
        self.group = np.searchsorted(shares, (np.arange(count) + 0.5) / count).clip(max=len(groups) - 1)
        self.ids: Ids | None = None
        self.types: Ids | None = None

    def states(self) -> tuple[Ids, Ids]:
        """ids and types of every chain, once they have started."""
        assert self.ids is not None
        assert self.types is not None
        return self.ids, self.types

    def advance(
        self,
        hamiltonian: Hamiltonian,
        sampler: Sampler,
        partner_ids: Ids,
        partner_types: Ids,
        rng: np.random.Generator,
    ) -> Moves:
        """One round. Chain k starts anew from datum k with its group's probability, and at first."""
        fresh = self.ids is None
        if self.ids is None or self.types is None:
            self.ids, self.types = partner_ids.copy(), partner_types.copy()
        moves = []
        for number, group in enumerate(self.groups):
            members = np.flatnonzero(self.group == number)
            # Drawn in any case, so that the numbers that follow do not depend on where a run was resumed.
            drawn = rng.random(members.size) < group.reset
            anew = members if fresh else members[drawn]
            for chain in anew:
                self.ids[chain], self.types[chain] = started(group.start, partner_ids[chain], partner_types[chain], rng)
            if group.start == "mixed" and anew.size:
                moves.append(self._run(hamiltonian, sampler, anew, GROWTH_SWEEPS, rng))
            lengths = rng.choice(np.array(group.sweeps), size=members.size)
            for length in np.unique(lengths):
                moves.append(self._run(hamiltonian, sampler, members[lengths == length], float(length), rng))
        return Moves(sum(move.proposals for move in moves), sum(move.accepted for move in moves))

    def _run(
        self,
        hamiltonian: Hamiltonian,
        sampler: Sampler,
        which: NDArray[np.intp],
        sweeps: float,
        rng: np.random.Generator,
    ) -> Moves:
        assert self.ids is not None
        assert self.types is not None
        seed = int(rng.integers(2**63))
        self.ids[which], moves = sampler.advance(hamiltonian, self.ids[which], self.types[which], sweeps, seed)
        return moves


def started(start: str, ids: Ids, types: Ids, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """A chain's first state from a datum: itself, with its types shuffled, or its cells scattered as single pixels."""
    if start == "data":
        return ids, types
    if start == "permuted":
        cells = np.flatnonzero(types > 0)
        shuffled = types.copy()
        shuffled[cells] = types[rng.permutation(cells)]
        return ids, shuffled
    return scattered_like(ids, types, rng), types


def scattered_like(ids: Ids, types: Ids, rng: np.random.Generator) -> Ids:
    """The cells of a state as single pixels, in a disc of the tissue's area around the lattice's middle."""
    height, width = ids.shape
    rows, cols = np.mgrid[:height, :width]
    cells = np.flatnonzero(types > 0)
    away = (rows - (height - 1) / 2) ** 2 + (cols - (width - 1) / 2) ** 2
    area = max(int((ids > 0).sum()), cells.size)
    disc = np.argsort(away, axis=None, kind="stable")[:area]
    scattered = np.zeros(ids.size, dtype=np.int32)
    scattered[rng.choice(disc, cells.size, replace=False)] = cells
    return scattered.reshape(ids.shape)


def draw_data(snapshots: Snapshots, count: int, symmetries: bool, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """`count` states, each one once before any twice, turned and mirrored at random if asked."""
    rounds = -(-count // len(snapshots))
    chosen = np.concatenate([rng.permutation(len(snapshots)) for _ in range(rounds)])[:count]
    ids, types = snapshots.ids[chosen].astype(np.int32), snapshots.types[chosen].astype(np.int32)
    if symmetries:
        square = ids.shape[1] == ids.shape[2]
        for number, lattice in enumerate(ids):
            turned = np.rot90(lattice, int(rng.integers(4)) if square else 2 * int(rng.integers(2)))
            ids[number] = turned if rng.integers(2) else turned.T if square else turned[::-1]
    return ids, types
