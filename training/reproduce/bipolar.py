"""Bi-polar aggregates: type-2 cells at both ends of a random axis, type 1 between them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from neuralcpm_bridge.metrics import axial_variances, mean_of
from neuralcpm_bridge.metrics.tissue import cluster_counts
from neuralcpm_bridge.snapshots import Snapshots

from ..datasets import RECIPES
from .closure import ByFit, Plan, carry_out, measured, picture
from .setting import Setting

PLANS: dict[str, Plan | ByFit] = {
    # One layer on blocks of 8 × 8 sites sees 72 sites, nearly the tissue; two on 3 × 3 would see 51.
    "small": Plan(
        "local8s8-closure",
        temperature=2.0,
        steps=320,
        baseline_steps=300,
        pool=16,
        batch=8,
        lr=1.5e-3,
        decay=0.8,
        regularizer=1e-4,
        averaging=0.97,
        sweeps=12,
        reset=0.04,
        staged=True,
        trades=6,
        padding="zeros",
        warm_steps=80,
        warm_sweeps=(16, 64, 256),
        replicates=64,
        mcs=300,
        sample_trades=6,
        symmetries=True,
    ),
    "fit": ByFit(minutes=45, replicates=128),
    "paper": Plan(
        "bipolar-closure",
        temperature=2.0,
        steps=10_000,
        pool=16,
        batch=16,
        refresh=1,
        replicates=64,
        mcs=2000,
        symmetries=True,
    ),
}
SAMPLES = {"small": 192, "fit": 320, "paper": 1000}
# Half the cells find their places in half the time, and cost half as much.
DATA = {
    "small": replace(RECIPES["bipolar"], side=96, cells=20, radius=25.0),
    "fit": RECIPES["bipolar"],
    "paper": RECIPES["bipolar"],
}

POLAR = 2
"""The type that gathers at both ends."""

PAPER = {
    "cell sorting": {"axial_rmse": 147.2},
    "NH": {"axial_rmse": 254.2},
    "NH + closure": {"axial_rmse": 37.3, "p_volume": 0.77, "p_unfragmented": 1.00},
}


def axial_error(states: Snapshots, data: Snapshots, seed: int, draws: int = 1000) -> float:
    """Standard error of the axial RMSE: bootstrap over the sampled states."""
    rng = np.random.default_rng([seed, 17])
    found = np.stack([axial_variances(state) for state in states])
    wanted = mean_of([axial_variances(state) for state in data])
    chosen = rng.integers(len(found), size=(draws, len(found)))
    means = np.nanmean(found[chosen], axis=1)  # [draws, 2 types, 2]
    return float(np.sqrt(((means - wanted) ** 2).mean(axis=(1, 2))).std(ddof=1))


def run(name: str, setting: Setting) -> dict[str, Any]:
    began = time.perf_counter()
    plan = PLANS[setting.scale]
    data = setting.data(DATA[setting.scale], SAMPLES[setting.scale])
    models, drawn, found = carry_out(plan, data, setting)
    results = measured(drawn, data)
    for part, states in {**drawn, "data": data}.items():
        results[part]["two_clusters"] = float(np.mean([cluster_counts(state)[POLAR] == 2 for state in states]))
        if part != "data":
            results[part]["axial_rmse_error"] = axial_error(states, data, setting.seed)
    network = models.closure.network
    results |= {
        **found,
        "paper": PAPER,
        "receptive_field": network.spec.receptive_field if network is not None else None,
        "seed": setting.seed,
        "seconds": time.perf_counter() - began,
    }
    picture(drawn, data, setting, f"bi-polar, seed {setting.seed}")
    setting.keep(results)
    return results
