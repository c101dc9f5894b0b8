"""`neuralcpm fit --like`: the closure of a project, learned from data that it cannot explain, back in the real host.

    python -m benchmarks.like FOLDER [--hosts cc3d morpheus] [--minutes M] [--replicates N] [--seed S]

The data come from the zoo's generator: contact and volume energies, and a length that B cells want. The project has the
same contact and volume energies, at a temperature of its own, and no length. The statistic (longest over shortest
extent of B cells) is taken of the data, of the project as it is, and of the project with the learned term in it, in the
host. Needs NEURALCPM_CC3D_PYTHON, NEURALCPM_MORPHEUS (with the plugin) and a C++ compiler. What is there is not made
again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cc3d_steppables.new import write_project
from cc3d_steppables.script_text import PLAIN_SCRIPT
from morpheus_xml.new import RunPlan, new_model
from neuralcpm_bridge.artifact import Artifact, LatticeEntry
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots
from neuralcpm_bridge.state import CellState
from training.export import export
from training.export.artifact import from_weights

from .zoo.fits import call
from .zoo.generator import TYPE_NAMES, B, Tissue, sample
from .zoo.mechanisms import STIFF
from .zoo.statistics import elongation, mean_and_error, per_state

STATISTIC = elongation(B)
SAMPLES, MCS = 192, 1000
TEMPERATURE = 8.0
"""Of the project, whose energies are as many times those of the data's generator."""


@dataclass(frozen=True)
class Trial:
    """One host, its tissue, and how its project is written."""

    host: str
    tissue: Tissue
    project: str
    write: Callable[[Artifact, CellState, Path], None]


def write_cc3d(artifact: Artifact, state: CellState, file: Path) -> None:
    """A plain project: CC3DML and a script that starts it."""
    write_project(artifact, state, file.parent, steps=MCS)
    (file.parent / "Simulation" / "Plain.py").write_text(PLAIN_SCRIPT, encoding="utf-8")
    (file.parent / "Simulation" / "model.onnx").unlink()
    text = file.read_text(encoding="utf-8")
    file.write_text("".join(line for line in text.splitlines(True) if "model.onnx" not in line), encoding="utf-8")


def write_morpheus(artifact: Artifact, state: CellState, file: Path) -> None:
    new_model(artifact, state, RunPlan(steps=MCS, snapshots=1)).write(file)


TRIALS = {
    trial.host: trial
    for trial in (
        Trial(
            "cc3d",
            Tissue("square", 60, (8, 8), 70, STIFF, term="length", strengths=(0, 0.25), wanted=(0, 18)),
            "Plain/Plain.cc3d",
            write_cc3d,
        ),
        Trial(
            "morpheus",
            Tissue("hexagonal", 60, (8, 8), 70, STIFF, term="length", strengths=(0, 0.25), wanted=(0, 18)),
            "plain.xml",
            write_morpheus,
        ),
    )
}


def analytic(tissue: Tissue, path: Path) -> Artifact:
    """The generator's contact and volume energies at the project's temperature."""
    j01, j02, j11, j12, j22 = tissue.J
    weights = {
        "symbolic.weight": np.array(1.0),
        "symbolic.offset": np.array(0.0),
        "symbolic.contact.J": TEMPERATURE * np.array([[0, j01, j02], [j01, j11, j12], [j02, j12, j22]]),
        "symbolic.volume.strength": TEMPERATURE * tissue.strength * np.array([0.0, 1, 1]),
        "symbolic.volume.target": tissue.target * np.array([0.0, 1, 1]),
    }
    order = {"contact": tissue.lattice.geometry.moore_order}
    model = from_weights(TYPE_NAMES, LatticeEntry.of(tissue.geometry), None, weights, order, None)
    return export(model, path, temperature=TEMPERATURE)


def replicated(trial: Trial, project: Path, folder: Path, replicates: int) -> Snapshots:
    """The last states of runs in the host."""
    if not (folder / "snapshots.npz").exists():
        call(trial.host, "run", project, "-o", folder, "--replicates", replicates)
    found = load_snapshots(folder / "snapshots.npz")
    return found.chosen(np.flatnonzero(found.arrays["mcs"] == found.arrays["mcs"].max()))


def tried(trial: Trial, folder: Path, minutes: float, replicates: int, seed: int) -> dict[str, tuple[float, float]]:
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data.npz"
    if not data.exists():
        sample(trial.tissue, SAMPLES, MCS, seed).save(data)
    project, run = folder / trial.project, folder / "run"
    if not project.exists():
        start = sample(trial.tissue.without_mechanism(), 1, MCS, seed + 1)[0]
        trial.write(analytic(trial.tissue, folder / "analytic.onnx"), start, project)
    if not (run / "fit.json").exists():
        call("fit", data, "-o", run, "--like", project, "--minutes", minutes, "--seed", seed)
    learned = folder / ("Learned" if trial.host == "cc3d" else "learned.xml")
    if not learned.exists():
        call(trial.host, "inject", project, run / "model.onnx", "-o", learned)
    injected = learned / project.name if learned.is_dir() else learned
    states = {
        "data": load_snapshots(data),
        "project": replicated(trial, project, folder / "results-plain", replicates),
        "with the term": replicated(trial, injected, folder / "results-learned", replicates),
        "embedded": load_snapshots(run / "samples.npz"),
    }
    return {name: mean_and_error(per_state(STATISTIC, each)) for name, each in states.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hosts", nargs="+", choices=TRIALS, default=list(TRIALS))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--replicates", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        for host in options.hosts:
            name = f"{host}-s{options.seed}"
            found = tried(TRIALS[host], options.folder / name, options.minutes, options.replicates, options.seed)
            print(json.dumps({"host": host, "seed": options.seed, **found}), flush=True)
    except UserError as error:
        print(f"like: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
