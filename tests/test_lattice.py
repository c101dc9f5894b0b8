"""Lattices against brute force in space: every geometry, layout, neighbour order and boundary."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neuralcpm_bridge._engine import neighbours as engine_neighbours
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import GEOMETRIES, Lattice, boundary_text, size_text, to_rows, to_skewed

from .strategies import lattices

HIGHEST = {"square": 6, "hexagonal": 9, "cubic": 8}
"""Orders that are tried."""

HOSTS_COUNT = {
    "square": [4, 8, 12, 20, 24, 28],
    "hexagonal": [6, 12, 18, 30, 36, 42],
    "cubic": [6, 18, 26, 32, 56, 80, 92, 122],
}
"""Neighbours by order as CompuCell3D and Morpheus count them."""


def orders() -> st.SearchStrategy[int]:
    return st.integers(1, 6)


def images(lattice: Lattice, rounds: int) -> np.ndarray:
    """What to add to positions to get all periodic images up to so many ways round, `[k, d]`."""
    steps = [range(-rounds, rounds + 1) if wraps else (0,) for wraps in lattice.periodic]
    return lattice.in_space(np.array(list(product(*steps))) @ lattice.periods)


def shell(lattice: Lattice, order: int) -> float:
    """Squared distance of the order-th shell, found on a plain patch of the endless lattice."""
    coordinates = np.array(list(product(range(-7, 8), repeat=lattice.dimension)))
    squares = (lattice.in_space(coordinates) ** 2).sum(axis=1)
    return float(np.unique(np.round(squares, 6))[order])


def neighbours_in_space(lattice: Lattice, order: int) -> list[list[int]]:
    """By distance: every image of another site that is within the shell, with its multiplicity."""
    positions = lattice.positions()
    reach = np.sqrt(shell(lattice, order)) + 1e-6
    rounds = int(np.ceil(reach / 0.8)) + 1
    found: list[list[int]] = [[] for _ in positions]
    for shift in images(lattice, rounds):
        away = np.sqrt(((positions[None] + shift - positions[:, None]) ** 2).sum(axis=2))
        for here, there in np.argwhere(away <= reach):
            if here != there:  # a site is never its own neighbour, its images included
                found[here].append(int(there))
    return [sorted(row) for row in found]


@given(lattices((1, 5)), orders())
def test_neighbours_are_the_sites_within_the_shell(lattice: Lattice, order: int) -> None:
    table = lattice.neighbours(order)
    assert table.shape == (lattice.sites, lattice.geometry.neighbour_count(order))
    rows = [sorted(row[row >= 0].tolist()) for row in table]
    assert rows == neighbours_in_space(lattice, order)


@given(lattices((1, 7)), st.integers(1, 9))
def test_the_engine_has_the_same_neighbours(lattice: Lattice, order: int) -> None:
    assume(order <= HIGHEST[lattice.geometry.name])
    table = engine_neighbours(lattice.geometry.name, list(lattice.shape), list(lattice.boundary), lattice.layout, order)
    np.testing.assert_array_equal(table, lattice.neighbours(order))


@given(lattices((1, 6)), orders())
def test_pairs_and_windows_are_each_pair_of_neighbours_once(lattice: Lattice, order: int) -> None:
    table = lattice.neighbours(order)
    ordered = sorted((here, int(there)) for here, row in enumerate(table) for there in row if there >= 0)
    pairs = [pair for found in lattice.pairs(order) for pair in zip(*found, strict=True)]
    assert sorted([*pairs, *((b, a) for a, b in pairs)]) == ordered
    sites = np.arange(lattice.sites).reshape(lattice.shape)
    seen = []
    for offset in lattice.geometry.half_offsets(order):
        for here, there in lattice.windows(offset):
            seen += list(zip(sites[here].ravel().tolist(), sites[there].ravel().tolist(), strict=True))
    assert sorted(seen) == sorted(pairs)


@given(lattices((1, 6)), orders(), st.integers(0, 2**32 - 1))
def test_some_sites_have_the_neighbours_they_have_among_all(lattice: Lattice, order: int, seed: int) -> None:
    sites = np.random.default_rng(seed).integers(lattice.sites, size=5)
    np.testing.assert_array_equal(lattice.neighbours(order, sites), lattice.neighbours(order)[sites])
    np.testing.assert_array_equal(lattice.positions(sites), lattice.positions()[sites])


@pytest.mark.parametrize("name", list(GEOMETRIES))
def test_orders_hold_as_many_neighbours_as_in_the_hosts(name: str) -> None:
    geometry = GEOMETRIES[name]
    counts = HOSTS_COUNT[name]
    assert [geometry.neighbour_count(order) for order in range(1, len(counts) + 1)] == counts
    assert geometry.neighbour_count(geometry.moore_order) == {"square": 8, "hexagonal": 6, "cubic": 26}[name]
    for order, count in enumerate(counts, 1):
        offsets = geometry.offsets(order)
        np.testing.assert_array_equal(offsets, -offsets[::-1], err_msg="opposites lie at opposite ends")
        assert geometry.pair_weight(order) == 2 / count
        reach = np.sqrt(geometry.squared_lengths(offsets).max())
        assert geometry.order_within(reach) == geometry.order_within(reach + 0.01) == order
    assert geometry.order_within(1) == 1


@pytest.mark.parametrize("name", list(GEOMETRIES))
def test_impossible_orders_are_refused(name: str) -> None:
    geometry = GEOMETRIES[name]
    for ask in (
        lambda: geometry.offsets(0),
        lambda: geometry.offsets(100),
        lambda: geometry.order_within(0.5),
        lambda: geometry.order_within(1000),
    ):
        with pytest.raises(UserError, match=r"^[A-Z][^.]*(\.\d[^.]*)*\.$"):
            ask()


@pytest.mark.parametrize("name", list(GEOMETRIES))
def test_balls_are_steps_of_the_surrounding_neighbourhood(name: str) -> None:
    geometry = GEOMETRIES[name]
    around = {(0,) * geometry.dimension}
    for steps in range(4):
        ball = [tuple(offset) for offset in geometry.ball(steps).tolist()]
        assert sorted(around) == ball
        moore = geometry.offsets(geometry.moore_order).tolist()
        around |= {tuple(np.add(here, step).tolist()) for here in around for step in moore}


@pytest.mark.parametrize("name", list(GEOMETRIES))
def test_pairs_per_length_are_those_across_random_straight_cuts(name: str) -> None:
    geometry = GEOMETRIES[name]
    rng = np.random.default_rng(1)
    normals = rng.normal(size=(4000, geometry.dimension))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    for order in (1, 2, 3):
        steps = geometry.half_offsets(order) @ geometry.basis
        across = np.abs(normals @ steps.T).sum(axis=1) / geometry.site_volume
        assert across.mean() == pytest.approx(geometry.pairs_per_length(order), rel=0.02)


def test_a_hexagon_has_its_second_moment() -> None:
    side, steps = 1 / np.sqrt(3), 2001
    grid = (np.arange(steps) + 0.5) / steps * 1.2 - 0.6
    y, x = np.meshgrid(grid, grid, indexing="ij")
    inside = (np.abs(x) <= 0.5) & (np.abs(x) / np.sqrt(3) + np.abs(y) <= side)
    for places in (x[inside], y[inside]):
        assert (places**2).mean() == pytest.approx(GEOMETRIES["hexagonal"].site_moment, rel=1e-3)
    assert inside.mean() * 1.2**2 == pytest.approx(GEOMETRIES["hexagonal"].site_volume, rel=1e-3)


# -- symmetries ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "count"), [("square", 8), ("hexagonal", 12), ("cubic", 48)])
def test_symmetries_of_the_endless_lattice_keep_lengths(name: str, count: int) -> None:
    geometry = GEOMETRIES[name]
    matrices = geometry.symmetries
    assert len({matrix.tobytes() for matrix in matrices}) == count
    offsets = geometry.offsets(3)
    for matrix in matrices:
        np.testing.assert_array_equal(
            geometry.squared_lengths(offsets @ matrix.T), geometry.squared_lengths(offsets), str(matrix)
        )


@given(lattices((1, 6)), orders())
def test_symmetries_of_a_lattice_keep_neighbours(lattice: Lattice, order: int) -> None:
    table = lattice.neighbours(order)
    for permutation in lattice.symmetries():
        assert sorted(permutation.tolist()) == list(range(lattice.sites))
        moved = [sorted(permutation[row[row >= 0]].tolist()) for row in table]
        assert moved == [sorted(row[row >= 0].tolist()) for row in table[permutation]]


@pytest.mark.parametrize(
    ("lattice", "count"),
    [
        (Lattice.of((4, 4)), 8),
        (Lattice.of((4, 5)), 4),
        (Lattice.of((4, 4), boundary=("free", "periodic")), 4),
        (Lattice.of((4, 4), "hexagonal"), 12),
        (Lattice.of((4, 4), "hexagonal", "free"), 4),
        (Lattice.of((4, 5), "hexagonal"), 2),
        (Lattice.of((3, 3, 3)), 48),
        (Lattice.of((3, 3, 4)), 16),
    ],
)
def test_a_lattice_has_the_symmetries_of_its_box(lattice: Lattice, count: int) -> None:
    assert len({permutation.tobytes() for permutation in lattice.symmetries()}) == count


# -- places --------------------------------------------------------------------------------------------------------


@given(lattices((1, 6)))
def test_places_are_where_the_documentation_says(lattice: Lattice) -> None:
    indices = np.stack(np.unravel_index(np.arange(lattice.sites), lattice.shape), axis=1)
    places = indices.astype(float)
    if lattice.geometry.name == "hexagonal":
        row, col = indices.T
        x = col + row / 2 if lattice.layout == "axes" else col + np.where(row % 2 == 0, 0.5, 0.0)
        places = np.stack([np.sqrt(3) / 2 * row, x], axis=1)
    np.testing.assert_allclose(lattice.positions(), places, atol=1e-12)
    middle = places.mean(axis=0)
    if lattice.layout == "rows" and lattice.shape[0] % 2:
        middle[1] = lattice.shape[1] / 2 - 0.25  # one row more is pushed than not
    np.testing.assert_allclose(lattice.middle, middle, atol=1e-12)
    for site in (0, lattice.sites - 1):
        assert lattice.site(*lattice.index(site)) == site


@given(lattices((2, 7)), st.integers(0, 2**32 - 1))
def test_places_seen_from_a_site_lie_behind_it(lattice: Lattice, seed: int) -> None:
    origin = lattice.index(int(np.random.default_rng(seed).integers(lattice.sites)))
    seen = lattice.seen_from(origin, lattice.coordinates())
    home = lattice.coordinates() - lattice.coordinates(np.array([lattice.site(*origin)]))
    for place, there in zip(seen, home, strict=True):
        rounds = np.linalg.solve(lattice.periods.T.astype(float), place - there)
        np.testing.assert_allclose(rounds, np.round(rounds), atol=1e-9, err_msg="moved by whole ways round")
        assert (np.round(rounds)[~np.array(lattice.periodic)] == 0).all()
    for axis in np.flatnonzero(lattice.periodic):
        straight = seen[:, axis]
        if lattice.layout == "rows" and axis == 1:  # columns run straight up, every second site sticks out of them
            straight = straight + seen[:, 0] / 2 + (0.5 if origin[0] % 2 == 0 else 0)
        assert (straight >= 0).all()
        assert (straight < lattice.shape[axis]).all()


# -- rows and skewed axes ------------------------------------------------------------------------------------------


@st.composite
def rows_that_convert(draw: st.DrawFn) -> tuple[np.ndarray, Lattice]:
    """Ids in CompuCell3D's rows, on rings that skewed axes have too."""
    width = draw(st.integers(2, 6))
    boundary = draw(st.sampled_from([("free", "free"), ("free", "periodic"), ("periodic", "periodic")]))
    height = 2 * width * draw(st.integers(1, 2)) if boundary[0] == "periodic" else draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ids = rng.integers(0, 4, size=(height, width)).astype(np.int32)
    if boundary[1] == "free":
        ids = np.pad(ids, ((0, 0), (1, 1)))
    return ids, Lattice.of(ids.shape, "hexagonal", boundary, "rows")


def pairs_by_id(ids: np.ndarray, lattice: Lattice, order: int) -> list[tuple[int, int]]:
    flat = ids.ravel()
    pairs = (zip(flat[here].tolist(), flat[there].tolist(), strict=True) for here, there in lattice.pairs(order))
    return sorted(tuple(sorted(pair)) for part in pairs for pair in part if pair != (0, 0) and pair[0] != pair[1])


@given(rows_that_convert(), st.integers(1, 3))
def test_rows_and_skewed_axes_hold_the_same_state(case: tuple[np.ndarray, Lattice], order: int) -> None:
    ids, rows = case
    moved, skewed = to_skewed(ids, rows)
    assert skewed.layout == "axes"
    if order == 1 or rows.periodic[1]:  # beyond a free side, far neighbours of cells are missing in rows
        assert pairs_by_id(moved, skewed, order) == pairs_by_id(ids, rows, order)
    for cell in np.unique(ids[ids > 0]):
        a = distances(rows, np.flatnonzero(ids.ravel() == cell))
        b = distances(skewed, np.flatnonzero(moved.ravel() == cell))
        np.testing.assert_allclose(a, b, atol=1e-9)
    back, again = to_rows(moved, skewed, None if rows.periodic[1] else ids.shape[1])
    assert again.boundary == rows.boundary
    if rows.periodic[1]:
        np.testing.assert_array_equal(back, ids)
    else:  # between free sides a state may come out moved sideways
        assert pairs_by_id(back, again, 1) == pairs_by_id(ids, rows, 1)
        np.testing.assert_array_equal(np.sort(back[back > 0]), np.sort(ids[ids > 0]))


def distances(lattice: Lattice, sites: np.ndarray) -> np.ndarray:
    """Sorted distances between sites, to their nearest images."""
    places = lattice.positions(sites)
    away = [np.sqrt(((places[None] + shift - places[:, None]) ** 2).sum(axis=2)) for shift in images(lattice, 2)]
    return np.sort(np.min(away, axis=0).ravel())


@pytest.mark.parametrize(
    ("shape", "boundary", "says"),
    [
        ((6, 6), ("periodic", "free"), "closes to another ring"),
        ((6, 6), "periodic", "closes to another ring"),
        ((6, 6), "free", "of a free side"),
    ],
)
def test_states_that_rows_and_skewed_axes_cannot_share_are_refused(shape: tuple, boundary: object, says: str) -> None:
    ids = np.ones(shape, dtype=np.int32)
    with pytest.raises(UserError, match=says):
        to_skewed(ids, Lattice.of(shape, "hexagonal", boundary, "rows"))  # type: ignore[arg-type]
    if boundary != "free":
        with pytest.raises(UserError, match=says):
            to_rows(ids, Lattice.of(shape, "hexagonal", boundary))  # type: ignore[arg-type]


def test_rows_need_an_even_ring_and_enough_room() -> None:
    with pytest.raises(UserError, match="even number"):
        Lattice.of((5, 6), "hexagonal", "periodic", "rows")
    with pytest.raises(UserError, match="even number"):
        to_rows(np.ones((5, 5), dtype=np.int32), Lattice.of((5, 5), "hexagonal"))
    ids = np.zeros((4, 8), dtype=np.int32)
    ids[1, 1:7] = 1
    with pytest.raises(UserError, match="needs 6 columns"):
        to_rows(ids, Lattice.of((4, 8), "hexagonal", "free"), width=5)


# -- refusals and words --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Lattice.of((3, 3), "triangular"), "no lattice 'triangular'"),
        (lambda: Lattice.of((3, 3), "cubic"), "3 × 3 sites"),
        (lambda: Lattice.of((3, 3, 3), "hexagonal"), "has 2 axes"),
        (lambda: Lattice.of((0, 3)), "at least one site"),
        (lambda: Lattice.of((3, 3), boundary="Periodic"), "'Periodic'"),
        (lambda: Lattice.of((3, 3), boundary=("free",) * 3), "3 boundaries"),
        (lambda: Lattice.of((3, 3), "square", "free", "rows"), "hexagonal"),
        (lambda: Lattice.of((3, 3)).site(3, 0), r"\(3, 0\)"),
        (lambda: Lattice.of((3, 3)).site(0), r"\(0,\)"),
    ],
)
def test_lattices_that_do_not_exist_are_refused(make: object, says: str) -> None:
    with pytest.raises(UserError, match=says) as refusal:
        make()  # type: ignore[operator]
    assert "\n" not in str(refusal.value)


def test_lattices_say_what_they_are() -> None:
    lattice = Lattice.of((3, 4), boundary=("free", "periodic"))
    assert (lattice.geometry.name, lattice.dimension, lattice.sites) == ("square", 2, 12)
    assert boundary_text(lattice.boundary) == "free × periodic"
    assert boundary_text(lattice.with_boundary("free").boundary) == "free"
    assert size_text(lattice.shape) == "3 × 4"
    assert Lattice.of((2, 3, 4)).geometry.name == "cubic"
    assert Lattice.of((3, 4), boundary=["free"]).boundary == ("free", "free")
