"""Lattices of which a model was not sure, as the plugin left them, as a data set for retraining."""

from __future__ import annotations

from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.hosting.uncertainty import LATTICES, Kept
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import NO_CELL, CellState

PLUGINS_FILE = "uncertain{label}.lattices"


class Uncertain(NamedTuple):
    """One of them, with cells numbered from 1; what its interval said: None is -1."""

    mcs: int
    disagreement: float
    outside: float
    state: CellState


def collect_uncertain(folder: Path, lattice: Lattice, artifact: Artifact, label: str = "") -> Path | None:
    """Turn the plugin's file into a data set, with the model's types, and remove it; None where there is none.

    `label`: behind the names of files, of a second learned term `2` and so on.
    """
    source = folder / PLUGINS_FILE.format(label=label)
    if not source.is_file():
        return None
    kept = Kept()
    with source.open("rb") as stream:
        while (found := _read(stream, lattice, artifact.metadata.properties)) is not None:
            if kept.wants():
                kept.add(found)
    source.unlink()
    if not kept.entries:
        return None
    file = (folder / LATTICES).with_stem(Path(LATTICES).stem + label)
    columns = {name: np.array([getattr(entry, name) for entry in kept.entries]) for name in Uncertain._fields[:-1]}
    Snapshots.from_states(
        [entry.state for entry in kept.entries],
        type_names=artifact.metadata.types,
        provenance={"host": "Morpheus", "model": artifact.metadata.name, "why": "uncertain"},
        arrays=columns,
    ).save(file)
    return file


def _read(stream: IO[bytes], lattice: Lattice, properties: tuple[str, ...]) -> Uncertain | None:
    """The next one; None at the end, or where a run was ended by force while it wrote."""
    words = stream.readline(200).split()
    if len(words) != 7 or int(words[5]) != len(properties) or int(words[6]) != lattice.sites:
        return None
    count = int(words[4])
    sizes = (8 * count, 4 * count, 8 * count * len(properties), 8 * lattice.sites)
    cells, types, values, sites = (stream.read(size) for size in sizes)
    if len(sites) < sizes[-1]:
        return None
    host_ids = np.frombuffer(cells, dtype=np.int64)
    model_types = np.frombuffer(types, dtype=np.int32)
    table = np.frombuffer(values, dtype=np.float64).reshape(count, len(properties))
    seen = np.flatnonzero(model_types > 0)  # those that the model sees, numbered one after another
    number_of = np.zeros(int(host_ids.max(initial=0)) + 1, dtype=np.int32)
    number_of[host_ids[seen]] = 1 + np.arange(seen.size)
    ids = number_of[np.frombuffer(sites, dtype=np.int64)].reshape(lattice.shape)
    of_cells = np.concatenate([[0], model_types[seen]]).astype(np.int32)
    volumes = np.bincount(ids.ravel(), minlength=of_cells.size)
    of_cells[1:][volumes[1:] == 0] = NO_CELL
    columns = {name: np.concatenate([[0.0], table[seen, k]]) for k, name in enumerate(properties)}
    return Uncertain(int(words[1]), float(words[2]), float(words[3]), CellState(ids, of_cells, lattice, columns))
