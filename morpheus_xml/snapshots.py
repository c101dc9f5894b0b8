"""Results of a run as a data set: what a TiffPlotter of cell.id and cell.type wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.importers.frames import Frame
from neuralcpm_bridge.importers.morpheus import read_tiff
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import NO_CELL, CellState

from .reader import ModelFile

PLOTS = ("cell.id*.tif",)
"""Images a run may leave that hold cell ids."""


def read_snapshots(folder: Path, model: ModelFile) -> Snapshots | None:
    """The snapshots of a run, with cells numbered as the model's state was; None if it wrote none."""
    plots = sorted(path for pattern in PLOTS for path in folder.glob(pattern))
    frames = [frame for path in plots[:1] for frame in read_tiff(path)]
    if not frames:
        return None
    names = tuple(entry.name for entry in model.cell_types)
    extra_media = max(sum(entry.is_medium for entry in model.types) - 1, 0)
    states = [_state(frame, names, extra_media, model.lattice) for frame in frames]
    step = _plot_interval(model)
    arrays: dict[str, NDArray[np.float64]] = {}
    if step is not None:
        arrays["mcs"] = step * np.arange(len(states), dtype=np.float64)
    return Snapshots.from_states(
        states,
        type_names=(model.medium, *names),
        provenance={"program": "Morpheus", "model": model.title, "file": model.path.name},
        arrays=arrays,
    )


def _state(frame: Frame, names: tuple[str, ...], extra_media: int, lattice: Lattice) -> CellState:
    """Ids as in the file, less the media that Morpheus numbers before the cells."""
    labels = np.where(frame.labels > 0, frame.labels - extra_media, 0)
    types = np.full(int(labels.max(initial=0)) + 1, NO_CELL, dtype=np.int32)
    types[0] = 0
    for label, name in (frame.kinds or {}).items():
        types[label - extra_media] = names.index(name) + 1
    return CellState(labels.astype(np.int32), types, lattice)


def _plot_interval(model: ModelFile) -> float | None:
    """Time between two images, in Monte Carlo steps."""
    duration = model.root.find("CPM/MonteCarloSampler/MCSDuration")
    per_step = model.number(duration.attributes.get("value")) if duration else 1.0
    for plotter in model.root.all("Analysis/TiffPlotter"):
        interval = model.number(plotter.attributes.get("time-step"))
        if interval is not None and per_step:
            return interval / per_step
    return None
