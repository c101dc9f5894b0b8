"""What `neuralcpm bench` prints, and how it measures what it compares."""

from __future__ import annotations

import json

import numpy as np
import pytest

from neuralcpm_bridge._engine import Model, State
from neuralcpm_bridge.app import bench
from neuralcpm_bridge.app.bench import Timed, timing
from neuralcpm_bridge.app.bench.memory import allocated, bytes_per_cell
from neuralcpm_bridge.app.cli.bench import lines
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

FLIP = [(0, 0)]


class Clock:
    """A thread's processor time that passes only where a test says so."""

    def __init__(self) -> None:
        self.now = 0

    def thread_time_ns(self) -> int:
        return self.now

    def waiting(self, microseconds: int):
        def wait(*_: int) -> None:
            self.now += 1000 * microseconds

        return wait


def test_the_fields_and_their_quotients(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SECONDS_PER_MODEL", 0.05)
    code, out, _ = cli("bench", "--json")
    assert code == 0
    report = json.loads(out)
    assert list(report["delta"]) == ["local8", "local16", "local8x2", "paper_nh", "graph1", "graph2", "graph3"]
    local8 = report["delta"]["local8"]
    for name, model in report["delta"].items():
        beside = {"local8_ratio", "local8_onnxruntime_ratio"} if name.startswith("graph") else set()
        assert set(model) == {"engine_us", "p95_us", "commit_us", "onnxruntime_us", "ratio", "gmac_per_s"} | beside
        assert model["ratio"] == pytest.approx(model["onnxruntime_us"] / model["engine_us"])
        assert min(model.values()) > 0
        if beside:
            assert model["local8_ratio"] == pytest.approx(local8["engine_us"] / model["engine_us"])
            assert model["local8_onnxruntime_ratio"] == pytest.approx(local8["onnxruntime_us"] / model["engine_us"])
    assert list(report["scaling"]) == ["local8", "graph1", "graph2", "graph3"]
    for name, scaling in report["scaling"].items():
        assert set(scaling) == {"cells_50_us", "cells_5000_us", "ratio"}
        assert scaling["cells_50_us"] == report["delta"][name]["engine_us"]
        assert scaling["ratio"] == pytest.approx(scaling["cells_5000_us"] / scaling["cells_50_us"])
    committee = report["committee"]
    assert (committee["members"], committee["one_us"]) == (4, report["delta"]["graph1"]["engine_us"])
    assert committee["ratio"] == pytest.approx(committee["committee_us"] / committee["one_us"])
    places = {name: (each["shape"], each["cells"]) for name, each in report["graph_lattices"].items()}
    assert places == {"hexagonal": ([100, 100], 50), "cubic": ([60, 60, 60], 200)}
    assert set(report["metropolis"]) == {"cellsort", "local8", "paper_nh", "graph1"}
    assert set(report["lattices"]) == {"hexagonal", "cubic"}
    for entry in (*report["metropolis"].values(), *report["lattices"].values()):
        assert set(entry) == {"attempts_per_s", "proposals_per_s"}
        assert 0 < entry["proposals_per_s"] < entry["attempts_per_s"]
    for said in lines(report):
        assert any(name in said for name in ("graph", "local8", "cellsort", "paper_nh"))


@pytest.mark.skipif(allocated() is None, reason="the C library does not tell what is allocated")
def test_bytes_per_cell_are_those_that_a_state_keeps() -> None:
    """Types, volumes and the surface term's pairs: 4 + 8 + 8 bytes, and nothing else."""
    model = Model(
        json.dumps({"types": ["medium", "A", "B"], "lattice": {"geometry": "square", "boundary": ["periodic"] * 2}}),
        {f"symbolic.surface.{name}": np.ones(3) for name in ("strength", "target")},
    )
    found = bytes_per_cell(lambda state: State(model, state.ids, state.types))
    assert found == pytest.approx(20, abs=1)


def test_what_is_compared_takes_as_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    fast, slow = Timed(clock.waiting(100), FLIP), Timed(clock.waiting(5000), FLIP, things=10)
    turns = bench.time_in_turn({"fast": fast, "slow": slow}, 0.3)
    assert len(turns["fast"]) == len(turns["slow"]) > 1
    assert sum(map(len, turns["fast"])) == 50 * sum(map(len, turns["slow"]))
    assert (bench.typical(turns["fast"]), bench.typical(turns["slow"])) == (100.0, 500.0)


def test_blocks_ask_for_every_flip_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "BLOCK", 3)
    asked: list[tuple[int, int]] = []

    class Engine:
        def deltas(self, sites, new_ids) -> None:
            asked.extend(zip(sites.tolist(), new_ids.tolist(), strict=True))

    flips = [(number, number % 4) for number in range(11)]
    timed = timing.in_blocks(Engine(), flips)
    for arguments in timed.arguments:
        timed.call(*arguments)
    assert (asked, timed.things) == (flips[:9], 3)


@pytest.mark.parametrize("geometry", ["square", "hexagonal", "cubic"])
def test_flips_cross_borders_between_cells(geometry: str) -> None:
    lattice = Lattice.of((9, 9, 9) if geometry == "cubic" else (12, 12), geometry)
    ids = np.zeros(lattice.shape, dtype=np.int32)
    ids[2:5], ids[5:8] = 1, 2
    state = CellState(ids, np.array([0, 1, 1]), lattice)
    flips = bench.boundary_flips(state, 200)
    neighbours = lattice.neighbours(lattice.geometry.moore_order)
    for site, new_id in flips:
        assert ids.ravel()[site] != new_id
        assert new_id in ids.ravel()[neighbours[site]]
    assert {new_id for _, new_id in flips} == {0, 1, 2}


@pytest.mark.parametrize("geometry", bench.OTHER_LATTICES)
def test_the_tissue_on_other_lattices_lives(geometry: str) -> None:
    shape, block = bench.OTHER_LATTICES[geometry]
    engine = bench.cell_sorting(Lattice.of(shape, geometry), block)
    assert set(engine.volumes[1:].tolist()) == {block ** len(shape)}
    counts = engine.sweep(1, 1.0, 1)
    assert 0 < counts["accepted"] < counts["proposals"] < counts["attempts"] == np.prod(shape)


def test_a_turn_counts_once_however_many_calls_it_holds() -> None:
    """Fast turns hold more calls: over all calls, a machine that is slow for most of the time would look fast."""
    fast, slow = np.full(1000, 20.0), np.full(100, 200.0)
    assert bench.typical([fast, slow, slow]) == 200.0
    assert bench.typical([fast, fast, slow]) == 20.0
