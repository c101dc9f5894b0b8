"""Long runs of the engine: networks agree with the plain reference, and no cache drifts on any lattice.

    python benchmarks/soak.py [--flips 100000] [--accepted 1000000] [--paper-accepted 20000]
                              [--analytic-accepted 1000000] [--graph-accepted 1000000] [--json]

1. Flips on a small lattice against full energies in float64: the largest difference of ΔH, and how often the
   two would decide differently in a Metropolis step (mean |p_a − p_b|).
2. Metropolis chains mixed with divisions, deaths and changes of types and properties: the cached energy against a
   rebuild, of convolutions, of cell graphs (soak_graphs.py) and of analytic models (contact, volume, surface and length
   of other orders than the geometry's own) on square, hexagonal and cubic lattices. It has to be the same to the last
   bit. Cell graphs are also compared with float64 torch, a sample of states and flips.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge._engine import Model, State, isa, reference_energy
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

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
DIFFERENCE_LIMIT = 2e-4
"""Of cell graphs from float64: of ΔH, and of energies per cell."""


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


@dataclass(frozen=True)
class Analytic:
    """An analytic model of every term with a cache, on a lattice where no cell grows to three eighths of a ring."""

    lattice: Lattice
    cells: int
    orders: dict[str, int]
    volume: float
    length: float

    def model(self) -> Model:
        count, solid = len(TYPES), self.lattice.dimension == 3
        pairs = self.lattice.geometry.pairs_per_length(self.orders["surface"])
        sphere = 4 * math.pi * (3 * self.volume / (4 * math.pi)) ** (2 / 3)
        around = sphere if solid else 2 * math.sqrt(math.pi * self.volume * self.lattice.geometry.site_volume)
        surface = around * pairs * self.lattice.geometry.pair_weight(self.orders["surface"])
        weights = {
            "symbolic.contact.J": np.array([[0.0, 16.0, 18.0], [16.0, 24.0, 30.0], [18.0, 30.0, 22.0]]),
            "symbolic.volume.strength": np.full(count, 1.0),
            "symbolic.volume.target": self.volume * np.array([0.0, 0.9, 1.1]),
            "symbolic.surface.strength": np.full(count, 0.05),
            "symbolic.surface.target": np.full(count, 1.1 * surface),
            "symbolic.length.strength": np.full(count, 2.0),
            "symbolic.length.target": self.length * np.array([0.0, 0.9, 1.2]),
        }
        if solid:
            weights["symbolic.length.minor_target"] = np.full(count, 0.7 * self.length)
        description = {
            "types": TYPES,
            "lattice": {"geometry": self.lattice.geometry.name, "boundary": self.lattice.boundary},
            "symbolic": {"terms": {term: {"order": order} for term, order in self.orders.items()}},
        }
        return Model(json.dumps(description), weights)


ANALYTIC = {
    "square": Analytic(Lattice.of((64, 60), "square"), 40, {"contact": 4, "surface": 3}, 40.0, 9.0),
    "hexagonal": Analytic(Lattice.of((60, 64), "hexagonal"), 40, {"contact": 2, "surface": 4}, 40.0, 9.0),
    "hexagonal_rows": Analytic(
        Lattice.of((64, 64), "hexagonal", ("periodic", "free"), "rows"), 40, {"contact": 3, "surface": 2}, 40.0, 9.0
    ),
    "cubic": Analytic(Lattice.of((26, 24, 28), "cubic"), 40, {"contact": 2, "surface": 4}, 60.0, 6.0),
}


def tissue(rng: np.random.Generator, lattice: Lattice, cells: int, radius: float = 5.0) -> CellState:
    """Discs or balls around random centres."""
    centres = lattice.positions(rng.integers(lattice.sites, size=cells))
    squared = ((lattice.positions()[:, None] - centres) ** 2).sum(axis=-1)
    ids = np.where(squared.min(axis=1) < radius**2, squared.argmin(axis=1) + 1, 0)
    types = np.concatenate([[0], rng.integers(1, len(TYPES), cells)])
    return CellState(ids.reshape(lattice.shape), types, lattice)


def opened(model: Model, state: CellState, part: Any = "full", properties: NDArray[np.float64] | None = None) -> State:
    lattice = state.lattice
    return State(
        model,
        state.ids,
        state.types,
        part,
        layout=lattice.layout,
        boundary=lattice.boundary,
        properties=state.property_table() if properties is None else properties,
    )


def against_reference(flips: int, seed: int = 0) -> dict[str, Any]:
    """Independent flips of ever new states, against full energies by plain loops in float64."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, LOCAL8)
    worst = mismatch = 0.0
    done = 0
    while done < flips:
        start = tissue(rng, Lattice.of((17, 17)), 5)
        state = opened(model, start, "neural")
        before = reference_energy(model, start.ids, start.types)
        for _ in range(min(500, flips - done)):
            site, cell = int(rng.integers(start.ids.size)), int(rng.integers(6))
            flipped = start.ids.copy()
            flipped.flat[site] = cell
            exact = reference_energy(model, flipped, start.types) - before
            change = state.delta(site, cell)
            worst = max(worst, abs(change - exact))
            mismatch += abs(math.exp(-max(change, 0.0)) - math.exp(-max(exact, 0.0)))
            done += 1
    return {"flips": done, "largest_difference": worst, "decision_mismatch": mismatch / done}


def disturb(rng: np.random.Generator, state: State, cells: int) -> str:
    """A division, a death or a change of a type or a property; the number of cells stays around `cells`."""
    types, volumes, properties = state.types, state.volumes, state.properties.shape[1]
    alive = np.flatnonzero((types >= 1) & (volumes > 0))
    kind = rng.choice(["division", "death", "type", "property"][: None if properties else -1])
    if alive.size < cells // 2 or (kind == "division" and alive.size < 2 * cells):
        parent = int(rng.choice(alive)) if alive.size else 0
        free = np.flatnonzero((types >= 1) & (volumes == 0))
        daughter = int(free[0]) if free.size else int(types.size)
        state.set_type(daughter, int(rng.integers(1, len(TYPES))))
        sites, places = np.flatnonzero(state.ids == parent), np.argwhere(state.ids == parent)
        half = (places - places.mean(axis=0)) @ rng.normal(size=places.shape[1]) > 0
        state.change_pixels(sites[half], np.full(half.sum(), daughter))
        return "division"
    if kind == "type":
        state.set_type(int(rng.choice(alive)), int(rng.integers(1, len(TYPES))))
        return "type"
    if kind == "property":
        state.set_property(int(rng.choice(alive)), int(rng.integers(properties)), float(rng.normal()))
        return "property"
    state.remove_cell(int(rng.choice(alive)))
    return "death"


def without_drift(
    model: Model,
    start: CellState,
    accepted: int,
    every: int,
    temperature: float = 5.0,
    seed: int = 1,
    look: Callable[[State], None] = lambda state: None,
) -> dict[str, Any]:
    """A hot chain; about `every` accepted flips a disturbance, the cached energy is compared with a rebuild, by every
    member of a committee, and `look` is shown the state."""
    rng = np.random.default_rng(seed)
    state, cells = opened(model, start), start.types.size - 1
    counts = {"accepted": 0, "division": 0, "death": 0, "type": 0, "property": 0, "rebuilds": 0}
    worst, started = 0.0, time.perf_counter()
    while counts["accepted"] < accepted:
        since = 0
        while since < every:
            made = state.sweep(1, temperature, seed, boundary_only=True)["accepted"]
            since += made
            if made == 0:
                break
        counts["accepted"] += since
        counts[disturb(rng, state, cells)] += 1
        fresh = opened(model, CellState(state.ids, state.types, start.lattice), properties=state.properties)
        for kept, found in ((state.energy(), fresh.energy()), (state.member_energies(), fresh.member_energies())):
            worst = max(worst, *np.abs(np.subtract(kept, found)).tolist(), 0.0)
        counts["rebuilds"] += 1
        look(state)
    return counts | {"largest_drift": worst, "seconds": round(time.perf_counter() - started, 1)}


def network_without_drift(spec: dict[str, Any], side: int, cells: int, accepted: int, every: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    model = random_model(rng, spec)
    return without_drift(model, tissue(rng, Lattice.of((side, side)), cells), accepted, every)


def analytic_without_drift(setting: Analytic, accepted: int) -> dict[str, Any]:
    radius = 3.0 if setting.lattice.dimension == 2 else 2.4
    start = tissue(np.random.default_rng(1), setting.lattice, setting.cells, radius)
    return without_drift(setting.model(), start, accepted, 500, temperature=8.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=100_000)
    parser.add_argument("--accepted", type=int, default=1_000_000)
    parser.add_argument("--paper-accepted", type=int, default=20_000)
    parser.add_argument("--analytic-accepted", type=int, default=1_000_000)
    parser.add_argument("--graph-accepted", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    from soak_graphs import GRAPHS, graph_without_drift

    result: dict[str, Any] = {
        "isa": isa(),
        "reference": against_reference(options.flips),
    }
    chains = {
        "local8": network_without_drift(LOCAL8, 60, 24, options.accepted, 2_000),
        "paper_nh": network_without_drift(PAPER, 96, 40, options.paper_accepted, 200),
    }
    for name, setting in ANALYTIC.items():
        chains[name] = analytic_without_drift(setting, options.analytic_accepted)
    for name, setting in GRAPHS.items():
        chains[name] = graph_without_drift(setting, options.graph_accepted)
    result |= chains
    result["passed"] = result["reference"]["decision_mismatch"] <= MISMATCH_LIMIT and all(
        chain["largest_drift"] == 0 and chain.get("largest_difference", 0.0) <= DIFFERENCE_LIMIT
        for chain in chains.values()
    )
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        for name, value in result.items():
            print(f"{name:15}", *(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else [value])
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
