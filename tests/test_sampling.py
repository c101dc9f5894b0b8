"""Samples from mixed starts: one function for training, evaluation and reports, without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge import sampling
from neuralcpm_bridge._engine import Model
from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.sampling import ChainRules, drawn_evenly, sample_from_mixed
from neuralcpm_bridge.snapshots import Snapshots

SHAPES = {"square": (12, 12), "hexagonal": (12, 12), "cubic": (7, 7, 7)}


def data_on(geometry: str) -> Snapshots:
    """Two states of five cells, each in one slab of the lattice."""
    ids = np.zeros((2, *SHAPES[geometry]), dtype=np.int32)
    for cell in range(1, 6):
        ids[:, cell, 2:6] = cell
    types = np.tile(np.array([0, 1, 2, 1, 2, 1], dtype=np.int32), (2, 1))
    return Snapshots(ids, types, ("medium", "A", "B"), Lattice.of(SHAPES[geometry], geometry))


def model_on(geometry: str, target: float, extinction: bool) -> Model:
    lattice = {"geometry": geometry, "boundary": ["periodic"] * len(SHAPES[geometry])}
    description = {"types": ["medium", "A", "B"], "lattice": lattice, "extinction": extinction, "name": "made here"}
    cells = np.array([0.0, 1.0, 1.0])
    weights = {"symbolic.volume.strength": 0.5 * cells, "symbolic.volume.target": target * cells}
    return Model(json.dumps(description), weights)


@pytest.mark.parametrize("geometry", SHAPES)
def test_chains_grow_the_cells_of_the_data_from_single_pixels(geometry: str) -> None:
    data = data_on(geometry)
    drawn = sample_from_mixed(model_on(geometry, 8.0, True), data, 3, 20, seed=1)
    assert len(drawn) == 3
    assert drawn.lattice == data.lattice
    assert drawn.type_names == data.type_names
    assert drawn.provenance["sampled from"] == "made here"
    for state in drawn:
        np.testing.assert_array_equal(state.types, data.types[0])
        assert (np.abs(state.volumes[1:] - 8) < 6).all()
    again = sample_from_mixed(model_on(geometry, 8.0, True), data, 3, 20, seed=1, threads=2)
    np.testing.assert_array_equal(drawn.ids, again.ids)
    assert not np.array_equal(drawn.ids, sample_from_mixed(model_on(geometry, 8.0, True), data, 3, 20, seed=2).ids)


@pytest.mark.parametrize("extinction", [True, False])
def test_whether_a_cell_may_vanish_is_the_models_to_say(extinction: bool) -> None:
    """Cells that want no pixels at all keep one where training forbade to take it, and none elsewhere."""
    drawn = sample_from_mixed(model_on("square", 0.0, extinction), data_on("square"), 2, 30)
    alive = np.array([state.volumes[1:] > 0 for state in drawn])
    assert alive.all() if extinction else not alive.any()


def test_a_model_file_that_the_engine_does_not_serve_is_sampled_too(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "GROWTH_MCS", 1)
    artifact = load_artifact(models["mnist-nh-cnn"])
    assert not artifact.engine_serves
    ids = np.zeros((1, 36, 36), dtype=np.int32)
    ids[0, 4:8, 4:8] = 1
    data = Snapshots(ids, np.array([[0, 1]], dtype=np.int32), artifact.metadata.types)
    drawn = sample_from_mixed(artifact, data, 1, 1)
    assert drawn.provenance["mcs"] == 2
    assert drawn[0].volumes[1] >= 1


def test_traded_types_are_traded_back() -> None:
    """Cells that exchange types are renumbered: every id keeps the type it came with."""
    data = data_on("square")
    later, moves = ChainRules(trades=5).run(model_on("square", 8.0, True), data, 5, seed=0)
    assert moves.proposals >= moves.accepted > 0
    assert [sorted(np.unique(state)) for state in later.ids] == [[0, 1, 2, 3, 4, 5]] * 2


def test_states_are_drawn_once_before_any_twice() -> None:
    chosen = drawn_evenly(7, 3, np.random.default_rng(0))
    assert sorted(np.bincount(chosen)) == [2, 2, 3]


def test_no_torch_is_needed() -> None:
    script = "import sys; import neuralcpm_bridge.sampling; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
