"""The copy of a host's tissue, through any history: as a fresh one, and alike in the engine and beside it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralcpm_bridge._engine import IdMap
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.facts import HostCell
from neuralcpm_bridge.hosting.mirror import BackendMirror, Mirror
from neuralcpm_bridge.lattice import Lattice

from .fake_host import TYPES
from .models import analytic_model

LATTICE = Lattice.of((4, 5, 6), "cubic", "free")
TYPE_OF = {0: 0, 1: 1, 2: 2, 3: 0}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return analytic_model(tmp_path_factory.mktemp("mirror") / "model.onnx", "cubic", "free", 2, volume=8.0, length=3.0)


class Tissue:
    """A host's cells and lattice under random events."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.ids = np.zeros(LATTICE.shape, dtype=np.int64)
        self.types: dict[int, int] = {}
        self.written: dict[int, int] = {}
        self.next = 5
        for _ in range(3):
            self.birth()
        self.written.clear()

    @property
    def cells(self) -> list[HostCell]:
        return [HostCell(cell, cell_type) for cell, cell_type in self.types.items()]

    def put(self, site: int, cell: int) -> None:
        old = int(self.ids.ravel()[site])
        self.ids.ravel()[site] = self.written[site] = cell
        if old and not (self.ids == old).any():
            del self.types[old]

    def birth(self) -> None:
        self.next += int(self.random.integers(1, 1000))
        self.types[self.next] = int(self.random.integers(1, 4))
        for site in self.random.choice(LATTICE.sites, 6, replace=False).tolist():
            self.put(site, self.next)

    def death(self) -> None:
        victim = int(self.random.choice(list(self.types)))
        for site in np.flatnonzero(self.ids.ravel() == victim).tolist():
            self.put(site, 0)

    def change(self) -> None:
        self.types[int(self.random.choice(list(self.types)))] = int(self.random.integers(1, 4))

    def flip(self) -> tuple[int, int]:
        return int(self.random.integers(LATTICE.sites)), int(self.random.choice([0, *self.types]))


def loaded(model: Artifact, tissue: Tissue, *, engine: bool = True) -> Mirror:
    mirror = Mirror(model, TYPES, TYPE_OF, part="full", forbid_extinction=True)
    if not engine:
        mirror._made = lambda lattice: BackendMirror(model, "full", True, lattice)  # type: ignore[method-assign]
    mirror.load(LATTICE, tissue.ids, tissue.cells)
    return mirror


@given(
    seed=st.integers(0, 2**32 - 1), events=st.lists(st.sampled_from(["birth", "death", "change", "flip"]), max_size=8)
)
def test_any_history(model: Artifact, seed: int, events: list[str]) -> None:
    tissue = Tissue(seed)
    mirrors = [loaded(model, tissue), loaded(model, tissue, engine=False)]
    for event in events:
        if event == "flip" and tissue.types:
            site, cell = tissue.flip()
            if tissue.ids.ravel()[site] != cell:
                for mirror in mirrors:
                    mirror.calls()[1](site, cell)
                tissue.put(site, cell)
                del tissue.written[site]
        elif event == "birth" or not tissue.types:
            tissue.birth()
        else:
            getattr(tissue, event)()
        for mirror in mirrors:
            if not mirror.follow(tissue.cells, tissue.written):
                mirror.load(LATTICE, tissue.ids, tissue.cells)
            check = mirror.check(tissue.ids)
            assert check.ok
            assert check.pixels == 0
        tissue.written.clear()
    fresh = loaded(model, tissue)
    for _ in range(5):
        site, cell = tissue.flip()
        answers = [mirror.calls()[0](site, cell) for mirror in (fresh, *mirrors)]
        assert answers[1:] == pytest.approx([answers[0]] * 2, rel=1e-9, abs=1e-9)


def test_wrong_cells(model: Artifact) -> None:
    tissue = Tissue(3)
    mirror = Mirror(model, TYPES, {0: 0, 1: 1})
    with pytest.raises(UserError, match="There are cells of type 'B', but the model knows medium, A, B"):
        mirror.load(LATTICE, tissue.ids, [HostCell(1, 2), *tissue.cells])
    with pytest.raises(UserError, match=r"Cell \d+ is on the lattice but not among the host's cells"):
        loaded(model, tissue).check(tissue.ids + 1)
    with pytest.raises(RuntimeError, match="no lattice"):
        Mirror(model, TYPES, TYPE_OF).calls()


def test_numbers_are_used_again() -> None:
    numbers = IdMap()
    cells, types = np.array([30, 10, 20]), np.array([2, 1, 0], dtype=np.int32)
    assert numbers.load(cells, types).tolist() == [0, 1, 2]  # in the order of the host's ids, the medium's left out
    assert numbers.translate(np.array([[0, 10], [20, 30]])).tolist() == [[0, 1], [0, 2]]
    alive, kept = np.array([30, 20]), np.array([2, 0], dtype=np.int32)
    assert numbers.bury(alive, kept, np.array([9, 0, 4])) == [(1, -1)]
    assert numbers.take(np.array([40]), np.array([1], dtype=np.int32)) == [(1, 1)]


def test_a_fixed_number_of_cells() -> None:
    numbers = IdMap(3)
    one = np.array([1], dtype=np.int32)
    assert numbers.load(np.array([7]), one).tolist() == [0, 1, 1]
    assert numbers.take(np.array([7, 8]), np.array([1, 2], dtype=np.int32)) == [(2, 2)]
    with pytest.raises(ValueError, match="more than 2 cells"):
        numbers.take(np.array([7, 8, 9]), np.array([1, 2, 1], dtype=np.int32))
