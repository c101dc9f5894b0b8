"""A learned term inside CompuCell3D: Monte Carlo steps per second with and without it, and what one ΔH costs.

    python benchmarks/cc3d_speed.py [MODEL]

Needs NEURALCPM_CC3D_PYTHON. Times are processor times of the host's process, so other programs do not count. Every
tissue runs with the term and, from the same state with the same plugins, without it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cc3d_steppables.new import write_project
from cc3d_steppables.run import run_project
from neuralcpm_bridge.artifact import Artifact, load_artifact
from neuralcpm_bridge.initial import initial_state

STEPS, WARM_UP = 60, 20
MARK = "NeuralHamiltonian: measured"
MEASURING = """
import json
import time

from cc3d import CompuCellSetup
from cc3d.core.PySteppables import SteppableBasePy


class Measuring(SteppableBasePy):
    def step(self, mcs):
        learned = CompuCellSetup.persistent_globals.steppable_registry.getSteppablesByClassName(
            "NeuralHamiltonianSteppable")
        if mcs == {first}:
            for term in learned:
                term._learned._count()
            self.asked = [term._learned._logged.calls for term in learned]
            self.began = time.process_time()
        if mcs == {last}:
            found = dict(mcs_per_second={steps} / (time.process_time() - self.began))
            for term, asked in zip(learned, self.asked):
                term._learned._count()
                tally = term._learned._logged
                found |= dict(
                    calls_per_mcs=(tally.calls - asked) / {steps}, inside_us=1e6 * tally.each,
                    way=type(term._learned.callbacks).__name__)
            print("{mark}", json.dumps(found), flush=True)
"""
REGISTRATION = "from Measuring import Measuring\nCompuCellSetup.register_steppable(steppable=Measuring(frequency=1))\n"


def measure(
    artifact: Artifact, lattice: tuple[int, ...] = (100, 100), cells: int = 50, steps: int = STEPS
) -> dict[str, Any]:
    """`mcs_per_second` on one core with the term and `without` it, `inside_us` per ΔH, `calls_per_mcs`, `slowed`."""
    with tempfile.TemporaryDirectory(prefix="neuralcpm-speed-") as name:
        folder = Path(name)
        state = initial_state(artifact, "blob", seed=0, cells=cells, lattice=lattice)
        project = write_project(artifact, state, folder / "speed", seed=1)
        script = project.parent / "Simulation" / "speed.py"
        written = script.read_text().replace("frequency=1,", "frequency=1, log_every=0, check_every=0,", 1)
        plain = "from cc3d import CompuCellSetup\n\nCompuCellSetup.run()\n"
        found = _run(project, script, written, folder / "with", steps)
        alone = _run(project, script, plain, folder / "without", steps)["mcs_per_second"]
        return found | {"without": alone, "slowed": alone / found["mcs_per_second"]}


def _run(project: Path, script: Path, text: str, folder: Path, steps: int) -> dict[str, Any]:
    """Speed of one project under this main script."""
    measuring = MEASURING.format(mark=MARK, first=WARM_UP, last=WARM_UP + steps, steps=steps)
    (script.parent / "Measuring.py").write_text(measuring, encoding="utf-8")
    script.write_text(text.replace("CompuCellSetup.run()", REGISTRATION + "CompuCellSetup.run()"))
    said: list[str] = []
    run_project(project, folder, steps=WARM_UP + steps + 2, snapshots=1, say=said.append)
    (line,) = [line for line in said if line.startswith(MARK)]
    found: dict[str, Any] = json.loads(line.removeprefix(MARK))
    return found


def benchmark_model(
    path: Path, preset: str = "local8-closure", geometry: str = "square", volume: float = 100.0
) -> Artifact:
    """A closure of the benchmark, untrained, with energies of a living tissue."""
    from tests.cc3d.models import tissue_model

    return tissue_model(path, preset, target_volume=volume, geometry=geometry)


def print_measured(measure: Callable[[Artifact], dict[str, Any]]) -> None:
    """What is measured of the model on the command line, or of the benchmark's own."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(load_artifact(sys.argv[1]))))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            print(json.dumps(measure(benchmark_model(Path(temporary) / "model.onnx"))))


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(load_artifact(sys.argv[1]))))
        return
    with tempfile.TemporaryDirectory() as name:
        graph, cubic, local = (
            benchmark_model(Path(name) / f"{number}.onnx", *which)
            for number, which in enumerate(
                [("graph1-closure",), ("graph1-closure", "cubic", 500.0), ("local8-closure",)]
            )
        )
        small = measure(graph)
        print("graph1, 100², 50 cells:", json.dumps(small))
        large = measure(graph, (400, 400), 800, 20)
        times = small["mcs_per_second"] / large["mcs_per_second"]
        print("graph1, 400², 800 cells:", json.dumps(large), f"{times:.1f} times slower")
        print("graph1, 60³, 200 cells:", json.dumps(measure(cubic, (60, 60, 60), 200, 10)))
        print("local8, 100², 50 cells:", json.dumps(measure(local)))


if __name__ == "__main__":
    main()
