"""A host's lattice outside the host: as a data set, and saved before an error ends a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..lattice import Lattice, to_skewed
from ..snapshots import Snapshots
from ..state import NO_CELL, CellState
from .facts import HostCell


class HostLattice(NamedTuple):
    """Host ids `[H, W]` or `[D, H, W]` (plane = z, row = y, col = x), the type number of every cell, and when; of named
    properties those that were asked for, by name and cell."""

    ids: NDArray[np.int64]
    types: dict[int, int]
    mcs: int
    properties: Mapping[str, Mapping[int, float]] = MappingProxyType({})

    @classmethod
    def of(
        cls, ids: NDArray[np.int64], cells: Iterable[HostCell], mcs: int, properties: Iterable[str] = ()
    ) -> HostLattice:
        """Cells that lack a property, as those may that no model sees, are noted with 0."""
        known = list(cells)
        columns = {name: {cell.id: cell.number(name) or 0.0 for cell in known} for name in properties}
        return cls(ids, {cell.id: cell.type for cell in known}, mcs, columns)


def as_snapshots(
    lattices: Sequence[HostLattice], type_names: Mapping[int, str], lattice: Lattice, provenance: Mapping[str, Any]
) -> Snapshots:
    """One data set; a cell keeps one number through all of it. Hexagonal rows leave on skewed axes.

    Host ids may be far apart, so cells are numbered 1, 2, … in the order of their host ids, which `provenance` lists.
    """
    present = np.unique(np.concatenate([np.unique(found.ids) for found in lattices]))
    present = present[present > 0]
    names = [type_names.get(number, f"type{number}") for number in range(max(type_names, default=0) + 1)]
    return Snapshots.from_states(
        [_state(found, present, lattice) for found in lattices],
        type_names=tuple(names),
        provenance=dict(provenance) | {"host_ids": present.tolist()},
        arrays={"mcs": np.array([found.mcs for found in lattices], dtype=np.int64)},
    )


def _state(found: HostLattice, present: NDArray[np.int64], lattice: Lattice) -> CellState:
    """One lattice with its cells numbered by their places in `present`."""
    ids = np.where(found.ids > 0, np.searchsorted(present, found.ids) + 1, 0).astype(np.int32)
    types = np.full(present.size + 1, NO_CELL, dtype=np.int32)
    types[0] = 0
    for number in np.unique(ids[ids > 0]):
        types[number] = found.types[int(present[number - 1])]
    columns = {
        name: np.array([0.0, *(values.get(int(cell), 0.0) for cell in present)])
        for name, values in found.properties.items()
    }
    lattice = replace(lattice, shape=found.ids.shape)
    if lattice.layout == "rows":
        ids, lattice = to_skewed(ids, lattice)
    return CellState(ids, types, lattice, columns)


def rescue(
    found: HostLattice,
    type_names: Mapping[int, str],
    lattice: Lattice,
    folder: Path,
    provenance: Mapping[str, Any],
    writers: Mapping[str, Callable[[Path], None]],
) -> list[Path]:
    """Save a lattice before an error ends the run: a data set, and as the host itself has it.

    `writers`: file endings of the host and what writes them. The files that could be written.
    """
    stem = f"neuralcpm_rescued_mcs{max(found.mcs, 0)}"
    saved = []
    every = {".npz": lambda path: as_snapshots([found], type_names, lattice, provenance).save(path)} | dict(writers)
    for ending, write in every.items():
        path = folder / (stem + ending)
        try:
            write(path)
            saved.append(path)
        except UserError:  # neither a full disk nor a lattice that no data set holds may hide the error to be raised
            continue
    return saved
