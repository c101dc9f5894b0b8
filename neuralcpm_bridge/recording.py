"""What a simulation leaves behind: a data set, energies and measures over time, pictures."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .delta import Energy
from .files import Growing, writing
from .metrics import cluster_counts, fragmented_cells, heterotypic_fraction, mean_aspect_ratios
from .snapshots import Snapshots
from .state import CellState

if TYPE_CHECKING:
    from PIL import Image

    from .embedded import Chains
    from .pictures import Line

SNAPSHOTS_FILE = "snapshots.npz"
MEASURES_FILE = "measures.csv"
CHART_FILE = "measures.png"
STRIP_FILE = "strip.png"
ANIMATION_FILE = "animation.gif"
STRIP_STATES = 6
CHART_SIZE = (560, 320)
SPREAD = (10, 90)
"""Percentiles of an ensemble that the chart shows beside its mean."""


@dataclass
class Recording:
    """States of all replicates at the snapshots' times, energies beside them, and frames of the first replicate."""

    type_names: tuple[str, ...]
    times: list[int] = field(default_factory=list)
    states: list[list[CellState]] = field(default_factory=list)
    energies: list[list[Energy]] = field(default_factory=list)
    frames: list[Image.Image] = field(default_factory=list)
    """Drawn at once: sixty states of a large 3D lattice would fill the memory."""
    kept: Growing | None = None
    """What saves the states as they come."""

    def add(self, mcs: int, states: list[CellState], energies: list[Energy]) -> None:
        self.times.append(mcs)
        self.states.append(states)
        self.energies.append(energies)
        if self.kept is not None:
            self.kept.grown()

    def keep(self, folder: Path, provenance: dict[str, Any], say: Callable[[str], None]) -> None:
        """From now on the data set is on disk while it grows, for runs that are killed."""
        unfinished = provenance | {"interrupted": True}
        self.kept = Growing(lambda: self.snapshots(unfinished).save(folder / SNAPSHOTS_FILE), say)

    def follow(self, chains: Chains, mcs: int, snapshots: int, frames: int) -> Iterator[int]:
        """Run chains to `mcs`, recording them on the way; yields the steps done, often enough to show progress."""
        from .embedded import evenly_spaced, run
        from .pictures import frame

        kept, shown = set(evenly_spaced(mcs, snapshots)), set(evenly_spaced(mcs, frames) if frames else [])
        for done, states in run(chains, mcs, snapshots, frames):
            if states is not None and done in kept:
                self.add(done, states, chains.energies())
            if states is not None and done in shown:
                self.frames.append(frame(states[0], f"{done:,} MCS", self.type_names))
            yield done

    @property
    def replicates(self) -> int:
        return len(self.states[0])

    def snapshots(self, provenance: dict[str, Any]) -> Snapshots:
        """One data set, time by time and replicate by replicate."""
        return Snapshots.from_states(
            [state for states in self.states for state in states],
            type_names=self.type_names,
            provenance=provenance,
            arrays={
                "mcs": np.repeat(np.array(self.times, dtype=np.int64), self.replicates),
                "chain": np.tile(np.arange(self.replicates, dtype=np.int64), len(self.times)),
            },
        )

    def measures(self) -> dict[str, NDArray[np.float64]]:
        """Every column of `measures.csv`, `[times, replicates]`; NaN where a measure is not defined."""
        rows = [
            [measured(state, energy, self.type_names) for state, energy in zip(states, energies, strict=True)]
            for states, energies in zip(self.states, self.energies, strict=True)
        ]
        return {key: np.array([[one[key] for one in row] for row in rows]) for key in rows[0][0]}

    def _cell_types(self) -> list[tuple[int, str]]:
        return list(enumerate(self.type_names))[1:]

    # -- files -------------------------------------------------------------------------------------------------

    def save(self, folder: Path, provenance: dict[str, Any]) -> list[Path]:
        """Write everything; the files, the data set first: where a picture fails, the run is not lost."""
        from .pictures import save_animation, save_png, strip

        written = [folder / SNAPSHOTS_FILE, folder / MEASURES_FILE, folder / CHART_FILE, folder / STRIP_FILE]
        self.snapshots(provenance).save(written[0])
        measures = self.measures()
        self._save_table(measures, written[1])
        save_png(measures_chart(self.times, measures, self._cell_types()), written[2])
        chosen = sorted({round(k) for k in np.linspace(0, len(self.times) - 1, STRIP_STATES)})
        captions = [f"{self.times[k]:,} MCS" for k in chosen]
        first = [self.states[k][0] for k in chosen]
        save_png(strip(first, captions, type_names=self.type_names), written[3])
        if self.frames:
            save_animation(self.frames, folder / ANIMATION_FILE)
            written.append(folder / ANIMATION_FILE)
        return written

    def _save_table(self, measures: dict[str, NDArray[np.float64]], path: Path) -> None:
        with writing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
            table = csv.writer(stream)
            table.writerow(["mcs", "chain", *measures])
            for row, mcs in enumerate(self.times):
                for chain in range(self.replicates):
                    values = (column[row, chain] for column in measures.values())
                    table.writerow([mcs, chain, *("" if np.isnan(value) else f"{value:.9g}" for value in values)])


def measured(state: CellState, energy: Energy, type_names: Sequence[str]) -> dict[str, float]:
    """The columns of `measures.csv` for one state; NaN where a measure is not defined."""
    types, cell_types = len(type_names), list(enumerate(type_names))[1:]
    volumes = state.volumes[state.cells]
    aspect, clusters = mean_aspect_ratios(state, types), cluster_counts(state, types)
    return {
        "energy": energy.total,
        "symbolic": energy.symbolic,
        "neural": energy.neural,
        "cells": float(volumes.size),
        "volume_mean": float(volumes.mean()) if volumes.size else float("nan"),
        "fragmented_cells": float(fragmented_cells(state)),
        "heterotypic_fraction": heterotypic_fraction(state),
        **{f"aspect_ratio_{name}": float(aspect[number]) for number, name in cell_types},
        **{f"clusters_{name}": float(clusters[number]) for number, name in cell_types},
    }


def measures_chart(
    times: Sequence[int], measures: dict[str, NDArray[np.float64]], cell_types: Sequence[tuple[int, str]]
) -> Image.Image:
    """Four charts in one picture: energy and its parts, mixing of types, shapes, volume.

    Of an ensemble: the mean, and dashed the 10th and 90th percentile.
    """
    from PIL import Image

    from .pictures import line_chart
    from .pictures.drawing import PAPER

    parts = ["energy"] if np.all(measures["neural"] == 0) else ["energy", "symbolic", "neural"]
    panels = [
        ("Energy", {key: measures[key] for key in parts}),
        ("Interface between types, share", {"heterotypic": measures["heterotypic_fraction"]}),
        ("Aspect ratio of cells", {name: measures[f"aspect_ratio_{name}"] for _, name in cell_types}),
        ("Mean volume of cells", {"volume": measures["volume_mean"]}),
    ]
    drawn = []
    for title, columns in panels:
        lines = [line for name, column in columns.items() for line in _ensemble_lines(name, times, column)]
        if any(np.isfinite(column).any() for column in columns.values()):
            drawn.append(line_chart(lines, title, "MCS", size=CHART_SIZE))
    width, height = CHART_SIZE
    sheet = Image.new("RGB", (2 * width, -(-len(drawn) // 2) * height), PAPER)
    for number, chart in enumerate(drawn):
        sheet.paste(chart, (number % 2 * width, number // 2 * height))
    return sheet


def _ensemble_lines(name: str, times: Sequence[int], column: NDArray[np.float64]) -> list[Line]:
    from .pictures import Line

    known = np.isfinite(column).any(axis=1)
    mcs, rows = np.array(times)[known], column[known]
    lines = [Line(name, mcs, np.nanmean(rows, axis=1))]
    if column.shape[1] > 1:
        lines += [Line(name, mcs, np.nanpercentile(rows, share, axis=1), dashed=True) for share in SPREAD]
    return lines
