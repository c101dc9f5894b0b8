"""What one ΔH costs, against ONNX Runtime's full energy of the same model in the same run, on one thread."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from neuralcpm_bridge._engine import isa
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.backends.engine import EngineBackend
from neuralcpm_bridge.backends.onnxruntime import OnnxRuntimeBackend
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

from . import timing
from .memory import bytes_per_cell
from .models import COMMITTEE, CONVOLUTIONS, GRAPHS, SETTINGS, bench_models
from .timing import Timed, Turns, gemm_speed, in_blocks, time_in_turn, time_metropolis, time_singly, typical
from .tissues import boundary_flips, cell_sorting, dense_cluster

__all__ = [
    "Timed",
    "bench_models",
    "boundary_flips",
    "cell_sorting",
    "dense_cluster",
    "run_bench",
    "time_in_turn",
    "time_metropolis",
    "typical",
]

SCALING = ("local8", "graph1", "graph2", "graph3")
METROPOLIS = {"cellsort": "cellsort", "local8": "local8", "paper_nh": "paper_nh", "graph1": "graph1-closure"}
"""And the models: a graph of random weights runs with cell sorting, which keeps its cells whole."""
OTHER_LATTICES = {"hexagonal": ((100, 100), 10), "cubic": ((40, 40, 40), 5)}
"""Shape, and the side of the blocks that are cells: about as many sites each as on the square lattice."""
FLIPS = 20_000


def run_bench() -> dict[str, Any]:
    """The JSON object of `neuralcpm bench`."""
    with tempfile.TemporaryDirectory() as folder:
        artifacts = bench_models(Path(folder))
        state = dense_cluster(50, (100, 100))
        deltas = Deltas(artifacts, state)
        metropolis = {
            name: time_metropolis(EngineBackend(artifacts[model], state).engine) for name, model in METROPOLIS.items()
        }
        memory = {name: bytes_per_cell(partial(EngineBackend, artifacts[name])) for name in GRAPHS}
    lattices = {
        geometry: time_metropolis(cell_sorting(Lattice.of(shape, geometry), block))
        for geometry, (shape, block) in OTHER_LATTICES.items()
    }
    return {
        "isa": isa(),
        "gemm_gmac_per_s": gemm_speed(),
        "delta": {name: deltas.of(name) for name in (*CONVOLUTIONS, *GRAPHS)},
        "scaling": deltas.scaling(),
        "graph_lattices": deltas.on_other_lattices(),
        "committee": deltas.committee(),
        "graph_bytes_per_cell": memory,
        "metropolis": metropolis,
        "lattices": lattices,
    }


class Deltas:
    """ΔH of every model and the full energies of most by ONNX Runtime.

    All take turns, so that each is measured over the whole time: a slow phase of the machine lasts seconds.
    """

    def __init__(self, artifacts: dict[str, Artifact], state: CellState) -> None:
        """`state`: 50 cells on 100² sites."""
        models = (*CONVOLUTIONS, *GRAPHS)
        self.flips = boundary_flips(state, FLIPS)
        self.engines = {name: EngineBackend(artifacts[name], state).engine for name in (*models, "committee")}
        tissue = dense_cluster(5000, (1000, 1000))
        timed = {(name, "engine"): in_blocks(engine, self.flips) for name, engine in self.engines.items()}
        timed |= {(name, "full"): full_energy(artifacts[name], state) for name in models}
        timed |= {(name, "tissue"): deltas_of(artifacts[name], tissue) for name in SCALING}
        timed |= {(name, "lattice"): deltas_of(artifacts[name], SETTINGS[name].tissue()) for name in SETTINGS}
        time_in_turn(timed, 1.0)  # pays for memory and lazy initialisation
        self.done = {name: engine.multiply_adds for name, engine in self.engines.items()}
        self.turns: dict[tuple[str, str], Turns] = time_in_turn(timed, timing.SECONDS_PER_MODEL * len(models))

    def us(self, name: str, what: str = "engine") -> float:
        """Microseconds."""
        return typical(self.turns[name, what])

    def of(self, name: str) -> dict[str, float]:
        """One model on 50 cells; cell graphs also beside local8, its ΔH and its full energy."""
        one, full = self.us(name), self.us(name, "full")
        spent = float(sum(turn.sum() for turn in self.turns[name, "engine"])) * timing.BLOCK
        work = self.engines[name].multiply_adds - self.done[name]
        single = time_singly(self.engines[name], self.flips)
        found = {
            "engine_us": one,
            "p95_us": single.p95,
            "onnxruntime_us": full,
            "ratio": full / one,
            "gmac_per_s": work / spent / 1e3,
            "commit_us": single.commit,
        }
        if name in GRAPHS:
            found["local8_ratio"] = self.us("local8") / one
            found["local8_onnxruntime_ratio"] = self.us("local8", "full") / one
        return found

    def scaling(self) -> dict[str, dict[str, float]]:
        """The same flip among 5,000 cells on 1000² sites."""
        found = {}
        for name in SCALING:
            few, many = self.us(name), self.us(name, "tissue")
            found[name] = {"cells_50_us": few, "cells_5000_us": many, "ratio": many / few}
        return found

    def on_other_lattices(self) -> dict[str, dict[str, Any]]:
        """graph1."""
        return {
            name: {"shape": list(setting.shape), "cells": setting.cells, "engine_us": self.us(name, "lattice")}
            for name, setting in SETTINGS.items()
        }

    def committee(self) -> dict[str, float]:
        """Several members against one."""
        one, all_of_them = self.us("graph1"), self.us("committee")
        return {"members": COMMITTEE, "one_us": one, "committee_us": all_of_them, "ratio": all_of_them / one}


def deltas_of(artifact: Artifact, state: CellState) -> Timed:
    return in_blocks(EngineBackend(artifact, state).engine, boundary_flips(state, FLIPS))


def full_energy(artifact: Artifact, state: CellState) -> Timed:
    """ONNX Runtime's energy of the whole state."""
    session = OnnxRuntimeBackend(artifact, state, threads=1).session
    feed = {"ids": state.ids[None].astype(np.int64), "types": state.types[None].astype(np.int64)}
    return Timed(session.run, [(["energy"], feed)])
