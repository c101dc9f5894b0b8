"""A closure before any chain of its own runs: what tells data from the same states some steps of H_S later.

A chain leaves a datum x⁺ under H_S, by which it would come back as often as the energies say, and turns up at x⁻;
the log odds that x⁺ was the datum and not x⁻ are then H_NN(x⁻) − H_NN(x⁺), however long the chain was (conditional
noise contrast). Chains of H_S cost next to nothing, so there are thousands of pairs, one step to dozens of them apart,
and pairs of states kept apart say when to stop, whether the network knows anything that H_S does not, and how far it
has to see for that.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from neuralcpm_bridge.snapshots import Snapshots

from ..hamiltonians import CellGraph, CellGraphs, Hamiltonian, States
from ..samplers import ExactChains
from .closure import WEIGHT_DECAY

LENGTHS = (1, 2, 4, 8, 16, 32, 64)
"""Monte Carlo steps between the states of a pair."""
BATCH = 24
"""Pairs of a step."""
PARTS, LEAST_PARTS, FEWEST_PARTS = 160, 24, 4
"""Of pairs to train on: wanted, wanted of states with very many cells, and made however long it takes."""
KEPT_APART = 0.15
MOST_NUMBERS = 60_000_000
"""Numbers that describe all pairs at most: 500 MB."""
MOST_STEPS = 4000
LOOK_EVERY = 50
PATIENCE = 30
"""Looks at the pairs kept apart without a gain after which training ends: what counts neighbours is found late."""
RATE = 4e-3
KEEP = 0.95
"""Of the averaged weights per step."""


class Part(NamedTuple):
    """Data and, behind them, what they became, `2 · BATCH` graphs; `numbers`: of the data."""

    graphs: CellGraphs
    numbers: NDArray[np.int64]


class Trained(NamedTuple):
    """A closure, and by state kept apart what it knows about a pair: 0 is nothing, log 2 everything."""

    model: Hamiltonian
    gains: NDArray[np.float64]
    steps: int

    @property
    def gain(self) -> float:
        return float(self.gains.mean())

    @property
    def surprise(self) -> float:
        """By how many standard errors that lies above nothing."""
        return surprise(self.gains)


def surprise(values: NDArray[np.float64]) -> float:
    """A mean over states in its standard errors."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    return float(values.mean() / max(error, 1e-12))


class Pairs:
    """Pairs to train on, pairs of half of the states, and pairs kept apart; the same for every network."""

    def __init__(
        self, network: CellGraph, analytic: Hamiltonian, data: Snapshots, seed: int, threads: int, deadline: float
    ) -> None:
        """`deadline`, of `time.monotonic`: there are fewer pairs where all would take longer."""
        rng = np.random.default_rng([seed, 41])
        order = rng.permutation(len(data))
        apart = max(1, round(KEPT_APART * len(data)))
        rest = order[apart:] if len(order) > apart else order
        count = int(np.clip(MOST_NUMBERS // (2 * BATCH * data.types.shape[1] * 40), LEAST_PARTS, PARTS))
        make = PairMaker(network, analytic, threads, rng)
        self.seed = seed
        sets = [np.sort(states) for states in (order[:apart], rest[::2], rest[1::2]) if len(states)]
        made = []
        for number, states in enumerate(sets):
            wanted = max(LEAST_PARTS // 2, count // 5) if number == 0 else -(-count // (len(sets) - 1))
            now = time.monotonic()
            made.append(make(data.chosen(states), wanted, now + (deadline - now) / (len(sets) - number)))
        self.apart, self.half = made[:2]
        self.all = [part for parts in made[1:] for part in parts]

    def train(
        self,
        model: Hamiltonian,
        deadline: float,
        half: bool = False,
        show: Callable[[int, int], None] | None = None,
    ) -> Trained:
        """Train a closure's network until the pairs kept apart gain no more, or time is over."""
        rng, parts = np.random.default_rng([self.seed, 43]), self.half if half else self.all
        parameters = [p for name, p in model.named_parameters() if not name.startswith("symbolic.")]
        optimizer = torch.optim.AdamW(parameters, RATE, weight_decay=WEIGHT_DECAY)
        averaged = copy.deepcopy(model)
        best, best_loss, since, step = copy.deepcopy(model), float("inf"), 0, 0
        began, steps = time.monotonic(), MOST_STEPS
        for step in range(1, MOST_STEPS + 1):
            for group in optimizer.param_groups:
                group["lr"] = RATE * min(1.0, 2 * (1 - step / (steps + 1)))
            loss = F.softplus(-odds(model, parts[int(rng.integers(len(parts)))])).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 10.0)
            optimizer.step()
            _average(averaged, model)
            if step % LOOK_EVERY:
                continue
            steps = min(MOST_STEPS, max(step, int(step * (deadline - began) / max(time.monotonic() - began, 1e-9))))
            if show is not None:
                show(step, steps)
            with torch.no_grad():
                found = float(torch.cat([F.softplus(-odds(averaged, test)) for test in self.apart]).mean())
            since = 0 if found < best_loss else since + 1
            if found < best_loss:
                best, best_loss = copy.deepcopy(averaged), found
            if since >= PATIENCE or step >= steps:
                break
        return Trained(best, _gains(best, self.apart), step)


class PairMaker:
    """Makes parts of pairs by chains of H_S."""

    def __init__(self, network: CellGraph, analytic: Hamiltonian, threads: int, rng: np.random.Generator) -> None:
        self.network, self.rng = network, rng
        self.advance = ExactChains(threads=threads).on(analytic)

    def __call__(self, data: Snapshots, count: int, deadline: float) -> list[Part]:
        """So many parts, or as many as there is time for."""
        read, parts = data.reading(self.network.spec.properties), list[Part]()
        numbers = np.concatenate([self.rng.permutation(len(read)) for _ in range(-(-count * BATCH // len(read)))])
        for first in range(0, count * BATCH, BATCH):
            parts.append(self._part(read, numbers[first : first + BATCH]))
            if time.monotonic() > deadline and len(parts) >= FEWEST_PARTS:
                break
        return parts

    def _part(self, data: Snapshots, numbers: NDArray[np.int64]) -> Part:
        begun = data.chosen(numbers)
        later = begun.chosen(np.arange(len(begun)))
        lengths = self.rng.choice(LENGTHS, size=len(begun))
        for length in np.unique(lengths):
            which = np.flatnonzero(lengths == length)
            ended, _ = self.advance(begun.chosen(which), float(length), int(self.rng.integers(2**63)))
            later.ids[which] = ended.ids
        arrays = [np.concatenate([getattr(begun, key), getattr(later, key)]) for key in ("ids", "types", "properties")]
        ids, types, properties = (torch.from_numpy(array) for array in arrays)
        states = States(ids.long(), types.long(), data.lattice, properties)
        return Part(self.network.describe(states), numbers)


def odds(model: Hamiltonian, part: Part) -> Tensor:
    """w_NN (H_NN(x⁻) − H_NN(x⁺)), `[n, K]`."""
    assert isinstance(model.network, CellGraph)
    assert model.network_weight is not None
    before, after = model.network.member_energies(part.graphs).chunk(2)
    return model.network_weight() * (after - before)


def _gains(model: Hamiltonian, tests: list[Part]) -> NDArray[np.float64]:
    """log 2 less the loss of the whole committee, by state."""
    gains: dict[int, list[float]] = {}
    with torch.no_grad():
        for test in tests:
            own = np.log(2) - F.softplus(-odds(model, test).mean(1)).numpy()
            for state, gain in zip(test.numbers, own, strict=True):
                gains.setdefault(int(state), []).append(float(gain))
    return np.array([np.mean(values) for values in gains.values()])


def _average(averaged: Hamiltonian, model: Hamiltonian) -> None:
    with torch.no_grad():
        for own, new in zip(averaged.parameters(), model.parameters(), strict=True):
            own.mul_(KEEP).add_(new, alpha=1 - KEEP)
