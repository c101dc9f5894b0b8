"""Parameter recovery: contact and volume energies of cell sorting from its snapshots (the paper's first experiment, on
128 of them), by one setting on every lattice."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..config import make_config
from ..datasets import RECIPES, Recipe
from ..logs import named_parameters
from ..recovery import recovery
from ..trainer import Trainer
from .curves import draw_curves
from .setting import Setting

PAPER = {"cellsort-a": (0.055, 0.021), "cellsort-b": (0.997, 0.178)}
"""Error norm at T = 1 and at T*."""

STEPS = {"small": 120, "paper": 1000}


def truth_of(recipe: Recipe) -> dict[str, float]:
    return {
        "lambda": recipe.strength,
        **dict(zip(("J01", "J02", "J11", "J12", "J22"), recipe.J, strict=True)),
    }


def run(name: str, setting: Setting) -> dict[str, Any]:
    """Exact chains leave the data and must not drift: contrastive divergence from a single-flip warm start.

    Chains start at the data, whose slow modes (which cell lies where) the flips of a few sweeps do not change and
    need not: the difference to its own datum has far less noise than that to another one.
    """
    began = time.perf_counter()
    recipe = RECIPES[name].on(setting.lattice)
    data = setting.data(recipe)
    config = make_config(
        {
            "data": {"holdout": 0.0},
            # V* is given, as in the paper: recovery is about λ and J
            "model": {"preset": "cellsort", "target_volume": recipe.target},
            "objective": {"kind": "pcd"},
            "sampler": {"kind": "exact", "pool": len(data), "threads": setting.threads},
            "chains": [{"start": "data", "reset": 1.0, "sweeps": [2]}],
            "optimizer": {
                "steps": STEPS[setting.scale],
                "batch": len(data),
                "lr": 0.02 if name == "cellsort-a" else 0.04,
                "decay": 0.7,
                "averaging": 0.9,
            },
            "run": {"seed": setting.seed, "log_every": 5, "checkpoint_every": 20},
        }
    )
    trainer = Trainer(config, data, setting.run_folder("run"))
    warm = named_parameters(trainer.hamiltonian)
    learned = named_parameters(trainer.run(setting.show("training")))
    truth = truth_of(recipe)
    found = recovery(truth, learned)
    results = {
        **found._asdict(),
        "relative_error": found.norm_t1 / float(np.linalg.norm(list(truth.values()))),
        "lattice": setting.lattice,
        "seconds": time.perf_counter() - began,
        "parameters": {key: {"true": value, "learned": learned[key]} for key, value in truth.items()},
        "warm_start": {**recovery(truth, warm)._asdict(), "parameters": warm},
        "paper": dict(zip(("norm_t1", "norm_tstar"), PAPER[name], strict=True)) if setting.lattice == "square" else {},
        "evaluations_per_s": trainer.evaluations / trainer.seconds,
        "seed": setting.seed,
    }
    draw_curves(setting.run_folder("run"), list(truth), "parameters.png", truth, f"{name}, seed {setting.seed}")
    setting.keep(results)
    return results
