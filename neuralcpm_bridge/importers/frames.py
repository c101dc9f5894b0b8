"""What every reader hands on: one lattice of labels, and what its file says about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..lattice import Boundary, GeometryName, Lattice, Layout
from ..state import distinct_labels

MAX_SITES = 100_000_000
"""Larger lattices are refused before memory is asked for them: a broken header must not take the machine down."""

SITES_UNASKED = 4_000_000
MOST_MEDIUM = 1000
"""A lattice that a file merely claims may have so many sites whatever is on it, or so many times the sites of cells."""

LARGEST_LABEL = 2**31 - 2

ONE_TYPE = "cell"
"""Name of the type of all cells where nothing tells types apart."""

Stack = Literal["volume", "frames"]
"""What many planes in one file are: the depth of one 3D lattice, or one snapshot each."""

ASK_STACK = "pass --stack volume for one 3D lattice, or --stack frames for one snapshot each"


@dataclass(frozen=True)
class Voxel:
    """The size of a site along each axis, (plane,) row, column, and its unit ("" where the file names none)."""

    sizes: tuple[float, ...]
    unit: str = ""

    @property
    def even(self) -> bool:
        """Whether all sides are equal, to one per cent: scanners are no more exact."""
        return max(self.sizes) <= 1.01 * min(self.sizes)

    def __str__(self) -> str:
        return " × ".join(f"{size:.4g}" for size in self.sizes) + f" {self.unit}".rstrip()


class Interval(NamedTuple):
    """Time between frames, and its unit ("" where nobody names one)."""

    size: float
    unit: str = ""


class Moment(NamedTuple):
    """Where a frame belongs in time: its movie, under a name that its other frames share, and when it was taken."""

    movie: str
    time: float
    unit: str


@dataclass
class Frame:
    """One snapshot as its file holds it.

    `labels[H, W]` or `[D, H, W]` (0 = medium); `cell_types` maps each label to the name of its type (None: the file
    does not say); `type_order` is the order of the names in the file; `boundary` and `voxel` are None where the file
    does not say, `geometry` where its lattice has sites as an image has pixels; `simulated` says that the lattice comes
    from a cellular Potts model, where loose sites are no defect; `properties` maps names of further numbers of cells to
    those of each label; `moment` is None where the file does not belong to a movie; `told` ends a sentence on how the
    file was understood, where that is worth one.
    """

    file: Path
    page: int | None
    labels: NDArray[np.integer]
    cell_types: dict[int, str] | None = None
    type_order: tuple[str, ...] = ()
    boundary: tuple[Boundary, ...] | None = None
    simulated: bool = False
    geometry: GeometryName | None = None
    layout: Layout = "axes"
    voxel: Voxel | None = None
    properties: dict[str, dict[int, float]] = field(default_factory=dict)
    moment: Moment | None = None
    told: str = ""

    @property
    def name(self) -> str:
        return self.file.name if self.page is None else f"{self.file.name} [{self.page}]"

    def lattice(self, boundary: str | None = None) -> Lattice:
        """With the boundary that was asked for, else the file's, else free: an image ends at its border."""
        return Lattice.of(self.labels.shape, self.geometry, boundary or self.boundary or "free", self.layout)


@dataclass(frozen=True)
class Problem:
    """Why one snapshot cannot be used."""

    name: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}"


def check_sites(shape: Sequence[int]) -> None:
    if min(shape) <= 0 or int(np.prod(shape, dtype=object)) > MAX_SITES:
        raise UserError(
            f"The lattice is said to have {extent_text(shape)}, but 1 to {MAX_SITES:,} sites are possible: check the "
            "file."
        )


def check_listed_sites(shape: Sequence[int], listed: int) -> None:
    """Where a file lists the sites of cells and says how large the lattice around them is: both in proportion."""
    check_sites(shape)
    sites = int(np.prod(shape, dtype=object))
    if sites > max(SITES_UNASKED, MOST_MEDIUM * listed):
        raise UserError(
            f"The lattice is said to have {extent_text(shape)}, but its cells take {listed:,} of these {sites:,} "
            "sites: check its size."
        )


def label_number(text: str) -> int:
    """A cell's number in a text file; ValueError where it is none, or beyond what an array of labels holds."""
    number = int(text)
    if not 0 <= number <= LARGEST_LABEL:
        raise ValueError
    return number


def extent_text(shape: Sequence[int]) -> str:
    """`20 rows and 24 columns`, in 3D with planes before them."""
    *planes, rows, columns = shape
    return "".join(f"{number} planes, " for number in planes) + f"{rows} rows and {columns} columns"


def whole_numbers(values: NDArray[Any]) -> NDArray[np.integer]:
    """Labels as integers; 32-bit float images, as Fiji likes them, pass if they hold whole numbers only."""
    if values.dtype == bool:
        return values.astype(np.uint8)
    if np.issubdtype(values.dtype, np.integer):
        labels = values
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


def types_on_sites(labels: NDArray[np.integer], types: NDArray[np.integer], what: str) -> dict[int, int]:
    """Type of every label (the medium left out) from a map of types; each label must have one."""
    if labels.shape != types.shape:
        raise UserError(
            f"The labels have shape {labels.shape} but {what} has {types.shape}: both must cover the same lattice."
        )
    flat, of_site = labels.ravel(), types.ravel()
    begins = np.ones(flat.size, dtype=bool)  # of runs of one label and type: few are left to sort
    begins[1:] = (flat[1:] != flat[:-1]) | (of_site[1:] != of_site[:-1])
    pairs = np.unique(np.stack([flat[begins].astype(np.int64), of_site[begins].astype(np.int64)]), axis=1)
    found: dict[int, int] = {}
    for label, number in pairs.T.tolist():
        if label == 0:
            continue
        if label in found:
            raise UserError(
                f"Cell {label} has the types {found[label]} and {number} in {what}, but a cell has one type: correct "
                "the map of types."
            )
        found[label] = number
    return found


def check_types(frame: Frame) -> None:
    """Refuse cells of the medium's type, and of types that a file uses but does not declare."""
    for label, name in (frame.cell_types or {}).items():
        if name not in frame.type_order:
            raise UserError(
                f"Cell {label} has the type {name}, but its types are {', '.join(frame.type_order) or 'none'}: correct "
                "its type, or declare it."
            )


def labels_of(frame: Frame) -> list[int]:
    """Labels of a frame's cells, ascending."""
    return [int(label) for label in distinct_labels(frame.labels)]
