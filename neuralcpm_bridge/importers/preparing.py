"""From a frame as read to a state: crop, resample, border cells, checks, new numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..metrics import fragments
from ..state import CellState
from .frames import Frame, check_sites

CROP_MARGIN = 5
"""Sites of medium left around the tissue by `--border crop`."""


BORDERS = ("keep", "drop", "crop")
"""What becomes of cells that touch the border of an image, and so may be cut off by it: they stay, they are taken
out, or they are taken out and the image is cut to the tissue that remains."""


class Window(NamedTuple):
    """A part of an image; without a corner, its middle."""

    height: int
    width: int
    row: int | None = None
    column: int | None = None


@dataclass
class Prepared:
    """A frame whose labels are ready, and what happened to its cells on the way."""

    frame: Frame
    torn: int = 0
    lost_to_border: int = 0
    lost_to_scale: int = 0


def parse_window(text: str) -> Window:
    """`HEIGHTxWIDTH` (the middle) or `HEIGHTxWIDTH+ROW+COLUMN`."""
    match = re.fullmatch(r"(\d+)x(\d+)(?:\+(\d+)\+(\d+))?", text.strip())
    if match is None or int(match[1]) * int(match[2]) == 0:
        raise UserError(
            f"'{text}' is no part of an image: write ROWSxCOLUMNS or ROWSxCOLUMNS+TOP+LEFT, as 200x300+10+20."
        )
    return Window(*(None if part is None else int(part) for part in match.groups()))  # type: ignore[arg-type]


def prepare(frame: Frame, crop: Window | None, scale: float, border: str, periodic: bool) -> Prepared:
    """Check one frame, then crop and resample it and take its border cells out."""
    if not frame.labels.any():
        raise UserError("There are no cells in it: correct it or leave it out.")
    prepared = Prepared(frame, torn=_torn_cells(frame, periodic))
    labels = frame.labels if crop is None else _cut(frame.labels, crop)
    if border != "keep":
        kept = _without_border_cells(labels)
        prepared.lost_to_border = _cells(labels) - _cells(kept)
        labels = kept
    resampled = labels if scale == 1 else _resampled(labels, scale)
    prepared.lost_to_scale = _cells(labels) - _cells(resampled)
    if not resampled.any():
        raise UserError("No cells are left of it after cropping, resampling and border cells: change these options.")
    frame.labels = resampled
    return prepared


def cut_to_tissue(frames: Sequence[Frame]) -> None:
    """Cut all frames to one size: that of the largest tissue with a margin, or of the smallest frame."""
    boxes = [_box(frame.labels) for frame in frames]
    size = [0, 0]
    for axis in (0, 1):
        tissue = max(high[axis] - low[axis] + 1 for low, high in boxes)
        size[axis] = min(tissue + 2 * CROP_MARGIN, *(frame.labels.shape[axis] for frame in frames))
    for frame, (low, high) in zip(frames, boxes, strict=True):
        corner = [
            int(np.clip((low[axis] + high[axis] + 1 - size[axis]) // 2, 0, frame.labels.shape[axis] - size[axis]))
            for axis in (0, 1)
        ]
        frame.labels = _cut(frame.labels, Window(size[0], size[1], corner[0], corner[1]))


def to_state(frame: Frame, types: tuple[str, ...]) -> CellState:
    """The state of a frame, its cells numbered 1, 2, …; `types` are all names, the medium first."""
    kinds = frame.kinds or {}
    return CellState.from_labels(frame.labels, {label: types.index(name) for label, name in kinds.items()})


def _torn_cells(frame: Frame, periodic: bool) -> int:
    """Cells in several pieces: a mistake where an image was segmented, but what many simulations really do."""
    pieces = fragments(CellState.from_labels(frame.labels), periodic, dilated=frame.simulated)
    torn = np.flatnonzero(pieces > 1)
    if torn.size and not frame.simulated:
        label = np.unique(frame.labels[frame.labels > 0])[torn[0] - 1]
        others = f" (and {torn.size - 1} more)" if torn.size > 1 else ""
        raise UserError(
            f"Cell {label}{others} is in {pieces[torn[0]]} pieces, but a cell is one: correct the segmentation or "
            "leave it out."
        )
    return torn.size


def _cut(labels: NDArray[np.int64], window: Window) -> NDArray[np.int64]:
    height, width = labels.shape
    row = (height - window.height) // 2 if window.row is None else window.row
    column = (width - window.width) // 2 if window.column is None else window.column
    if row < 0 or column < 0 or row + window.height > height or column + window.width > width:
        raise UserError(
            f"It has {height} rows and {width} columns, which do not hold the part that --crop asks for: crop less."
        )
    return labels[row : row + window.height, column : column + window.width]


def _without_border_cells(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    edge = np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]])
    return np.where(np.isin(labels, np.unique(edge)), 0, labels)


def _resampled(labels: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Nearest neighbour: each new site takes the label at its centre."""
    shape = tuple(max(1, round(length * scale)) for length in labels.shape)
    check_sites(*shape)
    rows, columns = (
        np.minimum(((np.arange(new) + 0.5) * old / new).astype(np.int64), old - 1)
        for new, old in zip(shape, labels.shape, strict=True)
    )
    return labels[np.ix_(rows, columns)]


def _box(labels: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """First and last row and column with a cell."""
    places = np.nonzero(labels)
    return [int(place.min()) for place in places], [int(place.max()) for place in places]


def _cells(labels: NDArray[np.int64]) -> int:
    return int(np.unique(labels[labels > 0]).size)
