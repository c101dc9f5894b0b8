"""How bench measures: the thread's own processor time, so that other programs on the machine do not count."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge._engine import State as EngineState

from .tissues import Flip

SECONDS_PER_MODEL = 4.0
TURN = 0.02
"""Seconds for which one of several compared functions is called before the next one's turn."""
BLOCK = 32
"""Flips of the engine between two looks at the clock, which takes as long as a third of a cell graph's ΔH."""
GEMM = """
import numpy as np, time
a = np.random.rand(768, 768).astype(np.float32); b = a.T.copy(); a @ b
best = min((lambda s: (a @ b, time.thread_time() - s)[1])(time.thread_time()) for _ in range(8))
print(768**3 / best / 1e9)
"""


class Timed(NamedTuple):
    """A function and what it is called with, over and over; how many things one call does."""

    call: Callable[..., Any]
    arguments: Sequence[tuple[Any, ...]]
    things: int = 1


Turns = list[NDArray[np.float64]]
"""Microseconds of each thing that calls did, turn by turn."""


def in_blocks(engine: EngineState, flips: Sequence[Flip]) -> Timed:
    """Independent flips of one state."""
    blocks = np.array(flips, dtype=np.int64)[: len(flips) // BLOCK * BLOCK].reshape(-1, BLOCK, 2)
    return Timed(engine.deltas, [(block[:, 0].copy(), block[:, 1].copy()) for block in blocks], BLOCK)


def time_in_turn(timed: Mapping[Any, Timed], seconds: float) -> dict[Any, Turns]:
    """Several functions take turns until the time is used up.

    A shared machine is faster in one second than in the next: what is compared must be measured side by side.
    """
    turns: dict[Any, Turns] = {name: [] for name in timed}
    waiting = {name: itertools.cycle(each.arguments) for name, each in timed.items()}
    stop = time.thread_time_ns() + seconds * 1e9
    while time.thread_time_ns() < stop:
        for name, (call, _, things) in timed.items():
            arguments, times = waiting[name], []
            turn = time.thread_time_ns() + TURN * 1e9
            while (start := time.thread_time_ns()) < turn:
                call(*next(arguments))
                times.append((time.thread_time_ns() - start) / 1e3 / things)
            turns[name].append(np.array(times))
    return turns


def typical(turns: Turns) -> float:
    """The median turn's median: every turn counts once, so that what is compared sees the same share of slow phases."""
    return float(np.median([np.median(turn) for turn in turns]))


class Single(NamedTuple):
    """Microseconds of single calls: the 95th percentile of ΔH, and the median commit."""

    p95: float
    commit: float


def time_singly(engine: EngineState, flips: Sequence[Flip]) -> Single:
    """ΔH and the commit that follows it, as in a Metropolis loop; every flip is undone again."""
    deltas, commits = [], []
    stop = time.thread_time() + SECONDS_PER_MODEL / 4
    ids = engine.ids.ravel()
    for site, new_id in flips:
        for target in (new_id, int(ids[site])):
            times = [time.thread_time_ns()]
            engine.delta(site, target)
            times.append(time.thread_time_ns())
            engine.commit(site, target)
            times.append(time.thread_time_ns())
            deltas.append(times[1] - times[0])
            commits.append(times[2] - times[1])
        if time.thread_time() > stop:
            break
    clock = float(np.median([-time.thread_time_ns() + time.thread_time_ns() for _ in range(1000)]))
    return Single((np.percentile(deltas, 95) - clock) / 1e3, max(np.median(commits) - clock, 1.0) / 1e3)


def time_metropolis(engine: EngineState) -> dict[str, float]:
    """A plain sweep at T = 1: attempts per second, same-cell picks included, as hosts count them, and of those the
    proposals, which ask for ΔH."""
    attempts, proposals, start, mcs = 0, 0, time.thread_time(), 1
    while (spent := time.thread_time() - start) < SECONDS_PER_MODEL / 2:
        counts = engine.sweep(mcs, 1.0, 1)
        attempts += counts["attempts"]
        proposals += counts["proposals"]
        mcs = max(1, int(mcs * min(4.0, 0.5 / max(spent, 1e-3))))
    return {"attempts_per_s": attempts / spent, "proposals_per_s": proposals / spent}


def gemm_speed() -> float:
    """This core's float32 matrix product in a process of its own: BLAS reads its thread count at start."""
    single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", GEMM], capture_output=True, encoding="ascii", check=True, env=os.environ | single
    )
    return float(done.stdout)
