"""Verbs about data sets: import, info."""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralcpm_bridge.errors import UserError

from .options import Json, check_data_set

if TYPE_CHECKING:
    from neuralcpm_bridge.snapshots import Snapshots

data_app = typer.Typer(name="data", help="Make, import and look at data sets.", no_args_is_help=True)

SHOWN = 48
"""States on a contact sheet at most."""

MEASURED = 200
"""States that `info` measures at most: shapes and contacts take some milliseconds each."""

MOST_TYPES_SHOWN = 8
"""Of a table with a column for each type."""

Output = Annotated[Path, typer.Option("--output", "-o", help="The data set to write (.npz).", show_default=False)]


class Border(str, Enum):
    keep = "keep"
    drop = "drop"
    crop = "crop"


class Boundary(str, Enum):
    free = "free"
    periodic = "periodic"


class Medium(str, Enum):
    outside = "outside"
    none = "none"


class Stack(str, Enum):
    volume = "volume"
    frames = "frames"


@data_app.command("import")
def import_(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files or folders.", show_default=False)],
    output: Output,
    types: Annotated[
        Path | None,
        typer.Option(
            help="Types of cells: a CSV with the columns label, type and perhaps file; others are properties."
        ),
    ] = None,
    type_channel: Annotated[
        bool, typer.Option("--type-channel", help="Types of cells: the second channel of each image.")
    ] = False,
    type_image: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="NAME=MARK", help="Types of cells: one image per type, told by a part of its name."
        ),
    ] = None,
    type_names: Annotated[str, typer.Option(metavar="A,B", help="New names of the types, in their order.")] = "",
    crop: Annotated[
        str,
        typer.Option(
            metavar="ROWSxCOLS[+TOP+LEFT]",
            help="Keep this part of each image (no TOP and LEFT: its middle); in 3D with planes before rows.",
        ),
    ] = "",
    scale: Annotated[
        str,
        typer.Option(
            metavar="FACTOR", help="Resample to the nearest neighbour; 0.5 halves all sides, auto suits the cells."
        ),
    ] = "1",
    border: Annotated[
        Border, typer.Option(help="Cells at the border: keep, drop, or drop and crop to the tissue.")
    ] = Border.keep,
    boundary: Annotated[
        Boundary | None, typer.Option(help="Boundary of the lattice; else as the files say, else free.")
    ] = None,
    lattice: Annotated[
        str, typer.Option(metavar="ROWSxCOLS", help="Size of the lattice of PIF files; in 3D PLANESxROWSxCOLS.")
    ] = "",
    stack: Annotated[
        Stack | None, typer.Option(help="Many planes in a file that does not name them: one 3D lattice, or snapshots.")
    ] = None,
    voxel_size: Annotated[
        str, typer.Option(metavar="Z,Y,X", help="Sides of a voxel, where the file has no or wrong ones.")
    ] = "",
    medium: Annotated[
        Medium | None,
        typer.Option(help="Images of outlines where it cannot be told: the largest region at the border, or none."),
    ] = None,
    frame_interval: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Time between frames, as 10min: files of one folder are one movie, in order."
        ),
    ] = "",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave files with problems out.")] = False,
) -> None:
    """Make a data set of label images, outlines, 3D stacks (TIFF, PNG), CompuCell3D VTK or PIF, Morpheus TIFF or XML.

    Voxels that are no cubes are resampled. All problems are listed, file by file; a contact sheet of what was
    understood is written beside the data set.
    """
    from neuralcpm_bridge.importers import ImportOptions, import_files, parse_interval, parse_window
    from neuralcpm_bridge.pictures import save_png

    options = ImportOptions(
        type_table=types,
        type_channel=type_channel,
        type_marks=_marks(type_image or []),
        type_names=tuple(name.strip() for name in type_names.split(",")) if type_names else (),
        crop=parse_window(crop) if crop else None,
        scale=_factor(scale),
        border=border.value,
        boundary=boundary.value if boundary else None,
        lattice=parse_window(lattice).size if lattice else None,
        stack=stack.value if stack else None,
        medium=medium.value if medium else None,
        voxel=_voxel_size(voxel_size) if voxel_size else None,
        interval=parse_interval(frame_interval) if frame_interval else None,
    )
    check_data_set(output)
    sheet = output.with_suffix(".png")
    found = import_files(paths, options, leave_out=sheet)
    for problem in found.problems:
        print(f"neuralcpm: {problem}", file=sys.stderr)
    count = len(found.problems)
    if found.snapshots is None:
        raise UserError("Nothing could be imported, and nothing was written: see the problems above.")
    if count and not skip_bad:
        raise UserError(
            f"{count} problem{'s' if count > 1 else ''} found, and nothing was written: correct "
            f"{'them' if count > 1 else 'it'}, or pass --skip-bad to import the {len(found.snapshots)} good snapshots."
        )
    picture = _sheet(found.snapshots, output.name)
    found.snapshots.save(output)
    save_png(picture, sheet)
    for note in found.notes:
        print(note)
    print(f"Wrote {output}: {_in_short(found.snapshots)}. Look at {sheet}.")


@data_app.command()
def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The data set (.npz).", show_default=False)],
    picture: Annotated[Path | None, typer.Option(help="Write a contact sheet of its states (.png).")] = None,
    as_json: Json = False,
) -> None:
    """What a data set holds: lattice, types, volumes, shapes, contacts, what may be a problem, and where it is from."""
    import numpy as np

    from neuralcpm_bridge.metrics import summary
    from neuralcpm_bridge.snapshots import load_snapshots
    from neuralcpm_bridge.survey import survey

    snapshots = load_snapshots(file)
    chosen = _evenly(len(snapshots), MEASURED)
    measures = summary(snapshots.chosen(chosen))
    volumes = np.concatenate([state.volumes[state.cells] for state in snapshots])
    facts = {
        "states": len(snapshots),
        "lattice": list(snapshots.lattice.shape),
        "geometry": snapshots.lattice.geometry.name,
        "boundary": snapshots.boundary[0] if len(set(snapshots.boundary)) == 1 else list(snapshots.boundary),
        "types": list(_names(snapshots)),
        "properties": _property_ranges(snapshots),
        "volume_range": [int(volumes.min()), int(volumes.max())] if volumes.size else None,
        "measured_states": measures.pop("states"),
        **measures,
        "remarks": list(survey(snapshots.chosen(chosen)).remarks),
        "arrays": sorted(snapshots.arrays),
        "provenance": snapshots.provenance,
    }
    if picture is not None:
        from neuralcpm_bridge.pictures import save_png

        save_png(_sheet(snapshots, file.name), picture)
    if as_json:
        print(json.dumps(facts))
    else:
        _print_info(file.name, facts)


def _marks(texts: list[str]) -> dict[str, str]:
    marks = {}
    for text in texts:
        name, _, mark = text.partition("=")
        if not name or not mark:
            raise UserError(f"--type {text} says no type and mark: write --type NAME=MARK, as --type A=_red.")
        marks[name] = mark
    return marks


def _factor(text: str) -> float | None:
    """Of a resampling; None for what suits the cells."""
    if text == "auto":
        return None
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor <= 100:
        raise UserError(
            f"--scale is {text}, but a factor above 0 and up to 100 is needed, or auto: 0.5 halves all sides."
        )
    return factor


def _voxel_size(text: str) -> tuple[float, ...]:
    try:
        sizes = tuple(float(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if len(sizes) not in (2, 3) or not all(0 < size < float("inf") for size in sizes):
        raise UserError(f"--voxel-size is {text!r}, but positive numbers are needed: write Z,Y,X, as 2,0.5,0.5.")
    return sizes


def _evenly(count: int, most: int) -> list[int]:
    """Indices of at most `most` of `count` states, evenly spread."""
    shown = min(count, most)
    return sorted({round(index * (count - 1) / max(shown - 1, 1)) for index in range(shown)})


def _names(snapshots: Snapshots) -> tuple[str, ...]:
    numbers = range(len(snapshots.type_names), int(snapshots.types.max(initial=0)) + 1)
    return (*snapshots.type_names, *(f"type{number}" if number else "medium" for number in numbers))


def _property_ranges(snapshots: Snapshots) -> dict[str, list[float]]:
    """Smallest and largest value over all cells, by name."""
    import numpy as np

    found = snapshots.properties[snapshots.types > 0]
    ends = np.stack([found.min(axis=0), found.max(axis=0)], axis=1) if len(found) else np.zeros((found.shape[1], 2))
    return dict(zip(snapshots.property_names, ends.tolist(), strict=True))


def _sheet(snapshots: Snapshots, name: str) -> Any:
    """A contact sheet with the names of the files the states came from, where they are known."""
    from neuralcpm_bridge.pictures import contact_sheet

    chosen = _evenly(len(snapshots), SHOWN)
    files = snapshots.arrays.get("source")
    captions = [str(index if files is None else files[index]) for index in chosen]
    some = f"{len(chosen)} of " if len(chosen) < len(snapshots) else ""
    title = f"{name}: {some}{_in_short(snapshots)}"
    return contact_sheet([snapshots[i] for i in chosen], captions, title=title, type_names=_names(snapshots))


def _in_short(snapshots: Snapshots) -> str:
    size = "×".join(map(str, snapshots.lattice.shape))
    lattice = f"{size} {snapshots.lattice.geometry.name}" if snapshots.lattice.geometry.name == "hexagonal" else size
    states = "1 state" if len(snapshots) == 1 else f"{len(snapshots)} states"
    cells = sum(len(state.cells) for state in snapshots) / len(snapshots)
    properties = f", properties {', '.join(snapshots.property_names)}" if snapshots.property_names else ""
    return f"{states} of {lattice}, {cells:.4g} cells each, types {', '.join(_names(snapshots)[1:])}{properties}"


def _print_info(name: str, facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from neuralcpm_bridge.lattice import boundary_text

    types, contacts = facts["types"], facts["contact_length"]
    overview = Table(show_header=False, title=name, title_justify="left")
    boundary = facts["boundary"] if isinstance(facts["boundary"], str) else boundary_text(facts["boundary"])
    rows = {
        "states": f"{facts['states']:,}",
        "lattice": f"{'×'.join(map(str, facts['lattice']))} {facts['geometry']}, {boundary}",
        "cells per state": f"{facts['cells']:.4g}",
        "volume": "–"
        if not facts["volume_range"]
        else "mean {:.4g}, {} to {}".format(facts["volume_mean"], *facts["volume_range"]),
        "properties": ", ".join(f"{key} ({low:.4g} to {high:.4g})" for key, (low, high) in facts["properties"].items())
        or "–",
        "fragmented cells": f"{facts['fragmented_cells']:.2g} per state",
        "heterotypic boundary": _number(facts["heterotypic_fraction"]),
        "further arrays": ", ".join(facts["arrays"]) or "–",
        "measured": "1 state" if facts["measured_states"] == 1 else f"{facts['measured_states']} states",
        "provenance": ", ".join(f"{key}: {_brief(value)}" for key, value in facts["provenance"].items()) or "–",
    }
    for key, value in rows.items():
        overview.add_row(key, value)
    by_type, shown = Table(), range(min(len(types), MOST_TYPES_SHOWN + 1))
    for column in ("type", "aspect ratio", "clusters", *(f"contact with {types[number]}" for number in shown)):
        by_type.add_column(column, overflow="fold")
    for number in shown[1:]:
        columns = [_number(facts["aspect_ratio"][number]), _number(facts["clusters"][number])]
        by_type.add_row(types[number], *columns, *(_number(contacts[number][other]) for other in shown))
    console = Console(markup=False)
    console.print(overview)
    console.print(by_type)
    if len(types) - 1 > MOST_TYPES_SHOWN:
        console.print(f"{len(types) - 1 - MOST_TYPES_SHOWN} further types: --json lists all.", highlight=False)
    for remark in facts["remarks"]:
        console.print(remark, markup=False, highlight=False)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _brief(value: Any) -> str:
    if not isinstance(value, (list, dict)):
        return str(value)
    return "1 entry" if len(value) == 1 else f"{len(value)} entries"
