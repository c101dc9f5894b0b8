"""Flips per second of chains: the cell graph closure on the engine beside the paper authors' NH closure, in one run.

    NEURALCPM_JAX_PYTHON=PYTHON NEURALCPM_JAX_CODE=CHECKOUT python benchmarks/chain_speed.py [--json]

Sizes of Cellular MNIST: 100 × 100 sites, 50 cells. Both sides propose to copy the id of an unlike neighbour, start at
the same state, have one core, and are measured in processor time, by turns. A flip is one proposal, accepted or not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from neuralcpm_bridge.sampling import ChainRules
from neuralcpm_bridge.snapshots import Snapshots
from training.config import make_config
from training.datasets import RECIPES, generate
from training.samplers import model_of
from training.trainer import Trainer

WANTED = 50_000
ROUNDS, MCS, THEIR_FLIPS = 3, 200, 50


def our_rate(preset: str, data: Snapshots) -> float:
    """Proposals per second of processor time of one chain, whose analytic part is fitted to the data."""
    config = make_config({"data": {"holdout": 0.0}, "model": {"preset": preset}})
    model, rules = model_of(Trainer(config, data).hamiltonian), ChainRules()
    state, _ = rules.run(model, data.chosen([0]), 20, 0)
    began = time.process_time()
    _, moves = rules.run(model, state, MCS, 1)
    return moves.proposals / (time.process_time() - began)


def their_rate(python: str, code: str, data: Path) -> float:
    """Of their sampler and their NH closure, on one core."""
    script = Path(__file__).with_name("reference_speed.py")
    command = ["taskset", "-c", "0", python, str(script), code, str(data), "nch", str(THEIR_FLIPS), "chains"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the reference failed: {done.stderr.strip().splitlines()[-1]}")
    return float(json.loads(done.stdout.strip().splitlines()[-1])["flips_per_processor_s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--preset", default="graph1-closure")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    python, code = (os.environ.get(name) for name in ("NEURALCPM_JAX_PYTHON", "NEURALCPM_JAX_CODE"))
    data = generate(RECIPES["cellular-mnist"], samples=8, mcs=100)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        data.save(path)
        for _ in range(ROUNDS):
            ours.append(our_rate(options.preset, data))
            if python and code:
                theirs.append(their_rate(python, code, path))
            print(f"ours {ours[-1]:,.0f}/s, theirs {theirs[-1:] or '(not asked)'}", file=sys.stderr)
    found: dict[str, Any] = {"preset": options.preset, "ours_per_processor_s": median(ours), "wanted": WANTED}
    if theirs:
        found |= {"theirs_per_processor_s": median(theirs), "factor": median(ours) / median(theirs)}
    print(json.dumps(found) if options.json else "\n".join(f"{key}: {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
