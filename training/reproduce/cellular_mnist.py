"""Cellular MNIST: type-2 cells gathered on handwritten digits; only the cells are seen, never the potential."""

from __future__ import annotations

import time
from typing import Any

from ..classifier import classifier_score, train_classifier
from ..datasets import RECIPES
from .closure import ByFit, Plan, carry_out, measured, picture
from .setting import Setting

PLANS: dict[str, Plan | ByFit] = {
    # Which cell lies on a stroke is found by trades, in training and in sampling alike: copies alone take far longer
    # than this scale has.
    "small": Plan(
        "local16s8-closure",
        steps=400,
        baseline_steps=600,
        pool=16,
        batch=8,
        lr=2e-3,
        decay=0.8,
        regularizer=5e-5,
        averaging=0.98,
        sweeps=6,
        reset=0.05,
        staged=True,
        trades=8,
        padding="zeros",
        warm_steps=80,
        warm_sweeps=(4, 16, 64),
        replicates=640,
        mcs=60,
        sample_trades=8,
    ),
    "fit": ByFit(minutes=45, replicates=500),
    "paper": Plan("mnist-closure", steps=10_000, pool=16, batch=16, refresh=1, replicates=1000, mcs=400),
}
SAMPLES = {"small": 640, "fit": 640, "paper": 1280}

PAPER = {
    "cell sorting": {"p_volume": 1.00, "p_unfragmented": 1.00, "classifier_score": 2.47},
    "NH": {"p_volume": 0.11, "p_unfragmented": 0.99, "classifier_score": 4.91},
    "NH + closure": {"p_volume": 1.00, "p_unfragmented": 1.00, "classifier_score": 4.35},
}


def run(name: str, setting: Setting) -> dict[str, Any]:
    began = time.perf_counter()
    plan = PLANS[setting.scale]
    data = setting.data(RECIPES[name], SAMPLES[setting.scale])
    setting.tell("classifier: training")
    trained = train_classifier(data, seed=setting.seed)
    models, drawn, found = carry_out(plan, data, setting)
    results = measured(drawn, data)
    for part, states in {**drawn, "data": data}.items():
        score = classifier_score(trained.classifier, states, seed=setting.seed)
        results[part] |= {"classifier_score": score.score, "classifier_score_95": [score.low, score.high]}
    network = models.closure.network
    results |= {
        **found,
        "paper": PAPER,
        "classifier_accuracy": trained.accuracy,
        "receptive_field": network.spec.receptive_field if network is not None else None,
        "seed": setting.seed,
        "seconds": time.perf_counter() - began,
    }
    picture(drawn, data, setting, f"Cellular MNIST, seed {setting.seed}")
    setting.keep(results)
    return results
