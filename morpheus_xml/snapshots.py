"""Results of a run as a data set: what a TiffPlotter of cell.id and cell.type wrote."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.errors import reading
from neuralcpm_bridge.importers.frames import Frame
from neuralcpm_bridge.importers.morpheus import read_tiff
from neuralcpm_bridge.lattice import GEOMETRIES
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import NO_CELL, CellState

from .document import Element
from .model import PROPERTIES_LOG
from .reader import ModelFile

PropertyTable = dict[str, dict[int, float]]
"""By name and by Morpheus' cell id."""
PLOTS = ("cell.id*.tif", "cell.type*.tif")
"""Images a run may leave that hold cell ids."""
CHANNELS = {"cell.id", "cell.type"}
PLAIN = {"symbol-ref", "exclude-medium"}
"""Attributes of a channel that leave every cell's number as it is."""


def read_snapshots(folder: Path, model: ModelFile) -> Snapshots | None:
    """The snapshots of a run, with cells numbered as the model's state was; None if it wrote none."""
    plotter = next((found for found in model.root.all("Analysis/TiffPlotter") if _shows_cells(found)), None)
    if plotter is None or model.lattice_class not in GEOMETRIES:
        return None
    frames = [frame for path in _images(folder, plotter) for frame in read_tiff(path)]
    if not frames:
        return None
    names = tuple(entry.name for entry in model.cell_types)
    extra_media = max(sum(entry.is_medium for entry in model.types) - 1, 0)
    tables = _logged_properties(folder, len(frames))
    states = [_state(frame, names, extra_media, table) for frame, table in zip(frames, tables, strict=True)]
    moments = _moments(plotter, model, len(states))
    arrays = {} if moments is None else {"mcs": moments}
    return Snapshots.from_states(
        states,
        type_names=(model.medium, *names),
        provenance={"program": "Morpheus", "model": model.title, "file": model.path.name},
        arrays=arrays,
    )


def _shows_cells(plotter: Element) -> bool:
    """Whether its images hold the id and the type of every cell, and nothing else."""
    channels = list(plotter.all("Channel"))
    symbols = [channel.attributes.get("symbol-ref") for channel in channels]
    plain = all(channel.attributes.keys() <= PLAIN for channel in channels)
    return plain and set(symbols) == CHANNELS and len(symbols) == 2 and plotter.find("CropToCell") is None


def _images(folder: Path, plotter: Element) -> list[Path]:
    """One with all times, or one for each, as the plotter names them by its channels."""
    stem = "_".join(channel.attributes["symbol-ref"] for channel in plotter.all("Channel"))
    return sorted(path for pattern in (f"{stem}.tif", f"{stem}_*.tif") for path in folder.glob(pattern))


def _logged_properties(folder: Path, pages: int) -> list[PropertyTable]:
    """Named properties by Morpheus' cell ids, page by page, from the table that a generated model logs with its images;
    none where there is no such table, or one of other times."""
    nothing: list[PropertyTable] = [{} for _ in range(pages)]
    path = folder / f"{PROPERTIES_LOG}.csv"
    if not path.is_file():
        return nothing
    by_time: dict[float, PropertyTable] = {}
    with reading(path, "a table as Morpheus logs it"), path.open(newline="", encoding="utf-8") as stream:
        rows = csv.reader(stream)
        names = next(rows)[2:]  # behind time and cell.id
        for row in filter(None, rows):  # an empty line where a time is over
            table = by_time.setdefault(float(row[0]), {name: {} for name in names})
            for name, value in zip(names, row[2:], strict=True):
                table[name][int(row[1])] = float(value)
    ordered = [by_time[time] for time in sorted(by_time)]
    return ordered if len(ordered) == pages else nothing


def _state(frame: Frame, names: tuple[str, ...], extra_media: int, table: PropertyTable) -> CellState:
    """Ids as in the file, less the media that Morpheus numbers before the cells."""
    labels = np.where(frame.labels > 0, frame.labels - extra_media, 0)
    types = np.full(int(labels.max(initial=0)) + 1, NO_CELL, dtype=np.int32)
    types[0] = 0
    for label, name in (frame.cell_types or {}).items():
        types[label - extra_media] = names.index(name) + 1
    columns = {name: np.zeros(types.size) for name in table}
    for name, values in table.items():
        for cell, value in values.items():
            if cell - extra_media < types.size:  # a cell without sites may have the largest id
                columns[name][cell - extra_media] = value
    return CellState(labels.astype(np.int32), types, frame.lattice(), columns)


def _moments(plotter: Element, model: ModelFile, count: int) -> NDArray[np.float64] | None:
    """When images were made, in Monte Carlo steps: from the start, which a restart puts off, and the last one at the
    end."""

    def number(path: str, default: float) -> float | None:
        element = model.root.find(path)
        return model.number(element.attributes.get("value")) if element else default

    per_step, start = number("CPM/MonteCarloSampler/MCSDuration", 1.0), number("Time/StartTime", 0.0)
    interval, stop = model.number(plotter.attributes.get("time-step")), number("Time/StopTime", np.inf)
    if interval is None or start is None or stop is None or not per_step:
        return None
    return np.minimum(start + interval * np.arange(count), stop) / per_step
