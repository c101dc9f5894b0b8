"""How far each sampler is from enumerated truth on a tiny lattice: total variation distance, and what chance explains.

    python benchmarks/sampler_bias.py

Three cells on 2 × 3 sites (540 states). "copy" is the stationary distribution of the copy dynamics, from its
transition matrix; "Boltzmann" is e^{−H/T}/Z. The difference of the two is the copy dynamics' own (docs/training.md).
"""

from __future__ import annotations

import numpy as np
import torch

from training.enumeration import Enumeration, expected_total_variation, total_variation
from training.hamiltonians import Contact, Hamiltonian, Symbolic, Volume
from training.samplers import ExactChains, ParallelSampler, Sampler

CHAINS, ROUNDS = 2000, 20


def model() -> Hamiltonian:
    J = torch.tensor([[0.0, 1.0, 1.4], [1.0, 0.8, 1.6], [1.4, 1.6, 0.6]])
    symbolic = Symbolic(Contact(J), Volume(torch.tensor([0.15]), torch.tensor([3.0])))
    return Hamiltonian(("medium", "A", "B"), symbolic)


def counts_of(sampler: Sampler, hamiltonian: Hamiltonian, world: Enumeration, sweeps: float) -> np.ndarray:
    chains = world.snapshots(np.random.default_rng(0).integers(len(world.states), size=CHAINS))
    counts, advance = np.zeros(len(world.states), dtype=np.int64), sampler.on(hamiltonian)
    for number in range(-2, ROUNDS):
        chains, _ = advance(chains, sweeps, seed=number + 2)
        known = world.index(chains.ids)  # parallel flips may wipe out a cell: such a state is not among them
        if number >= 0:
            counts += np.bincount(known[known >= 0], minlength=len(counts))
        gone = np.flatnonzero(known < 0)
        chains.ids[gone] = world.ids(np.zeros(1, dtype=int))[0]
    return counts


def main() -> None:
    hamiltonian = model()
    world = Enumeration(hamiltonian, [0, 1, 2, 2], (2, 3))
    copy, boltzmann = world.copy_dynamics(), world.boltzmann()
    print(f"copy dynamics against Boltzmann: {0.5 * np.abs(copy - boltzmann).sum():.4f}")
    samplers: dict[str, Sampler] = {
        "exact chains": ExactChains(),
        "exact chains, balanced": ExactChains(balanced=True),
        "exact chains, balanced, with trades": ExactChains(balanced=True, trades=2),
    }
    samplers |= {f"parallel, {flips} flips at once": ParallelSampler(flips=flips) for flips in (1, 2, 4)}
    chance = expected_total_variation(copy, CHAINS * ROUNDS), expected_total_variation(boltzmann, CHAINS * ROUNDS)
    for name, sampler in samplers.items():
        counts = counts_of(sampler, hamiltonian, world, 10)
        to_copy, to_boltzmann = total_variation(counts, copy), total_variation(counts, boltzmann)
        print(
            f"{name}: to copy dynamics {to_copy:.4f} (chance {chance[0]:.4f}), "
            f"to Boltzmann {to_boltzmann:.4f} (chance {chance[1]:.4f})"
        )


if __name__ == "__main__":
    main()
