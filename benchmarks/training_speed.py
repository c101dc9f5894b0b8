"""ΔH evaluations per second while training, gradient steps included, beside the paper authors' code in the same run.

    python benchmarks/training_speed.py --jax-python PYTHON --jax-code CHECKOUT [--json]

Sizes of Cellular MNIST: 100 × 100 sites, 50 cells. Without the two options only our own side is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from neuralcpm_bridge.snapshots import Snapshots
from training.config import make_config
from training.datasets import RECIPES, generate
from training.trainer import Trainer

CASES: dict[str, dict[str, Any]] = {
    "cell sorting": {
        "preset": "cellsort",
        "sweeps": 20,
        "reference": "cellsort_baseline",
        "flips": 2000,
        "wanted": 500,
    },
    "NH": {"preset": "mnist-nh", "sweeps": 1, "reference": "nh", "flips": 50, "wanted": 200},
    "Local NH closure": {
        "preset": "local8-closure",
        "sweeps": 20,
        "reference": "nch",
        "flips": 50,
        "wanted": 5000,
    },
}
"""Our preset and Monte Carlo steps per round, their model, and the factor asked for."""


def our_speed(preset: str, sweeps: int, data: Snapshots, threads: int, rounds: int = 3) -> float:
    """ΔH per second over whole rounds of the trainer: sampling, energies, gradients, Adam."""
    config = make_config(
        {
            "data": {"holdout": 0.0},
            "model": {"preset": preset},
            "sampler": {"pool": 8, "threads": threads},
            "chains": [{"start": "data", "reset": 0.0, "sweeps": [sweeps]}],
            "optimizer": {"steps": rounds + 1, "batch": 4, "lr": 1e-4},
        }
    )
    trainer = Trainer(config, data)
    trainer.run(until=1)  # the first step pays for memory and thread pools
    before, began = trainer.evaluations, trainer.seconds
    trainer.run()
    return (trainer.evaluations - before) / (trainer.seconds - began)


def their_speed(python: str, code: str, model: str, flips: int, data: Path) -> float:
    script = Path(__file__).with_name("reference_speed.py")
    done = subprocess.run(
        [python, str(script), code, str(data), model, str(flips)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"the reference failed: {done.stderr.strip().splitlines()[-1]}")
    return float(json.loads(done.stdout.strip().splitlines()[-1])["flips_per_s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jax-python", help="Python with the authors' requirements")
    parser.add_argument("--jax-code", help="a checkout of their repository")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    data = generate(RECIPES["cellular-mnist"], samples=8, mcs=100, threads=options.threads)
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        data.save(path)
        for name, case in CASES.items():
            ours = our_speed(case["preset"], case["sweeps"], data, options.threads)
            results[name] = {"ours_per_s": ours, "wanted": case["wanted"]}
            if options.jax_python and options.jax_code:
                theirs = their_speed(options.jax_python, options.jax_code, case["reference"], case["flips"], path)
                results[name] |= {"theirs_per_s": theirs, "factor": ours / theirs}
            print(f"{name}: {results[name]}", file=sys.stderr)
    print(json.dumps(results) if options.json else "\n".join(f"{key}: {value}" for key, value in results.items()))


if __name__ == "__main__":
    main()
