"""From a frame as read to a state: skewed axes, crop, resample, border cells, checks, new numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..lattice import Lattice, size_text, to_skewed
from ..metrics import fragments
from ..state import NO_CELL, CellState, distinct_labels
from .frames import Frame, Voxel, check_sites, extent_text

MOST_UNEVEN = 100.0
"""Times its shortest side that a voxel may be long: no microscope does more, but broken headers do."""

CROP_MARGIN = 5
"""Sites of medium left around the tissue by `--border crop`."""

BORDERS = ("keep", "drop", "crop")
"""What becomes of cells that touch the border of an image, and so may be cut off by it: they stay, they are taken
out, or they are taken out and the image is cut to the tissue that remains."""


class Window(NamedTuple):
    """A part of an image, (planes,) rows, columns; without a corner, its middle."""

    size: tuple[int, ...]
    corner: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Preparation:
    """What is done to every frame; None means: as it is."""

    crop: Window | None = None
    scale: float = 1
    border: str = "keep"
    boundary: str | None = None
    voxel: tuple[float, ...] | None = None


@dataclass
class Prepared:
    """A frame whose labels are ready on their lattice, and what happened to its cells on the way."""

    frame: Frame
    lattice: Lattice
    cells: int = 0
    """Before the resampling."""
    torn: int = 0
    lost_to_border: int = 0
    lost_to_scale: int = 0
    resampled: str = ""
    """What is to be said where voxels were no cubes, or nobody knows."""
    side: Voxel | None = None
    """The length of one site, where its file says it."""

    def cut(self, window: Window) -> None:
        self.frame.labels = _cut(self.frame.labels, window)
        self.lattice = Lattice.of(self.frame.labels.shape, self.lattice.geometry, self.lattice.boundary)

    def state(self, types: tuple[str, ...], movie: NDArray[np.integer] | None = None) -> CellState:
        """The state, its cells numbered 1, 2, … in the order of their labels, or of all labels of a `movie`; `types`
        are all names, the medium first."""
        numbers = {label: types.index(name) for label, name in (self.frame.cell_types or {}).items()}
        state = CellState.from_labels(self.frame.labels, numbers, self.lattice)
        labels = distinct_labels(self.frame.labels).tolist()
        columns = {
            name: np.array([0.0, *(values[label] for label in labels)])
            for name, values in self.frame.properties.items()
        }
        state = replace(state, properties=columns)
        return state if movie is None else _numbered_by(movie, state, labels)


def parse_window(text: str) -> Window:
    """`ROWSxCOLUMNS` (the middle) or `ROWSxCOLUMNS+TOP+LEFT`; in 3D `PLANESxROWSxCOLUMNS[+FIRST+TOP+LEFT]`."""
    match = re.fullmatch(r"(\d+(?:x\d+){1,2})((?:\+\d+)*)", text.strip())
    size = tuple(int(part) for part in match[1].split("x")) if match else ()
    corner = tuple(int(part) for part in match[2].split("+")[1:]) if match else ()
    if not size or min(size) == 0 or len(corner) not in (0, len(size)):
        raise UserError(
            f"'{text}' is no part of an image: write ROWSxCOLUMNS or ROWSxCOLUMNS+TOP+LEFT, as 200x300+10+20, and put "
            "planes before rows in 3D, as 50x200x300."
        )
    return Window(size, corner or None)


def prepare(frame: Frame, how: Preparation) -> Prepared:
    """Check one frame, then crop and resample it and take its border cells out."""
    if not frame.labels.any():
        raise UserError("There are no cells in it: correct it or leave it out.")
    lattice = frame.lattice(how.boundary)
    if lattice.layout == "rows":
        frame.labels, lattice = to_skewed(frame.labels, lattice)  # type: ignore[arg-type]
    prepared = Prepared(frame, lattice, torn=_torn_cells(frame, lattice))
    labels = frame.labels if how.crop is None else _cut(frame.labels, how.crop)
    if how.border != "keep":
        kept = _without_border_cells(labels)
        prepared.lost_to_border = _cells(labels) - _cells(kept)
        labels = kept
    voxel = _voxel(frame, how.voxel)
    factors = [how.scale * factor for factor in _to_cubes(voxel, labels.ndim)]
    resampled = labels if set(factors) == {1} else _resampled(labels, factors)
    prepared.cells = _cells(labels)
    prepared.lost_to_scale = prepared.cells - _cells(resampled)
    if voxel is not None:
        prepared.side = side = Voxel((min(voxel.sizes) / how.scale,), voxel.unit)
        prepared.resampled = "" if voxel.even else _said(voxel, labels.shape, side, resampled.shape)
    elif labels.ndim == 3 and not frame.simulated:
        prepared.resampled = "No file says how large its voxels are: they were taken for cubes, else pass --voxel-size."
    if not resampled.any():
        raise UserError("No cells are left of it after cropping, resampling and border cells: change these options.")
    frame.labels = resampled
    prepared.lattice = Lattice.of(resampled.shape, lattice.geometry, lattice.boundary)
    return prepared


def cell_sites(frame: Frame, asked: tuple[float, ...] | None) -> tuple[float, int]:
    """Sites of all cells on the even lattice that a frame becomes, and the number of cells."""
    factors = _to_cubes(_voxel(frame, asked), frame.labels.ndim)
    return float(np.count_nonzero(frame.labels) * np.prod(factors)), _cells(frame.labels)


def _numbered_by(every: NDArray[np.integer], state: CellState, own: Sequence[int]) -> CellState:
    """A state whose cells were numbered by their own labels, numbered by those of a whole movie."""
    numbers = np.r_[0, 1 + np.searchsorted(every, own)].astype(np.int32)
    types = np.full(every.size + 1, NO_CELL, dtype=np.int32)
    types[numbers] = state.types
    columns = {name: np.zeros(types.size) for name in state.properties}
    for name, values in state.properties.items():
        columns[name][numbers] = values
    return CellState(numbers[state.ids], types, state.lattice, columns)


def cut_to_tissue(prepared: Sequence[Prepared]) -> None:
    """Cut all frames to one size: that of the largest tissue with a margin, or of the smallest frame.

    Frames of one movie are cut alike, around all places that its tissue takes.
    """
    boxes = _boxes_of_movies(prepared)
    size = []
    for axis in range(len(boxes[0][0])):
        tissue = max(high[axis] - low[axis] + 1 for low, high in boxes)
        size.append(min(tissue + 2 * CROP_MARGIN, *(entry.lattice.shape[axis] for entry in prepared)))
    for entry, (low, high) in zip(prepared, boxes, strict=True):
        corner = tuple(
            int(np.clip((first + last + 1 - length) // 2, 0, whole - length))
            for first, last, length, whole in zip(low, high, size, entry.lattice.shape, strict=True)
        )
        entry.cut(Window(tuple(size), corner))


def _boxes_of_movies(prepared: Sequence[Prepared]) -> list[tuple[list[int], list[int]]]:
    """Of every frame the box of its tissue, or of all tissue of its movie."""
    names = [entry.frame.moment.movie if entry.frame.moment else number for number, entry in enumerate(prepared)]
    boxes: dict[object, tuple[list[int], list[int]]] = {}
    for name, entry in zip(names, prepared, strict=True):
        low, high = _box(entry.frame.labels)
        if name in boxes:
            low, high = list(map(min, low, boxes[name][0])), list(map(max, high, boxes[name][1]))
        boxes[name] = low, high
    return [boxes[name] for name in names]


def _torn_cells(frame: Frame, lattice: Lattice) -> int:
    """Cells in several pieces: a mistake where an image was segmented, but what many simulations really do."""
    pieces = fragments(CellState.from_labels(frame.labels, lattice=lattice), dilated=frame.simulated)
    torn = np.flatnonzero(pieces > 1)
    if torn.size and not frame.simulated:
        if pieces.size == 2:
            raise UserError(
                f"It holds one label in {pieces[1]} pieces, as a mask of many cells does, and no thin walls part them: "
                "give every cell a number of its own (Fiji: MorphoLibJ, Connected Components Labeling)."
            )
        label = distinct_labels(frame.labels)[torn[0] - 1]
        others = f" (and {torn.size - 1} more)" if torn.size > 1 else ""
        raise UserError(
            f"Cell {label}{others} is in {pieces[torn[0]]} pieces, but a cell is one: correct the segmentation or "
            "leave it out."
        )
    return torn.size


def _cut(labels: NDArray[np.integer], window: Window) -> NDArray[np.integer]:
    if len(window.size) != labels.ndim:
        raise UserError(
            f"It has {extent_text(labels.shape)}, but --crop gives {len(window.size)} sizes: give {labels.ndim}."
        )
    corner = window.corner or tuple((whole - part) // 2 for whole, part in zip(labels.shape, window.size, strict=True))
    parts = tuple(slice(first, first + length) for first, length in zip(corner, window.size, strict=True))
    if any(part.start < 0 or part.stop > whole for part, whole in zip(parts, labels.shape, strict=True)):
        raise UserError(
            f"It has {extent_text(labels.shape)}, which do not hold the part that --crop asks for: crop less."
        )
    return labels[parts]


def _without_border_cells(labels: NDArray[np.integer]) -> NDArray[np.integer]:
    edges = [np.take(labels, side, axis=axis).ravel() for axis in range(labels.ndim) for side in (0, -1)]
    return np.where(np.isin(labels, distinct_labels(np.concatenate(edges))), 0, labels)


def _voxel(frame: Frame, asked: tuple[float, ...] | None) -> Voxel | None:
    """Sizes along the axes, as asked for, or as the file has them."""
    voxel = frame.voxel
    if asked is not None:
        if len(asked) != frame.labels.ndim:
            raise UserError(
                f"It has {frame.labels.ndim} axes, but --voxel-size gives {len(asked)} numbers: give one per axis."
            )
        return Voxel(asked, voxel.unit if voxel else "")
    if voxel is not None and max(voxel.sizes) > MOST_UNEVEN * min(voxel.sizes):
        raise UserError(f"Its pixels are said to be of {voxel}, which no microscope makes: pass --voxel-size.")
    return voxel


def _to_cubes(voxel: Voxel | None, dimension: int) -> list[float]:
    """What each axis is resampled by, so that sites are as long as the voxel's shortest side along all of them."""
    if voxel is None or voxel.even:
        return [1.0] * dimension
    return [size / min(voxel.sizes) for size in voxel.sizes]


def _said(voxel: Voxel, before: Sequence[int], side: Voxel, after: Sequence[int]) -> str:
    what, shape = ("Voxels", "cubes") if len(before) == 3 else ("Pixels", "squares")
    return (
        f"{what} of {voxel} were resampled to {shape} of {side}: {size_text(before)} sites became {size_text(after)}."
    )


def _resampled(labels: NDArray[np.integer], factors: Sequence[float]) -> NDArray[np.integer]:
    """Nearest neighbour: each new site takes the label at its centre."""
    shape = tuple(max(1, round(length * factor)) for length, factor in zip(labels.shape, factors, strict=True))
    check_sites(shape)
    places = [
        np.minimum(((np.arange(new) + 0.5) * old / new).astype(np.int64), old - 1)
        for new, old in zip(shape, labels.shape, strict=True)
    ]
    return labels[np.ix_(*places)]


def _box(labels: NDArray[np.integer]) -> tuple[list[int], list[int]]:
    """First and last (plane,) row and column with a cell."""
    low, high = [], []
    for axis in range(labels.ndim):
        taken = np.flatnonzero(labels.any(axis=tuple(other for other in range(labels.ndim) if other != axis)))
        low.append(int(taken[0]))
        high.append(int(taken[-1]))
    return low, high


def _cells(labels: NDArray[np.integer]) -> int:
    return int(distinct_labels(labels).size)
