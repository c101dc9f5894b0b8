"""The zoo: what `neuralcpm fit` makes of mechanisms that contact and volume energies cannot express.

    python -m benchmarks.zoo data FOLDER [--only NAME …] [--seeds 0 1 2]    draw data sets, say what they show
    python -m benchmarks.zoo run FOLDER [--only NAME …] [--seeds 0 1 2]     fit them, one process each
    python -m benchmarks.zoo table FOLDER                                   what has been found so far
    python -m benchmarks.zoo nonsense FOLDER [--only NAME …]                fits of noise, too little, too much, rings

Results go to FOLDER/results.json (nonsense.json) after every fit; those that are there are not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.metrics import p_unfragmented
from neuralcpm_bridge.snapshots import load_snapshots

from . import sense
from .data import data_file, without_mechanism
from .fits import fit
from .mechanisms import MECHANISMS, Mechanism
from .nonsense import NAMES
from .scoring import measured, row
from .table import data_table, table

SEEDS = (0, 1, 2)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.zoo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("data", "run", "table", "nonsense"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the mechanisms (or data sets) alone")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS, metavar="SEED")
    options = parser.parse_args(arguments)
    known = NAMES if options.verb == "nonsense" else tuple(MECHANISMS)
    names = options.only or known
    try:
        for name in names:
            if name not in known:
                raise UserError(f"There is no {name!r} in the zoo: choose from {', '.join(known)}.")
        options.folder.mkdir(parents=True, exist_ok=True)
        if options.verb == "nonsense":
            judge_nonsense(names, options.folder)
        elif options.verb == "data":
            print(data_table([shown(MECHANISMS[n], seed, options.folder) for seed in options.seeds for n in names]))
        else:
            if options.verb == "run":
                run([(MECHANISMS[name], seed) for seed in options.seeds for name in names], options.folder)
            print(table(read_results(options.folder / "results.json")))
    except UserError as error:
        print(f"zoo: {error}", file=sys.stderr)
        return 2
    return 0


def shown(mechanism: Mechanism, seed: int, folder: Path) -> dict[str, Any]:
    """What a data set shows, beside the same tissue without the mechanism."""
    data = load_snapshots(data_file(mechanism, seed, folder))
    found, none = measured(mechanism, data), measured(mechanism, without_mechanism(mechanism, mechanism.mcs, folder))
    return {
        "mechanism": mechanism.name,
        "seed": seed,
        "data": found,
        "none": none,
        "apart": abs(found.mean - none.mean) / np.hypot(found.error, none.error),
        "p_unfragmented": p_unfragmented(data),
    }


def run(pairs: Sequence[tuple[Mechanism, int]], folder: Path) -> None:
    """Fits those that have no result yet; one at a time, for each is to have the machine."""
    path = folder / "results.json"
    for mechanism, seed in pairs:
        results = read_results(path)
        if any((each["mechanism"], each["seed"]) == (mechanism.name, seed) for each in results):
            continue
        data = data_file(mechanism, seed, folder)
        fitted = fit(data, folder / "runs" / f"{mechanism.name}-s{seed}", seed)
        found = row(mechanism, seed, data, fitted)
        write_results(path, [*read_results(path), found])
        said = found.get("failed") or "closure's share {:.2f} ± {:.2f}".format(*found["share"]["closure"])
        print(f"{mechanism.name}, seed {seed}: {said}, {fitted.minutes:.1f} minutes", file=sys.stderr, flush=True)


def judge_nonsense(names: Sequence[str], folder: Path) -> None:
    path = folder / "nonsense.json"
    for name in names:
        results = read_results(path)
        if all(each["data"] != name for each in results):
            write_results(path, [*results, sense.judged(name, folder / "nonsense")])
    print(sense.table(read_results(path)))


def read_results(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def write_results(path: Path, results: Sequence[dict[str, Any]]) -> None:
    with writing(path) as temporary:
        temporary.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
