"""Snapshots from label images, CompuCell3D and Morpheus files: read, checked, made into one data set.

Every problem is found and named per file; nothing is guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..errors import UserError, reading
from ..snapshots import Snapshots
from . import cc3d, morpheus
from .frames import ONE_TYPE, Frame, Interval, Problem, Stack, check_types, extent_text
from .images import IMAGE_SUFFIXES, TIFF_SUFFIXES, tifffile, written_by
from .label_images import grouped_by_type, one_type, read_group, read_labels, read_type_table
from .movies import gather, parse_interval, place_in_time
from .outlines import Medium, enclosed
from .preparing import BORDERS, Preparation, Prepared, Window, cut_to_tissue, parse_window, prepare
from .remarks import about_scale, check_resampling, site_size, suitable_scale, what_happened

__all__ = [
    "BORDERS",
    "ImportOptions",
    "Imported",
    "Problem",
    "Window",
    "import_files",
    "parse_interval",
    "parse_window",
]

PIF_SUFFIXES = (".piff", ".pif")
KINDS = (IMAGE_SUFFIXES, (".vtk",), PIF_SUFFIXES, morpheus.XML_SUFFIXES)
"""What is looked for in a folder, first kind first: a folder of images may hold the model that made them."""

MASKS = "_cp_masks"
"""How Cellpose ends the names of its masks, which it writes beside the micrographs."""


@dataclass(frozen=True)
class ImportOptions:
    """How files are to be understood; None and empty mean: as they are."""

    type_table: Path | None = None
    type_channel: bool = False
    type_marks: dict[str, str] = field(default_factory=dict)
    type_names: tuple[str, ...] = ()
    crop: Window | None = None
    scale: float | None = 1
    """None: what suits the size of the cells."""
    border: str = "keep"
    boundary: str | None = None
    lattice: tuple[int, ...] | None = None
    stack: Stack | None = None
    medium: Medium | None = None
    voxel: tuple[float, ...] | None = None
    interval: Interval | None = None


@dataclass
class Imported:
    """The data set (None if nothing is usable), what is wrong with the rest, and what else is worth saying."""

    snapshots: Snapshots | None
    problems: list[Problem]
    notes: list[str]


def import_files(paths: Sequence[Path], options: ImportOptions, leave_out: Path | None = None) -> Imported:
    """Read files and folders; `leave_out` is a picture of ours that may lie in one of the folders."""
    if sum((options.type_table is not None, options.type_channel, bool(options.type_marks))) > 1:
        raise UserError("Types were asked for in several ways: use one of --types, --type-channel and --type.")
    files = _files(paths, leave_out)
    if any(path.suffix.lower() in TIFF_SUFFIXES for path in files):
        tifffile()  # a missing package is no problem of each file
    problems: list[Problem] = []
    frames = _typed_alike(list(_read_all(files, options, problems)), problems)
    if options.interval is not None:
        first = next(iter(options.type_marks.values()), "")
        place_in_time(frames, [path for path in files if first in path.stem], options.interval)
    scale = suitable_scale(frames, options.voxel) if options.scale is None else options.scale
    usable = _on_one_lattice(list(_prepare_all(frames, options, scale, problems)), problems)
    if options.border == "crop" and usable:
        cut_to_tissue(usable)
    usable = _of_one_size(usable, problems)
    if not usable:
        return Imported(None, problems, [])
    check_resampling(usable, scale)
    if len({entry.lattice.boundary for entry in usable}) > 1:
        raise UserError("The files have different boundaries: pass --boundary free or --boundary periodic.")
    found = _type_order([entry.frame for entry in usable])
    movies = gather(usable)
    states = [entry.state(("medium", *found), every) for entry, every in zip(usable, movies.labels, strict=True)]
    snapshots = Snapshots.from_states(
        states,
        type_names=("medium", *_renamed(found, options.type_names)),
        provenance={
            "source": "import",
            "files": list(dict.fromkeys(entry.frame.file.name for entry in usable)),
            "scale": scale,
            "border": options.border,
            **site_size(usable),
            **({"time_unit": movies.unit} if movies.unit else {}),
        },
        arrays={"source": np.array([entry.frame.name for entry in usable], dtype=np.str_), **movies.arrays},
    )
    notes = [*what_happened(usable), *about_scale(usable, scale, asked=options.scale is not None)]
    return Imported(snapshots, problems, notes + movies.notes)


# -- reading ----------------------------------------------------------------------------------------------------


def _files(paths: Sequence[Path], leave_out: Path | None) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += _of_folder(path, leave_out)
        elif path.exists():
            files.append(path)
        else:
            raise UserError(f"There is no file or folder {path}: check its name.")
    return list(dict.fromkeys(files))


def _of_folder(folder: Path, leave_out: Path | None) -> list[Path]:
    ours = leave_out.resolve() if leave_out else None
    inside = sorted((p for p in folder.iterdir() if p.is_file() and p.resolve() != ours), key=_natural)
    for suffixes in KINDS:
        found = [path for path in inside if path.name.lower().endswith(suffixes)]
        if found:
            return [path for path in found if path.stem.endswith(MASKS)] or found
    known = ", ".join(suffix for suffixes in KINDS for suffix in suffixes)
    raise UserError(f"{folder} holds no file that can be imported ({known}): give another folder.")


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sorts image2 before image10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name) if part]


def _read_all(files: list[Path], options: ImportOptions, problems: list[Problem]) -> Iterator[Frame]:
    table = read_type_table(options.type_table) if options.type_table else None
    if options.type_marks:
        groups, refused = grouped_by_type(files, options.type_marks)
        problems += [Problem(path.name, sentence) for path, sentence in refused]
        for name, group in groups.items():
            try:
                with reading("One of its files", "a readable image", "export it again"):
                    frames = read_group(group, options.type_marks, options.stack)
                yield from frames
            except UserError as error:
                problems.append(Problem(name, str(error)))
        return
    for path in files:
        try:
            frames = _read(path, options)
        except UserError as error:
            problems.append(Problem(path.name, str(error)))
            continue
        for frame in frames:
            try:
                _take_outlines(frame, options)
                if table is not None:
                    table.apply(frame)
                elif frame.cell_types is None:
                    one_type(frame)
                check_types(frame)
            except UserError as error:
                problems.append(Problem(frame.name, str(error)))
            else:
                yield frame


def _read(path: Path, options: ImportOptions) -> list[Frame]:
    with reading("The file", "readable"):
        return _by_name(path, options)


def _take_outlines(frame: Frame, options: ImportOptions) -> None:
    """Where an image shows walls, what they enclose becomes its labels."""
    if frame.simulated or frame.cell_types is not None:
        return
    with reading("It", "usable", "check the file"):
        found = enclosed(frame.labels, options.medium)
    if found is None:
        return
    if options.type_table is not None:
        raise UserError(
            "It is an image of outlines, whose cells have no numbers, but --types tells types by number: leave --types "
            "out, or give label images."
        )
    frame.labels, frame.told = found


def _by_name(path: Path, options: ImportOptions) -> list[Frame]:
    """By the reader for the file's ending."""
    name = path.name.lower()
    if name.endswith(TIFF_SUFFIXES) and written_by(path).lower() == "morpheus":
        return morpheus.read_tiff(path, options.stack)
    if name.endswith(IMAGE_SUFFIXES):
        return read_labels(path, options.type_channel, options.stack)
    if name.endswith(".vtk"):
        return cc3d.read_vtk(path)
    if name.endswith(PIF_SUFFIXES):
        return cc3d.read_pif(path, options.lattice)
    if name.endswith(morpheus.XML_SUFFIXES):
        return morpheus.read_xml(path)
    raise UserError("The name ends in nothing that is known: give TIFF, PNG, VTK, PIF or Morpheus XML files.")


# -- from frames to one data set --------------------------------------------------------------------------------


def _typed_alike(frames: list[Frame], problems: list[Problem]) -> list[Frame]:
    """Files that do not tell types are of one type together, but not beside files that do."""
    typed = [frame for frame in frames if frame.type_order != (ONE_TYPE,)]
    if not typed:
        return frames
    for frame in frames:
        if frame.type_order == (ONE_TYPE,):
            sentence = f"It does not say the types of its cells, but {typed[0].name} does: leave one of the two out."
            problems.append(Problem(frame.name, sentence))
    return typed


def _prepare_all(
    frames: list[Frame], options: ImportOptions, scale: float, problems: list[Problem]
) -> Iterator[Prepared]:
    how = Preparation(options.crop, scale, options.border, options.boundary, options.voxel)
    for frame in frames:
        try:
            with reading("It", "usable", "check the file"):
                prepared = prepare(frame, how)
            yield prepared
        except UserError as error:
            problems.append(Problem(frame.name, str(error)))


def _on_one_lattice(prepared: list[Prepared], problems: list[Problem]) -> list[Prepared]:
    """The frames of the most frequent geometry; the others are problems."""
    names = Counter(entry.lattice.geometry.name for entry in prepared)
    usable = []
    for entry in prepared:
        name, (usual, most) = entry.lattice.geometry.name, names.most_common(1)[0]
        if name == usual:
            usable.append(entry)
            continue
        sentence = f"Its lattice is {name}, but most ({most} of {len(prepared)}) are {usual}: leave one of them out."
        problems.append(Problem(entry.frame.name, sentence))
    return usable


def _of_one_size(prepared: list[Prepared], problems: list[Problem]) -> list[Prepared]:
    """The frames of the most frequent size; the others are problems."""
    shapes = Counter(entry.lattice.shape for entry in prepared)
    usable = []
    for entry in prepared:
        shape, (usual, most) = entry.lattice.shape, shapes.most_common(1)[0]
        if shape == usual:
            usable.append(entry)
            continue
        problems.append(
            Problem(
                entry.frame.name,
                f"It has {extent_text(shape)}, but most ({most} of {len(prepared)}) have {extent_text(usual)}: crop "
                f"all to one size with --crop {'PLANESx' * (len(shape) == 3)}ROWSxCOLUMNS.",
            )
        )
    return usable


def _type_order(frames: list[Frame]) -> tuple[str, ...]:
    """All types in the order in which the files name them; numbered ones by their number."""
    names = list(dict.fromkeys(name for frame in frames for name in frame.type_order))
    if all(re.fullmatch(r"type\d+", name) for name in names):
        names.sort(key=lambda name: int(name[4:]))
    return tuple(names)


def _renamed(found: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    if names and len(names) != len(found):
        raise UserError(
            f"{len(names)} names were given for {len(found)} types ({', '.join(found)}): give one name per type."
        )
    if "" in names or len({"medium", *names}) <= len(names):
        raise UserError(
            f"The types are to be called {', '.join(map(repr, names))}, but each needs a name of its own, and none is "
            "'medium': give different names."
        )
    return names or found
