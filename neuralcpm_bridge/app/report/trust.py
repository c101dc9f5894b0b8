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
    (quadratic mean and 95th percentile over copies; None without a committee), what the network charges for one
    (quadratic mean), and the share of cells inside the training data's range (None where the model knows none)."""

    title: str
    disagreement: tuple[float, float] | None
    charge: float
    inside: float | None

    @property
    def inside_or_all(self) -> float:
        return 1.0 if self.inside is None else self.inside


def doubts(artifact: Artifact, data: Snapshots, samples: Snapshots, called: str = "held-out data") -> list[Doubt]:
    """Of data (`called`: what they are), best such that the training never saw, of samples, and of two kinds of states
    that are unlike the data."""
    kinds: list[tuple[str, Callable[[], Sequence[CellState]]]] = [
        (called, lambda: _some(data)),
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
            differ += [backend.delta_spread(site, new_id) / meta.temperature for site, new_id in flips]
        if flips:
            charged += (backend.deltas(*zip(*flips, strict=True))[:, 1] / meta.temperature).tolist()
    return Doubt(
        title,
        (_quadratic(differ), float(np.quantile(differ, 0.95))) if differ else None,
        _quadratic(charged),
        float(np.mean(inside)) if artifact.ranges else None,
    )


def _quadratic(values: Sequence[float]) -> float:
    """Root of the mean square; 0 of nothing."""
    return float(np.sqrt(np.mean(np.square(values)))) if values else 0.0


def doubt_chart(found: Sequence[Doubt]) -> str:
    """One row per kind of states: the disagreement about a copy, and the share of cells that are like the data's."""
    differing = [(doubt, doubt.disagreement) for doubt in found if doubt.disagreement is not None]
    farthest = max((max(disagreement) for _, disagreement in differing), default=0.0)
    if not farthest:
        rows = [[doubt.title, _share(doubt.inside)] for doubt in found if doubt.inside is not None]
        return html.table(["", "cells inside the training range"], rows)
    drawn = (_row(doubt, *disagreement, farthest) for doubt, disagreement in differing)
    return f'<div class="forest">{"".join(drawn)}</div>'


def _row(doubt: Doubt, typical: float, most: float, farthest: float) -> str:
    told = f"members differ by {_energy(typical)}, 95 % of copies below {html.rough(max(most, 0.01))} T"
    if doubt.inside is not None:
        told += f"; {_share(doubt.inside)} of cells inside"
    scale, colour = 96 / farthest, colour_of(0)
    marks = (
        f'<i class="bar" style="left:0;width:{scale * most:.1f}%;top:50%;background:{colour}"></i>'
        f'<i class="dot" style="left:{scale * typical:.1f}%;top:50%;border-color:{colour};background:{colour}"></i>'
    )
    return (
        f'<div class="measure plain"><span class="name">{html.escape(doubt.title)}</span><span class="values">'
        f'{html.escape(told)}</span><div class="lanes" style="height:16px">{marks}</div></div>'
    )


def _energy(value: float) -> str:
    """In units of the temperature; what is far below changes nothing."""
    return f"{html.rough(value)} T" if value >= 0.01 else "less than 0.01 T"


def _share(value: float | None) -> html.Figure:
    return html.Figure("–" if value is None else f"{100 * value:.0f}\N{NO-BREAK SPACE}%")


def doubt_sentences(found: Sequence[Doubt]) -> Iterator[str]:
    """What follows from them; the first are of data, the second of samples."""
    data, samples, *unlike = found
    if data.disagreement is not None and samples.disagreement is not None and data.charge > 0:
        yield (
            f"About one copy on {data.title} the committee's members differ by {_energy(data.disagreement[0])}; the "
            f"network charges {_energy(data.charge)} for one (quadratic means). On samples they differ by "
            f"{_energy(samples.disagreement[0])}."
        )
        if samples.disagreement[0] > LESS_SURE * data.disagreement[0]:
            yield "Samples lie where the members agree less than on data: look at them before you rely on them."
    if data.inside is not None and samples.inside is not None:
        yield (
            f"{100 * data.inside:.0f} % of the cells of {data.title} and {100 * samples.inside:.0f} % of the samples' "
            "lie inside the range of the training data in volume, elongation, radius and surface, type by type."
        )
        if samples.inside < data.inside - OUTSIDE:
            yield "Samples hold cells that the data never showed: energies of those are extrapolated."
    for doubt in unlike:
        yield _beyond(doubt, data)


def _beyond(doubt: Doubt, data: Doubt) -> str:
    """About states that are unlike the data."""
    said = f"For comparison, {doubt.title}: "
    if doubt.inside is not None:
        said += f"{_share(doubt.inside)} inside that range, "
    said += f"{_energy(doubt.charge)} charged for a copy"
    if doubt.disagreement is None or data.disagreement is None:
        return f"{said}."
    said += f", about which the members differ by {_energy(doubt.disagreement[0])}"
    if doubt.disagreement[0] > LESS_SURE * data.disagreement[0]:
        return f"{said}: there the model is a guess, and the members show it."
    if doubt.inside is not None and doubt.inside < data.inside_or_all - OUTSIDE:
        return f"{said}: the network goes flat so far out, and only the range shows that it knows nothing there."
    return f"{said}: it is not unsure there."
