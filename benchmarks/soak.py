"""Long runs of the engine's networks: agreement with the plain reference, and caches without drift.

    python benchmarks/soak.py [--flips 100000] [--accepted 1000000] [--paper-accepted 20000] [--json]

1. Flips on a small lattice against full energies in float64: the largest difference of ΔH, and how often the
   two would decide differently in a Metropolis step (mean |p_a − p_b|).
2. Metropolis chains mixed with divisions, deaths and type changes: the cached neural energy against a rebuild.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge._engine import Model, State, isa, reference_energy

TYPES = ("medium", "A", "B")
LOCAL8 = {"kind": "local_nh", "stride": 3, "widths": [8], "pools": [1], "padding": "zeros", "project": 8, "mlp": []}
PAPER = {
    "kind": "nh",
    "stride": 3,
    "widths": [8, 16, 32, 32],
    "pools": [3, 2, 1, 1],
    "padding": "zeros",
    "project": 32,
    "mlp": [32, 32],
}
MISMATCH_LIMIT = 1e-5


def random_model(rng: np.random.Generator, spec: dict[str, Any]) -> Model:
    """A network with random weights; a weak volume term keeps cells from filling or leaving the lattice."""
    weights: dict[str, NDArray[Any]] = {
        "symbolic.weight": np.array(1.0),
        "symbolic.offset": np.array(0.0),
        "symbolic.volume.strength": np.full(len(TYPES), 0.02),
        "symbolic.volume.target": np.full(len(TYPES), 60.0),
        "neural.weight": np.array(1.0),
    }

    def affine(name: str, *shape: int) -> None:
        bound = 1 / math.sqrt(math.prod(shape[1:]))
        weights[f"neural.{name}.weight"] = rng.uniform(-bound, bound, shape).astype(np.float32)
        weights[f"neural.{name}.bias"] = rng.uniform(-bound, bound, shape[0]).astype(np.float32)

    before = spec["widths"][0]
    affine("embedding", before, 1 + len(TYPES), spec["stride"], spec["stride"])
    for index, width in enumerate(spec["widths"]):
        layer = f"layers.{index}"
        affine(f"{layer}.reduce", width, before, 1, 1)
        affine(f"{layer}.mix", width, width, 1, 1)
        affine(f"{layer}.psi0", width, before + width, 3, 3)
        for name in ("phi0", "phi1", "psi1"):
            affine(f"{layer}.{name}", width, width, 3, 3)
        if before != width:
            affine(f"{layer}.skip", width, before, 1, 1)
        before = width
    if spec["kind"] == "local_nh":
        for head in ("cell_head", "background_head"):
            affine(f"{head}.hidden", spec["project"], before)
            affine(f"{head}.out", 1, spec["project"])
    else:
        affine("project", spec["project"], before, 1, 1)
        before = spec["project"]
        for index, size in enumerate(spec["mlp"]):
            affine(f"mlp.{index}.linear", size, before)
            if size != before:
                affine(f"mlp.{index}.skip", size, before)
            before = size
        affine("out", 1, before)
    volume = {"strength": [0.02] * len(TYPES), "target": [60.0] * len(TYPES)}
    symbolic = {"weight": 1.0, "offset": 0.0, "terms": {"volume": volume}}
    entry = {"format": 1, "name": "soak", "types": TYPES, "boundary": "periodic", "neural": spec, "symbolic": symbolic}
    return Model(json.dumps(entry), weights)


def tissue(rng: np.random.Generator, side: int, cells: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Discs around random centres; ids[side, side] and types."""
    rows, cols = np.mgrid[:side, :side]
    centres = rng.uniform(0, side, (cells, 2))
    squared = (rows[..., None] - centres[:, 0]) ** 2 + (cols[..., None] - centres[:, 1]) ** 2
    ids = np.where(squared.min(-1) < 25, squared.argmin(-1) + 1, 0).astype(np.int32)
    return ids, np.concatenate([[0], rng.integers(1, len(TYPES), cells)]).astype(np.int32)


def against_reference(flips: int, seed: int = 0) -> dict[str, Any]:
    """Independent flips of ever new states, against full energies by plain loops in float64."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, LOCAL8)
    worst = mismatch = 0.0
    done = 0
    while done < flips:
        ids, types = tissue(rng, 17, 5)
        state = State(model, ids, types, "neural")
        before = reference_energy(model, ids, types)
        for _ in range(min(500, flips - done)):
            row, col, cell = int(rng.integers(17)), int(rng.integers(17)), int(rng.integers(6))
            flipped = ids.copy()
            flipped[row, col] = cell
            exact = reference_energy(model, flipped, types) - before
            change = state.delta(row, col, cell)
            worst = max(worst, abs(change - exact))
            mismatch += abs(math.exp(-max(change, 0.0)) - math.exp(-max(exact, 0.0)))
            done += 1
    return {"flips": done, "largest_difference": worst, "decision_mismatch": mismatch / done}


def disturb(rng: np.random.Generator, state: State, cells: int) -> str:
    """A division, a death or a change of type; the number of cells stays around `cells`."""
    types, volumes = state.types, state.volumes
    alive = np.flatnonzero((types >= 1) & (volumes > 0))
    kind = rng.choice(["division", "death", "type"])
    if alive.size < cells // 2 or (kind == "division" and alive.size < 2 * cells):
        parent = int(rng.choice(alive)) if alive.size else 0
        free = np.flatnonzero((types >= 1) & (volumes == 0))
        daughter = int(free[0]) if free.size else int(types.size)
        state.set_type(daughter, int(rng.integers(1, len(TYPES))))
        rows, cols = np.nonzero(state.ids == parent)
        half = (rows - rows.mean()) * rng.normal() + (cols - cols.mean()) * rng.normal() > 0
        state.change_pixels(rows[half], cols[half], np.full(half.sum(), daughter))
        return "division"
    if kind == "type":
        state.set_type(int(rng.choice(alive)), int(rng.integers(1, len(TYPES))))
        return "type"
    state.remove_cell(int(rng.choice(alive)))
    return "death"


def without_drift(
    spec: dict[str, Any], side: int, cells: int, accepted: int, every: int, seed: int = 1
) -> dict[str, Any]:
    """A hot chain; about `every` accepted flips a disturbance, and the cached energy is compared with a rebuild."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, spec)
    state = State(model, *tissue(rng, side, cells))
    counts = {"accepted": 0, "division": 0, "death": 0, "type": 0, "rebuilds": 0}
    worst, sweeps, started = 0.0, 0, time.perf_counter()
    while counts["accepted"] < accepted:
        since = 0
        while since < every:
            sweeps += 1
            made = state.sweep(1, 5.0, seed, boundary_only=True)["accepted"]
            since += made
            if made == 0:
                break
        counts["accepted"] += since
        counts[disturb(rng, state, cells)] += 1
        cached = state.energy()[1]
        fresh = State(model, state.ids, state.types).energy()[1]
        worst = max(worst, abs(cached - fresh))
        counts["rebuilds"] += 1
    return counts | {"largest_drift": worst, "seconds": round(time.perf_counter() - started, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=100_000)
    parser.add_argument("--accepted", type=int, default=1_000_000)
    parser.add_argument("--paper-accepted", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result: dict[str, Any] = {
        "isa": isa(),
        "reference": against_reference(options.flips),
        "local8": without_drift(LOCAL8, 60, 24, options.accepted, 2_000),
        "paper_nh": without_drift(PAPER, 96, 40, options.paper_accepted, 200),
    }
    result["passed"] = (
        result["reference"]["decision_mismatch"] <= MISMATCH_LIMIT
        and result["local8"]["largest_drift"] == 0
        and result["paper_nh"]["largest_drift"] == 0
    )
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        for name, value in result.items():
            print(f"{name:10}", *(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else [value])
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
