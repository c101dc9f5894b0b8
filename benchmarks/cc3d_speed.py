"""A learned term inside CompuCell3D: Monte Carlo steps per second, and what a ΔH costs above the engine's own.

    python benchmarks/cc3d_speed.py [MODEL]

Needs NEURALCPM_CC3D_PYTHON. Times are CPU times of the host's process, so other programs do not count. Steps per second
are measured first; then, with clocks inside, how much of each callback is the engine.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from cc3d_steppables.new import write_project
from cc3d_steppables.run import run_project
from neuralcpm_bridge.artifact import Artifact, load_artifact
from neuralcpm_bridge.initial import initial_state

STEPS, WARM_UP = 60, 20
MARK = "NeuralHamiltonian: measured"
MEASURING = f"""
import json
import time

from cc3d import CompuCellSetup
from cc3d.core.PySteppables import SteppableBasePy

import cc3d_steppables.callbacks

clock = cc3d_steppables.callbacks.perf_counter = time.thread_time
engine = [0.0]


class Measuring(SteppableBasePy):
    def step(self, mcs):
        (ours,) = CompuCellSetup.persistent_globals.steppable_registry.getSteppablesByClassName(
            "NeuralHamiltonianSteppable")
        tally, mirror = ours._learned.callbacks.tally, ours._learned.mirror
        if mcs == {WARM_UP}:
            tally.clear()
            self.began = time.process_time()
        if mcs == {WARM_UP + STEPS}:
            self.speed = {STEPS} / (time.process_time() - self.began)
            mirror.calls = timed(*mirror.calls())
            tally.clear()
        if mcs == {WARM_UP + 2 * STEPS}:
            print("{MARK}", json.dumps(dict(
                mcs_per_second=self.speed,
                calls_per_mcs=tally.calls / {STEPS},
                inside_us=1e6 * tally.seconds / tally.calls,
                engine_us=1e6 * engine[0] / tally.calls,
            )), flush=True)


def timed(delta, commit):
    def measured(site, host_id):
        began = clock()
        value = delta(site, host_id)
        engine[0] += clock() - began
        return value

    return lambda: (measured, commit)
"""


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
        text = script.read_text().replace("frequency=1,", "frequency=1, log_every=0,", 1)  # a log line clears counters
        script.write_text(text.replace("CompuCellSetup.run()", registration + "CompuCellSetup.run()"))
        said: list[str] = []
        run_project(project, folder / "ran", steps=WARM_UP + 2 * STEPS + 2, snapshots=1, say=said.append)
        (line,) = [line for line in said if line.startswith(MARK)]
        found: dict[str, float] = json.loads(line.removeprefix(MARK))
        return found


def benchmark_model(path: Path) -> Artifact:
    """The local closure of the benchmark, untrained, with energies of a living tissue."""
    from tests.cc3d.models import tissue_model

    return tissue_model(path, "local8-closure", target_volume=100.0)


def print_measured(measure: Callable[[Artifact], dict[str, float]]) -> None:
    """What is measured of the model on the command line, or of the benchmark's own."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(load_artifact(sys.argv[1]))))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            print(json.dumps(measure(benchmark_model(Path(temporary) / "model.onnx"))))


if __name__ == "__main__":
    print_measured(measure)
