"""`python -m tests.fuzz`: ten minutes of broken files; exit code 1 where one of them was a finding."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from .campaign import Tally, campaign, inputs, keep
from .seeds import make_seeds
from .targets import TARGETS
from .worker import Input


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    arguments.add_argument("--inputs", type=int, default=25_000, help="broken files to read")
    arguments.add_argument("--seconds", type=float, default=None, help="end after so many seconds")
    arguments.add_argument("--workers", type=int, default=2, help="processes that read")
    arguments.add_argument("--first", type=int, default=0, help="number of the first input of each kind")
    arguments.add_argument("--only", metavar="KIND:NUMBER", nargs="*", help="these inputs alone, as a finding names it")
    arguments.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="folder for what was found")
    chosen = arguments.parse_args()
    given = islice(inputs(chosen.first), chosen.inputs)
    if chosen.only:
        given = iter(Input(*map(int, text.split(":"))) for text in chosen.only)
    shutil.rmtree(chosen.keep, ignore_errors=True)
    tally, began = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="neuralcpm-seeds-") as folder:
        seeds = Path(folder) / "seeds"
        make_seeds(seeds)
        began = time.monotonic()
        for outcome in campaign(seeds, given, chosen.workers, chosen.seconds):
            tally.add(outcome)
            if outcome.finding:
                kept = keep(seeds, outcome.input, chosen.keep)
                name = TARGETS[outcome.input.target].name
                print(f"{outcome.input} ({name}, {kept}): {outcome.finding}\n    {outcome.words}", flush=True)
            if tally.inputs % 1000 == 0:
                print(f"{time.monotonic() - began:.0f} s: {tally}", flush=True)
    for name, count in tally.by_target.items():
        print(f"{count:8,} {name}")
    print(f"{tally} in {time.monotonic() - began:.0f} s.")
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
