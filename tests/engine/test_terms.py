"""Analytic terms on every lattice, order and boundary: their definitions, their differences, their symmetries."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from neuralcpm_bridge._engine import EngineError, neighbours
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import GEOMETRIES, Lattice, Layout, to_skewed
from neuralcpm_bridge.state import CellState

from .lattices import LAYOUTS, ORDERS, Boxes, lattices, open_state, plain_energy, scattered, sites_at
from .models import TYPES, Weights, make_model, symbolic_weights

LOCAL_TERMS = ("contact", "volume", "volume_function", "surface", "external")
SEEDS = st.integers(0, 2**32 - 1)


# -- neighbours ----------------------------------------------------------------------------------------------------


def in_space(lattice: Lattice) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Positions of sites and what once round each ring adds to them, from the pictures of the two layouts alone."""
    *planes, rows, cols = np.indices(lattice.shape).astype(float)
    steps = np.eye(lattice.dimension)
    if lattice.geometry.name == "hexagonal":
        pushed = rows / 2 if lattice.layout == "axes" else np.where(rows % 2 == 0, 0.5, 0.0)
        places = np.stack([rows * np.sqrt(3) / 2, cols + pushed], axis=-1)
        steps[0] = [np.sqrt(3) / 2, 0.5 if lattice.layout == "axes" else 0.0]
    else:
        places = np.stack([*planes, rows, cols], axis=-1)
    rounds = [n * step for n, step, ring in zip(lattice.shape, steps, lattice.periodic, strict=True) if ring]
    return places.reshape(-1, lattice.dimension), rounds


RADII = {  # squared, of orders 1 to 4
    "square": (1, 2, 4, 5),
    "hexagonal": (1, 3, 4, 7),
    "cubic": (1, 2, 3, 4),
}


@settings(max_examples=60)
@given(lattices(), st.integers(1, 4))
def test_neighbours_in_space(lattice: Lattice, order: int) -> None:
    """Every image of every site within the order's distance, on rings narrower than it as often as it comes."""
    places, rounds = in_space(lattice)
    reach = 5  # rings of one site included
    images = [
        sum((n * step for n, step in zip(turns, rounds, strict=True)), np.zeros(lattice.dimension))
        for turns in itertools.product(range(-reach, reach + 1), repeat=len(rounds))
    ]
    found = neighbours(lattice.geometry.name, lattice.shape, lattice.boundary, lattice.layout, order)
    for site, near in enumerate(found):
        squares = ((places[:, None] + np.array(images) - places[site]) ** 2).sum(axis=-1)
        within = (squares < RADII[lattice.geometry.name][order - 1] + 1e-6).sum(axis=1)
        within[site] = 0  # no site is its own neighbour
        np.testing.assert_array_equal(np.bincount(near[near >= 0], minlength=lattice.sites), within)


@settings(max_examples=60)
@given(lattices(flat=(1, 20), solid=(1, 7)), st.integers(1, 8))
def test_neighbours_are_those_of_python(lattice: Lattice, order: int) -> None:
    """Direction by direction, so that both sides mean the same pair by the same number."""
    found = neighbours(lattice.geometry.name, lattice.shape, lattice.boundary, lattice.layout, order)
    np.testing.assert_array_equal(found, lattice.neighbours(order))


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_orders_that_do_not_exist(geometry: str) -> None:
    """The engine's last order is Python's."""
    lattice = Lattice.of((2,) * GEOMETRIES[geometry].dimension, geometry)
    known = 0
    while True:
        try:
            expected = lattice.geometry.neighbour_count(known + 1)
        except UserError:
            break
        known += 1
        assert neighbours(geometry, lattice.shape, lattice.boundary, "axes", known).shape[1] == expected
    assert known >= 8
    for order in (0, -1, known + 1):
        with pytest.raises(EngineError, match=f"orders from 1 to {known} are possible"):
            neighbours(geometry, lattice.shape, lattice.boundary, "axes", order)


# -- energies and differences --------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(SEEDS, lattices(), ORDERS, st.integers(2, 6))
def test_energy_is_its_definition(seed: int, lattice: Lattice, orders: dict[str, int], ids: int) -> None:
    rng = np.random.default_rng(seed)
    weights = symbolic_weights(rng, LOCAL_TERMS, lattice.shape)
    model = make_model(weights, lattice.boundary, None, lattice.geometry.name, orders)
    start = scattered(rng, lattice, ids)
    symbolic, neural = open_state(model, start).energy()
    assert symbolic == pytest.approx(plain_energy(weights, start, orders), rel=1e-12, abs=1e-9)
    assert neural == 0


@settings(max_examples=100)
@given(SEEDS, lattices(), ORDERS, st.integers(2, 6))
def test_every_difference(seed: int, lattice: Lattice, orders: dict[str, int], ids: int) -> None:
    """Every flip of a random state, last pixels, nucleation and lattices one site across included."""
    rng = np.random.default_rng(seed)
    weights = symbolic_weights(rng, LOCAL_TERMS, lattice.shape)
    model = make_model(weights, lattice.boundary, None, lattice.geometry.name, orders)
    start = scattered(rng, lattice, ids)
    state, changed = open_state(model, start), open_state(model, start)
    before = state.energy()[0]
    sites, cells = (
        part.ravel() for part in np.meshgrid(np.arange(lattice.sites), np.flatnonzero(start.types >= 0), indexing="ij")
    )
    deltas = state.deltas(sites, cells)[:, 0]
    for site, cell, delta in zip(sites.tolist(), cells.tolist(), deltas, strict=True):
        flipped = start.ids.copy()
        flipped.ravel()[site] = cell
        changed.reset(flipped, start.types)
        assert delta == pytest.approx(changed.energy()[0] - before, rel=1e-9, abs=1e-8)
        assert delta == state.delta(site, cell) == state.delta_parts(site, cell)[0]


@settings(max_examples=80)
@given(SEEDS, lattices(flat=(4, 14), solid=(3, 8)), st.booleans())
def test_length_of_cells_in_boxes(seed: int, lattice: Lattice, minor: bool) -> None:
    """Energies and every flip within the boxes, by the covariance of positions in the open plane."""
    rng = np.random.default_rng(seed)
    minor = minor and lattice.dimension == 3
    weights = symbolic_weights(rng, ("length",), minor=minor)
    model = make_model(weights, lattice.boundary, None, lattice.geometry.name)
    boxes = Boxes.scattered(rng, lattice, 4)
    start = boxes.fill(rng)
    state = open_state(model, start)
    # In 3D equal axes are known to half of a number's digits, and the shortest one of a flat cell is the root of 1e-17.
    tolerance = {"rel": 1e-9, "abs": 1e-5 if minor else 1e-6 if lattice.dimension == 3 else 1e-9}
    energy = boxes.length_energy(weights, start.ids, start.types)
    assert state.energy()[0] == pytest.approx(energy, **tolerance)
    for cell in range(1, 5):
        for site in boxes.sites[cell].tolist():
            new_id = cell if start.ids.flat[site] != cell else 0
            flipped = start.ids.copy()
            flipped.flat[site] = new_id
            after = boxes.length_energy(weights, flipped, start.types)
            assert state.delta(site, new_id) == pytest.approx(after - energy, **tolerance)


# -- symmetries ----------------------------------------------------------------------------------------------------

CELL_TERMS = ("contact", "volume", "volume_function", "surface", "length")


def whole_contacts(rng: np.random.Generator, lattice: Lattice, order: int) -> NDArray[np.float64]:
    """Contact energies of which one pair's share is a whole number: their sum is exact in whatever order."""
    count = lattice.geometry.neighbour_count(order)
    exact = [n for n in range(-40, 40) if n * count / 2 * (2.0 / count) == n]
    contact = rng.choice(exact, (len(TYPES), len(TYPES))) * (count / 2)
    contact = np.triu(contact) + np.triu(contact, 1).T
    contact[0, 0] = 0
    return contact


def weights_without_rounding(rng: np.random.Generator, lattice: Lattice, orders: dict[str, int]) -> Weights:
    weights = symbolic_weights(rng, CELL_TERMS, minor=lattice.dimension == 3)
    return weights | {"symbolic.contact.J": whole_contacts(rng, lattice, orders["contact"])}


@settings(max_examples=80)
@given(SEEDS, lattices(flat=(2, 16), solid=(2, 8)), ORDERS)
def test_shifts_along_rings_change_no_bit(seed: int, lattice: Lattice, orders: dict[str, int]) -> None:
    rng = np.random.default_rng(seed)
    weights = weights_without_rounding(rng, lattice, orders)
    model = make_model(weights, lattice.boundary, None, lattice.geometry.name, orders)
    start = Boxes.scattered(rng, lattice, 4).fill(rng)
    energy = open_state(model, start).energy()
    for axis in np.flatnonzero(lattice.periodic):
        step = int(rng.integers(1, lattice.shape[axis] + 1))
        if lattice.layout == "rows" and axis == 0:
            step *= 2  # onto rows of the same push
        moved = CellState(np.roll(start.ids, step, axis), start.types, lattice)
        assert open_state(model, moved).energy() == energy


@pytest.mark.parametrize(("geometry", "layout"), LAYOUTS)
@settings(max_examples=25)
@given(seed=SEEDS, orders=ORDERS, boundary=st.sampled_from(["periodic", "free"]))
def test_turns_and_mirrors(geometry: str, layout: Layout, seed: int, orders: dict[str, int], boundary: str) -> None:
    """Cells in the middle of a lattice, turned or mirrored around it, have the energies that they had."""
    rng = np.random.default_rng(seed)
    dimension = GEOMETRIES[geometry].dimension
    lattice = Lattice.of((36, 36) if dimension == 2 else (14, 14, 14), geometry, boundary, layout)
    weights = symbolic_weights(rng, CELL_TERMS, minor=dimension == 3)
    model = make_model(weights, boundary, None, geometry, orders)
    reach = 4 if dimension == 2 else 2
    middle = lattice.coordinates(np.array([lattice.site(*(n // 2 for n in lattice.shape))]))
    around = np.indices((2 * reach + 1,) * dimension).reshape(dimension, -1).T - reach
    cells = rng.integers(0, 4, size=len(around))
    types = np.array([0, *rng.integers(1, len(TYPES), size=3)], dtype=np.int32)
    energies = []
    for matrix in GEOMETRIES[geometry].symmetries:
        ids = np.zeros(lattice.sites, dtype=np.int32)
        ids[sites_at(lattice, middle + around @ matrix.T)] = cells
        energies.append(open_state(model, CellState(ids.reshape(lattice.shape), types, lattice)).energy()[0])
    assert len(energies) == {"square": 8, "hexagonal": 12, "cubic": 48}[geometry]
    np.testing.assert_allclose(energies, energies[0], rtol=1e-10)


@settings(max_examples=60)
@given(
    seed=SEEDS,
    shape=st.sampled_from([(5, 14), (9, 12), (8, 15), (12, 12)]),
    boundary=st.sampled_from([("free", "free"), ("free", "periodic"), ("periodic", "periodic")]),
    orders=ORDERS,
)
def test_rows_and_skewed_axes(
    seed: int, shape: tuple[int, int], boundary: tuple[str, str], orders: dict[str, int]
) -> None:
    """A state in CompuCell3D's rows and the same state on skewed axes."""
    rng = np.random.default_rng(seed)
    if boundary[0] == "periodic":  # the rings that both can hold
        shape = (2 * shape[1], shape[1])
    lattice = Lattice.of(shape, "hexagonal", boundary, "rows")
    start = Boxes.scattered(rng, lattice, 6).fill(rng)
    if boundary[1] == "free":  # medium as far as neighbours may lie: beyond rows there is nothing, beyond axes medium
        start.ids[:, :4] = start.ids[:, -4:] = 0
    skewed = CellState(*_on_axes(start))
    weights = weights_without_rounding(rng, lattice, orders)
    model = make_model(weights, boundary, None, "hexagonal", orders)
    rows, axes = open_state(model, start), open_state(model, skewed)
    assert axes.energy() == rows.energy()


def _on_axes(state: CellState) -> tuple[NDArray[np.int32], NDArray[np.int32], Lattice]:
    ids, lattice = to_skewed(state.ids, state.lattice)
    return ids, state.types, lattice
