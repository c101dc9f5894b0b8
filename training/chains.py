"""The chains of a training run: where they start, when they start anew, how far they go in a round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.initial import scattered_like
from neuralcpm_bridge.sampling import Moves
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

from .config import ChainSection
from .hamiltonians import Hamiltonian
from .samplers import Advance, Sampler

Starts = Callable[[str, CellState, np.random.Generator], CellState]
"""A chain's first state from the word for its kind and a datum."""


class Chains:
    """The states of persistent chains (none before the first round), each of one group of the configuration."""

    def __init__(self, groups: tuple[ChainSection, ...], count: int, starts: Starts | None = None) -> None:
        self.groups, self.starts = groups, starts or started
        shares = np.cumsum([group.share for group in groups]) / sum(group.share for group in groups)
        self.group = np.searchsorted(shares, (np.arange(count) + 0.5) / count).clip(max=len(groups) - 1)
        self.states: Snapshots | None = None

    @property
    def leave_their_data(self) -> NDArray[np.bool_]:
        """Of every chain, whether each round begins at the datum that it is compared with."""
        return np.array(
            [self.groups[number].start == "data" and self.groups[number].reset == 1 for number in self.group]
        )

    def advance(
        self, hamiltonian: Hamiltonian, sampler: Sampler, partners: Snapshots, rng: np.random.Generator
    ) -> Moves:
        """One round. Chain k starts anew from datum k with its group's probability, and at first."""
        fresh, advance = self.states is None, sampler.on(hamiltonian)
        if self.states is None:
            self.states = partners.chosen(np.arange(len(partners)))
        moves = []
        for number, group in enumerate(self.groups):
            members = np.flatnonzero(self.group == number)
            # Drawn in any case, so that the numbers that follow do not depend on where a run was resumed.
            drawn = rng.random(members.size) < group.reset
            anew = members if fresh else members[drawn]
            self._begin(anew, group.start, partners, rng)
            if group.start == "mixed" and anew.size:
                moves.append(self._run(advance, anew, group.settle, rng))
            lengths = rng.choice(np.array(group.sweeps), size=members.size)
            for length in np.unique(lengths):
                moves.append(self._run(advance, members[lengths == length], float(length), rng))
        return Moves(sum(move.proposals for move in moves), sum(move.accepted for move in moves))

    def _begin(self, which: NDArray[np.intp], start: str, partners: Snapshots, rng: np.random.Generator) -> None:
        assert self.states is not None
        for chain in which:
            begun = self.starts(start, partners[chain], rng)
            self.states.ids[chain], self.states.types[chain] = begun.ids, begun.types
            self.states.properties[chain] = begun.property_table()

    def _run(self, advance: Advance, which: NDArray[np.intp], sweeps: float, rng: np.random.Generator) -> Moves:
        assert self.states is not None
        ended, moves = advance(self.states.chosen(which), sweeps, int(rng.integers(2**63)))
        self.states.ids[which] = ended.ids
        return moves


def started(start: str, datum: CellState, rng: np.random.Generator) -> CellState:
    """A chain's first state from a datum: itself, with its cells in each other's places, or its cells scattered as
    single pixels. A cell keeps its type and its properties."""
    if start == "mixed":
        return scattered_like(datum, rng)
    if start == "data":
        return datum
    cells = np.flatnonzero(datum.types > 0)
    shuffled = np.arange(datum.types.size)
    shuffled[cells] = rng.permutation(cells)
    moved = {name: values[shuffled] for name, values in datum.properties.items()}
    return replace(datum, types=datum.types[shuffled], properties=moved)


def turned(states: Snapshots, rng: np.random.Generator) -> Snapshots:
    """Each turned and mirrored at random, as the lattice allows."""
    turns, ids = states.lattice.symmetries(), states.ids.copy()
    for number, state in enumerate(ids):
        ids[number] = state.ravel()[turns[rng.integers(len(turns))]].reshape(state.shape)
    return replace(states, ids=ids)
