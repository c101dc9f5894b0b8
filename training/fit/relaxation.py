"""How long cells scattered as single pixels need until nothing about the tissue changes any more."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.metrics.comparing import measures_by_state
from neuralcpm_bridge.sampling import GROWTH_MCS, mixed_starts
from neuralcpm_bridge.snapshots import Snapshots

from ..hamiltonians import Hamiltonian
from ..samplers import ExactChains

CHAINS = 48
LONGEST = 4000
"""Monte Carlo steps tried at most."""
NOISE = 3.0
"""Standard errors within which a mean counts as arrived; there are dozens of measures."""
NEAR = 0.1
"""Share of a measure's whole change within which it counts as arrived."""
LONGER = 4
"""Times as long as a measure has taken to arrive it must have stayed there: slow changes look like none for a while."""


class Relaxation(NamedTuple):
    """`mcs`: after which every measure has arrived; `settled`: whether that was seen. If not, `mcs` is how long chains
    were followed."""

    mcs: int
    settled: bool


def relaxation(hamiltonian: Hamiltonian, data: Snapshots, seed: int, threads: int, seconds: float) -> Relaxation:
    """Of chains from scattered starts under a Hamiltonian, looked at after doubling times for so many seconds."""
    rng = np.random.default_rng([seed, 29])
    advance = ExactChains(threads=threads).on(hamiltonian)
    states = Snapshots.from_states(mixed_starts(data, CHAINS, rng), type_names=data.type_names)
    began, done, rows, times = time.monotonic(), 0, list[dict[str, NDArray[np.float64]]](), list[int]()
    for until in _doubling():
        started = time.monotonic()
        states, _ = advance(states, until - done, int(rng.integers(2**63)))
        done = until
        times.append(done)
        rows.append(measures_by_state(states, data))
        took = time.monotonic() - started
        if time.monotonic() - began + 2 * took > seconds:
            break
    arrived = [_arrival([row[title] for row in rows]) for title in rows[0] if all(title in row for row in rows)]
    last = times[max(arrived)]
    settled = LONGER * last <= times[-1]
    return Relaxation(last if settled else times[-1], settled)


def _doubling() -> list[int]:
    times = [GROWTH_MCS]
    while times[-1] * 2 <= LONGEST:
        times.append(times[-1] * 2)
    return times


def _arrival(values: list[NDArray[np.float64]]) -> int:
    """Number of the first time from which on the mean stays where it is at the end."""
    means = np.array([own.mean() for own in values])
    errors = np.array([own.std(ddof=1) / np.sqrt(own.size) if own.size > 1 else 0.0 for own in values])
    away = np.abs(means - means[-1])
    near = away <= np.maximum(NOISE * np.hypot(errors, errors[-1]), NEAR * away.max())
    far = np.flatnonzero(~near)
    return int(far[-1]) + 1 if far.size else 0
