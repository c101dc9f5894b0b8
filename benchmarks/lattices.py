"""Cell sorting on every lattice: Metropolis attempts per second of processor time, and the memory of a large 3D state.

    python benchmarks/lattices.py [--seconds 2] [--side 200] [--json]

The model is analytic: contacts with all sites around a site, and volumes. Attempts are counted as hosts count them,
those within a cell included. The large state lives in a process of its own, which sweeps it once in each way.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

from neuralcpm_bridge._engine import State
from neuralcpm_bridge.app.bench import cell_sorting
from neuralcpm_bridge.lattice import Lattice

LATTICES = {
    "square": (Lattice.of((100, 100)), 10),
    "hexagonal": (Lattice.of((100, 100), "hexagonal"), 10),
    "cubic": (Lattice.of((40, 40, 40)), 5),
}
"""Lattices and the side of the blocks that cells start as: about as many sites each."""

CHILD = """
import json, resource, sys
import numpy as np
from neuralcpm_bridge._engine import Model, State

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

side, block = map(int, sys.argv[1:])
description = {"types": ["medium", "A", "B"], "lattice": {"geometry": "cubic", "boundary": ["periodic"] * 3}}
weights = {
    "symbolic.contact.J": np.array([[0.0, 0.5, 0.5], [0.5, 0.3, 0.2], [0.5, 0.2, 0.3]]),
    "symbolic.volume.strength": np.full(3, 0.1),
    "symbolic.volume.target": np.full(3, 100.0),
}
at = (np.arange(side) // block).astype(np.int32)
each = at[-1] + 1
ids = (at[:, None, None] * each + at[:, None]) * each + at
types = (1 + np.arange(each**3) % 2).astype(np.int32)
types[0] = 0
before = peak()
state = State(Model(json.dumps(description), weights), ids, types)
created = peak()
for boundary_only in (False, True):
    state.sweep(1, 1.0, 1, boundary_only=boundary_only)
print(json.dumps({"sites": ids.size, "cells": types.size - 1, "before": before, "created": created, "peak": peak()}))
"""


def attempts_per_second(state: State, seconds: float, boundary_only: bool = False) -> float:
    """After a few Monte Carlo steps in which blocks become cells."""
    state.sweep(5, 1.0, 1, boundary_only=boundary_only)
    attempts, start = 0, time.thread_time()
    while (spent := time.thread_time() - start) < seconds:
        attempts += state.sweep(20, 1.0, 1, boundary_only=boundary_only)["attempts"]
    return attempts / spent


def speeds(seconds: float) -> dict[str, dict[str, Any]]:
    found = {}
    for name, (lattice, block) in LATTICES.items():
        found[name] = {
            "shape": lattice.shape,
            "neighbours": lattice.geometry.neighbour_count(lattice.geometry.moore_order),
            "attempts_per_s": attempts_per_second(cell_sorting(lattice, block), seconds),
            "boundary_only_attempts_per_s": attempts_per_second(cell_sorting(lattice, block), seconds, True),
        }
    return found


def memory(side: int) -> dict[str, int]:
    """Bytes that a process of nothing but a side³ state has had at most, and how many before there was a state."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(side), "5"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="of processor time for each measurement")
    parser.add_argument("--side", type=int, default=200, help="of the cube whose memory is measured")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {"speed": speeds(options.seconds), "memory": memory(options.side)}
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{'lattice':10} {'sites':>14} {'neighbours':>10} {'attempts/s':>12} {'boundary only':>14}")
    for name, speed in result["speed"].items():
        size = " × ".join(map(str, speed["shape"]))
        fast, faster = (speed[key] / 1e6 for key in ("attempts_per_s", "boundary_only_attempts_per_s"))
        print(f"{name:10} {size:>14} {speed['neighbours']:10d} {fast:10.2f} M {faster:12.2f} M")
    sizes = {key: value / 1e6 for key, value in result["memory"].items()}
    print(
        f"{options.side}³ sites, {result['memory']['cells']} cells: {sizes['peak']:.0f} MB at most, of which "
        f"{sizes['before']:.0f} MB were there before the state (Python, NumPy and the array of ids)"
    )


if __name__ == "__main__":
    main()
