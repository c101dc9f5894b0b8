"""Every measure against its definition written out site by site."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neuralcpm_bridge import metrics
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.metrics.geometry import components
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

MOORE = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if (down, right) != (0, 0)]


@st.composite
def states(draw: st.DrawFn, cells: int = 5, types: int = 2) -> CellState:
    shape = draw(st.tuples(st.integers(3, 14), st.integers(3, 14)))
    ids = draw(hnp.arrays(np.int32, shape, elements=st.integers(0, cells), fill=st.just(0)))
    kinds = draw(st.lists(st.integers(1, types), min_size=cells, max_size=cells))
    return CellState(ids, np.array([0, *kinds]))


def neighbours(site: tuple[int, int], shape: tuple[int, int], periodic: bool) -> list[tuple[int, int]]:
    found = []
    for down, right in MOORE:
        row, col = site[0] + down, site[1] + right
        if periodic:
            found.append((row % shape[0], col % shape[1]))
        elif 0 <= row < shape[0] and 0 <= col < shape[1]:
            found.append((row, col))
    return found


def flood(mask: np.ndarray, periodic: bool) -> int:
    """Connected pieces of a mask, counted by walking over it."""
    left, pieces = {tuple(site) for site in np.argwhere(mask)}, 0
    while left:
        pieces += 1
        todo = [left.pop()]
        while todo:
            for near in neighbours(todo.pop(), mask.shape, periodic):
                if near in left:
                    left.remove(near)
                    todo.append(near)
    return pieces


def dilate(mask: np.ndarray, periodic: bool) -> np.ndarray:
    grown = mask.copy()
    for site in np.argwhere(mask):
        for near in neighbours(tuple(site), mask.shape, periodic):
            grown[near] = True
    return grown


@given(states(), st.booleans())
def test_fragments_are_flooded_pieces(state: CellState, periodic: bool) -> None:
    expected = [0] + [flood(state.ids == cell, periodic) for cell in range(1, state.types.size)]
    assert metrics.fragments(state, periodic).tolist() == expected


@given(states(cells=3), st.booleans())
def test_dilated_fragments_are_pieces_of_the_twice_dilated_cell(state: CellState, periodic: bool) -> None:
    pieces = []
    for cell in range(1, state.types.size):
        mask = dilate(dilate(state.ids == cell, periodic), periodic)
        pieces.append(flood(mask, periodic))
    assert metrics.fragments(state, periodic, dilated=True).tolist() == [0, *pieces]
    assert metrics.fragmented_cells(state, periodic) == sum(count != 1 for count in pieces)


def test_pieces_five_sites_apart_are_one_cell_and_six_are_two() -> None:
    for distance, pieces in ((5, 1), (6, 2)):
        ids = np.zeros((20, 20), dtype=int)
        ids[3, 4] = ids[3 + distance, 4 + distance] = 1
        assert metrics.fragments(CellState(ids, [0, 1]), dilated=True)[1] == pieces


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
        joined = groups[a] | groups[b]
        for node in joined:
            groups[node] = joined
    ends, others = np.array(edges, dtype=np.intp).reshape(-1, 2).T
    assert components(count, ends, others).tolist() == [min(groups[node]) for node in range(count)]


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


def test_a_torn_cell_is_long_on_a_free_lattice_and_whole_on_a_periodic_one() -> None:
    ids = np.zeros((10, 10), dtype=int)
    ids[:3, [0, 9]] = 1
    state = CellState(ids, [0, 1])
    assert metrics.aspect_ratios(state, periodic=True)[1] == pytest.approx(1.5)
    assert metrics.aspect_ratios(state, periodic=False)[1] > 4


def test_mean_aspect_ratio_by_type() -> None:
    ids = np.zeros((12, 12), dtype=int)
    ids[1, 1:7], ids[4, 1:3], ids[8:10, 4:6] = 1, 2, 3
    ratios = metrics.mean_aspect_ratios(CellState(ids, [0, 1, 1, 2]), types=4)
    assert ratios[1:3].tolist() == pytest.approx([4.0, 1.0])
    assert np.isnan(ratios[[0, 3]]).all()


@given(states(types=3), st.booleans())
def test_contacts_and_heterotypic_fraction_by_walking(state: CellState, periodic: bool) -> None:
    table = np.zeros((4, 4))
    for site in np.ndindex(state.shape):
        for near in neighbours(site, state.shape, periodic):
            if state.ids[site] != state.ids[near]:
                kinds = state.types[state.ids[site]], state.types[state.ids[near]]
                table[kinds] += 0.5 if kinds[0] == kinds[1] else 1  # each pair is walked twice, once per order
    assert metrics.contact_lengths(state, 4, periodic) * 3 == pytest.approx(table)
    cells = np.triu(table[1:, 1:])
    fraction = metrics.heterotypic_fraction(state, periodic)
    if cells.sum():
        assert fraction == pytest.approx((cells.sum() - np.trace(cells)) / cells.sum())
    else:
        assert math.isnan(fraction)


@given(states(types=2), st.booleans())
def test_clusters_by_joining_touching_cells(state: CellState, periodic: bool) -> None:
    present = [int(cell) for cell in np.unique(state.ids) if cell]
    group = {cell: {cell} for cell in present}
    for site in np.ndindex(state.shape):
        for near in neighbours(site, state.shape, periodic):
            a, b = int(state.ids[site]), int(state.ids[near])
            if a and b and state.types[a] == state.types[b]:
                joined = group[a] | group[b]
                for cell in joined:
                    group[cell] = joined
    expected = [0, 0, 0]
    for members in {frozenset(members) for members in group.values()}:
        expected[state.types[next(iter(members))]] += 1
    assert metrics.cluster_counts(state, 3, periodic).tolist() == expected


def bipolar(rng: np.random.Generator, angle: float, shift: tuple[int, int] = (0, 0)) -> CellState:
    """Twelve 3×3 cells: type 2 along an axis of the given angle, type 1 in between."""
    ids, types = np.zeros((60, 60), dtype=int), [0]
    for number in range(12):
        along = (number % 6 - 2.5) * 6
        kind = 2 if number < 6 else 1
        across = 0 if kind == 2 else 8 * (-1) ** number
        row = 30 + along * np.sin(angle) + across * np.cos(angle) + rng.uniform(-1, 1)
        col = 30 + along * np.cos(angle) - across * np.sin(angle) + rng.uniform(-1, 1)
        ids[int(row) - 1 : int(row) + 2, int(col) - 1 : int(col) + 2] = number + 1
        types.append(kind)
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
    expected = axial_by_definition(state)
    assert metrics.axial_variances(state, periodic=False) == pytest.approx(expected)
    assert metrics.axial_variances(state, periodic=True) == pytest.approx(expected)
    assert metrics.axial_variances(moved, periodic=True) == pytest.approx(expected)
    fractions = metrics.variance_fractions(moved, periodic=True)
    assert fractions == pytest.approx(metrics.variance_fractions(state, periodic=False))
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


def test_axial_measures_without_an_axis_are_undefined() -> None:
    ids = np.zeros((9, 9), dtype=int)
    ids[1, 1], ids[5, 5] = 1, 2
    assert np.isnan(metrics.axial_variances(CellState(ids, [0, 1, 2]))).all()
    assert np.isnan(metrics.axial_variances(CellState(ids, [0, 1, 1]))).all()
    assert np.isnan(metrics.variance_fractions(CellState(ids, [0, 1, 1]))).all()


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
