"""A closure before any chain of its own runs: what tells data from the same states some steps of H_S later.

A chain leaves a datum x⁺ under H_S, by which it would come back as often as the energies say, and turns up at x⁻;
the log odds that x⁺ was the datum and not x⁻ are then H_NN(x⁻) − H_NN(x⁺), however long the chain was (conditional
noise contrast). Chains of H_S cost next to nothing, so there are thousands of pairs, one step to dozens of them apart,
and pairs of states kept apart say when to stop, whether the network knows anything that H_S does not, and how far it
has to see for that.

Where H_S leads so far away that every pair is told at a glance, pairs say which way is right and not how strongly.
Chains of a network that has learned from them stay nearer to the data; the log odds of their pairs are what is beyond
its own. Such generations follow each other until the last one's chains are hard to tell from data.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from neuralcpm_bridge.snapshots import Snapshots

from ..hamiltonians import CellGraph, Hamiltonian, States
from ..hamiltonians.cell_graph import Weighted
from ..samplers import ExactChains
from .closure import WEIGHT_DECAY

LENGTHS, CLOSURE_LENGTHS = (1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8, 16)
"""Monte Carlo steps between the states of a pair, by chains of H_S and by those of a network, which are slower."""
BATCH = 24
"""Pairs of a step."""
PARTS, CLOSURE_PARTS, LEAST_PARTS, FEWEST_PARTS = 160, 80, 24, 4
"""Of pairs to train on: wanted by chains of H_S and of a network, wanted of states with very many cells, and made
however long it takes."""
KEPT_APART = 0.15
MOST_NUMBERS = 60_000_000
"""Numbers that describe all pairs at most: 250 MB."""
MOST_STEPS = 4000
LOOK_EVERY = 50
PATIENCE = 30
"""Looks at the pairs kept apart without a gain after which training ends: what counts neighbours is found late."""
EASY_FIRST = 0.5
"""Of the steps, in which generations come in one after the other: the hard ones alone teach nothing at first."""
RATE = 4e-3
KEEP = 0.95
"""Of the averaged weights per step."""


Show = Callable[[float, float], None]
"""How much is done, of how much."""


class Part(NamedTuple):
    """Data and, behind them, what they became, `2 · BATCH` graphs as every network of these data sees them; `state`: of
    every cell; `numbers`: of the data."""

    weighted: Weighted
    state: Tensor
    at_knots: Tensor
    """Pairs of cells by kind and distance, of every state, `[2 · BATCH, P · knots]`."""
    numbers: NDArray[np.int64]
    known: Tensor
    """Log odds to the network under which the chains ran, `[BATCH]`; 0 to H_S."""


class Job(NamedTuple):
    """A closure to train; `stream`: of the order in which it sees pairs; `half`: on those of half of the states."""

    model: Hamiltonian
    stream: int = 0
    half: bool = False


class Trained(NamedTuple):
    """A closure, and by state kept apart what it knows about a pair: 0 is nothing, log 2 everything."""

    model: Hamiltonian
    gains: NDArray[np.float64]


def surprise(values: NDArray[np.float64]) -> float:
    """A mean over states in its standard errors."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    return float(values.mean() / max(error, 1e-12))


class Pairs:
    """Pairs to train on, pairs of half of the states, and pairs kept apart; the same for every network."""

    def __init__(
        self, network: CellGraph, analytic: Hamiltonian, data: Snapshots, seed: int, threads: int, deadline: float
    ) -> None:
        """By chains of H_S. `deadline`, of `time.monotonic`: there are fewer pairs where all would take longer."""
        self.network, self.data, self.seed, self.threads = network, data, seed, threads
        self.rng = np.random.default_rng([seed, 41])
        order = self.rng.permutation(len(data))
        apart = max(1, round(KEPT_APART * len(data)))
        rest = order[apart:] if len(order) > apart else order
        self.sets = [np.sort(states) for states in (order[:apart], rest[::2], rest[1::2]) if len(states)]
        self.apart, self.half, self.all = list[Part](), list[list[Part]](), list[list[Part]]()
        self.by_analytic = self._add(analytic, LENGTHS, PARTS, deadline)

    def follow(self, closure: Hamiltonian, deadline: float) -> list[Part]:
        """A further generation, by chains of a closure that has learned from those before; its pairs kept apart."""
        return self._add(closure, CLOSURE_LENGTHS, CLOSURE_PARTS, deadline)

    def _add(self, noise: Hamiltonian, lengths: Sequence[int], most: int, deadline: float) -> list[Part]:
        count = int(np.clip(MOST_NUMBERS // (2 * BATCH * self.data.types.shape[1] * 40), LEAST_PARTS, most))
        make, made = PairMaker(self.network, noise, lengths, self.threads, self.rng), list[list[Part]]()
        for number, states in enumerate(self.sets):
            wanted = max(LEAST_PARTS // 2, count // 5) if number == 0 else -(-count // (len(self.sets) - 1))
            now = time.monotonic()
            made.append(make(self.data.chosen(states), wanted, now + (deadline - now) / (len(self.sets) - number)))
        self.apart += made[0]
        self.half.append(made[1])
        self.all.append([part for parts in made[1:] for part in parts])
        return made[0]

    def train_each(self, jobs: Sequence[Job], deadline: float, show: Show | None = None) -> list[Trained]:
        """Several closures, as many at a time as there are threads, each with its part of the time."""
        seconds = (deadline - time.monotonic()) * min(self.threads, len(jobs)) / len(jobs)
        done, lock = [0.0] * len(jobs), Lock()

        def train(number: int) -> Trained:
            def show_all(step: float, steps: float) -> None:
                with lock:
                    done[number] = step / steps
                    if show is not None:
                        show(sum(done), len(done))

            return self.train(jobs[number], seconds, show_all)

        with ThreadPoolExecutor(self.threads) as pool:  # torch lets go of the interpreter
            return list(pool.map(train, range(len(jobs))))

    def train(self, job: Job, seconds: float, show: Show | None = None) -> Trained:
        """Train a closure's network until the pairs kept apart gain no more, or time is over."""
        model, generations = job.model, self.half if job.half else self.all
        rng = np.random.default_rng([self.seed, 43, job.stream])
        parameters = [p for name, p in model.named_parameters() if not name.startswith("symbolic.")]
        optimizer = torch.optim.AdamW(parameters, RATE, weight_decay=WEIGHT_DECAY, fused=True)
        averaged = copy.deepcopy(model)
        best, best_loss, since, step = copy.deepcopy(model), float("inf"), 0, 0
        began, steps = time.monotonic(), MOST_STEPS
        for step in range(1, MOST_STEPS + 1):
            for group in optimizer.param_groups:
                group["lr"] = RATE * min(1.0, 2 * (1 - step / (steps + 1)))
            seen = min(1 + int(len(generations) * step / (EASY_FIRST * steps)), len(generations))
            parts = [part for generation in generations[:seen] for part in generation]
            loss = F.softplus(-odds(model, parts[int(rng.integers(len(parts)))])).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 10.0)
            optimizer.step()
            _average(averaged, model)
            if step % LOOK_EVERY:
                continue
            steps = min(MOST_STEPS, max(step, int(step * seconds / max(time.monotonic() - began, 1e-9))))
            if show is not None:
                show(step, steps)
            with torch.no_grad():
                found = float(torch.cat([F.softplus(-odds(averaged, test)) for test in self.apart]).mean())
            since = 0 if found < best_loss or seen < len(generations) else since + 1
            if found < best_loss:
                best, best_loss = copy.deepcopy(averaged), found
            if since >= PATIENCE or step >= steps:
                break
        return Trained(best, self.gains(best))

    def gains(self, model: Hamiltonian, parts: Sequence[Part] | None = None) -> NDArray[np.float64]:
        """What it knows of pairs kept apart (of all, or of some): log 2 less the loss of the whole committee, by
        state."""
        by_state: dict[int, list[float]] = {}
        with torch.no_grad():
            for test in self.apart if parts is None else parts:
                own = np.log(2) - F.softplus(-odds(model, test).mean(1)).numpy()
                for state, gain in zip(test.numbers, own, strict=True):
                    by_state.setdefault(int(state), []).append(float(gain))
        return np.array([np.mean(values) for values in by_state.values()])


class PairMaker:
    """Makes parts of pairs by chains of H_S, or of a closure."""

    def __init__(
        self,
        network: CellGraph,
        noise: Hamiltonian,
        lengths: Sequence[int],
        threads: int,
        rng: np.random.Generator,
    ) -> None:
        self.network, self.noise, self.lengths, self.rng = network, noise, lengths, rng
        self.advance = ExactChains(threads=threads).on(noise)

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
        lengths = self.rng.choice(self.lengths, size=len(begun))
        for length in np.unique(lengths):
            which = np.flatnonzero(lengths == length)
            ended, _ = self.advance(begun.chosen(which), float(length), int(self.rng.integers(2**63)))
            later.ids[which] = ended.ids
        arrays = [np.concatenate([getattr(begun, key), getattr(later, key)]) for key in ("ids", "types", "properties")]
        ids, types, properties = (torch.from_numpy(array) for array in arrays)
        states = States(ids.long(), types.long(), data.lattice, properties)
        graphs = self.network.describe(states)
        of_cells = self.network.pairs_at_knots(graphs) if self.network.spec.knots else torch.zeros(len(graphs.ids), 0)
        at_knots = of_cells.new_zeros(2 * len(numbers), of_cells.shape[1]).index_add(0, graphs.state, of_cells / 2)
        nothing = torch.zeros(len(numbers), dtype=torch.float64)
        part = Part(self.network.weighted(graphs), graphs.state, at_knots, numbers, nothing)
        if self.noise.network is None:
            return part
        with torch.no_grad():
            return part._replace(known=odds(self.noise, part).mean(1))


def odds(model: Hamiltonian, part: Part) -> Tensor:
    """w_NN (H_NN(x⁻) − H_NN(x⁺)) beyond what the chains knew, `[n, K]`."""
    assert isinstance(model.network, CellGraph)
    assert model.network_weight is not None
    cells = torch.stack([member(part.weighted) for member in model.network.members], dim=1).double()
    energies = cells.new_zeros(2 * len(part.numbers), cells.shape[1]).index_add(0, part.state, cells)
    if model.network.spec.knots:
        energies = energies + part.at_knots @ model.network.pair_energies().flatten(1).T
    before, after = energies.chunk(2)
    return model.network_weight() * (after - before) - part.known[:, None]


def committee(model: Hamiltonian, alone: Sequence[Hamiltonian]) -> Hamiltonian:
    """Closures of one network each as a closure whose members they are; `model`: of that architecture."""
    assert isinstance(model.network, CellGraph)
    assert model.network_weight is not None
    with torch.no_grad():
        for member, own in zip(model.network.members, alone, strict=True):
            assert isinstance(own.network, CellGraph)
            assert own.network_weight is not None
            weights, scale = own.network.members[0].state_dict(), own.network_weight() / model.network_weight()
            scaled = [name for name in weights if name in ("out.weight", "out.bias", "pairs")]
            member.load_state_dict(weights | {name: weights[name] * scale for name in scaled})
    return model


def _average(averaged: Hamiltonian, model: Hamiltonian) -> None:
    with torch.no_grad():
        for own, new in zip(averaged.parameters(), model.parameters(), strict=True):
            own.mul_(KEEP).add_(new, alpha=1 - KEEP)
