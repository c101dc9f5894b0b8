"""How long cells scattered as single pixels need until nobody can tell that they were: until chains that left the data
have met them."""

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

CHAINS = 32
LONGEST = 4000
"""Monte Carlo steps tried at most."""
NOISE = 3.0
"""Standard errors within which two means count as the same; there are dozens of measures."""
NEAR = 0.1
"""Share of a measure's difference at the beginning within which it counts as gone."""

LONGER = 2
"""Times as long as chains take to meet, as far as few of them tell, they are given."""


class Relaxation(NamedTuple):
    """`mcs`: after which chains have met in every measure; `settled`: whether that was seen. If not, `mcs` is how long
    they were followed."""

    mcs: int
    settled: bool


def relaxation(hamiltonian: Hamiltonian, data: Snapshots, seed: int, threads: int, seconds: float) -> Relaxation:
    """Of chains under a Hamiltonian, some from scattered starts and some from data, looked at after doubling times for
    so many seconds. One that changes slowly seems to rest for a while; two that come from different sides and rest in
    different places have not arrived."""
    rng = np.random.default_rng([seed, 29])
    advance = ExactChains(threads=threads).on(hamiltonian)
    scattered = Snapshots.from_states(mixed_starts(data, CHAINS, rng), type_names=data.type_names)
    sides = [scattered, data.chosen(rng.integers(len(data), size=CHAINS))]
    began, done, apart, times = time.monotonic(), 0, list[dict[str, Difference]](), list[int]()
    for until in _doubling():
        started = time.monotonic()
        sides = [advance(side, until - done, int(rng.integers(2**63)))[0] for side in sides]
        done = until
        times.append(done)
        rows = [measures_by_state(side, data) for side in sides]
        apart.append({title: _difference(*(row[title] for row in rows)) for title in rows[0] if title in rows[1]})
        if _met(apart) or time.monotonic() - began + 2 * (time.monotonic() - started) > seconds:
            break
    return Relaxation(times[-1], _met(apart))


class Difference(NamedTuple):
    """Of two means, and its standard error."""

    value: float
    error: float


def _difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> Difference:
    variances = (own.var(ddof=1) / own.size if own.size > 1 else 0.0 for own in (one, other))
    return Difference(abs(float(one.mean() - other.mean())), float(np.sqrt(sum(variances))))


def _met(apart: list[dict[str, Difference]]) -> bool:
    """Whether no measure tells the sides apart any more."""
    first, now = apart[0], apart[-1]
    return all(
        gap.value <= max(NOISE * gap.error, NEAR * first[title].value) for title, gap in now.items() if title in first
    )


def _doubling() -> list[int]:
    times = [GROWTH_MCS]
    while times[-1] * 2 <= LONGEST:
        times.append(times[-1] * 2)
    return times
