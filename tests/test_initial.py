"""Layouts and mixed starts on every lattice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.initial import (
    _boxes,
    _nearest,
    blob,
    scatter,
    scattered,
    scattered_like,
    sites_from_the_middle,
    squared_distances,
)
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

from .strategies import lattices, random_state, states_on

PLACES = [
    Lattice.of((40, 50)),
    Lattice.of((44, 50), "hexagonal"),
    Lattice.of((44, 50), "hexagonal", "free", "rows"),
    Lattice.of((14, 16, 18)),
]


@pytest.mark.parametrize("lattice", PLACES)
def test_blobs_are_round_and_their_cells_even(lattice: Lattice) -> None:
    cells, area = 12, 60
    ids = blob(lattice, cells, area, np.random.default_rng(2))
    state = CellState(ids, np.r_[0, np.ones(cells, int)], lattice)
    assert state.volumes[1:].sum() == cells * area
    assert state.volumes[1:].min() > 0.5 * area
    assert (state.fragments()[1:] == 1).all()
    tissue = squared_distances(lattice)[ids.ravel() > 0]
    assert tissue.max() <= squared_distances(lattice)[ids.ravel() == 0].min()
    np.testing.assert_array_equal(ids, blob(lattice, cells, area, np.random.default_rng(2)))


@pytest.mark.parametrize("lattice", PLACES)
def test_scattered_cells_touch_no_other(lattice: Lattice) -> None:
    area = 9 if lattice.dimension == 2 else 27
    for seed in range(5):
        ids = scatter(lattice, 20, area, np.random.default_rng(seed))
        state = CellState(ids, np.r_[0, np.ones(20, int)], lattice)
        assert state.volumes[1:].tolist() == [area] * 20
        assert state.contacts(2)[1, 1] == 0


@pytest.mark.parametrize("lattice", PLACES)
def test_layouts_that_do_not_fit_are_refused(lattice: Lattice) -> None:
    for layout in (blob, scatter):
        with pytest.raises(UserError, match=rf"do not fit onto {lattice.shape[0]} × "):
            layout(lattice, 100, 100, np.random.default_rng(0))


@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3]), st.floats(0.5, 6))
def test_the_nearest_seed_is_the_nearest(seed: int, dimension: int, side: float) -> None:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 12, size=(60, dimension)).astype(float)
    seeds = pixels[rng.choice(60, 7, replace=False)]
    expected = ((pixels[:, None] - seeds) ** 2).sum(axis=2).argmin(axis=1)
    boxes = _boxes(pixels, side)
    assert sorted(np.concatenate(boxes).tolist()) == list(range(60))
    np.testing.assert_array_equal(_nearest(pixels, seeds, boxes), expected)


@given(lattices((2, 9)))
def test_sites_from_the_middle_are_the_nearest(lattice: Lattice) -> None:
    away = ((lattice.positions() - lattice.middle) ** 2).sum(axis=1)
    order = sites_from_the_middle(lattice, lattice.sites)
    assert sorted(order.tolist()) == list(range(lattice.sites))
    assert (np.diff(away[order]) >= -1e-9).all()
    np.testing.assert_array_equal(sites_from_the_middle(lattice, 3), order[:3])


@given(states_on())
def test_mixed_starts_keep_cells_and_lattice(state: CellState) -> None:
    mixed = scattered_like(state, np.random.default_rng(1))
    existing = np.flatnonzero(state.types > 0)
    assert mixed.lattice == state.lattice
    np.testing.assert_array_equal(mixed.types, state.types)
    assert mixed.volumes[existing].tolist() == [1] * existing.size
    area = max(int((state.ids > 0).sum()), existing.size)
    assert set(np.flatnonzero(mixed.ids)) <= set(sites_from_the_middle(state.lattice, area))


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_mixed_starts_on_square_lattices_are_the_first_version_s(seed: int) -> None:
    """Chains of trained models began with these numbers."""
    rng = np.random.default_rng(seed)
    state = random_state(rng, rng.integers(6, 30, size=2), int(rng.integers(2, 9)))
    height, width = state.shape
    rows, cols = np.mgrid[:height, :width]
    cells = np.flatnonzero(state.types > 0)
    away = (rows - (height - 1) / 2) ** 2 + (cols - (width - 1) / 2) ** 2
    disc = np.argsort(away, axis=None, kind="stable")[: max(int((state.ids > 0).sum()), cells.size)]
    expected = np.zeros(state.ids.size, dtype=np.int32)
    expected[np.random.default_rng(7).choice(disc, cells.size, replace=False)] = cells
    found = scattered_like(state, np.random.default_rng(7)).ids
    np.testing.assert_array_equal(found.ravel(), expected)


def test_pixels_need_room() -> None:
    with pytest.raises(UserError, match="2 sites have no room for 3 cells"):
        scattered(Lattice.of((4, 4)), np.array([0, 1, 1, 1]), np.array([3, 4]), np.random.default_rng(0))
