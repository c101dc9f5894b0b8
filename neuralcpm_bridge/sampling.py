"""Chains of a model on the engine, many at once: what training compares with data, and samples from mixed starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .artifact import Artifact
from .errors import engine_speaking
from .initial import scattered_like
from .snapshots import Snapshots
from .state import CellState

if TYPE_CHECKING:
    from ._engine import Model, State

Ids = NDArray[np.int32]

GROWTH_MCS = 30
"""Monte Carlo steps in which single pixels grow into cells before a mixed chain counts as a sample."""


class Moves(NamedTuple):
    """What happened: proposals that cost a ΔH, and how many of them were accepted."""

    proposals: int
    accepted: int

    @property
    def acceptance(self) -> float:
        return self.accepted / self.proposals if self.proposals else 0.0


@dataclass(frozen=True)
class ChainRules:
    """Serial copy dynamics on the engine, one chain per thread at a time.

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
    forbid_extinction: bool = True

    def run(self, model: Model, starts: Snapshots, mcs: int, seed: int) -> tuple[Snapshots, Moves]:
        """Later states of chains, whose starts stay as they are; each has its own stream."""
        from ._engine import State, run_chains

        read = starts.reading(model.properties)
        tables = [np.ascontiguousarray(table) for table in read.properties]
        with engine_speaking():
            states = [
                State(
                    model,
                    np.ascontiguousarray(own, dtype=np.int32),
                    np.ascontiguousarray(of_cell, dtype=np.int32),
                    "full",
                    self.forbid_extinction,
                    properties=table,
                )
                for own, of_cell, table in zip(read.ids, read.types, tables, strict=True)
            ]
            done = run_chains(
                states,
                mcs,
                self.temperature,
                chain_seeds(seed, len(states)),
                threads=self.threads,
                boundary_only=True,
                balanced=self.balanced,
                staged=self.staged,
                trades=self.trades,
            )
        rows = zip(states, read.types, tables, strict=True)
        later = np.stack([_relabelled(state, of_cell, table) for state, of_cell, table in rows])
        moves = Moves(sum(one["proposals"] for one in done), sum(one["accepted"] for one in done))
        return replace(starts, ids=later), moves


def chain_seeds(seed: int, count: int) -> list[int]:
    """Independent seeds of the chains of one call."""
    return [int(word) for word in np.random.SeedSequence(seed).generate_state(count, np.uint64)]


def _relabelled(state: State, types: Ids, properties: NDArray[np.float64]) -> Ids:
    """The ids of an engine state whose cells traded places, numbered so that every id has its old type and properties
    again."""
    number = np.empty(types.size, dtype=np.int32)
    number[_by_kind(state.types, state.properties)] = _by_kind(types, properties)
    return number[state.ids]


def _by_kind(types: Ids, properties: NDArray[np.float64]) -> NDArray[np.intp]:
    """Ids sorted by what a model knows of their cells; those of no cell and the medium stand apart from them."""
    known = np.where(types[:, None] > 0, properties, 0.0)
    return np.lexsort((*known.T, types))


def drawn_evenly(count: int, of: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`count` numbers of `of` states, each one once before any twice."""
    return np.concatenate([rng.permutation(of) for _ in range(-(-count // of))])[:count]


def mixed_starts(data: Snapshots, replicates: int, rng: np.random.Generator) -> list[CellState]:
    """The cells of states of the data, each used once before any twice, scattered as single pixels.

    Starts near the data flatter a model: only what a chain finds from afar is its own.
    """
    return [scattered_like(data[int(number)], rng) for number in drawn_evenly(replicates, len(data), rng)]


def sample_from_mixed(
    model: Artifact | Model,
    data: Snapshots,
    replicates: int,
    mcs: int,
    *,
    temperature: float | None = None,
    seed: int = 0,
    threads: int = 1,
    staged: bool = False,
    trades: int = 0,
) -> Snapshots:
    """Chains from the data's cells scattered as single pixels, one snapshot of each at its end.

    Temperature and the rule about a cell's last pixel are the model's; architectures that the engine does not serve
    run over ONNX Runtime, one attempt at a time. `staged`, `trades`: see ChainRules.
    """
    engine = model.model if isinstance(model, Artifact) else model
    rng = np.random.default_rng([seed, 11])
    starts = mixed_starts(data, replicates, rng)
    warmth, steps = engine.temperature if temperature is None else temperature, GROWTH_MCS + mcs
    if isinstance(model, Artifact):
        starts = [model.place(state) for state in starts]
    provenance: dict[str, Any] = {"sampled from": engine.name, "mcs": steps, "seed": seed}
    if trades:
        provenance["trades"] = trades
    chain_seed = int(rng.integers(2**63))
    rest: dict[str, Any] = {"type_names": data.type_names, "provenance": provenance}
    if isinstance(model, Artifact) and not model.engine_serves:
        from .embedded import Dynamics, open_chains

        dynamics = Dynamics(warmth, chain_seed, forbid_extinction=engine.forbids_extinction)
        chains = open_chains(model, starts, dynamics, threads)
        chains.advance(steps)
        return Snapshots.from_states(chains.states(), **rest)
    rules = ChainRules(warmth, threads, False, staged, trades, engine.forbids_extinction)
    ended, _ = rules.run(engine, Snapshots.from_states(starts), steps, chain_seed)
    return replace(ended, **rest)
