"""Every measure against its definition written out site by site."""

from __future__ import annotations

import json
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neuralcpm_bridge import metrics
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.initial import squared_distances
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.metrics.geometry import joined, unwrapped
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

from .strategies import LAYOUTS, lattices


@st.composite
def states(draw: st.DrawFn, cells: int = 5, types: int = 2) -> CellState:
    """Salt and pepper, on every lattice."""
    lattice = draw(lattices((3, 12)))
    ids = draw(hnp.arrays(np.int32, lattice.shape, elements=st.integers(0, cells), fill=st.just(0)))
    of_cell = draw(st.lists(st.integers(1, types), min_size=cells, max_size=cells))
    return CellState(ids, np.array([0, *of_cell]), lattice)


def surroundings(lattice: Lattice) -> list[list[int]]:
    """The sites next to every site, in any direction."""
    return [row[row >= 0].tolist() for row in lattice.neighbours(lattice.geometry.moore_order)]


def flood(sites: set[int], near: list[list[int]]) -> int:
    """Connected pieces of some sites, counted by walking over them."""
    left, pieces = set(sites), 0
    while left:
        pieces += 1
        todo = [left.pop()]
        while todo:
            for other in near[todo.pop()]:
                if other in left:
                    left.remove(other)
                    todo.append(other)
    return pieces


def dilate(sites: set[int], near: list[list[int]]) -> set[int]:
    return sites | {other for site in sites for other in near[site]}


def sites_of(state: CellState, cell: int) -> set[int]:
    return set(np.flatnonzero(state.ids.ravel() == cell).tolist())


@given(states())
def test_fragments_are_flooded_pieces(state: CellState) -> None:
    near = surroundings(state.lattice)
    expected = [0] + [flood(sites_of(state, cell), near) for cell in range(1, state.types.size)]
    assert metrics.fragments(state).tolist() == expected


@given(states(cells=3))
def test_dilated_fragments_are_pieces_of_the_twice_dilated_cell(state: CellState) -> None:
    near = surroundings(state.lattice)
    pieces = [flood(dilate(dilate(sites_of(state, cell), near), near), near) for cell in range(1, state.types.size)]
    assert metrics.fragments(state, dilated=True).tolist() == [0, *pieces]
    assert metrics.fragmented_cells(state) == sum(count != 1 for count in pieces)


@pytest.mark.parametrize(("geometry", "step"), [("square", (1, 1)), ("hexagonal", (1, -1)), ("cubic", (1, 1, 1))])
def test_pieces_five_steps_apart_are_one_cell_and_six_are_two(geometry: str, step: tuple[int, ...]) -> None:
    lattice = Lattice.of((20,) * len(step), geometry)
    for distance, pieces in ((5, 1), (6, 2)):
        ids = np.zeros(lattice.shape, dtype=int)
        ids[(9,) * len(step)] = ids[tuple(9 + distance * np.array(step))] = 1
        assert metrics.fragments(CellState(ids, [0, 1], lattice), dilated=True)[1] == pieces


def test_vanished_cells_are_fragmented_and_absent_ids_are_not() -> None:
    ids = np.zeros((8, 8), dtype=int)
    ids[2:5, 2:5] = 1
    assert metrics.fragmented_cells(CellState(ids, [0, 1, 1, 2, -1, -1])) == 2


def test_p_unfragmented_allows_three() -> None:
    ids = np.zeros((30, 30), dtype=int)
    ids[0, 0] = ids[15, 15] = 1
    three, four = CellState(ids, [0, 1, 1, 1]), CellState(ids, [0, 1, 1, 1, 1])
    assert metrics.p_unfragmented([three, four]) == 0.5


@given(st.integers(1, 30), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=60))
def test_components_join_what_edges_join(count: int, edges: list[tuple[int, int]]) -> None:
    edges = [(a % count, b % count) for a, b in edges]
    groups = {node: {node} for node in range(count)}
    for a, b in edges:
        both = groups[a] | groups[b]
        for node in both:
            groups[node] = both
    roots = np.arange(count)
    for part in (edges[::2], edges[1::2]):
        roots = joined(roots, *np.array(part, dtype=np.intp).reshape(-1, 2).T)
    assert roots.tolist() == [min(groups[node]) for node in range(count)]


def test_volume_range_and_p_volume() -> None:
    ids = np.zeros((10, 10), dtype=int)
    ids[0, :4], ids[2, :6] = 1, 2
    data = CellState(ids, [0, 1, 2])
    allowed = metrics.volume_range([data])
    assert allowed == pytest.approx((3.5, 6.5))
    shrunk, vanished = ids.copy(), ids.copy()
    shrunk[0, 0] = 0
    vanished[ids == 1] = 0
    assert metrics.p_volume([data, CellState(shrunk, [0, 1, 2]), CellState(vanished, [0, 1, 2])], allowed) == 1 / 3


def test_no_states_are_refused() -> None:
    for call in (metrics.p_unfragmented, metrics.volume_range, lambda none: metrics.axial_rmse(none, none)):
        with pytest.raises(UserError):
            call([])


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 19), st.integers(0, 19))
def test_a_rectangle_has_the_aspect_ratio_of_its_sides_wherever_it_lies(a: int, b: int, down: int, right: int) -> None:
    ids = np.zeros((20, 20), dtype=int)
    ids[:a, :b] = 1
    state = CellState(np.roll(ids, (down, right), (0, 1)), [0, 1])
    assert metrics.aspect_ratios(state)[1] == pytest.approx(max(a, b) / min(a, b))
    centre = metrics.centres(state)[1]
    offset = np.array([down + (a - 1) / 2, right + (b - 1) / 2])
    assert ((centre - offset + 10) % 20).tolist() == pytest.approx([10, 10])


@given(st.permutations([2, 5, 9]), st.tuples(*[st.integers(0, 11)] * 3))
def test_a_box_has_the_axes_and_the_aspect_ratio_of_its_sides(sides: list[int], shift: tuple[int, ...]) -> None:
    ids = np.zeros((12, 12, 12), dtype=int)
    ids[tuple(slice(side) for side in sides)] = 1
    state = CellState(np.roll(ids, shift, (0, 1, 2)), [0, 1])
    assert metrics.aspect_ratios(state)[1] == pytest.approx(9 / np.sqrt(5 * 2))
    axes = metrics.principal_axes(state)
    assert axes.lengths[1] == pytest.approx(np.sqrt(5 / 3) * np.array([9, 5, 2]))
    order = [sides.index(side) for side in (9, 5, 2)]
    assert np.abs(axes.directions[1]) == pytest.approx(np.eye(3)[order], abs=1e-9)


@pytest.mark.parametrize("lattice", [Lattice.of((80, 80)), Lattice.of((90, 90), "hexagonal"), Lattice.of((30, 30, 30))])
def test_discs_and_balls_are_round_and_as_wide_as_they_are(lattice: Lattice) -> None:
    radius = 10.3
    state = CellState((squared_distances(lattice) <= radius**2).astype(int).reshape(lattice.shape), [0, 1], lattice)
    assert metrics.aspect_ratios(state)[1] == pytest.approx(1, abs=0.02)
    assert metrics.principal_axes(state).lengths[1] == pytest.approx([2 * radius] * lattice.dimension, rel=0.02)
    border = 2 * np.pi * radius if lattice.dimension == 2 else 4 * np.pi * radius**2
    assert metrics.contact_lengths(state)[0, 1] == pytest.approx(border, rel=0.04)


@given(st.integers(0, 2**32 - 1))
def test_turned_and_mirrored_hexagonal_cells_have_the_same_moments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lattice = Lattice.of((30, 30), "hexagonal", "free")
    shape = np.unique(rng.integers(-5, 6, size=(12, 2)), axis=0)
    found = []
    for matrix in lattice.geometry.symmetries:
        ids = np.zeros(lattice.shape, dtype=int)
        ids[tuple(((shape @ matrix.T) + 14).T)] = 1
        state = CellState(ids, [0, 1], lattice)
        found.append(np.linalg.eigvalsh(metrics.second_moments(state)[1]))
    np.testing.assert_allclose(found, [found[0]] * len(found), rtol=1e-9)


def image_of_cells(state: CellState) -> dict[int, np.ndarray]:
    """Positions in space of each cell's sites, brought together by hand: the images nearest to its first site."""
    lattice = state.lattice
    steps = [(-1, 0, 1) if wraps else (0,) for wraps in lattice.periodic]
    shifts = lattice.in_space(np.array(list(product(*steps))) @ lattice.periods)
    positions, found = lattice.positions(), {}
    for cell in state.cells:
        sites = positions[state.ids.ravel() == cell]
        images = sites[:, None] + shifts
        nearest = ((images - sites[0]) ** 2).sum(axis=2).argmin(axis=1)
        found[int(cell)] = images[np.arange(len(sites)), nearest]
    return found


@given(lattices((10, 14)), st.integers(0, 2**32 - 1))
def test_centres_and_moments_of_small_cells_wherever_the_borders_run(lattice: Lattice, seed: int) -> None:
    """Cells of neighbours of neighbours: less than half of any lattice wide, so that nearest images are the cell."""
    rng = np.random.default_rng(seed)
    ids = np.zeros(lattice.sites, dtype=int)
    around = lattice.neighbours(1)
    for cell in (1, 2, 3):
        site = rng.integers(lattice.sites)
        near = around[site]
        ids[site], ids[near[near >= 0]] = cell, rng.choice([0, cell], size=(near >= 0).sum())
    state = CellState(ids.reshape(lattice.shape), [0, 1, 1, 1], lattice)
    centres, moments = metrics.centres(state), metrics.second_moments(state)
    for cell, places in image_of_cells(state).items():
        rounds = np.linalg.solve(lattice.in_space(lattice.periods).T, centres[cell] - places.mean(axis=0))
        np.testing.assert_allclose(rounds, np.round(rounds), atol=1e-9, err_msg="the same place, ways round apart")
        own = lattice.geometry.site_moment * np.eye(lattice.dimension)
        np.testing.assert_allclose(moments[cell], np.cov(places.T, bias=True) + own, atol=1e-9)
    unwrapped_ids, coordinates = unwrapped(state)
    assert unwrapped_ids.tolist() == state.ids[state.ids > 0].tolist()
    np.testing.assert_array_equal(coordinates, np.round(coordinates))


def test_a_torn_cell_is_long_on_a_free_lattice_and_whole_on_a_periodic_one() -> None:
    ids = np.zeros((10, 10), dtype=int)
    ids[:3, [0, 9]] = 1
    for boundary, expected in (("periodic", True), (("free", "periodic"), True), ("free", False)):
        state = CellState(ids, [0, 1], Lattice.of(ids.shape, "square", boundary))
        ratio = metrics.aspect_ratios(state)[1]
        assert ratio == pytest.approx(1.5) if expected else ratio > 4


def test_mean_aspect_ratio_by_type() -> None:
    ids = np.zeros((12, 12), dtype=int)
    ids[1, 1:7], ids[4, 1:3], ids[8:10, 4:6] = 1, 2, 3
    ratios = metrics.mean_aspect_ratios(CellState(ids, [0, 1, 1, 2]), types=4)
    assert ratios[1:3].tolist() == pytest.approx([4.0, 1.0])
    assert np.isnan(ratios[[0, 3]]).all()


@given(states(types=3))
def test_contacts_and_heterotypic_fraction_by_walking(state: CellState) -> None:
    table = np.zeros((4, 4))
    ids = state.ids.ravel()
    for site, near in enumerate(surroundings(state.lattice)):
        for other in near:
            if ids[site] != ids[other]:
                both = state.types[ids[site]], state.types[ids[other]]
                table[both] += 0.5 if both[0] == both[1] else 1  # each pair is walked twice, once per order
    per_unit = {"square": 3, "hexagonal": 2 / np.pi * 3 / (np.sqrt(3) / 2), "cubic": 9}[state.lattice.geometry.name]
    assert metrics.contact_lengths(state, 4) * per_unit == pytest.approx(table)
    cells = np.triu(table[1:, 1:])
    fraction = metrics.heterotypic_fraction(state)
    if cells.sum():
        assert fraction == pytest.approx((cells.sum() - np.trace(cells)) / cells.sum())
    else:
        assert math.isnan(fraction)


@given(states(types=2))
def test_clusters_by_joining_touching_cells(state: CellState) -> None:
    ids = state.ids.ravel()
    group = {int(cell): {int(cell)} for cell in np.unique(ids) if cell}
    for site, near in enumerate(surroundings(state.lattice)):
        for other in near:
            a, b = int(ids[site]), int(ids[other])
            if a and b and state.types[a] == state.types[b]:
                joined_group = group[a] | group[b]
                for cell in joined_group:
                    group[cell] = joined_group
    expected = [0, 0, 0]
    for members in {frozenset(members) for members in group.values()}:
        expected[state.types[next(iter(members))]] += 1
    assert metrics.cluster_counts(state, 3).tolist() == expected


def bipolar(rng: np.random.Generator, angle: float, shift: tuple[int, int] = (0, 0)) -> CellState:
    """Twelve 3×3 cells: type 2 along an axis of the given angle, type 1 in between."""
    ids, types = np.zeros((60, 60), dtype=int), [0]
    for number in range(12):
        along = (number % 6 - 2.5) * 6
        of_type = 2 if number < 6 else 1
        across = 0 if of_type == 2 else 8 * (-1) ** number
        row = 30 + along * np.sin(angle) + across * np.cos(angle) + rng.uniform(-1, 1)
        col = 30 + along * np.cos(angle) - across * np.sin(angle) + rng.uniform(-1, 1)
        ids[int(row) - 1 : int(row) + 2, int(col) - 1 : int(col) + 2] = number + 1
        types.append(of_type)
    return CellState(np.roll(ids, shift, (0, 1)), types)


def axial_by_definition(state: CellState) -> np.ndarray:
    """Centres by type; covariance of type 2; its eigenvectors, largest first; variances along them."""
    points = {kind: [] for kind in (1, 2)}
    for cell in range(1, state.types.size):
        sites = np.argwhere(state.ids == cell)
        if len(sites):
            points[int(state.types[cell])].append(sites.mean(axis=0))
    values, vectors = np.linalg.eigh(np.cov(np.array(points[2]), rowvar=False))
    vectors = vectors[:, np.argsort(values)[::-1]]
    return np.array([(np.array(points[kind]) @ vectors).var(axis=0) for kind in (1, 2)])


@settings(max_examples=30)
@given(st.integers(0, 1000), st.floats(0, 3.1), st.integers(0, 59), st.integers(0, 59))
def test_axial_variances_by_definition_and_wherever_the_border_runs(
    seed: int, angle: float, down: int, right: int
) -> None:
    rng = np.random.default_rng(seed)
    state = bipolar(rng, angle)
    moved = CellState(np.roll(state.ids, (down, right), (0, 1)), state.types)
    free = CellState(state.ids, state.types, Lattice.of(state.shape, boundary="free"))
    expected = axial_by_definition(state)
    for same in (free, state, moved):
        assert metrics.axial_variances(same) == pytest.approx(expected)
    fractions = metrics.variance_fractions(moved)
    assert fractions == pytest.approx(metrics.variance_fractions(free))
    assert fractions[1] > 0.9
    assert metrics.axial_rmse([moved], [state]) == pytest.approx(0, abs=1e-6)


def test_axial_rmse_is_that_of_the_four_mean_variances() -> None:
    rng = np.random.default_rng(3)
    samples = [bipolar(rng, angle) for angle in (0.1, 1.2, 2.0)]
    data = [bipolar(rng, angle) for angle in (0.4, 2.5)]
    difference = np.mean([axial_by_definition(s) for s in samples], axis=0) - np.mean(
        [axial_by_definition(s) for s in data], axis=0
    )
    assert metrics.axial_rmse(samples, data) == pytest.approx(np.sqrt((difference**2).mean()))


@settings(max_examples=30)
@given(st.sampled_from(LAYOUTS), st.integers(0, 2**32 - 1))
def test_axial_measures_in_space_on_every_lattice(layout: tuple[str, str], seed: int) -> None:
    """Single pixels of both types in the middle, against their positions; then moved across periodic borders."""
    rng = np.random.default_rng(seed)
    shape = (24, 24) if layout[0] != "cubic" else (14, 14, 14)
    lattice = Lattice.of(shape, layout[0], "periodic", layout[1])
    inner = np.argsort(squared_distances(lattice), kind="stable")[:60]
    sites = rng.choice(inner, 9, replace=False)
    ids = np.zeros(lattice.sites, dtype=int)
    ids[sites] = np.arange(1, 10)
    types = np.array([0, *[1] * 4, *[2] * 5])
    state = CellState(ids.reshape(shape), types, lattice)
    places = lattice.positions(sites)
    values, vectors = np.linalg.eigh(np.cov(places[4:].T))
    assume(np.diff(values).min() > 1e-6)  # axes of equal variance are any axes
    expected = np.array([(part @ vectors[:, ::-1]).var(axis=0) for part in (places[:4], places[4:])])
    assert metrics.axial_variances(state) == pytest.approx(expected)
    assert metrics.variance_fractions(state) == pytest.approx(expected[:, 0] / expected.sum(axis=1))
    shift = tuple(2 * rng.integers(0, 12, size=len(shape)))  # by whole pairs of rows: pushed ones stay pushed
    moved = CellState(np.roll(state.ids, shift, range(len(shape))), types, lattice)
    assert metrics.axial_variances(moved) == pytest.approx(expected)
    assert metrics.variance_fractions(moved) == pytest.approx(metrics.variance_fractions(state))


def test_axial_measures_without_an_axis_are_undefined() -> None:
    ids = np.zeros((9, 9), dtype=int)
    ids[1, 1], ids[5, 5] = 1, 2
    assert np.isnan(metrics.axial_variances(CellState(ids, [0, 1, 2]))).all()
    assert np.isnan(metrics.axial_variances(CellState(ids, [0, 1, 1]))).all()
    assert np.isnan(metrics.variance_fractions(CellState(ids, [0, 1, 1]))).all()
    assert metrics.axial_variances(CellState(ids[None], [0, 1, 1])).shape == (2, 3)


@given(states())
def test_summary_is_json(state: CellState) -> None:
    snapshots = Snapshots.from_states([state])
    if not len(state.cells):
        snapshots.types[:, 1:] = -1
        answer = metrics.summary(snapshots)
        assert answer["volume_mean"] is None
    else:
        answer = metrics.summary(snapshots, snapshots)
        assert answer["p_volume"] == 1
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
