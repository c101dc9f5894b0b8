"""What starting costs: the package and the command line beside the interpreter's and numpy's own start.

    python benchmarks/startup.py [--repeats 15]

Processor time of fresh processes, the mean of the repeats.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable

STARTS = {
    "the interpreter": "pass",
    "import numpy": "import numpy",
    "import neuralcpm_bridge": "import neuralcpm_bridge",
    "what opening a model imports": "from neuralcpm_bridge import load_artifact, open_backend",
    "neuralcpm --help": "from neuralcpm_bridge.app.cli import run; run(['--help'])",
}


def children_clock() -> Callable[[], float]:
    """Seconds of processor time of finished children, where the system counts them; else the clock on the wall."""
    if sys.platform == "win32":
        return time.perf_counter
    return lambda: sum(os.times()[2:4])


def cost(script: str, repeats: int) -> float:
    """Seconds of one process; the system counts in hundredths, so only the sum of many says more."""
    clock = children_clock()
    start = clock()
    for _ in range(repeats):
        subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
    return (clock() - start) / repeats


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    for name, script in STARTS.items():
        print(f"{cost(script, repeats):6.3f} s  {name}")


if __name__ == "__main__":
    main()
