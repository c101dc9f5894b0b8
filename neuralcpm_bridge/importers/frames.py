"""What every reader hands on: one lattice of labels, and what its file says about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError

MAX_SITES = 100_000_000
"""Larger lattices are refused before memory is asked for them: a broken header must not take the machine down."""

MIXED = "mixed"
"""The boundary of a lattice that is periodic along one axis only."""

ONE_TYPE = "cell"
"""Name of the type of all cells where nothing tells types apart."""


@dataclass
class Frame:
    """One snapshot as its file holds it.

    `labels[H, W]` (0 = medium); `kinds` maps each label to the name of its type (None: the file does not say);
    `type_order` is the order of the names in the file; `boundary` None where the file does not say;
    `simulated` says that the lattice comes from a cellular Potts model, where loose sites are no defect.
    """

    file: Path
    page: int | None
    labels: NDArray[np.int64]
    kinds: dict[int, str] | None = None
    type_order: tuple[str, ...] = ()
    boundary: str | None = None
    simulated: bool = False

    @property
    def name(self) -> str:
        return self.file.name if self.page is None else f"{self.file.name} [{self.page}]"


@dataclass(frozen=True)
class Problem:
    """Why one snapshot cannot be used."""

    name: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}"


def check_sites(height: int, width: int) -> None:
    if height <= 0 or width <= 0 or height * width > MAX_SITES:
        raise UserError(
            f"The lattice is said to have {height} rows and {width} columns, but 1 to {MAX_SITES:,} sites are "
            "possible: check the file."
        )


def whole_numbers(values: NDArray[Any]) -> NDArray[np.int64]:
    """Labels as integers; 32-bit float images, as Fiji likes them, pass if they hold whole numbers only."""
    if values.dtype == bool or np.issubdtype(values.dtype, np.integer):
        labels = values.astype(np.int64)
    elif np.issubdtype(values.dtype, np.floating):
        if not np.isfinite(values).all() or (values != np.round(values)).any():
            raise UserError(
                "The image holds fractions, but a label image holds whole numbers (0 for the background, one "
                "number per cell): export the segmentation, not the micrograph."
            )
        labels = values.astype(np.int64)
    else:
        raise UserError(
            f"The image holds values of type {values.dtype}, but labels are whole numbers: export it again."
        )
    if labels.min(initial=0) < 0:
        raise UserError(
            f"The image holds the negative label {labels.min()}, but labels are 0 or larger: renumber the cells."
        )
    return labels


def types_on_sites(labels: NDArray[np.int64], types: NDArray[np.int64], what: str) -> dict[int, int]:
    """Type of every label (the medium left out) from a map of types; each label must have one."""
    if labels.shape != types.shape:
        raise UserError(
            f"The labels have shape {labels.shape} but {what} has {types.shape}: both must cover the same lattice."
        )
    pairs = np.unique(np.stack([labels.ravel(), types.ravel()]), axis=1)
    found: dict[int, int] = {}
    for label, kind in pairs.T.tolist():
        if label == 0:
            continue
        if label in found:
            raise UserError(
                f"Cell {label} has the types {found[label]} and {kind} in {what}, but a cell has one type: correct "
                "the map of types."
            )
        found[label] = kind
    return found
