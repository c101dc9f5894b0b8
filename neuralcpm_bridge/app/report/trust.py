"""Where a learned energy can be trusted: how far a committee's members agree, and which cells are like those it saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.sampling import mixed_starts
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

from ..bench import boundary_flips
from . import html
from .charts import colour_of

LOOKED_AT = 8
"""States of each kind."""
FLIPS = 120
"""Copies asked about in each of them."""
LARGER = 2
"""Times that cells are wider where they are to be unlike the data."""
MOST_SITES = 1 << 22
"""Of a lattice with wider cells that is looked at."""
LESS_SURE = 2.0
"""Times the held-out states' disagreement from which other states count as less well known."""
OUTSIDE = 0.05
"""Share of cells, beyond the held-out states' own, from which samples count as outside."""


@dataclass(frozen=True)
class Doubt:
    """About states of one kind, in units of the temperature: what members of the committee differ by about one copy
    (median and 95th percentile of copies; None without a committee), what the network charges for one (median), and
    the share of cells inside the training data's range (None where the model knows none)."""

    title: str
    disagreement: tuple[float, float] | None
    charge: float
    inside: float | None


def doubts(artifact: Artifact, data: Snapshots, samples: Snapshots) -> list[Doubt]:
    """Of states that the training never saw, of samples, and of two kinds of states that are unlike the data."""
    kinds: list[tuple[str, Callable[[], Sequence[CellState]]]] = [
        ("held-out data", lambda: _some(data)),
        ("samples", lambda: _some(samples)),
        (f"cells {LARGER} times as wide", lambda: [_wider(state) for state in _some(data) if _fits(state)]),
        ("cells as single sites", lambda: mixed_starts(data, LOOKED_AT, np.random.default_rng(0))),
    ]
    return [_doubt(artifact, title, states) for title, make in kinds if (states := make())]


def _some(snapshots: Snapshots) -> list[CellState]:
    count = min(LOOKED_AT, len(snapshots))
    return [snapshots[int(number)] for number in np.linspace(0, len(snapshots) - 1, count).round()]


def _fits(state: CellState) -> bool:
    return state.lattice.sites * LARGER**state.lattice.dimension <= MOST_SITES


def _wider(state: CellState) -> CellState:
    """Every site as a block of sites on a lattice that is larger by as much."""
    ids = state.ids
    for axis in range(ids.ndim):
        ids = ids.repeat(LARGER, axis)
    old = state.lattice
    return replace(state, ids=ids, lattice=Lattice(old.geometry, ids.shape, old.boundary, old.layout))


def _doubt(artifact: Artifact, title: str, states: Sequence[CellState]) -> Doubt:
    meta = artifact.metadata
    committee = meta.neural is not None and meta.neural.members > 1 and artifact.engine_serves
    backend = open_backend(artifact, states[0])
    differ, charged, inside = list[float](), list[float](), list[bool]()
    for number, state in enumerate(states):
        backend.reset(state)
        within = backend.inside_range()
        inside += within[state.cells].tolist()
        flips = boundary_flips(state, FLIPS, seed=number)
        if committee:
            differ += [backend.delta_spread(site, new_id) for site, new_id in flips]
        if flips:
            charged += np.abs(backend.deltas(*zip(*flips, strict=True))[:, 1]).tolist()
    low, high = np.quantile(differ, [0.5, 0.95]) / meta.temperature if differ else (0.0, 0.0)
    return Doubt(
        title,
        (float(low), float(high)) if committee else None,
        float(np.median(charged or [0.0])) / meta.temperature,
        float(np.mean(inside)) if artifact.ranges else None,
    )


def doubt_chart(found: Sequence[Doubt]) -> str:
    """One row per kind of states: the disagreement about a copy, and the share of cells that are like the data's."""
    farthest = max((doubt.disagreement[1] for doubt in found if doubt.disagreement), default=0.0)
    if not farthest:
        rows = [[doubt.title, _share(doubt.inside)] for doubt in found if doubt.inside is not None]
        return html.table(["", "cells inside the training range"], rows)
    return f'<div class="forest">{"".join(_row(doubt, farthest) for doubt in found)}</div>'


def _row(doubt: Doubt, farthest: float) -> str:
    assert doubt.disagreement is not None
    median, most = doubt.disagreement
    told = f"± {median:.2g} T, most below {most:.2g} T; the network charges {doubt.charge:.2g} T"
    if doubt.inside is not None:
        told += f"; {_share(doubt.inside)} of cells inside"
    scale, colour = 96 / farthest, colour_of(0)
    marks = (
        f'<i class="bar" style="left:0;width:{scale * most:.1f}%;top:50%;background:{colour}"></i>'
        f'<i class="dot" style="left:{scale * median:.1f}%;top:50%;border-color:{colour};background:{colour}"></i>'
    )
    return (
        f'<div class="measure plain"><span class="name">{html.escape(doubt.title)}</span><span class="values">'
        f'{html.escape(told)}</span><div class="lanes" style="height:16px">{marks}</div></div>'
    )


def _share(value: float | None) -> html.Figure:
    return html.Figure("–" if value is None else f"{100 * value:.0f}\N{NO-BREAK SPACE}%")


def doubt_sentences(found: Sequence[Doubt]) -> Iterator[str]:
    """What follows from them; the first are held-out data, the second samples."""
    data, samples, *unlike = found
    if data.disagreement is not None and samples.disagreement is not None and data.charge > 0:
        yield (
            f"The members of the committee differ by {data.disagreement[0]:.2g} T about a copy on states they never "
            f"saw, of {data.charge:.2g} T that the network charges; on samples by {samples.disagreement[0]:.2g} T."
        )
        if samples.disagreement[0] > LESS_SURE * data.disagreement[0]:
            yield "Samples lie where the members agree less than on data: look at them before you rely on them."
        told = [
            f"{doubt.title} ({doubt.disagreement[0]:.2g} T)"
            for doubt in unlike
            if doubt.disagreement is not None and doubt.disagreement[0] > LESS_SURE * data.disagreement[0]
        ]
        if told:
            yield f"They agree less about tissues unlike the data: {', '.join(told)}. The model is a guess there."
    if data.inside is not None and samples.inside is not None:
        yield (
            f"{100 * data.inside:.0f} % of held-out cells and {100 * samples.inside:.0f} % of the samples' lie inside "
            "the range of the training data in volume, elongation, radius and surface, type by type."
        )
        if samples.inside < data.inside - OUTSIDE:
            yield "Samples hold cells that the data never showed: energies of those are extrapolated."
