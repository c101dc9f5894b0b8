"""What is said about a data set before anything is learned from it."""

from __future__ import annotations

import numpy as np
import pytest

from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.survey import Survey, diameter, survey


def tiles(side: int, lattice: Lattice, medium: bool = True, states: int = 24, types: int = 2) -> Snapshots:
    """Square cells of `side` sites across, every second place empty at random, types in turn."""
    rng = np.random.default_rng(0)
    label = np.ravel_multi_index(tuple(np.indices(lattice.shape) // side), tuple(n // side + 1 for n in lattice.shape))
    every = np.unique(label)
    ids = np.zeros((states, *lattice.shape), dtype=np.int32)
    for number in range(states):
        kept = rng.permutation(every)[: every.size // 2] if medium else rng.permutation(every)
        for cell, which in enumerate(kept, start=1):
            ids[number][label == which] = cell
    cells = ids.max()
    of_cells = np.tile(np.r_[0, 1 + np.arange(cells) % types], (states, 1)).astype(np.int32)
    return Snapshots(ids, of_cells, ("medium", *"ABC"[:types]), lattice)


def said(found: Survey) -> str:
    return " ".join(found.remarks)


def test_good_data_need_no_remark() -> None:
    found = survey(tiles(8, Lattice.of((40, 40))))
    assert found.remarks == ()
    assert found.cells == (12, 12)
    assert [(own.name, own.volume) for own in found.types] == [("A", (64.0, 0.0)), ("B", (64.0, 0.0))]
    assert found.diameter == pytest.approx(diameter(64, Lattice.of((40, 40)))) == pytest.approx(9.03, abs=0.01)
    assert not found.confluent


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (tiles(8, Lattice.of((40, 40)), states=3), "States are few (3)"),
        (tiles(2, Lattice.of((12, 12))), "too few for a shape"),
        (tiles(40, Lattice.of((120, 120)), states=20), "move slowly"),
        (tiles(8, Lattice.of((40, 40)), medium=False), "no medium"),
        (tiles(8, Lattice.of((40, 40)), types=1), "one type of cells only, A"),
        (tiles(8, Lattice.of((24, 24), boundary="free")), "at a free border"),
        (tiles(8, Lattice.of((40, 40))).chosen([0, 0, 0]), "All 3 states are the same"),
        (tiles(8, Lattice.of((40, 40))).chosen([0] * 30 + [1]), "nearly the same"),
    ],
)
def test_what_will_be_a_problem_is_said(data: Snapshots, words: str) -> None:
    assert words in said(survey(data))


def test_numbers_of_cells_and_strangers() -> None:
    data = tiles(8, Lattice.of((40, 40)))
    data.ids[0][data.ids[0] == 12] = 0
    assert "from 11 to 12 cells" in said(survey(data))
    apart = np.zeros((20, 30, 30), dtype=np.int32)
    apart[:, 3:9, 3:9], apart[:, 18:24, 18:24] = 1, 2
    apart[::2, 9, 3:9] = 1
    assert "A and B never touch" in said(survey(Snapshots(apart, np.tile([0, 1, 2], (20, 1)), ("medium", "A", "B"))))


def test_an_empty_lattice_is_described_too() -> None:
    empty = Snapshots(np.zeros((2, 5, 5), dtype=np.int32), np.zeros((2, 1), dtype=np.int32), ("medium",))
    assert survey(empty).remarks == ("There are no cells.",)


@pytest.mark.parametrize("geometry", ["square", "hexagonal", "cubic"])
def test_diameters_are_those_of_discs_and_balls(geometry: str) -> None:
    lattice = Lattice.of((40, 40, 40) if geometry == "cubic" else (60, 60), geometry)
    inside = np.linalg.norm(lattice.positions() - lattice.middle, axis=1) < 9.5
    assert diameter(float(inside.sum()), lattice) == pytest.approx(19, rel=0.03)
