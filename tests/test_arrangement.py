"""Who touches whom, how cells lie and where: against definitions written out, and on states drawn by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.metrics import Arrangement
from neuralcpm_bridge.metrics.tissue import pairs_per_unit
from neuralcpm_bridge.state import CellState

from .test_metrics import states, surroundings


@given(state=states())
def test_contacts_by_definition(state: CellState) -> None:
    ids, near = state.ids.ravel(), surroundings(state.lattice)
    unit = pairs_per_unit(state.lattice.geometry)
    touching = {(int(ids[site]), int(ids[other])) for site, around in enumerate(near) for other in around}
    pairs = [(int(ids[site]), int(ids[other])) for site, around in enumerate(near) for other in around]
    found, types = Arrangement(state, 3), state.types
    for own in (1, 2):
        cells = [int(cell) for cell in state.cells if types[cell] == own]
        if not cells:
            assert np.isnan(found.surfaces()[own])
            assert np.isnan(found.neighbours()[own]).all()
            continue
        surfaces = [sum(a == cell != b for a, b in pairs) / unit for cell in cells]
        assert found.surfaces()[own] == pytest.approx(np.mean(surfaces))
        if all(surfaces):
            at_medium = [sum(a == cell and b == 0 for a, b in pairs) / unit for cell in cells]
            assert found.medium_shares()[own] == pytest.approx(np.mean(np.divide(at_medium, surfaces)))
        for other in (1, 2):
            counted = sum(a in cells and b > 0 and a != b and types[b] == other for a, b in touching)
            assert found.neighbours()[own, other] == pytest.approx(counted / len(cells))


def rods(turned: bool) -> CellState:
    """Two rods of one type side by side, or the second across the end of the first."""
    ids = np.zeros((30, 30), dtype=np.int32)
    ids[10:12, 5:15] = 1
    if turned:
        ids[6:16, 15:17] = 2
    else:
        ids[12:14, 5:15] = 2
    return CellState(ids, np.array([0, 1, 1]), Lattice.of((30, 30)))


@given(rows=st.integers(0, 29), columns=st.integers(0, 29))
def test_how_rods_lie(rows: int, columns: int) -> None:
    """Wherever they lie on the torus."""
    for turned, aligned, pointing in ((False, 1.0, -1.0), (True, -1.0, 0.0)):
        drawn = rods(turned)
        state = CellState(np.roll(drawn.ids, (rows, columns), (0, 1)), drawn.types, drawn.lattice)
        found = Arrangement(state, 2)
        assert found.alignments()[1] == pytest.approx(aligned)
        assert found.pointing()[1] == pytest.approx(pointing)  # one points at the other, which lies beside it


@pytest.mark.parametrize(
    ("geometry", "shape"), [("square", (40, 40)), ("hexagonal", (40, 40)), ("cubic", (24, 24, 24))]
)
def test_one_type_around_the_other(geometry: str, shape: tuple[int, ...]) -> None:
    lattice = Lattice.of(shape, geometry)
    away = np.linalg.norm(lattice.positions() - lattice.middle, axis=1).reshape(shape)
    corner = np.indices(shape) // 5
    label = 1 + np.ravel_multi_index(tuple(corner), tuple(n // 5 + 1 for n in shape))
    _, ids = np.unique(np.where(away < 10, label, 0), return_inverse=True)
    ids = ids.reshape(shape).astype(np.int32)
    types = np.array([0] + [1 if away[ids == cell].mean() < 6 else 2 for cell in range(1, ids.max() + 1)])
    found = Arrangement(CellState(ids, types, lattice), 3)
    assert found.distances()[1] < 0.8 < 1.0 < found.distances()[2]
    assert found.medium_shares()[1] < 0.1 < found.medium_shares()[2]
