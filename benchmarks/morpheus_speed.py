"""A learned term inside Morpheus: Monte Carlo steps per second of processor time.

    python benchmarks/morpheus_speed.py [MODEL]

Needs NEURALCPM_MORPHEUS, a binary with the plugin. A run of one step is taken off a run of many, so that starting and
reading the model do not count; what is left is the processor time of Morpheus' own process on one thread.
"""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

from benchmarks.cc3d_speed import print_measured
from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.run import run_model
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.initial import initial_state

STEPS = 200


def measure(artifact: Artifact, lattice: tuple[int, ...] = (100, 100), cells: int = 50) -> dict[str, float]:
    """`mcs_per_second` of the same tissue as benchmarks/cc3d_speed.py."""
    state = initial_state(artifact, "blob", seed=0, cells=cells, lattice=lattice)
    with tempfile.TemporaryDirectory(prefix="neuralcpm-speed-") as name:
        folder = Path(name)

        def seconds(steps: int) -> float:
            new_model(artifact, state, RunPlan(steps=steps, snapshots=1)).write(folder / "model.xml")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run_model(folder / "model.xml", folder / "ran", threads=1)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        started = seconds(1)
        return {"mcs_per_second": STEPS / (seconds(1 + STEPS) - started)}


if __name__ == "__main__":
    print_measured(measure)
