"""Training of cell graphs: statistics of the data, committees, bounded pushes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from neuralcpm_bridge.artifact import LatticeEntry, NeuralSpec
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState
from training.build import learn_statistics
from training.config import Config
from training.export import export
from training.hamiltonians import CellGraph, States, batch_states, make_preset
from training.trainer import Trainer, split
from training.verify import verify_backends

from .tiny import tiny_config, tiny_data


def test_statistics_are_those_of_the_data() -> None:
    lattice = Lattice.of((20, 20))
    ids = np.zeros((20, 20), dtype=np.int32)
    ids[2:5, 2:6], ids[5:8, 2:6], ids[12:14, 12:18] = 1, 2, 3
    state = CellState(ids, np.array([0, 1, 1, 2]), lattice)
    network = CellGraph(NeuralSpec(kind="cell_graph", order=2), 4, LatticeEntry())
    network.learn_statistics([network.describe(States(*batch_states([state]), lattice))] * 2)
    assert network.cell_mean[0] == 12
    assert network.cell_deviation[0] == 1  # all of one volume
    aspects = [(3, 4), (3, 4), (2, 6)]
    radii = [np.sqrt((a**2 + b**2 - 2) / 12) for a, b in aspects]
    assert network.cell_mean[2] == pytest.approx(np.mean(radii))
    assert network.cell_deviation[2] == pytest.approx(np.std(radii))
    assert network.edge_mean[1] == pytest.approx(3)
    assert network.surface == pytest.approx(network.cell_mean[3])
    assert network.low[1, 2] == pytest.approx(radii[0], rel=1e-4)
    assert network.low[1, 2] < radii[0] < network.high[1, 2] < network.low[2, 2] < radii[2]
    assert not network.high[3].any()  # no such cell was seen
    with pytest.raises(UserError, match="no cells"):
        network.learn_statistics(
            [network.describe(States(torch.zeros(1, 20, 20).long(), torch.zeros(1, 1).long(), lattice))]
        )


def graph_config(**sections: dict[str, Any]) -> Config:
    return tiny_config(
        **{
            "model": {"preset": "graph1-closure", "freeze_symbolic": True, "members": 2},
            "objective": {"kind": "conditional", "push": 0.01},
            "optimizer": {"batch": 4},
            **sections,
        }
    )


def test_an_interrupted_run_of_a_committee_ends_with_the_same_weights(tmp_path: Path) -> None:
    data = tiny_data()
    whole = Trainer(graph_config(), data, tmp_path / "whole").run()
    Trainer(graph_config(), data, tmp_path / "parts").run(until=7)
    parts = Trainer(graph_config(), data, tmp_path / "parts").run()
    network = CellGraph(whole.network.spec, 3, whole.lattice)
    learn_statistics(network, split(data, 0.1, 0)[0])
    for key, value in whole.network.state_dict().items():
        assert torch.equal(value, parts.network.state_dict()[key])
        if not key.startswith("members"):
            torch.testing.assert_close(value, network.state_dict()[key])  # of the training data, and never trained
    artifact = export(whole, tmp_path / "m.onnx", examples=[data[0]])
    assert verify_backends(artifact, [data[1]], 12, 0)["ok"]


def test_a_bounded_push_stays_small() -> None:
    seen: dict[float, list[float]] = {}
    for bound in (1e-3, 1e3):
        steps = seen.setdefault(bound, [])
        config = graph_config(
            objective={"kind": "conditional", "push": bound}, optimizer={"steps": 40, "batch": 4, "lr": 0.02}
        )
        Trainer(config, tiny_data()).run(lambda report, steps=steps: steps.append(report.values["push"]))
    assert seen[1e-3][-1] < 0.5 * seen[1e3][-1]


def test_data_whose_cells_have_no_shape_are_refused() -> None:
    data = tiny_data()
    data.ids[2, 3, :14] = 1
    with pytest.raises(UserError, match="Cell 1 of state"):
        Trainer(graph_config(data={"holdout": 0.0}), data)


def test_what_belongs_to_cell_graphs_is_refused_elsewhere() -> None:
    with pytest.raises(UserError, match="no cell graph"):
        make_preset("local8-closure", members=2)
    with pytest.raises(UserError, match=r"objective\.push"):
        Trainer(tiny_config(objective={"push": 1.0}), tiny_data())
