"""A host's lattice outside the host: as a data set and as a PIF, for rescue and for snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import NO_CELL, CellState

from .pif import write_pif


class HostLattice(NamedTuple):
    """Host ids `[H, W]` (row = y, col = x), the type number of every cell, and when."""

    ids: NDArray[np.int64]
    types: dict[int, int]
    mcs: int


def as_snapshots(
    lattices: Sequence[HostLattice], type_names: Mapping[int, str], boundary: str, provenance: Mapping[str, Any]
) -> Snapshots:
    """One data set; a cell keeps one number through all of it.

    Host ids may be far apart, so cells are numbered 1, 2, … in the order of their host ids, which `provenance` lists.
    """
    present = sorted({int(cell) for lattice in lattices for cell in np.unique(lattice.ids)} - {0})
    number_of = {0: 0} | {cell: number for number, cell in enumerate(present, 1)}
    names = [type_names.get(number, f"type{number}") for number in range(max(type_names, default=0) + 1)]
    states = []
    for lattice in lattices:
        found, inverse = np.unique(lattice.ids, return_inverse=True)
        types = np.full(len(present) + 1, NO_CELL, dtype=np.int32)
        types[0] = 0
        for cell in found[found > 0]:
            types[number_of[int(cell)]] = lattice.types[int(cell)]
        ids = np.array([number_of[int(cell)] for cell in found])[inverse].reshape(lattice.ids.shape)
        states.append(CellState(ids, types))
    return Snapshots.from_states(
        states,
        type_names=tuple(names),
        boundary=boundary,
        provenance=dict(provenance) | {"host_ids": present},
        arrays={"mcs": np.array([lattice.mcs for lattice in lattices], dtype=np.int64)},
    )


def rescue(lattice: HostLattice, type_names: Mapping[int, str], boundary: str, folder: Path, reason: str) -> list[Path]:
    """Save a lattice before an error ends the run: a data set and a PIF. The files that could be written."""
    stem = f"neuralcpm_rescued_mcs{max(lattice.mcs, 0)}"
    saved = []
    data = as_snapshots([lattice], type_names, boundary, {"host": "CompuCell3D", "rescued_because": reason})
    names = {cell: type_names.get(kind, f"type{kind}") for cell, kind in lattice.types.items()}
    writers = {
        f"{stem}.npz": data.save,
        f"{stem}.piff": lambda path: write_pif(path, lattice.ids, names),
    }
    for name, write in writers.items():
        try:
            write(folder / name)
            saved.append(folder / name)
        except UserError:
            continue  # a full disk must not hide the error that is about to be raised
    return saved
