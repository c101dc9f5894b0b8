"""Named properties of a project's first cells: a table beside its initial lattice, cell by cell."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from neuralcpm_bridge.errors import reading
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.state import CellState

PROPERTIES = "Simulation/properties.csv"
"""Where a project that was written has them."""


def write_properties(path: Path, state: CellState) -> None:
    """`id` and a column for each property of a state; ids are those of the PIF, which CC3D keeps."""
    with writing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["id", *state.properties])
        for cell in state.cells:
            table.writerow([cell, *(repr(float(values[cell])) for values in state.properties.values())])


def read_properties(path: Path) -> Mapping[int, dict[str, float]]:
    """By id and name."""
    with (
        reading(path, "a table of properties", "it needs a column id and a column of numbers for each"),
        path.open(newline="", encoding="utf-8") as stream,
    ):
        rows = list(csv.DictReader(stream))
        return {int(row.pop("id")): {name: float(value) for name, value in row.items()} for row in rows}
