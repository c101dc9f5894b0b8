"""What one ΔH costs, against ONNX Runtime's full energy of the same model in the same run, on one thread.

Times are the thread's own processor time, so that other programs on the machine do not count.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge._engine import Model, isa
from neuralcpm_bridge._engine import State as EngineState
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.backends.engine import EngineBackend
from neuralcpm_bridge.backends.onnxruntime import OnnxRuntimeBackend
from neuralcpm_bridge.errors import needs_torch
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

Flip = tuple[int, int]
"""Site, new id."""

MODELS = {"local8": "local8", "local16": "local16", "local8x2": "local8x2", "paper_nh": "mnist-nh"}
SPACING = 10
"""Sites between neighbouring cell centres: cells of about 100 sites."""

CONTACT = [[0.0, 0.5, 0.5], [0.5, 1 / 3, 0.2], [0.5, 0.2, 4 / 15]]
STRENGTH, TARGET_VOLUME = 0.1, 100.0
"""The paper's cell sorting."""
OTHER_LATTICES = {"hexagonal": ((100, 100), 10), "cubic": ((40, 40, 40), 5)}
"""Shape, and the side of the blocks that are cells: about as many sites each as on the square lattice."""

SECONDS_PER_MODEL = 4.0
TURN = 0.02
"""Seconds for which one of several compared functions is called before the next one's turn."""
GEMM = """
import numpy as np, time
a = np.random.rand(768, 768).astype(np.float32); b = a.T.copy(); a @ b
best = min((lambda s: (a @ b, time.thread_time() - s)[1])(time.thread_time()) for _ in range(8))
print(768**3 / best / 1e9)
"""


def run_bench() -> dict[str, Any]:
    """The JSON object of `neuralcpm bench`."""
    with tempfile.TemporaryDirectory() as folder:
        artifacts = bench_models(Path(folder))
        state = dense_cluster(50, (100, 100))
        delta, scaling = time_deltas({name: artifacts[name] for name in MODELS}, state)
        metropolis = {
            name: {"attempts_per_s": time_metropolis(EngineBackend(artifacts[name], state).engine)}
            for name in ("cellsort", "local8", "paper_nh")
        }
    lattices = {
        geometry: {"attempts_per_s": time_metropolis(cell_sorting(Lattice.of(shape, geometry), block))}
        for geometry, (shape, block) in OTHER_LATTICES.items()
    }
    return {
        "isa": isa(),
        "gemm_gmac_per_s": gemm_speed(),
        "delta": delta,
        "scaling": scaling,
        "metropolis": metropolis,
        "lattices": lattices,
    }


def bench_models(folder: Path) -> dict[str, Artifact]:
    """Freshly initialised networks of the named sizes, and the paper's cell sorting."""
    with needs_torch("bench"):
        import torch

        from training.export import export
        from training.hamiltonians import Contact, Hamiltonian, Symbolic, Volume, make_preset

    torch.manual_seed(0)
    artifacts = {name: export(make_preset(preset), folder / f"{name}.onnx") for name, preset in MODELS.items()}
    volume = Volume(torch.tensor([STRENGTH]), torch.tensor([TARGET_VOLUME]))
    sorting = Hamiltonian(("medium", "A", "B"), Symbolic(Contact(torch.tensor(CONTACT)), volume))
    return artifacts | {"cellsort": export(sorting, folder / "cellsort.onnx")}


def cell_sorting(lattice: Lattice, block: int) -> EngineState:
    """The paper's cell sorting on another lattice: blocks of sites, types in turn, medium around them."""
    description = {
        "types": ["medium", "A", "B"],
        "lattice": {"geometry": lattice.geometry.name, "boundary": lattice.boundary},
    }
    weights = {
        "symbolic.contact.J": np.array(CONTACT),
        "symbolic.volume.strength": np.array([0.0, STRENGTH, STRENGTH]),
        "symbolic.volume.target": np.array([0.0, TARGET_VOLUME, TARGET_VOLUME]),
    }
    blocks = np.indices(lattice.shape) // block
    counts = np.array(lattice.shape) // block
    inner = np.all([(place > 0) & (place < count - 1) for place, count in zip(blocks, counts, strict=True)], axis=0)
    number = np.where(inner, np.ravel_multi_index(tuple(blocks), tuple(counts)), 0)
    ids = np.unique(number, return_inverse=True)[1].reshape(lattice.shape).astype(np.int32)
    types = np.concatenate([[0], 1 + np.arange(ids.max()) % 2]).astype(np.int32)
    return EngineState(Model(json.dumps(description), weights), ids, types)


def dense_cluster(cells: int, shape: tuple[int, int], seed: int = 0) -> CellState:
    """Cells of about 100 sites in one dense disc: nearest of jittered grid points, types at random."""
    rng = np.random.default_rng(seed)
    grid = np.array(shape) // SPACING
    centres = np.stack(np.meshgrid(*map(np.arange, grid), indexing="ij"), axis=-1) * SPACING + SPACING / 2
    points = centres + rng.uniform(-3, 3, size=centres.shape)
    middle = np.array(shape) / 2
    chosen = np.argsort(np.hypot(*np.moveaxis(centres - middle, -1, 0)).ravel(), kind="stable")[:cells]
    ids = np.zeros(grid.prod(), dtype=np.int32)
    ids[chosen] = np.arange(1, cells + 1)
    return CellState(ids[nearest_point(points, shape)], np.concatenate([[0], rng.integers(1, 3, size=cells)]))


def nearest_point(points: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.intp]:
    """Flat index of the nearest of one point per grid block, for every site."""
    rows, cols = np.indices(shape)
    best = np.full(shape, np.inf)
    index = np.zeros(shape, dtype=np.intp)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            row = np.clip(rows // SPACING + down, 0, points.shape[0] - 1)
            col = np.clip(cols // SPACING + right, 0, points.shape[1] - 1)
            distance = np.hypot(*np.moveaxis(points[row, col] - np.stack([rows, cols], axis=-1), -1, 0))
            closer = distance < best
            best[closer], index[closer] = distance[closer], (row * points.shape[1] + col)[closer]
    return index


def boundary_flips(state: CellState, count: int, seed: int = 0) -> list[Flip]:
    """Random directed neighbour pairs of different cells, as a host proposes them."""
    ids, borders = state.ids.ravel(), np.flatnonzero(state.boundary())
    neighbours = state.lattice.neighbours(state.lattice.geometry.moore_order, borders)
    sites, directions = np.nonzero((neighbours >= 0) & (ids[neighbours] != ids[borders, None]))
    picked = np.random.default_rng(seed).integers(sites.size, size=count)
    new_ids = ids[neighbours[sites[picked], directions[picked]]]
    return list(zip(borders[sites[picked]].tolist(), new_ids.tolist(), strict=True))


Timed = tuple[Callable[[int, int], Any], Sequence[Flip]]
"""A function and what it is called with, over and over."""
Turns = list[NDArray[np.float64]]
"""Microseconds of each call, turn by turn."""


def time_in_turn(timed: Mapping[Any, Timed], seconds: float) -> dict[Any, Turns]:
    """Several functions take turns until the time is used up.

    A shared machine is faster in one second than in the next: what is compared must be measured side by side.
    """
    turns: dict[Any, Turns] = {name: [] for name in timed}
    waiting = {name: (call, itertools.cycle(flips)) for name, (call, flips) in timed.items()}
    stop = time.thread_time_ns() + seconds * 1e9
    while time.thread_time_ns() < stop:
        for name, (call, flips) in waiting.items():
            times = []
            turn = time.thread_time_ns() + TURN * 1e9
            while (start := time.thread_time_ns()) < turn:
                call(*next(flips))
                times.append((time.thread_time_ns() - start) / 1e3)
            turns[name].append(np.array(times))
    return turns


def typical(turns: Turns) -> float:
    """The median turn's median: every turn counts once, so that what is compared sees the same share of slow phases."""
    return float(np.median([np.median(turn) for turn in turns]))


def time_deltas(artifacts: dict[str, Artifact], state: CellState) -> tuple[dict[str, Any], dict[str, Any]]:
    """ΔH of each model and its full energy by ONNX Runtime; and how local8's ΔH grows with the tissue.

    All take turns, so that each is measured over the whole time: a slow phase of the machine lasts seconds.
    """
    flips = boundary_flips(state, 20_000)
    engines = {name: EngineBackend(artifact, state).engine for name, artifact in artifacts.items()}
    timed: dict[Any, Timed] = {}
    for name, artifact in artifacts.items():
        timed[name, "engine"] = engines[name].delta, flips
        timed[name, "full"] = full_energy(artifact, state), flips
    tissue = dense_cluster(5000, (1000, 1000))
    timed["tissue"] = EngineBackend(artifacts["local8"], tissue).engine.delta, boundary_flips(tissue, 20_000)
    time_in_turn(timed, 1.0)  # pays for memory and lazy initialisation
    work = {name: engine.multiply_adds for name, engine in engines.items()}
    turns = time_in_turn(timed, SECONDS_PER_MODEL * len(artifacts))
    delta = {}
    for name, engine in engines.items():
        times = np.concatenate(turns[name, "engine"])
        one, full = typical(turns[name, "engine"]), typical(turns[name, "full"])
        delta[name] = {
            "engine_us": one,
            "p95_us": float(np.percentile(times, 95)),
            "onnxruntime_us": full,
            "ratio": full / one,
            "gmac_per_s": (engine.multiply_adds - work[name]) / float(times.sum()) / 1e3,
            "commit_us": time_commits(engine, flips),
        }
    few, many = delta["local8"]["engine_us"], typical(turns["tissue"])
    return delta, {"local8": {"cells_50_us": few, "cells_5000_us": many, "ratio": many / few}}


def full_energy(artifact: Artifact, state: CellState) -> Callable[[int, int], Any]:
    """ONNX Runtime's energy of the whole state, which no flip changes."""
    session = OnnxRuntimeBackend(artifact, state, threads=1).session
    feed = {"ids": state.ids[None].astype(np.int64), "types": state.types[None].astype(np.int64)}
    return lambda *flip: session.run(["energy"], feed)


def time_commits(engine: EngineState, flips: list[Flip]) -> float:
    """Median of a commit that follows its own proposal, as in a Metropolis loop; every flip is undone again."""
    times, stop = [], time.thread_time() + SECONDS_PER_MODEL / 4
    ids = engine.ids.ravel()
    for site, new_id in flips:
        for target in (new_id, int(ids[site])):
            engine.delta(site, target)
            start = time.thread_time_ns()
            engine.commit(site, target)
            times.append((time.thread_time_ns() - start) / 1e3)
        if time.thread_time() > stop:
            break
    return float(np.median(times))


def time_metropolis(engine: EngineState) -> float:
    """Attempts per second of a plain sweep at T = 1, same-cell picks included, as hosts count them."""
    attempts, start, mcs = 0, time.thread_time(), 1
    while (spent := time.thread_time() - start) < SECONDS_PER_MODEL / 2:
        attempts += engine.sweep(mcs, 1.0, 1)["attempts"]
        mcs = max(1, int(mcs * min(4.0, 0.5 / max(spent, 1e-3))))
    return attempts / spent


def gemm_speed() -> float:
    """This core's float32 matrix product in a process of its own: BLAS reads its thread count at start."""
    single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", GEMM], capture_output=True, text=True, check=True, env=os.environ | single
    )
    return float(done.stdout)
