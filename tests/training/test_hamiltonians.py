"""The invariances that each Hamiltonian promises, in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralcpm_bridge.artifact import LatticeEntry, NeuralSpec
from neuralcpm_bridge.state import CellState
from training.hamiltonians import (
    PRESETS,
    Contact,
    ExternalPotential,
    Hamiltonian,
    Symbolic,
    Volume,
    build_network,
    make_preset,
)

from ..strategies import random_state, states

NAMES = ("medium", "A", "B")


def small(kind: str, **sizes: object) -> Hamiltonian:
    torch.manual_seed(1)
    spec = NeuralSpec(kind=kind, **{"stride": 2, "project": 4, "mlp": (3,), **sizes})
    return Hamiltonian(NAMES, network=build_network(spec, 3, cells=7), cells=7).double()


NETWORKS = {
    "nh": small("nh", widths=(3, 4), pools=(2, 1)),
    "nh_cnn": small("nh_cnn", widths=(3,), pools=(1,), conv_widths=(4, 5), conv_pools=(2, 1)),
    "local_nh": small("local_nh", widths=(3, 4), pools=(1, 1)),
    "cnn": small("cnn", conv_widths=(3, 4), conv_pools=(2, 1)),
}
SYMBOLIC = Hamiltonian(
    NAMES,
    Symbolic(
        Contact(torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.5, 3.0], [2.0, 3.0, 0.25]], dtype=torch.float64)),
        Volume(torch.tensor([0.3, 0.7]), torch.tensor([5.0, 6.0])),
        weight=0.5,
        offset=2.0,
    ),
)


def energy(hamiltonian: Hamiltonian, *of: CellState) -> np.ndarray:
    with torch.no_grad():
        return hamiltonian.of_states(list(of)).total.numpy()


def renumbered(state: CellState, order: np.ndarray) -> CellState:
    """Cell c becomes cell order[c] (order[0] = 0)."""
    types = np.empty_like(state.types)
    types[order] = state.types
    return CellState(order[state.ids], types)


@pytest.mark.parametrize("kind", ["nh", "nh_cnn", "local_nh"])
@given(states(ids=(3, 7)), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_renumbering_cells_changes_nothing(kind: str, state: CellState, random) -> None:
    order = list(range(1, state.types.size))
    random.shuffle(order)
    other = renumbered(state, np.array([0, *order]))
    for hamiltonian in (NETWORKS[kind], SYMBOLIC):
        np.testing.assert_allclose(energy(hamiltonian, state), energy(hamiltonian, other), rtol=1e-10, atol=1e-10)


def test_renumbering_changes_the_cnn() -> None:
    state = random_state(np.random.default_rng(0), (12, 12), 7, absent=False)
    other = renumbered(state, np.array([0, 2, 1, 3, 4, 5, 6]))
    assert abs(energy(NETWORKS["cnn"], state) - energy(NETWORKS["cnn"], other)) > 1e-6


@given(st.integers(0, 2**32 - 1), st.integers(-3, 3), st.integers(-3, 3))
@settings(max_examples=25)
def test_shifts_by_stride_and_pools_leave_the_circular_nh_unchanged(seed: int, down: int, right: int) -> None:
    state = random_state(np.random.default_rng(seed), (12, 16), 5)
    unit = 4  # stride 2 × pool 2, which divides both sides
    shifted = CellState(np.roll(state.ids, (down * unit, right * unit), (0, 1)), state.types)
    hamiltonian = CIRCULAR
    np.testing.assert_allclose(energy(hamiltonian, state), energy(hamiltonian, shifted), rtol=1e-10, atol=1e-10)


CIRCULAR = small("nh", widths=(3, 4), pools=(2, 1), padding="circular")


def tissue(seed: int, at: int, first: int, shape: tuple[int, int] = (16, 90)) -> tuple[np.ndarray, list[int]]:
    """Two touching cells in an 8×8 patch, numbered from `first`."""
    rng = np.random.default_rng(seed)
    ids = np.zeros(shape, dtype=int)
    ids[4:12, at : at + 8] = rng.integers(0, 3, size=(8, 8))
    return np.where(ids > 0, ids + first - 1, 0), [1, 2]


@pytest.mark.parametrize("padding", ["zeros", "circular"])
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_distant_tissues_have_additive_energy_in_the_local_nh(padding: str, seed: int) -> None:
    hamiltonian = LOCAL[padding]
    field = hamiltonian.network.spec.receptive_field
    left, types = tissue(seed, 2, 1)
    right, more = tissue(seed + 1, 2 + 8 + field + 1, 3)
    both_types = np.array([0, *types, *more])
    empty, one, two, both = energy(
        hamiltonian, *(CellState(ids, both_types) for ids in (0 * left, left, right, left + right))
    )
    assert abs((both - empty) - (one - empty) - (two - empty)) < 1e-9
    flipped = []
    for ids in (left, left + right):
        changed = ids.copy()
        changed[7, 5] = 0 if ids[7, 5] else 2
        before, after = energy(hamiltonian, CellState(ids, both_types), CellState(changed, both_types))
        flipped.append(after - before)
    assert abs(flipped[0] - flipped[1]) < 1e-9


LOCAL = {padding: small("local_nh", widths=(3,), pools=(1,), padding=padding) for padding in ("zeros", "circular")}


def test_an_empty_cell_counts_in_the_nh_but_not_in_the_local_nh() -> None:
    ids = np.zeros((12, 12), dtype=int)
    ids[3:7, 3:7] = 1
    without, empty = CellState(ids, np.array([0, 1, -1])), CellState(ids, np.array([0, 1, 2]))
    assert abs(np.diff(energy(NETWORKS["local_nh"], without, empty))[0]) < 1e-12
    assert abs(np.diff(energy(NETWORKS["nh"], without, empty))[0]) > 1e-6
    assert np.diff(energy(SYMBOLIC, without, empty))[0] == pytest.approx(0.5 * 0.7 * 36)


@given(states(), st.booleans())
def test_symbolic_energy_is_the_textbook_formula(state: CellState, periodic: bool) -> None:
    boundary = "periodic" if periodic else "free"
    J = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.5, 3.0], [2.0, 3.0, 0.25]], dtype=torch.float64)
    field, coupling = torch.randn(2, *state.shape), torch.randn(3, 2)
    volume = Volume(torch.tensor([0.3, 0.7], dtype=torch.float64), torch.tensor([5.0, 6.0]))
    symbolic = Symbolic(Contact(J), volume, ExternalPotential(field, coupling), weight=0.5, offset=2.0)
    hamiltonian = Hamiltonian(NAMES, symbolic, lattice=LatticeEntry.of(boundary=boundary))
    strength, target = np.array([0, 0.3, 0.7]), np.array([0, 5.0, 6.0])
    cells = np.flatnonzero(state.types >= 1)
    of_cell = state.types[cells]
    placed = CellState(state.ids, state.types, state.lattice.with_boundary(boundary))
    expected = 2.0 + (np.triu(placed.contacts(3)) * J.numpy()).sum() / 4
    expected += (strength[of_cell] * (state.volumes[cells] - target[of_cell]) ** 2).sum()
    expected += np.einsum("khw,hwk->", field.double().numpy(), coupling.double().numpy()[state.type_map])
    assert energy(hamiltonian, state)[0] == pytest.approx(0.5 * expected, rel=1e-9)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_give_gradients_to_every_parameter(name: str) -> None:
    torch.manual_seed(0)
    hamiltonian = make_preset(name, lattice=LatticeEntry.of(shape=(60, 60)))
    state = random_state(np.random.default_rng(3), (60, 60), hamiltonian.cells, absent=False)
    hamiltonian.of_states([state]).total.sum().backward()
    trained = [(key, p) for key, p in hamiltonian.named_parameters() if p.requires_grad]
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for _, p in trained)


@pytest.mark.parametrize(("name", "parameters"), [("mnist-nh", 109_609), ("bipolar-nh", 670_353)])
def test_sizes_of_the_paper(name: str, parameters: int) -> None:
    network = make_preset(name).network
    assert sum(p.numel() for p in network.parameters()) == parameters


def test_positive_parameters_stay_positive() -> None:
    hamiltonian = make_preset("local8-closure")
    optimizer = torch.optim.SGD(hamiltonian.parameters(), lr=100.0)
    (
        hamiltonian.symbolic.weight() + hamiltonian.symbolic.volume.strength().sum() + hamiltonian.network_weight()
    ).backward()
    optimizer.step()
    values = [hamiltonian.symbolic.weight(), hamiltonian.symbolic.volume.strength(), hamiltonian.network_weight()]
    assert all(value.min().item() >= 0 for value in values)
