"""Samplers behind one interface: a Hamiltonian in, chains that move under it out.

`ExactChains` runs the serial copy dynamics of the cellular Potts model on the engine, `ParallelSampler` the paper's
approximate one in torch; `GibbsSampler` and `GibbsWithGradients` are those of any discrete distribution that the paper
compares with: they put any cell's id on any site. None keeps anything between calls: a chain is its state, its
randomness the call's seed.

The copy dynamics (a uniform site takes the id of a uniform neighbour, accepted with min(1, e^{−ΔH/T})) is what
CompuCell3D and Morpheus do. It is a Markov chain with a stationary distribution of its own, close to but not equal
to the Boltzmann distribution, because a copy and its reverse are not proposed equally often. Training against it
is training for the hosts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from neuralcpm_bridge._engine import Model, State
from neuralcpm_bridge.artifact import ENGINE_KINDS, NeuralEntry
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.sampling import ChainRules, Moves, chain_seeds
from neuralcpm_bridge.snapshots import Snapshots

from .config import SamplerSection
from .engine import engine_model
from .export.artifact import weights_of
from .hamiltonians import Hamiltonian, States


class Advance(Protocol):
    """Chains under one Hamiltonian, as it was when the sampler was set on it."""

    def __call__(self, starts: Snapshots, sweeps: float, seed: int) -> tuple[Snapshots, Moves]:
        """Later states of chains; the arguments stay as they are.

        `sweeps`: Monte Carlo steps (exact) or boundary flips per site (parallel).
        """
        ...


class Sampler(Protocol):
    def on(self, hamiltonian: Hamiltonian) -> Advance:
        """Set on a Hamiltonian: all chains of a round share what this prepares."""
        ...


def model_of(hamiltonian: Hamiltonian, temperature: float = 1.0) -> Model:
    """An engine model with the Hamiltonian's current weights."""
    network, weights, neural = hamiltonian.network, weights_of(hamiltonian), None
    if network is not None:
        if network.spec.kind not in ENGINE_KINDS:
            raise UserError(
                f"The engine runs no chains of the architecture {hamiltonian.architecture!r}: "
                "set sampler.kind = 'parallel'."
            )
        neural = NeuralEntry(**network.spec.model_dump(), weight=float(weights["neural.weight"]))
    return engine_model(
        hamiltonian.type_names,
        hamiltonian.lattice,
        weights,
        orders=hamiltonian.orders,
        neural=neural,
        name=hamiltonian.architecture,
        temperature=temperature,
    )


class ExactChains(ChainRules):
    """The hosts' dynamics; a cell's last pixel is never taken."""

    def on(self, hamiltonian: Hamiltonian) -> Advance:
        model = model_of(hamiltonian)

        def advance(starts: Snapshots, sweeps: float, seed: int) -> tuple[Snapshots, Moves]:
            return self.run(model, starts, max(1, round(sweeps)), seed)

        return advance


@dataclass(frozen=True)
class ParallelSampler:
    """The paper's sampler: `flips` boundary sites at once, each tested alone on the same state, applied together."""

    temperature: float = 1.0
    flips: int = 50

    def on(self, hamiltonian: Hamiltonian) -> Advance:
        device = next(hamiltonian.parameters()).device

        def advance(starts: Snapshots, sweeps: float, seed: int) -> tuple[Snapshots, Moves]:
            generator = torch.Generator(device).manual_seed(seed % 2**63)
            read = starts.reading(hamiltonian.properties)
            current, types = (torch.from_numpy(array).long().to(device) for array in (read.ids, read.types))
            properties = torch.from_numpy(read.properties).to(device)
            moves = [Moves(0, 0)]
            with torch.no_grad():
                for _ in range(max(1, round(sweeps * starts.lattice.sites / self.flips))):
                    states = hamiltonian.states(current, types, properties)
                    current, made = self._step(hamiltonian, states, generator)
                    moves.append(made)
            total = Moves(*(sum(column) for column in zip(*moves, strict=True)))
            return replace(starts, ids=current.cpu().numpy().astype(np.int32)), total

        return advance

    def _step(self, hamiltonian: Hamiltonian, states: States, generator: torch.Generator) -> tuple[Tensor, Moves]:
        """One parallel step: the next ids `[B, *shape]`."""
        ids, order = states.ids, hamiltonian.geometry.moore_order
        boundary = states.boundary(order)
        count = min(self.flips, int(boundary.sum(1).min()))
        if count == 0:
            return ids, Moves(0, 0)
        sites = torch.multinomial(boundary.float(), count, generator=generator)  # [B, n], without replacement
        old_ids, around = states.flat.gather(1, sites), states.around(sites, order)
        differs = (around != old_ids[..., None]) & (around >= 0)
        pick = torch.multinomial(differs.float().flatten(0, 1), 1, generator=generator).view(*sites.shape, 1)
        new_ids = around.gather(2, pick)[..., 0]
        deltas = hamiltonian.flip_deltas(states, sites, new_ids)
        last_pixel = (old_ids > 0) & (states.volumes.gather(1, old_ids) == 1)
        chance = torch.exp(-deltas.clamp(min=0) / self.temperature)
        uniform = torch.rand(deltas.shape, generator=generator, device=ids.device, dtype=deltas.dtype)
        accept = (uniform < chance) & ~last_pixel
        changed = states.flat.scatter(1, sites, torch.where(accept, new_ids, old_ids))
        return changed.view_as(ids), Moves(accept.numel(), int(accept.sum()))


@dataclass(frozen=True)
class GibbsSampler:
    """A random site takes an id drawn from e^{−H/T} given all other sites; sweep by sweep, every site once in a sweep.

    `flips` sites are drawn at once, each given the same state (one: e^{−H/T} itself). A cell's last pixel stays.
    """

    temperature: float = 1.0
    flips: int = 50

    def on(self, hamiltonian: Hamiltonian) -> Advance:
        model = model_of(hamiltonian)

        def advance(starts: Snapshots, sweeps: float, seed: int) -> tuple[Snapshots, Moves]:
            read, ended, changed = starts.reading(model.properties), [], 0
            drawn = max(1, round(sweeps * starts.lattice.sites))
            for number, own in enumerate(chain_seeds(seed, len(starts))):
                state = State(
                    model, read.ids[number], read.types[number], "full", True, properties=read.properties[number]
                )
                changed += self._run(state, drawn, np.random.default_rng(own))
                ended.append(state.ids)
            return replace(starts, ids=np.stack(ended)), Moves(drawn * len(starts), changed)

        return advance

    def _run(self, state: State, drawn: int, rng: np.random.Generator) -> int:
        """Draws so many sites; how many of them changed."""
        cells, sites, changed = np.flatnonzero(state.types >= 0), state.ids.size, 0
        order = np.concatenate([rng.permutation(sites) for _ in range(-(-drawn // sites))])[:drawn]
        for first in range(0, drawn, self.flips):
            chosen = order[first : first + self.flips]
            old, volumes = state.ids.ravel()[chosen], state.volumes
            energies = state.deltas(np.repeat(chosen, cells.size), np.tile(cells, chosen.size)).sum(1)
            noise = rng.gumbel(size=(chosen.size, cells.size))
            new = cells[np.argmax(noise - energies.reshape(noise.shape) / self.temperature, axis=1)]
            moves = (new != old) & ((old == 0) | (volumes[old] > 1))
            state.change_pixels(chosen[moves], new[moves])
            changed += int(moves.sum())
        return changed


@dataclass(frozen=True)
class GibbsWithGradients:
    """Gibbs-with-gradients (Grathwohl et al. 2021): a flip is proposed by e^{−s/2T}, s its ΔH as the slope of the
    energy with the occupancy of sites foretells it, and accepted as its true ΔH and the proposal of its reverse say.

    `flips` sites at once, each tested alone on the same state, reverses as they are where all are made (one: e^{−H/T}
    itself). A cell's last pixel stays.
    """

    temperature: float = 1.0
    flips: int = 50

    def on(self, hamiltonian: Hamiltonian) -> Advance:
        device = next(hamiltonian.parameters()).device

        def advance(starts: Snapshots, sweeps: float, seed: int) -> tuple[Snapshots, Moves]:
            generator = torch.Generator(device).manual_seed(seed % 2**63)
            current, types = (torch.from_numpy(array).long().to(device) for array in (starts.ids, starts.types))
            moves = [Moves(0, 0)]
            with torch.no_grad():
                for _ in range(max(1, round(sweeps * starts.lattice.sites / self.flips))):
                    current, made = self._step(hamiltonian, hamiltonian.states(current, types), generator)
                    moves.append(made)
            total = Moves(*(sum(column) for column in zip(*moves, strict=True)))
            return replace(starts, ids=current.cpu().numpy().astype(np.int32)), total

        return advance

    def _step(self, hamiltonian: Hamiltonian, states: States, generator: torch.Generator) -> tuple[Tensor, Moves]:
        logs, of_sites = self._proposals(hamiltonian, states)
        count = min(self.flips, int(of_sites.isfinite().sum(1).min()))
        if count == 0:
            return states.ids, Moves(0, 0)
        sites = torch.multinomial(of_sites.softmax(1), count, generator=generator)  # [B, n], without replacement
        rows = torch.arange(len(sites), device=sites.device)[:, None]
        new_ids = torch.multinomial(logs[rows, sites].softmax(2).flatten(0, 1), 1, generator=generator).view_as(sites)
        forth = logs[rows, sites, new_ids] - of_sites.logsumexp(1)[:, None]
        old_ids = states.flat.gather(1, sites)
        changed = states.flat.scatter(1, sites, new_ids).view_as(states.ids)
        logs, of_sites = self._proposals(hamiltonian, hamiltonian.states(changed, states.types))
        back = logs[rows, sites, old_ids] - of_sites.logsumexp(1)[:, None]
        odds = back - forth - hamiltonian.flip_deltas(states, sites, new_ids) / self.temperature
        accept = torch.rand(odds.shape, generator=generator, device=odds.device, dtype=odds.dtype).log() < odds
        made = states.flat.scatter(1, sites, torch.where(accept, new_ids, old_ids))
        return made.view_as(states.ids), Moves(accept.numel(), int(accept.sum()))

    def _proposals(self, hamiltonian: Hamiltonian, states: States) -> tuple[Tensor, Tensor]:
        """Logarithms of the weights of every flip, `[B, sites, C]`, and of all flips of every site, `[B, sites]`."""
        slopes, own = hamiltonian.slopes(states), states.flat[..., None]
        logs = (slopes.gather(2, own) - slopes).div_(2 * self.temperature).scatter_(2, own, -torch.inf)
        logs.masked_fill_((states.types < 0)[:, None], -torch.inf)
        logs[(states.flat > 0) & (states.volumes.gather(1, states.flat) == 1)] = -torch.inf
        return logs, logs.logsumexp(2)


def make_sampler(settings: SamplerSection) -> Sampler:
    """As a configuration names them."""
    if settings.kind == "parallel":
        return ParallelSampler(settings.temperature, settings.flips)
    if settings.kind == "gibbs":
        return GibbsSampler(settings.temperature, settings.flips)
    if settings.kind == "gwg":
        return GibbsWithGradients(settings.temperature, settings.flips)
    return ExactChains(settings.temperature, settings.threads, settings.balanced, settings.staged, settings.trades)
