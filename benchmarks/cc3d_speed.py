"""A learned term inside CompuCell3D: Monte Carlo steps per second, and what a ΔH costs above the engine's own.

    python benchmarks/cc3d_speed.py [MODEL]

Needs NEURALCPM_CC3D_PYTHON. Times are CPU times of the host's process, so other programs do not count; both sides of
a comparison are measured in the same run on the same state.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from cc3d_steppables.project import write_project
from cc3d_steppables.run import run_project
from neuralcpm_bridge.artifact import Artifact, load_artifact
from neuralcpm_bridge.initial import initial_state

STEPS, WARM_UP, FLIPS = 60, 20, 2000
MARK = "NeuralHamiltonian: measured"
MEASURING = f'''
import json
import time

import numpy as np
from cc3d import CompuCellSetup
from cc3d.core.PySteppables import SteppableBasePy

import cc3d_steppables.callbacks

cc3d_steppables.callbacks.perf_counter = time.thread_time


class Measuring(SteppableBasePy):
    def step(self, mcs):
        (ours,) = CompuCellSetup.persistent_globals.steppable_registry.getSteppablesByClassName(
            "NeuralHamiltonianSteppable")
        tally = ours._learned.callbacks.tally
        if mcs == {WARM_UP}:
            tally.clear()
            self.began = time.process_time()
        if mcs == {WARM_UP + STEPS}:
            spent = time.process_time() - self.began
            print("{MARK}", json.dumps(dict(
                mcs_per_second={STEPS} / spent,
                calls_per_mcs=tally.calls / {STEPS},
                inside_us=1e6 * tally.seconds / tally.calls,
                engine_us=1e6 * engine_seconds(ours._learned.mirror) / {FLIPS},
            )), flush=True)


def engine_seconds(mirror):
    state = mirror.opened().state()
    sites = np.argwhere(state.boundary())
    random = np.random.default_rng(0)
    flips = []
    while len(flips) < {FLIPS}:
        row, col = sites[random.integers(len(sites))]
        down, right = random.integers(-1, 2, size=2)
        new = state.ids[(row + down) % state.shape[0], (col + right) % state.shape[1]]
        if new != state.ids[row, col]:
            flips.append((int(row), int(col), int(new)))
    delta, _ = mirror.calls()
    began = time.thread_time()
    for flip in flips:
        delta(*flip)
    return time.thread_time() - began
'''


def measure(artifact: Artifact, lattice: tuple[int, int] = (100, 100), cells: int = 50) -> dict[str, float]:
    """`mcs_per_second` on one core, `inside_us` and `engine_us` per ΔH, `calls_per_mcs`."""
    with tempfile.TemporaryDirectory(prefix="neuralcpm-speed-") as name:
        folder = Path(name)
        state = initial_state(artifact, "blob", seed=0, cells=cells, lattice=lattice)
        project = write_project(artifact, state, folder / "speed", seed=1)
        simulation = project.parent / "Simulation"
        (simulation / "Measuring.py").write_text(MEASURING, encoding="utf-8")
        script = simulation / "speed.py"
        registration = (
            "from Measuring import Measuring\nCompuCellSetup.register_steppable(steppable=Measuring(frequency=1))\n"
        )
        script.write_text(script.read_text().replace("CompuCellSetup.run()", registration + "CompuCellSetup.run()"))
        said: list[str] = []
        run_project(project, folder / "ran", steps=WARM_UP + STEPS + 2, snapshots=1, say=said.append)
        (line,) = [line for line in said if line.startswith(MARK)]
        found: dict[str, float] = json.loads(line.removeprefix(MARK))
        return found


def benchmark_model(path: Path) -> Artifact:
    """The local closure of the benchmark, untrained, with energies of a living tissue."""
    from tests.cc3d.models import tissue_model

    return tissue_model(path, "local8-closure", target_volume=100.0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(load_artifact(sys.argv[1]))))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            print(json.dumps(measure(benchmark_model(Path(temporary) / "model.onnx"))))
