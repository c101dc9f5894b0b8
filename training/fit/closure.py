"""The closure: a committee of cell graphs on top of a frozen H_S, by chains as old as the samples will be."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass

import numpy as np
import torch

from neuralcpm_bridge.sampling import GROWTH_MCS, mixed_starts
from neuralcpm_bridge.snapshots import Snapshots

from ..build import Description, build_hamiltonian, learn_statistics
from ..config import ChainSection, Config, ModelSection, make_config
from ..hamiltonians import CellGraph, Hamiltonian, States
from ..hamiltonians.graphs import describe
from ..samplers import ExactChains

POOL = 24
REFRESH, SWEEPS = 2, 8
"""Steps of a round, and Monte Carlo steps of a chain in it."""
MOST_STEPS, FEWEST_STEPS = 700, 120
PILOT_MCS = 2
WEIGHT_DECAY = 0.5
"""Of the network's weights, per unit of the rate: hundreds of snapshots are few, and learned by heart without it."""
PUSH = 3.0
"""Typical ΔH, in units of T, that the network may add to a single copy: a correction, not another physics."""

MOST_KNOTS = 40
MOST_FOR_DISTANCES = 100
"""Cells of a state up to which the distances of all pairs are looked at."""
STATES_FOR_KNOTS = 16


@dataclass(frozen=True)
class Lengths:
    """`settle`: Monte Carlo steps from a scattered start after which chains are compared with data; samples are twice
    as old. `steps`: of the optimizer."""

    settle: int
    steps: int

    @property
    def sample_mcs(self) -> int:
        return 2 * self.settle

    @property
    def chains(self) -> tuple[ChainSection, ...]:
        """A third leaves the data anew each round and keeps the energy right where the data are; the others come from
        scattered starts and find every basin that is not in the data. These live as long as training lasts: where a
        pattern forms slowly, the true energy itself would not have brought young chains to the data, and one that does
        is too strong."""
        leaving = ChainSection(share=1, start="data", reset=1.0, sweeps=(1.0, 2.0, 4.0))
        return leaving, self.from_scattered(max(self.settle, self.steps // REFRESH * SWEEPS))

    def from_scattered(self, life: int) -> ChainSection:
        """Chains that live for so many Monte Carlo steps, on the mean, when they have settled."""
        reset = min(1.0, SWEEPS / life)
        return ChainSection(share=2, start="mixed", reset=reset, sweeps=(float(SWEEPS),), settle=self.settle)


@dataclass(frozen=True)
class Sight:
    """What a network sees beyond a cell itself: cells so many contacts away, and with knots also how far all others
    are."""

    rounds: int
    knots: int = 0

    def __str__(self) -> str:
        near = "the cells that a cell touches" if self.rounds == 1 else f"cells up to {self.rounds} contacts away"
        return near + (" and the distances of all others" if self.knots else "")


def closure_config(
    section: ModelSection, sight: Sight, members: int, lengths: Lengths, seed: int, threads: int
) -> Config:
    """What the trainer is told; every number that depends on the data is in the arguments."""
    model = section.model_dump() | {
        "preset": f"graph{sight.rounds}-closure",
        "knots": sight.knots or None,
        "members": members,
        "freeze_symbolic": True,
    }
    return make_config(
        {
            "data": {"holdout": 0.0},
            "model": model,
            "warmstart": {"symbolic": False},
            "objective": {"kind": "conditional", "push": PUSH, "bootstrap": members > 1},
            "sampler": {"pool": POOL, "threads": threads},
            "chains": [group.model_dump() for group in lengths.chains],
            "optimizer": {
                "steps": lengths.steps,
                "batch": POOL // 2,
                "refresh": REFRESH,
                "lr": 2e-3,
                "decay": 0.7,
                "clip": 10.0,
                "weight_decay": WEIGHT_DECAY,
                "averaging": 0.97,
            },
            "run": {"seed": seed, "log_every": 10, "checkpoint_every": 50},
        }
    )


def closure_model(config: Config, data: Snapshots, analytic: Hamiltonian) -> Hamiltonian:
    """A fresh network that has seen the data's cells, beside analytic terms that stay as they are."""
    torch.manual_seed(config.run.seed)
    hamiltonian = build_hamiltonian(config.model, Description.of(data, config.model))
    assert isinstance(hamiltonian.network, CellGraph)
    learn_statistics(hamiltonian.network, data)
    hamiltonian.symbolic = copy.deepcopy(analytic.symbolic)
    assert hamiltonian.symbolic is not None
    hamiltonian.symbolic.requires_grad_(False)
    return hamiltonian


def knots_for(data: Snapshots) -> int:
    """Knots of energies by distance, half a cell's diameter apart up to the farthest pairs; 0 where cells are too many
    to look at all pairs, or alone."""
    states, lattice = [data[number] for number in range(min(len(data), STATES_FOR_KNOTS))], data.lattice
    cells = max(state.cells.size for state in states)
    if not 1 < cells <= MOST_FOR_DISTANCES:
        return 0
    volume = np.concatenate([state.volumes[state.cells] for state in states]).mean() * lattice.geometry.site_volume
    diameter = (4 * volume / np.pi) ** 0.5 if lattice.dimension == 2 else (6 * volume / np.pi) ** (1 / 3)
    apart = describe(States.of(states), lattice.geometry.moore_order, with_distances=True).distances
    assert apart is not None
    return int(np.clip(round(2 * float(apart.apart.max()) / diameter) + 1, 2, MOST_KNOTS))


def chain_speed(model: Hamiltonian, data: Snapshots, seed: int, threads: int) -> float:
    """Monte Carlo steps per second of all threads together, of grown cells."""
    advance = ExactChains(threads=threads).on(model)
    rng = np.random.default_rng([seed, 31])
    grown, _ = advance(Snapshots.from_states(mixed_starts(data, POOL, rng)), GROWTH_MCS, seed)
    began = time.monotonic()
    advance(grown, PILOT_MCS, seed)
    return POOL * PILOT_MCS / max(time.monotonic() - began, 1e-3)


def silent(closure: Hamiltonian, analytic: Hamiltonian) -> Hamiltonian:
    """The closure's architecture around other analytic energies, its network silent: where nothing is to be added."""
    made = copy.deepcopy(closure)
    assert made.network_weight is not None
    made.symbolic = copy.deepcopy(analytic.symbolic)
    made.network_weight.set(torch.zeros((), dtype=torch.float64))
    return made
