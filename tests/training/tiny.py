"""Small data and short runs that the tests of training share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from neuralcpm_bridge.snapshots import Snapshots
from training.config import Config, make_config
from training.datasets import RECIPES, Recipe, generate

RECIPE: Recipe = replace(
    RECIPES["cellsort-b"],
    side=24,
    cells=6,
    radius=6.0,
    target=25.0,
    samples=8,
    mcs=60,
    J=(2.5, 2.0, 1.0, 3.0, 1.5),
)


def tiny_data(samples: int = 8, seed: int = 0) -> Snapshots:
    return generate(RECIPE, samples=samples, seed=seed)


def tiny_config(**sections: Any) -> Config:
    """A run of the Local NH closure of a few seconds."""
    tree: dict[str, Any] = {
        "model": {"preset": "local8-closure", "freeze_symbolic": True},
        "objective": {"kind": "conditional", "regularizer": 1e-4, "regularize": "neural"},
        "warmstart": {"steps": 4, "sweeps": [1, 2]},
        "sampler": {"pool": 4},
        "chains": [
            {"share": 0.5, "start": "data", "reset": 1.0, "sweeps": [1]},
            {"share": 0.5, "start": "mixed", "reset": 0.2, "sweeps": [1, 2]},
        ],
        "optimizer": {
            "steps": 12,
            "batch": 2,
            "refresh": 2,
            "lr": 2e-3,
            "decay": 0.5,
            "clip": 1.0,
            "averaging": 0.9,
        },
        "run": {"log_every": 2, "checkpoint_every": 4},
    }
    for name, values in sections.items():
        tree[name] = tree.get(name, {}) | values if isinstance(values, dict) else values
    return make_config(tree)
