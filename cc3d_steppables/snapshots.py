"""A run's lattices as CC3D's users keep them: one data set, or PIFs where a lattice is none that data sets hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.lattices import HostLattice, as_snapshots
from neuralcpm_bridge.hosting.tables import PREFIX, say
from neuralcpm_bridge.lattice import Lattice

from .pif import write_pif


def pif_writers(found: HostLattice, type_names: Mapping[int, str]) -> dict[str, Callable[[Path], None]]:
    """How CC3D itself stores a lattice: the ending of the file and what writes it."""
    names = {cell: type_names.get(cell_type, f"type{cell_type}") for cell, cell_type in found.types.items()}
    return {".piff": lambda path: write_pif(path, found.ids, names)}


def save_snapshots(
    lattices: Sequence[HostLattice],
    type_names: Mapping[int, str],
    lattice: Lattice,
    provenance: Mapping[str, Any],
    file: Path,
) -> None:
    """Write a data set. Where skewed axes cannot hold one of the hexagonal lattices, all become PIFs in a folder of its
    name: a data set of the others would be taken for the whole."""
    try:
        data = as_snapshots(lattices, type_names, lattice, provenance)
    except UserError as error:
        if lattice.layout != "rows":
            raise
        folder = pif_folder(file)
        if not folder.exists():
            say(f"{PREFIX}: the lattices are saved as PIFs in {folder}, not as a data set: {error}")
        file.unlink(missing_ok=True)
        for found in lattices:
            for ending, write in pif_writers(found, type_names).items():
                write(folder / f"mcs{found.mcs:08d}{ending}")
        return
    data.save(file)


def pif_folder(file: Path) -> Path:
    """Where lattices go that the data set `file` cannot hold."""
    return file.with_suffix("")
