"""Following a host's cells: random histories of a simulated host against a mirror loaded afresh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from neuralcpm_bridge._engine import EngineError, IdMap, Mirror, Model
from neuralcpm_bridge.lattice import Lattice

from .lattices import ORDERS, lattices
from .models import LOCAL, make_model, network_weights, symbolic_weights

SEEDS = st.integers(0, 2**32 - 1)
NONE = np.empty(0, dtype=np.int64)


def cell_list(types: dict[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return np.array(list(types), dtype=np.int64), np.array(list(types.values()), dtype=np.int32)


@dataclass
class Host:
    """A simulation that numbers its cells as it likes; a type is the model's, 0: not the model's business."""

    lattice: Lattice
    rng: np.random.Generator
    ids: NDArray[np.int64] = field(init=False)
    types: dict[int, int] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    """Numbers of cells, dead ones too: one that comes back as another kind of cell within a step asks for a load."""
    written: dict[int, int] = field(default_factory=dict)
    """Sites changed outside of the Metropolis algorithm, and what is there now."""
    told: bool = True
    """Whether the mirror knows of everything so far."""
    reload: bool = False
    """Whether only a load can tell: a cell became or ceased to be medium."""

    def __post_init__(self) -> None:
        self.ids = np.zeros(self.lattice.sites, dtype=np.int64)
        for _ in range(4):
            self.write(self.some_sites(), self.new_cell())
        self.written.clear()

    def new_cell(self) -> int:
        bound = 2 ** int(self.rng.choice([8, 20, 62]))
        cell = int(self.rng.integers(-bound, bound))
        if cell == 0 or cell in self.used:
            return self.new_cell()
        self.used.add(cell)
        self.types[cell] = int(self.rng.integers(0, 3))
        return cell

    def some_sites(self) -> NDArray[np.int64]:
        return self.rng.integers(self.lattice.sites, size=int(self.rng.integers(0, 6)))

    def some_cell(self) -> int:
        return int(self.rng.choice([0, *self.types]))

    def write(self, sites: NDArray[np.int64], cell: int) -> None:
        self.ids[sites] = cell
        self.written |= dict.fromkeys(sites.tolist(), cell)

    def act(self, mirror: Mirror) -> None:
        """One thing that hosts do; copies are told to the mirror at once, as a Metropolis loop does."""
        kind, cell = self.rng.integers(6), self.some_cell()
        if kind == 0:
            if not self.told:
                self.tell(mirror)
            site = int(self.rng.integers(self.lattice.sites))
            mirror.delta(site, cell)
            mirror.commit(site, cell)
            self.ids[site] = cell
            return
        self.told = False
        if kind == 1:
            self.write(self.some_sites(), cell)
        elif kind == 2:  # a division, or a birth in the medium
            sites = np.flatnonzero(self.ids == cell)
            self.write(sites[self.rng.random(sites.size) < 0.4], self.new_cell())
        elif kind == 3 and cell:
            cell_type = int(self.rng.integers(0, 3))
            self.reload |= (cell_type == 0) != (self.types[cell] == 0)
            self.types[cell] = cell_type
        elif kind == 4 and cell:  # a death, its place taken over by the medium or a neighbour
            del self.types[cell]
            self.write(np.flatnonzero(self.ids == cell), self.some_cell())
        elif kind == 5:
            self.new_cell()  # without a pixel yet

    def load(self, mirror: Mirror) -> None:
        mirror.load(self.ids.reshape(self.lattice.shape), *cell_list(self.types))

    def tell(self, mirror: Mirror) -> None:
        """What a host adapter does after each step."""
        sites = np.array(list(self.written), dtype=np.int64)
        followed = mirror.follow(*cell_list(self.types), sites, np.array(list(self.written.values()), dtype=np.int64))
        assert followed or self.reload
        if not followed:
            self.load(mirror)
        self.written.clear()
        self.told, self.reload = True, False


def on(lattice: Lattice, model: Model) -> Mirror:
    return Mirror(model, lattice.shape, layout=lattice.layout, boundary=lattice.boundary)


def assert_same(mirror: Mirror, host: Host, model: Model) -> None:
    """The mirror has the cells of one loaded afresh, by other numbers perhaps, and their energies."""
    fresh = on(host.lattice, model)
    host.load(fresh)
    np.testing.assert_array_equal(
        fresh.types[fresh.ids].ravel(), [host.types.get(cell, 0) for cell in host.ids.tolist()]
    )
    np.testing.assert_array_equal(mirror.types[mirror.ids], fresh.types[fresh.ids])
    pairs = np.unique(np.stack([mirror.ids.ravel(), fresh.ids.ravel()]), axis=1)
    assert pairs.shape[1] == np.unique(pairs[0]).size == np.unique(pairs[1]).size  # one to one
    assert sorted(mirror.types[mirror.types > 0]) == sorted(fresh.types[fresh.types > 0])
    assert mirror.energy() == pytest.approx(fresh.energy(), rel=1e-9, abs=1e-4)
    site, cell = int(host.rng.integers(host.lattice.sites)), host.some_cell()
    assert mirror.delta(site, cell) == pytest.approx(fresh.delta(site, cell), rel=1e-6, abs=1e-4)
    differing, *energy, drift = mirror.compare(host.ids.reshape(host.lattice.shape))
    assert (differing, drift) == (0, 0)
    assert tuple(energy) == mirror.energy()


def live(host: Host, model: Model, steps: int) -> None:
    mirror = on(host.lattice, model)
    assert not mirror.loaded
    host.load(mirror)
    assert mirror.loaded
    for _ in range(steps):
        for _ in range(int(host.rng.integers(1, 4))):
            host.act(mirror)
        host.tell(mirror)
        assert_same(mirror, host, model)


@settings(max_examples=100)
@given(SEEDS, lattices(flat=(2, 7), solid=(2, 4)), ORDERS)
def test_a_host_on_any_lattice(seed: int, lattice: Lattice, orders: dict[str, int]) -> None:
    """Cells appear, divide, die, change type, are mapped to the medium and back; pixels are copied and written."""
    rng = np.random.default_rng(seed)
    weights = symbolic_weights(rng, ("contact", "volume", "surface"))
    model = make_model(weights, lattice.boundary, None, lattice.geometry.name, orders)
    live(Host(lattice, rng), model, 12)


@settings(max_examples=15)
@given(SEEDS)
def test_a_host_of_a_network(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = symbolic_weights(rng, ("contact", "volume")) | network_weights(rng, LOCAL)
    live(Host(Lattice.of((9, 10)), rng), make_model(weights, neural=LOCAL), 10)


@settings(max_examples=60)
@given(SEEDS, st.sampled_from([0, 40]))
def test_ids_of_a_host(seed: int, fixed: int) -> None:
    """The map alone, as back ends other than the engine use it: types by its changes are the types by a load."""
    rng = np.random.default_rng(seed)
    host, ids = Host(Lattice.of((5, 6)), rng), IdMap(fixed)
    types = ids.load(*cell_list(host.types))
    for _ in range(15):
        cell = host.some_cell()
        if rng.random() < 0.5:
            cell = host.new_cell()
            host.write(host.some_sites(), cell)
        elif cell:
            del host.types[cell]
            host.write(np.flatnonzero(host.ids == cell), host.some_cell())
        changes = ids.take(*cell_list(host.types))
        assert changes is not None
        volumes = np.zeros(200, dtype=np.int64)
        volumes[: len(types)] = np.bincount(ids.translate(host.ids), minlength=len(types))[: len(types)]
        buried = ids.bury(*cell_list(host.types), volumes)
        assert buried is not None
        types = applied(types, changes + buried)
        assert [types[ids.at(cell)] for cell in host.types] == list(host.types.values())
        seen = [ids.at(cell) for cell, cell_type in host.types.items() if cell_type]
        assert len(set(seen)) == len(seen)
        assert 0 not in seen
        if fixed:
            assert len(types) == fixed
            assert (types[1:] >= 1).all()  # as in training: an id without pixels is of type 1, or of its last owner's
        else:
            alive = np.flatnonzero(types >= 0)
            assert sorted([0, *seen]) == alive.tolist()
    np.testing.assert_array_equal(ids.translate(host.ids), [ids.at(cell) for cell in host.ids.tolist()])


def applied(types: NDArray[np.int32], changes: list[tuple[int, int]]) -> NDArray[np.int32]:
    for cell, cell_type in changes:
        types = np.concatenate([types, np.full(max(0, cell + 1 - len(types)), -1, dtype=np.int32)])
        types[cell] = cell_type
    return types


# -- what a map and a mirror refuse --------------------------------------------------------------------------------


def test_ids_are_given_in_the_order_of_the_hosts() -> None:
    ids = IdMap()
    np.testing.assert_array_equal(ids.load(np.array([70, -3, 8]), np.array([1, 2, 0], dtype=np.int32)), [0, 2, 1])
    assert [ids.at(cell) for cell in (0, -3, 8, 70)] == [0, 1, 0, 2]
    np.testing.assert_array_equal(ids.translate(np.array([[70, 70], [8, -3]])), [[2, 2], [0, 1]])
    assert not ids.knows(5)
    for strange in (lambda: ids.at(5), lambda: ids.translate(np.array([0, 5]))):
        with pytest.raises(EngineError, match="not among the host's cells"):
            strange()
    # A free id is taken again.
    volumes = np.array([9, 0, 1])
    assert ids.bury(np.array([70, 8]), np.array([1, 0], dtype=np.int32), volumes) == [(1, -1)]
    assert ids.take(np.array([70, 8, 11]), np.array([1, 0, 2], dtype=np.int32)) == [(1, 2)]
    # One that has pixels cannot be buried, one that changes sides cannot be followed.
    assert ids.bury(np.array([8, 11]), np.array([0, 2], dtype=np.int32), np.array([9, 0, 1])) is None
    assert ids.take(np.array([70]), np.array([0], dtype=np.int32)) is None
    assert ids.take(np.array([8]), np.array([1], dtype=np.int32)) is None


def test_a_cell_may_have_the_number_0_where_the_medium_has_another() -> None:
    """Morpheus numbers cells from 0 in the order of their types, the medium among them."""
    ids = IdMap()
    ids.load(np.array([0, 1]), np.array([2, 0], dtype=np.int32))
    assert (ids.at(0), ids.at(1)) == (1, 0)
    assert ids.bury(np.array([1]), np.array([0], dtype=np.int32), np.array([5, 0])) == [(1, -1)]
    assert ids.at(0) == 0


def test_a_model_of_so_many_cells() -> None:
    ids = IdMap(3)
    np.testing.assert_array_equal(ids.load(np.array([5]), np.array([2], dtype=np.int32)), [0, 2, 1])
    assert ids.take(np.array([5, 6]), np.array([2, 1], dtype=np.int32)) == [(2, 1)]
    for crowd in (ids.take, ids.load):
        with pytest.raises(EngineError, match="more than 2 cells"):
            crowd(np.array([5, 6, 7]), np.array([2, 1, 1], dtype=np.int32))


def test_wrong_input_is_one_sentence_and_changes_nothing() -> None:
    model = make_model(symbolic_weights(np.random.default_rng(0), ("contact", "volume", "length")))
    mirror = Mirror(model, (6, 8))
    host = np.zeros((6, 8), dtype=np.int64)
    host[1:3, 1:4], host[3, 3] = 10, 20
    cells, types = np.array([10, 20]), np.array([1, 2], dtype=np.int32)
    unloaded = (
        lambda: mirror.energy(),
        lambda: mirror.ids,
        lambda: mirror.delta(0, 0),
        lambda: mirror.commit(0, 0),
        lambda: mirror.compare(host),
        lambda: mirror.follow(cells, types, NONE, NONE),
        lambda: mirror.follow(NONE, types[:0], NONE, NONE),
    )
    wide = host.copy()
    wide[5, :6] = 10
    wrong = (
        lambda: mirror.load(host[:5].copy(), cells, types),
        lambda: mirror.load(host, cells, types[:1]),
        lambda: mirror.load(host, cells[:1], types[:1]),
        lambda: mirror.load(host, np.array([10, 10, 20]), np.array([1, 1, 2], dtype=np.int32)),
        lambda: mirror.load(host, cells, np.array([1, 3], dtype=np.int32)),
        lambda: mirror.load(host, cells, np.array([1, -1], dtype=np.int32)),
        lambda: mirror.load(wide, cells, types),
        lambda: mirror.delta(48, 10),
        lambda: mirror.delta(0, 30),
        lambda: mirror.commit(-1, 10),
        lambda: mirror.follow(cells, types[:1], NONE, NONE),
        lambda: mirror.follow(np.array([10, 20, 30]), np.array([1, 2, 3], dtype=np.int32), NONE, NONE),
        lambda: mirror.follow(cells, types, np.array([48]), np.array([10])),
        lambda: mirror.follow(cells, types, np.array([4, 5]), np.array([10])),
        lambda: mirror.compare(host[:5].copy()),
        lambda: mirror.compare(host + 1),
        lambda: Mirror(model, (6, 8, 2)),
        lambda: Mirror(model, (6, 8), part="some"),
    )

    def refused(attempt: Callable[[], object]) -> None:
        with pytest.raises(EngineError, match=r"^[^\n]+\.$"):
            attempt()

    for attempt in unloaded + wrong:
        refused(attempt)
    assert not mirror.loaded
    mirror.load(host, cells, types)
    before, ids = mirror.energy(), mirror.ids
    for attempt in wrong:
        refused(attempt)
    assert mirror.energy() == before
    np.testing.assert_array_equal(mirror.ids, ids)
    assert mirror.compare(host) == (0, *before, 0)


def test_what_the_host_did_unseen_is_found_and_taken_over() -> None:
    model = make_model(symbolic_weights(np.random.default_rng(0), ("contact", "volume")))
    mirror = Mirror(model, (4, 5))
    host = np.zeros((4, 5), dtype=np.int64)
    host[1, 1:3] = 7
    mirror.load(host, np.array([7]), np.array([1], dtype=np.int32))
    host[2, 1:4] = 7
    assert mirror.compare(host)[0] == 3
    assert mirror.compare(host)[0] == 0
    np.testing.assert_array_equal(mirror.ids, host == 7)
