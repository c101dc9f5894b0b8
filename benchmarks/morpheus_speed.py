"""A learned term inside Morpheus: Monte Carlo steps per second of processor time, and without it.

    python benchmarks/morpheus_speed.py [MODEL]

Needs NEURALCPM_MORPHEUS, a binary with the plugin. A run of one step is taken off a run of many, so that starting and
reading the model do not count; what is left is the processor time of Morpheus' own process on one thread. Without the
term the same model keeps its contacts and volumes. Of a MODEL only its own lattice is measured, 100 sites wide.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.reader import ELEMENT
from morpheus_xml.run import run_model
from neuralcpm_bridge.artifact import Artifact, LatticeEntry, load_artifact
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.state import CellState
from training.export import export
from training.hamiltonians import Contact, Hamiltonian, Symbolic, Volume, make_preset

TYPES = ("medium", "A", "B")


@dataclass(frozen=True)
class Case:
    """A tissue: the sites of its lattice, its cells, and the steps that are measured."""

    shape: tuple[int, ...]
    cells: int
    volume: float
    steps: int

    @property
    def name(self) -> str:
        return f"{'x'.join(map(str, self.shape))}, {self.cells} cells"


CASES = (  # the first two are compared: over the same steps, for cells are rough in the beginning and smoothen
    Case((100, 100), 50, 100.0, 400),
    Case((400, 400), 800, 100.0, 400),
    Case((60, 60, 60), 200, 500.0, 20),
)


def measure(artifact: Artifact, case: Case = CASES[0]) -> dict[str, float]:
    """Steps per second with and without the learned term, and how many times slower it makes the host."""
    state = initial_state(artifact, "blob", seed=0, cells=case.cells, lattice=case.shape)
    with tempfile.TemporaryDirectory(prefix="neuralcpm-speed-") as name:
        learned, own = (_steps_per_second(artifact, state, case.steps, Path(name), part) for part in (True, False))
    return {"mcs_per_second": learned, "without": own, "slower": own / learned}


def _steps_per_second(artifact: Artifact, state: CellState, steps: int, folder: Path, learned: bool) -> float:
    def seconds(number: int) -> float:
        model = new_model(artifact, state, RunPlan(steps=number, snapshots=1))
        if not learned:
            for element in model.root.findall(f"CellTypes/CellType/{ELEMENT}"):
                element.getparent().remove(element)  # type: ignore[union-attr]
        model.write(folder / "model.xml")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_model(folder / "model.xml", folder / "ran", threads=1)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    started = seconds(1)
    return steps / (seconds(1 + steps) - started)


def benchmark_model(path: Path, case: Case, preset: str = "graph1-closure") -> Artifact:
    """A cell graph's closure, untrained, with energies of a living tissue."""
    torch.manual_seed(0)
    lattice = LatticeEntry.of("square" if len(case.shape) == 2 else "cubic", "periodic")
    made = make_preset(preset, types=TYPES, lattice=lattice, target_volume=case.volume)
    contacts = Contact(torch.linspace(4.0, 6.0, 9).reshape(3, 3))
    symbolic = Symbolic(contacts, Volume(torch.tensor([0.5]), torch.tensor([case.volume])))
    return export(Hamiltonian(TYPES, symbolic, made.network, 2.0, lattice=lattice), path)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        given = load_artifact(sys.argv[1])
        print(json.dumps(measure(given, replace(CASES[0], shape=(100,) * given.metadata.geometry.dimension))))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            for case in CASES:
                model = benchmark_model(Path(temporary) / "model.onnx", case)
                print(json.dumps({"tissue": case.name} | measure(model, case)), flush=True)
