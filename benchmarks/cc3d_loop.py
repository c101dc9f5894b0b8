"""Analytic cell sorting: copy attempts per second of the engine's sweep against CompuCell3D's own Metropolis loop.

    python benchmarks/cc3d_loop.py

Needs NEURALCPM_CC3D_PYTHON. Both run the same lattice, cells, contact and volume energies and temperature, from the
same state and on one core, one after the other and again, so that a slow spell of the machine meets both. Times are
processor times of each loop alone. An attempt is one pick of a site and a neighbour, as both programs count: height ×
width of them are one Monte Carlo step.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path

from cc3d_steppables.new import write_project
from cc3d_steppables.run import run_project
from neuralcpm_bridge.app.bench import bench_models, dense_cluster, time_metropolis
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.backends.engine import EngineBackend
from neuralcpm_bridge.state import CellState

LATTICE, CELLS = (100, 100), 50
ROUNDS, STEPS, WARM_UP = 3, 2000, 50
MARK = "NeuralHamiltonian: measured"
"""`run_project` passes on lines that begin as the learned term's do."""
SCRIPT = """from cc3d import CompuCellSetup
from Measuring import Measuring

CompuCellSetup.register_steppable(steppable=Measuring(frequency=1))
CompuCellSetup.run()
"""
MEASURING = f"""import time

from cc3d.core.PySteppables import SteppableBasePy


class Measuring(SteppableBasePy):
    def step(self, mcs):
        if mcs == {WARM_UP}:
            self.began = time.process_time()
        if mcs == {WARM_UP + STEPS}:
            print("{MARK}", {STEPS} / (time.process_time() - self.began), flush=True)
"""


def time_cc3d(artifact: Artifact, state: CellState) -> float:
    """Attempts per second of CompuCell3D with its own Contact and Volume plugins and nothing learned."""
    with tempfile.TemporaryDirectory(prefix="neuralcpm-loop-") as name:
        folder = Path(name)
        project = write_project(artifact, state, folder / "loop", seed=1)
        simulation = project.parent / "Simulation"
        (simulation / "Measuring.py").write_text(MEASURING, encoding="utf-8")
        (simulation / "loop.py").write_text(SCRIPT, encoding="utf-8")
        said: list[str] = []
        run_project(project, folder / "ran", steps=WARM_UP + STEPS + 2, snapshots=1, say=said.append)
        (line,) = [line for line in said if line.startswith(MARK)]
        return float(line.removeprefix(MARK)) * state.ids.size


def measure() -> dict[str, float]:
    """Medians of both and their ratio."""
    state = dense_cluster(CELLS, LATTICE)
    engine, cc3d = [], []
    with tempfile.TemporaryDirectory() as folder:
        artifact = bench_models(Path(folder))["cellsort"]
        for _ in range(ROUNDS):
            cc3d.append(time_cc3d(artifact, state))
            engine.append(time_metropolis(EngineBackend(artifact, state).engine)["attempts_per_s"])
    ours, theirs = statistics.median(engine), statistics.median(cc3d)
    return {"engine_attempts_per_s": ours, "cc3d_attempts_per_s": theirs, "ratio": ours / theirs}


if __name__ == "__main__":
    print(json.dumps(measure()))
