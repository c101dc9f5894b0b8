"""Samplers behind one interface: states and a Hamiltonian in, later states of the same chains out.

`ExactChains` runs the serial copy dynamics of the cellular Potts model on the engine, `ParallelSampler` the paper's
approximate one in torch. Neither keeps anything between calls: a chain is its state, its randomness the call's seed.

The copy dynamics (a uniform site takes the id of a uniform neighbour, accepted with min(1, e^{−ΔH/T})) is what
CompuCell3D and Morpheus do. It is a Markov chain with a stationary distribution of its own, close to but not equal
to the Boltzmann distribution, because a copy and its reverse are not proposed equally often. Training against it
is training for the hosts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .config import SamplerSection
from .engine import engine_model
from .flips import MOORE, flip_deltas, neighbour_ids
from .generator import engine_module
from .hamiltonians import Hamiltonian

Ids = NDArray[np.int32]


class Moves(NamedTuple):
    """What happened: proposals that cost a ΔH, and how many of them were accepted."""

    proposals: int
    accepted: int

    @property
    def acceptance(self) -> float:
        return self.accepted / self.proposals if self.proposals else 0.0


class Sampler(Protocol):
    """`sweeps`: Monte Carlo steps (exact) or boundary flips per site (parallel)."""

    def advance(self, hamiltonian: Hamiltonian, ids: Ids, types: Ids, sweeps: float, seed: int) -> tuple[Ids, Moves]:
        """ids `[B, H, W]`, types `[B, C]` → later ids; the arguments stay as they are."""
        ...


def chain_seeds(seed: int, count: int) -> list[int]:
    """Independent seeds of the chains of one call."""
    return [int(word) for word in np.random.SeedSequence(seed).generate_state(count, np.uint64)]


def run_states(states: list[Any], mcs: int, temperature: float, seed: int, threads: int, **options: Any) -> Moves:
    """Advance engine states in place; `options`: `balanced`, `staged`, `trades` of the engine's sweeps."""
    seeds = chain_seeds(seed, len(states))
    done = engine_module().run_chains(states, mcs, temperature, seeds, threads=threads, boundary_only=True, **options)
    return Moves(sum(one["proposals"] for one in done), sum(one["accepted"] for one in done))


@dataclass(frozen=True)
class ExactChains:
    """Serial copy dynamics on the engine, one chain per thread at a time; a cell's last pixel is never taken.

    `balanced` chains weigh every copy by how often its reverse is proposed: they sample e^{−H/T} itself. `staged`
    ones ask the network only about copies that the analytic part lets pass, with odds of a copy and its reverse as
    before: a third to a fifth of the evaluations of a closure. `trades`: pairs of cells that are asked after every
    Monte Carlo step whether they trade places: arrangements that copies alone take thousands of steps to find.
    """

    temperature: float = 1.0
    threads: int = 1
    balanced: bool = False
    staged: bool = False
    trades: int = 0

    def advance(self, hamiltonian: Hamiltonian, ids: Ids, types: Ids, sweeps: float, seed: int) -> tuple[Ids, Moves]:
        model = engine_model(hamiltonian)
        state = engine_module().State
        states = [
            state(model, np.ascontiguousarray(lattice), np.ascontiguousarray(kinds), forbid_extinction=True)
            for lattice, kinds in zip(ids, types, strict=True)
        ]
        how: dict[str, Any] = {"balanced": self.balanced, "staged": self.staged, "trades": self.trades}
        moves = run_states(states, max(1, round(sweeps)), self.temperature, seed, self.threads, **how)
        return np.stack([relabelled(state, kinds) for state, kinds in zip(states, types, strict=True)]), moves


def relabelled(state: Any, types: Ids) -> Ids:
    """The ids of an engine state whose cells traded types, numbered so that every id has its old type again."""
    number = np.empty(types.size, dtype=np.int32)
    number[np.argsort(state.types, kind="stable")] = np.argsort(types, kind="stable")
    return number[state.ids]


@dataclass(frozen=True)
class ParallelSampler:
    """The paper's sampler: `flips` boundary sites at once, each tested alone on the same state, applied together."""

    temperature: float = 1.0
    flips: int = 50

    def advance(self, hamiltonian: Hamiltonian, ids: Ids, types: Ids, sweeps: float, seed: int) -> tuple[Ids, Moves]:
        device = next(hamiltonian.parameters()).device
        generator = torch.Generator(device).manual_seed(seed % 2**63)
        lattice = torch.from_numpy(ids).long().to(device)
        kinds = torch.from_numpy(types).long().to(device)
        rounds = max(1, round(sweeps * ids[0].size / self.flips))
        proposals = accepted = 0
        with torch.no_grad():
            for _ in range(rounds):
                done, taken = self._round(hamiltonian, lattice, kinds, generator)
                proposals, accepted = proposals + done, accepted + taken
        return lattice.cpu().numpy().astype(np.int32), Moves(proposals, accepted)

    def _round(
        self, hamiltonian: Hamiltonian, ids: Tensor, types: Tensor, generator: torch.Generator
    ) -> tuple[int, int]:
        """One parallel step in place."""
        batch, width = ids.shape[0], ids.shape[2]
        periodic = hamiltonian.boundary == "periodic"
        around = neighbour_ids(ids, periodic)  # [8, B, H, W], −1 beyond a free border
        differs = ((around != ids) & (around >= 0)).permute(1, 2, 3, 0).flatten(1, 2)  # [B, sites, 8]
        boundary = differs.any(2)
        count = min(self.flips, int(boundary.sum(1).min()))
        if count == 0:
            return 0, 0
        sites = torch.multinomial(boundary.float(), count, generator=generator)  # [B, n], without replacement
        at = torch.arange(batch, device=ids.device)[:, None]
        choices = differs[at, sites].float()
        pick = torch.multinomial(choices.flatten(0, 1), 1, generator=generator).view(batch, count)
        new_ids = around.permute(1, 2, 3, 0).flatten(1, 2)[at, sites, pick]
        deltas = flip_deltas(hamiltonian, ids, types, sites, new_ids)
        volumes = torch.zeros_like(types).scatter_add_(1, ids.flatten(1), torch.ones_like(ids).flatten(1))
        old = ids.flatten(1).gather(1, sites)
        last_pixel = (old > 0) & (volumes.gather(1, old) == 1)
        chance = torch.exp(-deltas.clamp(min=0) / self.temperature)
        uniform = torch.rand(deltas.shape, generator=generator, device=ids.device, dtype=deltas.dtype)
        accept = (uniform < chance) & ~last_pixel
        state, flip = accept.nonzero(as_tuple=True)
        ids[state, sites[state, flip] // width, sites[state, flip] % width] = new_ids[state, flip]
        return accept.numel(), int(accept.sum())


def make_sampler(settings: SamplerSection) -> Sampler:
    """As a configuration names them."""
    if settings.kind == "parallel":
        return ParallelSampler(settings.temperature, settings.flips)
    return ExactChains(settings.temperature, settings.threads, settings.balanced, settings.staged, settings.trades)


__all__ = [
    "MOORE",
    "ExactChains",
    "Moves",
    "ParallelSampler",
    "Sampler",
    "chain_seeds",
    "make_sampler",
    "run_states",
]
