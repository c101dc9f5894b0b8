"""Samplers against full enumeration on tiny lattices; the approximate one's bias against the same truth."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from neuralcpm_bridge.artifact import LatticeEntry
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots
from training.enumeration import Enumeration, expected_total_variation, total_variation
from training.hamiltonians import Contact, Hamiltonian, Symbolic, Volume, make_preset
from training.samplers import ExactChains, GibbsSampler, GibbsWithGradients, ParallelSampler, Sampler

CHAINS, ROUNDS, GAP = 150, 30, 10
"""Chains, samples taken of each, and Monte Carlo steps between two samples."""


def analytic(boundary: str, geometry: str = "square") -> Hamiltonian:
    J = torch.tensor([[0.0, 1.0, 1.4], [1.0, 0.8, 1.6], [1.4, 1.6, 0.6]])
    symbolic = Symbolic(Contact(J), Volume(torch.tensor([0.15]), torch.tensor([3.0])))
    return Hamiltonian(("medium", "A", "B"), symbolic, lattice=LatticeEntry.of(geometry, boundary))


def small_network(boundary: str = "periodic") -> Hamiltonian:
    torch.manual_seed(3)
    padding = "circular" if boundary == "periodic" else "zeros"
    lattice = LatticeEntry.of(boundary=boundary)
    closure = make_preset("local8-closure", cells=3, target_volume=3.0, lattice=lattice, padding=padding)
    assert closure.network is not None
    with torch.no_grad():
        closure.network.cell_head.out.weight.mul_(60)  # loud enough to change the distribution
    return closure


def sampled(
    sampler: Sampler, hamiltonian: Hamiltonian, world: Enumeration, many: int = CHAINS, gap: int = GAP
) -> np.ndarray:
    """Counts of every state over chains and rounds, after a warm-up."""
    rng = np.random.default_rng(0)
    chains = world.snapshots(rng.integers(len(world.states), size=many))
    counts, advance = np.zeros(len(world.states), dtype=np.int64), sampler.on(hamiltonian)
    for number in range(-3, ROUNDS):
        chains, _ = advance(chains, 5 * gap if number < 0 else gap, seed=number + 3)
        if number >= 0:
            np.add.at(counts, world.index(chains.ids), 1)
    return counts


TINY = {
    "square": ((2, 3), [0, 1, 2, 2]),
    "hexagonal": ((3, 3), [0, 1, 2]),
    "cubic": ((2, 2, 2), [0, 1, 2]),
    "cubic, flat": ((1, 2, 3), [0, 1, 2, 2]),
}
"""Lattices with at most 540 states: their shapes and the types of their cells."""


@pytest.mark.parametrize("boundary", ["periodic", "free"])
@pytest.mark.parametrize("name", TINY)
def test_exact_chains_sample_the_enumerated_distribution(name: str, boundary: str) -> None:
    hamiltonian = analytic(boundary, name.partition(",")[0])
    shape, types = TINY[name]
    world = Enumeration(hamiltonian, types, shape if boundary == "periodic" else shape[::-1])
    truth = world.copy_dynamics()
    counts = sampled(ExactChains(threads=2), hamiltonian, world)
    # Samples of one chain are nearly independent after GAP sweeps; a factor of two is left for what remains.
    assert total_variation(counts, truth) < 2 * expected_total_variation(truth, CHAINS * ROUNDS)


def test_exact_chains_of_a_network_sample_the_enumerated_distribution() -> None:
    hamiltonian = small_network()
    world = Enumeration(hamiltonian, [0, 1, 2], (3, 3))
    truth = world.copy_dynamics()
    counts = sampled(ExactChains(threads=2), hamiltonian, world)
    assert total_variation(counts, truth) < 2 * expected_total_variation(truth, CHAINS * ROUNDS)
    without = Hamiltonian(hamiltonian.type_names, hamiltonian.symbolic)
    symbolic = Enumeration(without, [0, 1, 2], (3, 3))
    other = symbolic.copy_dynamics()
    assert total_variation(counts, other) > 2 * total_variation(counts, truth)


@pytest.mark.parametrize("boundary", ["periodic", "free"])
@pytest.mark.parametrize("name", ["square", "hexagonal", "cubic, flat"])
def test_balanced_chains_sample_the_boltzmann_distribution(name: str, boundary: str) -> None:
    hamiltonian = analytic(boundary, name.partition(",")[0])
    shape, types = TINY[name]
    world = Enumeration(hamiltonian, types, shape if boundary == "periodic" else shape[::-1])
    truth = world.boltzmann()
    counts = sampled(ExactChains(threads=2, balanced=True), hamiltonian, world)
    assert total_variation(counts, truth) < 2 * expected_total_variation(truth, CHAINS * ROUNDS)
    assert total_variation(counts, world.copy_dynamics()) > 1.5 * total_variation(counts, truth)


@pytest.mark.parametrize("trades", [0, 2])
def test_staged_chains_of_a_network_keep_the_distribution(trades: int) -> None:
    hamiltonian = small_network()
    world = Enumeration(hamiltonian, [0, 1, 2], (3, 3))
    truth = world.boltzmann()
    counts = sampled(ExactChains(threads=2, balanced=True, staged=True, trades=trades), hamiltonian, world)
    assert total_variation(counts, truth) < 2 * expected_total_variation(truth, CHAINS * ROUNDS)


def test_staged_copies_sample_the_enumerated_law_of_two_stages() -> None:
    hamiltonian = small_network("free")  # where all sites are neighbours, one stage and two have the same law
    world = Enumeration(hamiltonian, [0, 1, 2], (3, 3))
    truth = world.copy_dynamics(staged=True)
    chains = ExactChains(threads=2, staged=True)
    counts = sampled(chains, hamiltonian, world)
    assert total_variation(counts, truth) < 2 * expected_total_variation(truth, CHAINS * ROUNDS)
    # The law is near that of one stage; how often a copy is made tells the two apart.
    start = np.random.default_rng(1).choice(len(truth), size=CHAINS, p=truth)
    _, moves = chains.on(hamiltonian)(world.snapshots(start), 1500, seed=2)
    made = moves.accepted / (CHAINS * 1500 * world.states.shape[1])
    two, one = (float(truth @ (1 - np.diag(world.copy_step(staged=staged)))) for staged in (True, False))
    assert abs(made - two) < 0.3 * (one - two)


@pytest.mark.parametrize("geometry", ["square", "hexagonal", "cubic"])
def test_parallel_sampler_approaches_the_serial_one_with_fewer_flips_at_once(geometry: str) -> None:
    """One flip at a time is a serial chain that picks boundary sites; several at once act on a stale state."""
    hamiltonian = analytic("periodic", geometry)
    world = Enumeration(hamiltonian, [0, 1, 2, 2], (1, 2, 2) if geometry == "cubic" else (2, 2))
    truth = world.copy_dynamics()
    distances = {}
    for flips in (1, 4):
        starts = world.snapshots(np.random.default_rng(0).integers(len(world.states), size=1000))
        ended, moves = ParallelSampler(flips=flips).on(hamiltonian)(starts, 12, seed=1)
        assert 0 < moves.acceptance < 1
        known = world.index(ended.ids)
        distances[flips] = total_variation(np.bincount(known[known >= 0], minlength=len(truth)), truth)
    assert distances[1] < distances[4]


@pytest.mark.parametrize(
    "sampler", [GibbsSampler(0.7, flips=1), GibbsWithGradients(0.7, flips=1)], ids=["gibbs", "gwg"]
)
@pytest.mark.parametrize("name", ["square", "hexagonal", "cubic"])
def test_samplers_of_any_discrete_distribution_sample_the_boltzmann_distribution(
    sampler: GibbsSampler | GibbsWithGradients, name: str
) -> None:
    """The medium may come back, at any site: a larger world than that of copies."""
    hamiltonian = analytic("free", name)
    world = Enumeration(hamiltonian, [0, 1, 2], (1, 2, 2) if name == "cubic" else (2, 2), medium=True)
    counts = sampled(sampler, hamiltonian, world, many=60, gap=4)
    truth, other = world.boltzmann(sampler.temperature), world.boltzmann(3.0)
    assert total_variation(counts, truth) < 2 * expected_total_variation(truth, 60 * ROUNDS)
    assert total_variation(counts, other) > 1.5 * total_variation(counts, truth)


def test_gibbs_asks_networks_too() -> None:
    hamiltonian = small_network()
    world = Enumeration(hamiltonian, [0, 1], (3, 3), medium=True)
    truth = world.boltzmann()
    counts = sampled(GibbsSampler(flips=1), hamiltonian, world, many=80, gap=3)
    assert total_variation(counts, truth) < 2 * expected_total_variation(truth, 80 * ROUNDS)
    without = Enumeration(Hamiltonian(hamiltonian.type_names, hamiltonian.symbolic), [0, 1], (3, 3), medium=True)
    assert total_variation(counts, without.boltzmann()) > 1.5 * total_variation(counts, truth)


@pytest.mark.parametrize("kind", [GibbsSampler, GibbsWithGradients])
def test_several_draws_at_once_act_on_a_stale_state(kind: type[GibbsSampler] | type[GibbsWithGradients]) -> None:
    hamiltonian = analytic("periodic")
    world = Enumeration(hamiltonian, [0, 1, 2], (2, 3), medium=True)
    truth = world.boltzmann()
    distances = {}
    for flips in (1, 6):
        starts = world.snapshots(np.random.default_rng(0).integers(len(world.states), size=400))
        ended, moves = kind(flips=flips).on(hamiltonian)(starts, 10, seed=1)
        assert 0 < moves.acceptance < 1
        known = world.index(ended.ids)
        distances[flips] = total_variation(np.bincount(known[known >= 0], minlength=len(truth)), truth)
    assert distances[1] < distances[6]


@pytest.mark.parametrize("geometry", ["square", "hexagonal", "cubic"])
def test_slopes_foretell_what_flips_cost_but_for_the_square_of_volumes(geometry: str) -> None:
    """Contact energies are linear in a site's occupancy: exact; volumes λ(V − V*)² leave λ of each cell."""
    hamiltonian = analytic("free", geometry)
    rng = np.random.default_rng(2)
    shape = (3, 4, 5) if geometry == "cubic" else (5, 6)
    ids = torch.from_numpy(rng.integers(0, 4, size=(2, *shape)))
    states = hamiltonian.states(ids, torch.tensor([[0, 1, 2, 2], [0, 2, 1, 1]]))
    sites = torch.arange(ids[0].numel()).repeat_interleave(4).expand(2, -1)
    new_ids = torch.arange(4).repeat(ids[0].numel()).expand(2, -1)
    with torch.no_grad():
        slopes = hamiltonian.slopes(states)
        foretold = (slopes - slopes.gather(2, states.flat[..., None])).flatten(1)
        true = hamiltonian.flip_deltas(states, sites, new_ids)
    old_ids = states.flat.gather(1, sites)
    left = 0.15 * ((new_ids > 0).double() + (old_ids > 0).double()) * (new_ids != old_ids)
    torch.testing.assert_close(true - foretold, left, rtol=0, atol=1e-6)


def test_gwg_refuses_what_has_no_slopes() -> None:
    hamiltonian = small_network()
    starts = Enumeration(hamiltonian, [0, 1, 2], (3, 3)).snapshots(np.arange(2))
    with pytest.raises(UserError, match="has a network"):
        GibbsWithGradients().on(hamiltonian)(starts, 1, seed=0)


def test_a_seed_gives_the_same_chains_again_whatever_the_threads() -> None:
    hamiltonian = analytic("periodic")
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 3, size=(4, 12, 12), dtype=np.int32)
    types = np.repeat(np.array([[0, 1, 2]], dtype=np.int32), 4, axis=0)
    starts = Snapshots(ids.copy(), types)
    first, moves = ExactChains(threads=1).on(hamiltonian)(starts, 3, seed=5)
    again, _ = ExactChains(threads=2).on(hamiltonian)(starts, 3, seed=5)
    other, _ = ExactChains(threads=1).on(hamiltonian)(starts, 3, seed=6)
    assert np.array_equal(first.ids, again.ids)
    assert not np.array_equal(first.ids, other.ids)
    assert moves.proposals > moves.accepted > 0
    assert not np.array_equal(first.ids, ids)
    assert np.array_equal(starts.ids, ids)
