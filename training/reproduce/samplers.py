"""The paper's last table: parameters of cell sorting by training with other samplers than the cellular Potts model's.

Gibbs and Gibbs-with-gradients put any cell's id on any site. There are many more states of scattered sites than of
whole cells, so that under the true energies their chains dissolve cells that copies keep whole; training then finds
energies that hold cells together against it, not those that the data were made with. The authors' code holds neither
sampler; both are as the literature defines them (training/samplers.py).
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from ..config import make_config
from ..datasets import RECIPES
from ..logs import named_parameters
from ..recovery import recovery
from ..trainer import Trainer
from .cellsort import truth_of
from .setting import Setting

PAPER = {
    ("cellsort-a", "cpm"): (math.log10(0.055), math.log10(0.021)),
    ("cellsort-b", "cpm"): (math.log10(0.997), math.log10(0.178)),
    ("cellsort-a", "gibbs"): (1.07, 0.58),
    ("cellsort-a", "gwg"): (0.82, 0.54),
    ("cellsort-b", "gibbs"): (1.02, 0.86),
    ("cellsort-b", "gwg"): (0.64, 0.64),
}
"""log10 of the error norm at T = 1 and at T*."""

STEPS = {"small": 60, "paper": 1000}
CHAINS = {"small": 8, "paper": 16}
SWEEPS: dict[str, dict[str, float]] = {
    "small": {"cpm": 2, "gibbs": 0.5, "gwg": 0.04},
    "paper": {"cpm": 2, "gibbs": 1.0, "gwg": 0.5},
}
"""Draws per site and step: Gibbs makes one of all ids for each, gradients choose where to draw at all."""
KINDS = {"cpm": "exact", "gibbs": "gibbs", "gwg": "gwg"}


def run(name: str, setting: Setting) -> dict[str, Any]:
    """One setting for all three but for the sampler: chains from the data, a single-flip warm start, one rate."""
    results: dict[str, Any] = {"lattice": setting.lattice, "seed": setting.seed}
    for scenario in ("cellsort-a", "cellsort-b"):
        for sampler in KINDS:
            results[f"{scenario} {sampler}"] = _trained(scenario, sampler, setting)
            setting.keep(results)
    return results


def _trained(scenario: str, sampler: str, setting: Setting) -> dict[str, Any]:
    own = replace(setting, folder=None if setting.folder is None else setting.folder / scenario)
    recipe = RECIPES[scenario].on(setting.lattice)
    data = own.data(recipe)
    began, worked = time.perf_counter(), time.process_time()
    chains = min(CHAINS[setting.scale] if sampler != "cpm" else len(data), len(data))
    config = make_config(
        {
            "data": {"holdout": 0.0},
            "model": {"preset": "cellsort", "target_volume": recipe.target},
            "sampler": {"kind": KINDS[sampler], "flips": 100, "pool": chains, "threads": setting.threads},
            "chains": [{"start": "data", "reset": 1.0, "sweeps": [SWEEPS[setting.scale][sampler]]}],
            "optimizer": {"steps": STEPS[setting.scale], "batch": chains, "lr": 0.1, "decay": 0.5, "averaging": 0.8},
            "run": {"seed": setting.seed, "log_every": 5, "checkpoint_every": 20},
        }
    )
    learned = named_parameters(Trainer(config, data, own.run_folder(sampler)).run(own.show(f"{scenario}, {sampler}")))
    truth = truth_of(recipe)
    found = recovery(truth, learned)
    paper = PAPER[scenario, sampler] if setting.lattice == "square" else (None, None)
    return {
        "log10_norm_t1": math.log10(found.norm_t1),
        "log10_norm_tstar": math.log10(found.norm_tstar),
        "paper_log10_norm_t1": paper[0],
        "paper_log10_norm_tstar": paper[1],
        **{key: learned[key] for key in truth},
        "seconds": time.perf_counter() - began,
        "processor_seconds": time.process_time() - worked,
    }
