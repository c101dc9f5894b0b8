"""Segmented label images, and the three ways in which the types of their cells are given."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError, reading
from ..state import distinct_labels, is_property_name
from .frames import ONE_TYPE, Frame, Interval, Moment, Stack, labels_of, types_on_sites
from .images import read_images

COLUMNS = ("label", "type", "file")


def read_labels(path: Path, second_channel: bool, stack: Stack | None = None) -> list[Frame]:
    """One frame per snapshot; with `second_channel` the second of two channels holds the types of the first."""
    series = read_images(path, stack, channels=2 if second_channel else 1)
    count = sum(len(images.values) for images in series)
    frames: list[Frame] = []
    for number, images in enumerate(series):
        interval = images.interval or Interval(1.0)
        for place, snapshot in enumerate(images.values):
            frame = Frame(path, None if count == 1 else len(frames), snapshot[0], voxel=images.voxel)
            if len(images.values) > 1:
                frame.moment = Moment(f"{path} {number}", place * interval.size, interval.unit or "frames")
            if second_channel:
                frame.cell_types = _numbered_types(*snapshot)
                frame.type_order = tuple(dict.fromkeys(frame.cell_types.values()))
            frames.append(frame)
    return frames


def _numbered_types(labels: NDArray[np.integer], types: NDArray[np.integer]) -> dict[int, str]:
    found = types_on_sites(labels, types, "the second channel")
    untyped = [label for label, number in found.items() if number == 0]
    if untyped:
        raise UserError(f"Cell {untyped[0]} has type 0 in the second channel, but types count from 1: correct it.")
    return {label: f"type{number}" for label, number in found.items()}


# -- types from a table -----------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What a table says of one cell: the name of its type, and its properties in the order of the columns."""

    cell_type: str
    properties: tuple[float, ...]


@dataclass(frozen=True)
class TypeTable:
    """A CSV with the columns label, type and perhaps file: rows by file name ("" = all files) and label.

    Further columns are properties of cells.
    """

    path: Path
    entries: dict[tuple[str, int], Row]
    properties: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.cell_type for row in self.entries.values()))

    def apply(self, frame: Frame) -> None:
        rows = {}
        for label in labels_of(frame):
            row = self.entries.get((frame.file.name, label)) or self.entries.get(("", label))
            if row is None:
                raise UserError(f"Cell {label} has no type in {self.path.name}: add a line for it.")
            rows[label] = row
        frame.cell_types, frame.type_order = {label: row.cell_type for label, row in rows.items()}, self.names
        frame.properties = {
            name: {label: row.properties[number] for label, row in rows.items()}
            for number, name in enumerate(self.properties)
        }


def read_type_table(path: Path) -> TypeTable:
    with reading(path, "a readable table of types", "save it as CSV in UTF-8"):
        return _table(path, path.read_text(encoding="utf-8-sig"))


def _table(path: Path, text: str) -> TypeTable:
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    rows = csv.DictReader(text.splitlines(), delimiter=delimiter)
    headers = [(name or "").strip() for name in rows.fieldnames or ()]
    columns = [name.lower() if name.lower() in COLUMNS else name for name in headers]
    if not {"label", "type"} <= set(columns):
        raise UserError(
            f"{path} has the columns {', '.join(headers) or 'none'}, but label, type and, if types differ between "
            "files, file are needed: name them in the first line."
        )
    rows.fieldnames = columns
    properties = _property_columns(columns, path)
    entries: dict[tuple[str, int], Row] = {}
    for row in rows:
        label, cell_type, file = ((row.get(column) or "").strip() for column in COLUMNS)
        if not label.isdecimal() or int(label) == 0:
            found = repr(label[:40])
            raise UserError(f"Line {rows.line_num} of {path} has the label {found}, but a positive number is needed.")
        if not cell_type or cell_type == "0" or cell_type.lower() == "medium":
            raise UserError(f"Line {rows.line_num} of {path} gives a cell the type {cell_type!r}: name a type of cell.")
        name = f"type{cell_type}" if cell_type.isdecimal() else cell_type
        values = tuple(_number(row.get(column), column, rows.line_num, path) for column in properties)
        entry = entries.setdefault((file, int(label)), Row(name, values))
        if entry != Row(name, values):
            what = "type" if entry.cell_type != name else "row"
            raise UserError(f"Line {rows.line_num} of {path} gives label {label} a second {what}: keep one of them.")
    return TypeTable(path, entries, tuple(properties.values()))


def _property_columns(columns: Sequence[str], path: Path) -> dict[str, str]:
    """Further columns and the names of the properties that they are; columns without a name (an index) are none."""
    properties: dict[str, str] = {}
    for column in columns:
        if not column or column in COLUMNS:
            continue
        name = re.sub(r"\W+", "_", column, flags=re.ASCII).strip("_")
        if not is_property_name(name) or column in properties or name in properties.values():
            raise UserError(
                f"{path} has a column {column!r}, but further columns are properties of cells, each with a name of its "
                "own that begins with a letter: rename it, or take it out."
            )
        properties[column] = name
    return properties


def _number(text: str | None, column: str, line: int, path: Path) -> float:
    try:
        value = float((text or "").strip())
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        found = repr(text.strip()) if text and text.strip() else "nothing"
        raise UserError(
            f"Line {line} of {path} has {found} in the column {column!r}, but further columns are properties of cells, "
            "a number in each line: correct it, or take the column out."
        )
    return value


# -- one image per type -----------------------------------------------------------------------------------------


def grouped_by_type(
    paths: Sequence[Path], marks: dict[str, str]
) -> tuple[dict[str, dict[str, Path]], list[tuple[Path, str]]]:
    """Images of one snapshot put together: those whose names are equal but for the mark of their type.

    `marks`: type name → part of the file name. Returns snapshot → type → file, and files with their problem.
    """
    groups: dict[str, dict[str, Path]] = {}
    refused = []
    for path in paths:
        found = [name for name, mark in marks.items() if mark in path.stem]
        if len(found) != 1:
            said = "none" if not found else " and ".join(found)
            refused.append((path, f"The file name has the mark of {said} of the types: use each mark in one file."))
            continue
        files = groups.setdefault(path.stem.replace(marks[found[0]], ""), {})
        if found[0] in files:
            refused.append((path, f"{files[found[0]].name} is an image of the same cells: leave one of the two out."))
        else:
            files[found[0]] = path
    return groups, refused


def read_group(files: dict[str, Path], marks: dict[str, str], stack: Stack | None = None) -> list[Frame]:
    """One snapshot (or many) from one image per type; labels are renumbered so that none meet."""
    missing = [name for name in marks if name not in files]
    if missing:
        raise UserError(f"There is no image of type {missing[0]} beside it: add it, empty if there are no such cells.")
    stacks = {name: read_labels(files[name], False, stack) for name in marks}
    lengths = {len(frames) for frames in stacks.values()}
    if len(lengths) != 1:
        raise UserError("The images of its types have different numbers of pages: save one page per snapshot in each.")
    merged = []
    offsets = _offsets(stacks)
    for number in range(lengths.pop()):
        parts = {name: frames[number] for name, frames in stacks.items()}
        first = next(iter(parts.values()))
        if any(part.voxel != first.voxel for part in parts.values()):
            raise UserError("The images of its types have voxels of different sizes: save them from one segmentation.")
        labels, types = _merged({name: part.labels for name, part in parts.items()}, offsets)
        frame = Frame(first.file, first.page, labels, types, tuple(marks), voxel=first.voxel)
        frame.moment = first.moment
        merged.append(frame)
    return merged


def _offsets(stacks: dict[str, list[Frame]]) -> dict[str, int]:
    """What is added to the labels of every type: the same in all frames, so that cells keep their numbers."""
    offsets, last = {}, 0
    for name, frames in stacks.items():
        offsets[name] = last
        last += max((int(frame.labels.max(initial=0)) for frame in frames), default=0)
    return offsets


def _merged(
    lattices: dict[str, NDArray[np.integer]], offsets: dict[str, int]
) -> tuple[NDArray[np.int64], dict[int, str]]:
    if len({labels.shape for labels in lattices.values()}) != 1:
        raise UserError("The images of its types have different sizes: save them from one segmentation.")
    merged = np.zeros(next(iter(lattices.values())).shape, dtype=np.int64)
    types: dict[int, str] = {}
    for name, labels in lattices.items():
        both = (merged > 0) & (labels > 0)
        if both.any():
            site = tuple(int(place) for place in np.argwhere(both)[0])
            raise UserError(f"Site {site} has a cell in two of its images, but a site has one cell: correct the masks.")
        merged += np.where(labels > 0, labels.astype(np.int64) + offsets[name], 0)
        types |= {int(label) + offsets[name]: name for label in distinct_labels(labels)}
    return merged, types


def one_type(frame: Frame) -> None:
    """All cells of one type, where nothing tells them apart."""
    frame.cell_types = dict.fromkeys(labels_of(frame), ONE_TYPE)
    frame.type_order = (ONE_TYPE,)
