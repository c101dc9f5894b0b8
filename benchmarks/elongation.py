"""The bundled elongated cells in CompuCell3D, in Morpheus and in the embedded host, from the same scattered starts.

    python benchmarks/elongation.py FOLDER [--hosts cc3d cc3d-3d morpheus morpheus-hexagonal] [--seeds 6] [--mcs N]

The gap is the mean aspect ratio of B cells less that of A cells, over the later half of a run and over its last state;
its share is that of the data which the model was fitted to. Needs NEURALCPM_CC3D_PYTHON and NEURALCPM_MORPHEUS (a
binary with the plugin). The embedded host runs four chains from every start.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cc3d_steppables.new import write_project
from cc3d_steppables.run import run_project
from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.run import run_model
from neuralcpm_bridge.artifact import Artifact, load_artifact
from neuralcpm_bridge.embedded import Dynamics, open_chains
from neuralcpm_bridge.embedded import run as run_chains
from neuralcpm_bridge.initial import scattered_like
from neuralcpm_bridge.metrics import mean_aspect_ratios
from neuralcpm_bridge.pretrained import pretrained_models
from neuralcpm_bridge.snapshots import load_snapshots
from neuralcpm_bridge.state import CellState

SNAPSHOTS, CHAINS = 20, 4


@dataclass(frozen=True)
class Trial:
    """A host, the bundled model it runs, and after how many steps its cells have long been as in the data."""

    host: str
    model: str
    mcs: int


TRIALS = {
    "cc3d": Trial("cc3d", "elongated-cells", 4000),
    "cc3d-3d": Trial("cc3d", "elongated-cells-3d", 1000),
    "morpheus": Trial("morpheus", "elongated-cells", 4000),
    "morpheus-hexagonal": Trial("morpheus", "elongated-cells-hexagonal", 4000),
}


def gap(state: CellState) -> float:
    of_types = mean_aspect_ratios(state, 3)
    return float(of_types[2] - of_types[1])


def in_host(trial: Trial, artifact: Artifact, start: CellState, seed: int, mcs: int, folder: Path) -> list[CellState]:
    """All snapshots of one run; what is there is not run again."""
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results"
    if not (results / "results.json").exists():
        if trial.host == "cc3d":
            project = write_project(artifact, start, folder / "Tissue", steps=mcs + 1, seed=seed)
            run_project(project, results, snapshots=SNAPSHOTS, say=lambda line: None)
        else:
            plan = RunPlan(steps=mcs, snapshots=SNAPSHOTS, seed=seed, stepper="random")
            new_model(artifact, start, plan).write(folder / "model.xml")
            run_model(folder / "model.xml", results)
    return list(load_snapshots(results / "snapshots.npz"))


def embedded(artifact: Artifact, starts: Sequence[CellState], mcs: int) -> list[list[CellState]]:
    """By chain, all snapshots."""
    dynamics = Dynamics(artifact.metadata.temperature, seed=1000, forbid_extinction=artifact.metadata.extinction)
    chains = open_chains(artifact, [start for start in starts for _ in range(CHAINS)], dynamics)
    taken = [states for _, states in run_chains(chains, mcs, SNAPSHOTS) if states is not None]
    return [list(chain) for chain in zip(*taken, strict=True)]


def means(runs: list[list[CellState]]) -> dict[str, list[float]]:
    """Mean and standard error over runs: of the later half, of the last state."""
    gaps = np.array([[gap(state) for state in run[len(run) // 2 :]] for run in runs])
    found = {"later": gaps.mean(1), "end": gaps[:, -1]}
    return {name: [float(each.mean()), float(each.std(ddof=1) / np.sqrt(each.size))] for name, each in found.items()}


def tried(name: str, trial: Trial, folder: Path, seeds: int, mcs: int) -> dict[str, Any]:
    (model,) = [model for model in pretrained_models() if model.name == trial.model]
    artifact = load_artifact(model.model)
    examples = list(artifact.metadata.example_states())
    starts = [
        artifact.place(scattered_like(examples[seed % len(examples)], np.random.default_rng(seed)))
        for seed in range(1, seeds + 1)
    ]
    host = means(
        [
            in_host(trial, artifact, start, seed, mcs, folder / f"{name}-s{seed}")
            for seed, start in enumerate(starts, start=1)
        ]
    )
    ours = means(embedded(artifact, starts, mcs))
    ratios = model.summary["data"]["aspect_ratio"]
    of_data = ratios[1] - ratios[0]
    shares = {when: (host[when][0] / of_data, ours[when][0] / of_data) for when in host}
    return {"host": name, "mcs": mcs, "data": of_data, "gap": host, "embedded": ours} | {
        f"share_{when}": {"host": theirs, "embedded": own, "ratio": theirs / own}
        for when, (theirs, own) in shares.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hosts", nargs="+", choices=TRIALS, default=list(TRIALS))
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--mcs", type=int)
    options = parser.parse_args()
    for name in options.hosts:
        trial = TRIALS[name]
        found = tried(name, trial, options.folder, options.seeds, options.mcs or trial.mcs)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
