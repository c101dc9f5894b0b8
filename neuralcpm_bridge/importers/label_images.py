"""Segmented label images, and the three ways in which the types of their cells are given."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from .frames import ONE_TYPE, Frame, types_on_sites
from .images import read_planes

COLUMNS = ("label", "type", "file")


def read_labels(path: Path, second_channel: bool) -> list[Frame]:
    """One frame per page; with `second_channel` every other plane holds the types of the plane before it."""
    planes = read_planes(path)
    if not second_channel:
        single = len(planes) == 1
        return [Frame(path, None if single else number, plane) for number, plane in enumerate(planes)]
    if len(planes) % 2:
        raise UserError(
            f"The image has {len(planes)} planes, but labels and types alternate with --type-channel: save both "
            "channels in one file."
        )
    frames = []
    for number in range(0, len(planes), 2):
        labels, types = planes[number : number + 2]
        found = types_on_sites(labels, types, "the second channel")
        untyped = [label for label, kind in found.items() if kind == 0]
        if untyped:
            raise UserError(f"Cell {untyped[0]} has type 0 in the second channel, but types count from 1: correct it.")
        kinds = {label: f"type{kind}" for label, kind in found.items()}
        page = None if len(planes) == 2 else number // 2
        frames.append(Frame(path, page, labels, kinds, tuple(dict.fromkeys(kinds.values()))))
    return frames


# -- types from a table -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TypeTable:
    """A CSV with the columns label, type and perhaps file: type names by file name ("" = all files) and label."""

    path: Path
    entries: dict[tuple[str, int], str]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.entries.values()))

    def apply(self, frame: Frame) -> None:
        kinds = {}
        for label in np.unique(frame.labels[frame.labels > 0]).tolist():
            kind = self.entries.get((frame.file.name, label)) or self.entries.get(("", label))
            if kind is None:
                raise UserError(f"Cell {label} has no type in {self.path.name}: add a line for it.")
            kinds[label] = kind
        frame.kinds, frame.type_order = kinds, self.names


def read_type_table(path: Path) -> TypeTable:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a table of types ({error}): give a CSV file.") from None
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    rows = csv.DictReader(text.splitlines(), delimiter=delimiter)
    columns = [(name or "").strip().lower() for name in rows.fieldnames or ()]
    if not {"label", "type"} <= set(columns):
        raise UserError(
            f"{path} has the columns {', '.join(columns) or 'none'}, but label, type and, if types differ between "
            "files, file are needed: name them in the first line."
        )
    rows.fieldnames = columns
    entries: dict[tuple[str, int], str] = {}
    for row in rows:
        label, kind, file = ((row.get(column) or "").strip() for column in COLUMNS)
        if not label.isdigit() or int(label) == 0:
            raise UserError(f"Line {rows.line_num} of {path} has the label {label!r}, but a positive number is needed.")
        if not kind or kind == "0" or kind.lower() == "medium":
            raise UserError(f"Line {rows.line_num} of {path} gives a cell the type {kind!r}: name a type of cell.")
        name = f"type{kind}" if kind.isdigit() else kind
        if entries.setdefault((file, int(label)), name) != name:
            raise UserError(f"Line {rows.line_num} of {path} gives label {label} a second type: keep one of them.")
    return TypeTable(path, entries)


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


def read_group(files: dict[str, Path], marks: dict[str, str]) -> list[Frame]:
    """One snapshot (or stack of them) from one image per type; labels are renumbered so that none meet."""
    missing = [name for name in marks if name not in files]
    if missing:
        raise UserError(f"There is no image of type {missing[0]} beside it: add it, empty if there are no such cells.")
    stacks = {name: read_planes(files[name]) for name in marks}
    lengths = {len(planes) for planes in stacks.values()}
    if len(lengths) != 1:
        raise UserError("The images of its types have different numbers of pages: save one page per snapshot in each.")
    frames = []
    for number in range(lengths.pop()):
        labels, kinds = _merged({name: planes[number] for name, planes in stacks.items()})
        page = None if len(stacks[next(iter(marks))]) == 1 else number
        frames.append(Frame(next(iter(files.values())), page, labels, kinds, tuple(marks)))
    return frames


def _merged(planes: dict[str, NDArray[np.int64]]) -> tuple[NDArray[np.int64], dict[int, str]]:
    if len({plane.shape for plane in planes.values()}) != 1:
        raise UserError("The images of its types have different sizes: save them from one segmentation.")
    merged, last = np.zeros_like(next(iter(planes.values()))), 0
    kinds: dict[int, str] = {}
    for name, plane in planes.items():
        found, numbers = np.unique(plane, return_inverse=True)
        shifted = np.where(found > 0, last + np.cumsum(found > 0), 0)[numbers].reshape(plane.shape)
        both = (merged > 0) & (shifted > 0)
        if both.any():
            row, column = np.argwhere(both)[0]
            raise UserError(
                f"Site ({row}, {column}) has a cell in two of its images, but a site has one cell: correct the masks."
            )
        merged = np.maximum(merged, shifted)
        kinds |= dict.fromkeys(range(last + 1, last + 1 + int((found > 0).sum())), name)
        last = max(kinds, default=0)
    return merged, kinds


def one_type(frame: Frame) -> None:
    """All cells of one type, where nothing tells them apart."""
    frame.kinds = dict.fromkeys(np.unique(frame.labels[frame.labels > 0]).tolist(), ONE_TYPE)
    frame.type_order = (ONE_TYPE,)
