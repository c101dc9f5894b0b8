"""What a state of the engine keeps in memory: local8 among ever more cells of about 100 sites on one lattice.

    python benchmarks/memory.py [--cells 500 1000 2500 5000] [--side 1000] [--json]

Each state lives in a process of its own; what counts is how much its creation adds to the process's resident memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

CHILD = """
import os, sys
import numpy as np
from soak import LOCAL8, random_model
from neuralcpm_bridge._engine import State
from neuralcpm_bridge.app.bench import dense_cluster

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

cells, side = map(int, sys.argv[1:])
start = dense_cluster(cells, (side, side))
model = random_model(np.random.default_rng(0), LOCAL8)
State(model, np.zeros((64, 64), dtype=np.int32), np.zeros(1, dtype=np.int32)).energy()
before = resident()
state = State(model, start.ids, start.types)
state.delta(side // 2 * side + side // 2, 0)
print(resident() - before)
"""


def resident_bytes(cells: int, side: int) -> int:
    """Memory of one state with so many cells on side × side sites."""
    path = os.pathsep.join([str(Path(__file__).parent), *(entry for entry in sys.path if entry)])
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(cells), str(side)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    return int(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="+", default=[500, 1000, 2500, 5000])
    parser.add_argument("--side", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = {cells: resident_bytes(cells, options.side) for cells in options.cells}
    if options.json:
        print(json.dumps(sizes))
        return
    for cells, size in sizes.items():
        print(f"{cells:6d} cells on {options.side}×{options.side}: {size / 1e6:7.1f} MB")


if __name__ == "__main__":
    main()
