"""The embedded host: Metropolis dynamics without CompuCell3D or Morpheus.

One Monte Carlo step is as many attempts as there are sites; an attempt is a uniform target site and a uniform
neighbour of it as source, as in the other hosts. The engine runs the models it covers; the others run here, over the
ΔH protocol.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .artifact import Artifact
from .delta import DeltaBackend, Energy, Part, open_backend
from .errors import UserError, engine_speaking
from .lattice import Geometry
from .state import CellState

Neighbourhood = Literal["moore", "von_neumann"] | int
"""Where copies come from: the sites around one, its nearest, or all up to an order."""
RESPONSE_SECONDS = 0.25
"""Longest time between two signs of life: how far a progress bar or an interrupt may lag."""


@dataclass(frozen=True)
class Dynamics:
    """How chains move. Chain i draws from the random stream `seed + i`."""

    temperature: float
    seed: int = 0
    neighbourhood: Neighbourhood = "moore"
    boundary_only: bool = False
    """Skip attempts within one cell, counting them: the same process in law, from other random numbers."""
    part: Part = "full"
    forbid_extinction: bool = False

    def copy_order(self, geometry: Geometry) -> int:
        """The order of the neighbourhood that copies come from."""
        words = {"moore": geometry.moore_order, "von_neumann": 1}
        order = words.get(self.neighbourhood) if isinstance(self.neighbourhood, str) else self.neighbourhood
        if order is None:
            raise UserError(
                f"The neighbourhood {self.neighbourhood!r} is none: give 'moore', 'von_neumann' or an order from 1 on."
            )
        geometry.offsets(order)  # refuses what the geometry does not have
        return order


@dataclass
class Counts:
    """What the chains did, summed over them."""

    attempts: int = 0
    proposals: int = 0
    """Attempts between different cells: those that cost a ΔH."""
    accepted: int = 0

    def add(self, more: dict[str, int]) -> None:
        self.attempts += more["attempts"]
        self.proposals += more["proposals"]
        self.accepted += more["accepted"]


@dataclass
class Chains(ABC):
    """Independent chains of one model that advance together."""

    dynamics: Dynamics
    name: str
    counts: Counts = field(default_factory=Counts, init=False)

    @abstractmethod
    def advance(self, mcs: int) -> None:
        """Run every chain for `mcs` Monte Carlo steps; however they are grouped, the chains come out the same."""

    @abstractmethod
    def states(self) -> list[CellState]: ...

    @abstractmethod
    def energies(self) -> list[Energy]:
        """Both parts of H of every chain, whichever of them it runs with."""


class EngineChains(Chains):
    """Chains inside the engine, on several threads; they share the artifact's model."""

    def __init__(self, artifact: Artifact, states: Sequence[CellState], dynamics: Dynamics, threads: int = 1) -> None:
        from .backends.engine import EngineBackend

        super().__init__(dynamics, "engine")
        self.threads = threads
        self.copy_order = dynamics.copy_order(artifact.metadata.geometry)
        self.backends = [
            EngineBackend(artifact, state, part=dynamics.part, forbid_extinction=dynamics.forbid_extinction)
            for state in states
        ]

    def advance(self, mcs: int) -> None:
        from ._engine import run_chains

        how = self.dynamics
        seeds = [(how.seed + chain) % 2**64 for chain in range(len(self.backends))]
        states = [backend.engine for backend in self.backends]
        with engine_speaking():
            results = run_chains(
                states,
                mcs,
                how.temperature,
                seeds,
                self.threads,
                copy_order=self.copy_order,
                boundary_only=how.boundary_only,
            )
        for counts in results:
            self.counts.add(counts)

    def states(self) -> list[CellState]:
        return [backend.state() for backend in self.backends]

    def energies(self) -> list[Energy]:
        return [backend.energy() for backend in self.backends]


class ProtocolChains(Chains):
    """Chains over any ΔH back end, one attempt at a time: for models the engine does not cover."""

    def __init__(self, backends: Sequence[DeltaBackend], dynamics: Dynamics) -> None:
        super().__init__(dynamics, backends[0].name)
        if dynamics.boundary_only:
            raise UserError(
                f"Proposals on boundaries only need the engine, but this model runs on {self.name}: leave it out."
            )
        self.backends = list(backends)
        self.step = 0
        lattices = [backend.state().lattice for backend in backends]
        tables = {lattice: lattice.neighbours(dynamics.copy_order(lattice.geometry)) for lattice in set(lattices)}
        self.neighbours = [tables[lattice] for lattice in lattices]

    def advance(self, mcs: int) -> None:
        for step in range(self.step, self.step + mcs):
            for chain, backend in enumerate(self.backends):
                # Keyed by chain and step, so that a chain does not depend on how its steps are grouped.
                generator = np.random.Philox(key=(self.dynamics.seed + chain) % 2**64, counter=[0, 0, step, 0])
                random = np.random.Generator(generator)
                self.counts.add(metropolis_step(backend, self.dynamics, self.neighbours[chain], random))
        self.step += mcs

    def states(self) -> list[CellState]:
        return [backend.state() for backend in self.backends]

    def energies(self) -> list[Energy]:
        return [backend.energy() for backend in self.backends]


def metropolis_step(
    backend: DeltaBackend, dynamics: Dynamics, neighbours: NDArray[np.int64], random: np.random.Generator
) -> dict[str, int]:
    """One Monte Carlo step; `neighbours` `[sites, n]`: where copies come from, −1 for nowhere."""
    state = backend.state()
    ids, volumes = state.ids.ravel().copy(), state.volumes
    targets = np.ravel_multi_index(
        [random.integers(size, size=ids.size) for size in state.lattice.shape], state.lattice.shape
    )
    sources = neighbours[targets, random.integers(neighbours.shape[1], size=ids.size)]
    uniform = random.random(ids.size)
    counts = {"attempts": ids.size, "proposals": 0, "accepted": 0}
    for attempt in np.flatnonzero(sources >= 0):
        site = targets[attempt]
        old_id, new_id = ids[site], ids[sources[attempt]]
        if old_id == new_id:
            continue
        counts["proposals"] += 1
        if dynamics.forbid_extinction and old_id > 0 and volumes[old_id] == 1:
            continue
        delta = backend.delta(int(site), int(new_id))
        if math.isnan(delta):
            raise UserError("ΔH became undefined (not a number): the model's weights are out of range, train it again.")
        if delta > 0 and not (dynamics.temperature > 0 and uniform[attempt] < math.exp(-delta / dynamics.temperature)):
            continue
        backend.commit(int(site), int(new_id))
        ids[site] = new_id
        volumes[old_id] -= 1
        volumes[new_id] += 1
        counts["accepted"] += 1
    return counts


def open_chains(artifact: Artifact, states: Sequence[CellState], dynamics: Dynamics, threads: int = 1) -> Chains:
    """Chains on the engine where it covers the model, else over ONNX Runtime."""
    if not (math.isfinite(dynamics.temperature) and dynamics.temperature >= 0):
        raise UserError(f"The temperature is {dynamics.temperature}, but a finite number from 0 on is needed.")
    if artifact.engine_serves:
        return EngineChains(artifact, states, dynamics, threads)
    return ProtocolChains([open_backend(artifact, state, part=dynamics.part) for state in states], dynamics)


def evenly_spaced(mcs: int, count: int) -> list[int]:
    """Start, end and times between them: `count` steps, fewer where there are not as many."""
    count = max(min(count, mcs), 1)
    return sorted({round(mcs * k / count) for k in range(count + 1)})


def run(chains: Chains, mcs: int, snapshots: int, frames: int = 1) -> Iterator[tuple[int, list[CellState] | None]]:
    """Advance to `mcs`, yielding (steps done, states) at evenly spaced times, start and end among them.

    `frames` asks for a second row of such times, for an animation. In between it yields (steps done, None), often
    enough to show progress and to be interrupted.
    """
    times = sorted({*evenly_spaced(mcs, snapshots), *evenly_spaced(mcs, frames)})
    yield 0, chains.states()
    done, chunk = 0, 1
    for goal in times[1:]:
        while done < goal:
            began = time.perf_counter()
            steps = min(chunk, goal - done)
            chains.advance(steps)
            done += steps
            taken = time.perf_counter() - began
            if taken < RESPONSE_SECONDS / 2 and steps == chunk:
                chunk *= 2
            elif taken > RESPONSE_SECONDS:
                chunk = max(1, chunk // 2)
            yield done, chains.states() if done == goal else None
