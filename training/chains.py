"""The chains of a training run: where they start, when they start anew, how far they go in a round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.initial import scattered_like
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.sampling import GROWTH_MCS, Ids, Moves, drawn_evenly
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

from .config import ChainSection
from .hamiltonians import Hamiltonian
from .samplers import Advance, Sampler


class Chains:
    """`ids[n, *shape]` and `types[n, C]` of persistent chains, each of one group of the configuration."""

    def __init__(self, groups: tuple[ChainSection, ...], count: int, lattice: Lattice) -> None:
        self.groups, self.lattice = groups, lattice
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
        fresh, advance = self.ids is None, sampler.on(hamiltonian)
        if self.ids is None or self.types is None:
            self.ids, self.types = partner_ids.copy(), partner_types.copy()
        moves = []
        for number, group in enumerate(self.groups):
            members = np.flatnonzero(self.group == number)
            # Drawn in any case, so that the numbers that follow do not depend on where a run was resumed.
            drawn = rng.random(members.size) < group.reset
            anew = members if fresh else members[drawn]
            self._begin(anew, group.start, partner_ids, partner_types, rng)
            if group.start == "mixed" and anew.size:
                moves.append(self._run(advance, anew, GROWTH_MCS, rng))
            lengths = rng.choice(np.array(group.sweeps), size=members.size)
            for length in np.unique(lengths):
                moves.append(self._run(advance, members[lengths == length], float(length), rng))
        return Moves(sum(move.proposals for move in moves), sum(move.accepted for move in moves))

    def _begin(
        self, which: NDArray[np.intp], start: str, partner_ids: Ids, partner_types: Ids, rng: np.random.Generator
    ) -> None:
        ids, types = self.states()
        for chain in which:
            datum = CellState(partner_ids[chain], partner_types[chain], self.lattice)
            begun = started(start, datum, rng)
            ids[chain], types[chain] = begun.ids, begun.types

    def _run(self, advance: Advance, which: NDArray[np.intp], sweeps: float, rng: np.random.Generator) -> Moves:
        ids, types = self.states()
        seed = int(rng.integers(2**63))
        ids[which], moves = advance(ids[which], types[which], sweeps, seed)
        return moves


def started(start: str, datum: CellState, rng: np.random.Generator) -> CellState:
    """A chain's first state from a datum: itself, with its types shuffled, or its cells scattered as single pixels."""
    if start == "mixed":
        return scattered_like(datum, rng)
    if start == "data":
        return datum
    cells = np.flatnonzero(datum.types > 0)
    shuffled = datum.types.copy()
    shuffled[cells] = datum.types[rng.permutation(cells)]
    return CellState(datum.ids, shuffled, datum.lattice)


def draw_data(snapshots: Snapshots, count: int, symmetries: bool, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """`count` states, each one once before any twice, turned and mirrored at random if asked."""
    chosen = drawn_evenly(count, len(snapshots), rng)
    ids, types = snapshots.ids[chosen].astype(np.int32), snapshots.types[chosen].astype(np.int32)
    if symmetries:
        turns = snapshots.lattice.symmetries()
        for number, state in enumerate(ids):
            ids[number] = state.ravel()[turns[rng.integers(len(turns))]].reshape(state.shape)
    return ids, types
