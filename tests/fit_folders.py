"""Folders as `neuralcpm fit` leaves them, made in a second: generated states, networks that have learned nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from neuralcpm_bridge.metrics.comparing import comparable_measures
from neuralcpm_bridge.sampling import sample_from_mixed
from neuralcpm_bridge.snapshots import Snapshots
from training.build import Description, build_hamiltonian, learn_statistics
from training.config import ModelSection
from training.datasets import Recipe, generate
from training.export import export
from training.fit.analytic import fit_flips
from training.hamiltonians import CellGraph, Hamiltonian

SIDES = {"square": (30, 8.0, 30.0), "hexagonal": (30, 8.0, 30.0), "cubic": (18, 5.0, 27.0)}
"""Sites per side, radius of the tissue, volume of its cells."""
CURVES = "step,loss,acceptance,J01,seconds\n10,0.5,0.3,1.0,0.1\n20,0.4,0.31,1.0,0.2\n"


def fit_folder(
    folder: Path,
    geometry: str = "square",
    *,
    names: tuple[str, ...] = ("medium", "A", "B"),
    adds: bool = True,
    states: int = 6,
    mcs: int = 40,
    cells: int = 8,
    side: int | None = None,
    **facts: Any,
) -> Path:
    """A fit of generated data; `facts` stand in fit.json in place of what is there otherwise."""
    usual, radius, volume = SIDES[geometry]
    radius *= (side or usual) / usual
    recipe = Recipe(
        "tiny", (2.5, 2.0, 1.0, 3.0, 1.5), 0.5, volume, side or usual, cells, radius, mcs=mcs, geometry=geometry
    )
    data = generate(recipe, samples=states, seed=1)
    data = Snapshots(data.ids, data.types, names, data.lattice, data.provenance)
    data.save(folder / "held-out.npz")
    found = {"data": comparable_measures(data, data)}
    for name, file in (("closure", "model.onnx"), ("baseline", "baseline.onnx")):
        artifact = export(_model(data, name == "closure"), folder / file, name=name, examples=[data[0]])
        samples = sample_from_mixed(artifact, data, 2 * states, mcs, seed=3)
        samples.save(folder / ("samples.npz" if name == "closure" else "samples-baseline.npz"))
        found[name] = comparable_measures(samples, data)
    (folder / "closure").mkdir()
    (folder / "closure" / "metrics.csv").write_text(CURVES, encoding="utf-8")
    titles = [title for title in found["data"] if all(title in rows for rows in found.values())]
    told: dict[str, Any] = {
        "verdict": "Of 20 measures 19 are as in the data.",
        "adds": adds,
        "measures": {title: {name: list(rows[title]) for name, rows in found.items()} for title in titles},
        "misfit": {"closure": 1.25, "baseline": 31.5},
        "more_snapshots": "no",
        "seconds": 61.0,
        "members": 2,
        "seed": 0,
        "states": {"train": 24, "judge": states},
        "replicates": 2 * states,
        "sample_mcs": 480,
        "relaxation_mcs": 240,
        "settled": True,
        "order": 2,
        "rounds": 1,
        "pairs": {"gain": 0.231, "standard_errors": 4.5},
        "steps": 900,
        "events": ["went back to step 300"],
        "remarks": ["States are few."],
    }
    (folder / "fit.json").write_text(json.dumps(told | facts, indent=1), encoding="utf-8")
    return folder


def _model(data: Snapshots, closure: bool) -> Hamiltonian:
    """Contact and volume energies from single flips; for a closure beside a committee that is as it began."""
    preset: dict[str, Any] = {"preset": "graph1-closure", "members": 2} if closure else {"preset": "cellsort"}
    section = ModelSection(by_type=True, order=2, **preset)
    torch.manual_seed(0)
    model = build_hamiltonian(section, Description.of(data, section))
    if isinstance(model.network, CellGraph):
        learn_statistics(model.network, data)
    fit_flips(model, data, seed=0)
    return model
