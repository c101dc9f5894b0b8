"""Morpheus: TIFF images of cell.id and cell.type, and models or checkpoints (XML). Rows are y, columns are x."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from ..errors import UserError
from .frames import MIXED, Frame, check_sites, types_on_sites
from .images import read_planes
from .safe_xml import parse_xml

XML_SUFFIXES = (".xml", ".xml.gz")
BUILT_IN_MEDIUM = "Medium"
"""The type Morpheus adds, behind the others, to a model that declares no medium."""

LISTED = ("Cell", "InitProperty", "InitVectorProperty", "InitMembraneProperty")
"""Parts of a population that place no cells, or list them node by node."""

CHANNELS = re.compile(r"cell\.(id|type)(?:_cell\.(id|type))?")


def read_tiff(path: Path) -> list[Frame]:
    """What a TiffPlotter wrote: its channels, named by the file name, alternate from page to page."""
    match = CHANNELS.match(path.name)
    channels = [name for name in match.groups() if name] if match else []
    if "id" not in channels:
        raise UserError(
            "Morpheus names the channels of an image in its file name, but this one does not begin with cell.id: "
            "keep the name, and plot the symbols cell.id and cell.type."
        )
    planes = read_planes(path)
    if len(planes) % len(channels):
        raise UserError(f"The image has {len(planes)} pages for {len(channels)} channels: run the model again.")
    classes, boundary = _model_beside(path)
    frames = []
    for number in range(0, len(planes), len(channels)):
        page = dict(zip(channels, planes[number : number + len(channels)], strict=True))
        labels = page["id"]
        frame = Frame(path, number // len(channels), labels, boundary=boundary, simulated=True)
        if "type" in page:
            found = types_on_sites(labels, page["type"], "cell.type")
            frame.kinds = {label: _name(kind, tuple(classes)) for label, kind in found.items()}
            frame.type_order = _cell_types(classes) or tuple(dict.fromkeys(frame.kinds.values()))
            _clear_media(frame, classes)
        frames.append(frame)
    return frames


def read_xml(path: Path) -> list[Frame]:
    """The cells that a model or a checkpoint lists node by node."""
    root = parse_xml(path)
    if root.tag != "MorpheusModel":
        raise UserError(f"The XML is a {root.tag}, but a MorpheusModel is needed: give a Morpheus model or checkpoint.")
    lattice = root.find("Space/Lattice")
    if lattice is None or lattice.get("class") != "square":
        kind = "missing" if lattice is None else lattice.get("class")
        raise UserError(f"The lattice is {kind}, but a square one is needed: this model cannot be used.")
    shape, periodic = _shape(lattice), _periodic(lattice)
    classes = {BUILT_IN_MEDIUM: "medium"} | _classes(root)
    labels = np.zeros(shape, dtype=np.int64)
    kinds: dict[int, str] = {}
    for population in root.findall("CellPopulations/Population"):
        kind = population.get("type") or ""
        if kind not in classes:
            raise UserError(f"A population has the type {kind!r}, which is not among the CellTypes: correct the model.")
        if classes[kind] == "medium":
            continue
        made = [str(child.tag) for child in population if child.tag not in LISTED]
        if made:
            raise UserError(
                f"The model makes cells when it starts ({made[0]}), so they are not in the file: give a checkpoint, "
                "which Morpheus writes with SaveInterval."
            )
        for cell in population.findall("Cell"):
            label = _id(cell, kinds)
            kinds[label] = kind
            sites = _nodes(cell, label, shape, periodic)
            taken = labels[sites[:, 0], sites[:, 1]]
            if taken.any():
                raise UserError(
                    f"Cell {label} and cell {taken[taken > 0][0]} share a node, but a node has one cell: correct it."
                )
            labels[sites[:, 0], sites[:, 1]] = label
    return [Frame(path, None, labels, kinds, _cell_types(classes), _boundary(periodic), simulated=True)]


def _clear_media(frame: Frame, classes: dict[str, str]) -> None:
    """A second medium, as models with free borders have, is medium too."""
    kinds = frame.kinds or {}
    media = [label for label, kind in kinds.items() if classes.get(kind) == "medium"]
    frame.labels = np.where(np.isin(frame.labels, media), 0, frame.labels)
    frame.kinds = {label: kind for label, kind in kinds.items() if label not in media}


def _model_beside(path: Path) -> tuple[dict[str, str], str | None]:
    """Cell types with their classes, in Morpheus' order, and the boundary, if a model lies beside the image."""
    for candidate in sorted(p for p in path.parent.iterdir() if p.name.endswith(XML_SUFFIXES)):
        root = parse_xml(candidate)
        lattice = root.find("Space/Lattice")
        if root.tag == "MorpheusModel" and lattice is not None:
            return _classes(root), _boundary(_periodic(lattice))
    return {}, None


def _name(kind: int, names: tuple[str, ...]) -> str:
    if not names:
        return f"type{kind}"
    if kind >= len(names):
        raise UserError(f"Type {kind} is not among the types of the model beside the image: keep the two together.")
    return names[kind]


def _classes(root: etree._Element) -> dict[str, str]:
    """Cell types of a model and their classes, in the order that numbers them."""
    return {str(e.get("name")): str(e.get("class")) for e in root.findall("CellTypes/CellType")}


def _cell_types(classes: dict[str, str]) -> tuple[str, ...]:
    return tuple(name for name, kind in classes.items() if kind != "medium")


def _shape(lattice: etree._Element) -> tuple[int, int]:
    size = lattice.find("Size")
    text = "" if size is None else size.get("value") or ""
    try:
        width, height, *rest = (int(float(number)) for number in re.split(r"[\s,]+", text.strip()))
    except ValueError:
        raise UserError(f"The lattice has the size {text!r}, but 'x, y, 0' in numbers is needed: correct it.") from None
    if rest and rest[0] > 1:
        raise UserError("The lattice is 3D, but a 2D one is needed: this model cannot be used.")
    check_sites(height, width)
    return height, width


def _periodic(lattice: etree._Element) -> tuple[bool, bool]:
    """Whether rows (y) and columns (x) are periodic; where nothing is said, Morpheus takes them for noflux."""
    conditions = lattice.findall("BoundaryConditions/Condition")
    periodic = {str(c.get("boundary")).removeprefix("-") for c in conditions if c.get("type") == "periodic"}
    return "y" in periodic, "x" in periodic


def _boundary(periodic: tuple[bool, bool]) -> str:
    if periodic[0] != periodic[1]:
        return MIXED
    return "periodic" if periodic[0] else "free"


def _id(cell: etree._Element, taken: dict[int, str]) -> int:
    text = cell.get("id")
    if text is None:
        return max(taken, default=0) + 1
    if not text.isdigit() or int(text) == 0 or int(text) in taken:
        raise UserError(f"A cell has the id {text!r}, but ids are positive and differ: correct the model.")
    return int(text)


def _nodes(cell: etree._Element, label: int, shape: tuple[int, int], periodic: tuple[bool, bool]) -> NDArray[np.int64]:
    """Sites (row, column) `[n, 2]` of a cell, which may reach over a periodic border."""
    text = cell.findtext("Nodes") or ""
    try:
        nodes = [[int(n) for n in re.split(r"[\s,]+", part.strip())] for part in text.split(";") if part.strip()]
        points = np.array([(y, x) for x, y, *_ in nodes], dtype=np.int64).reshape(-1, 2)
    except ValueError:
        raise UserError(f"The nodes of cell {label} are not of the form 'x y 0;x y 0': correct the model.") from None
    outside = ((points < 0) | (points >= shape)) & ~np.array(periodic)
    if outside.any():
        row, column = points[outside.any(axis=1)][0]
        raise UserError(
            f"Cell {label} has the node {column}, {row}, which lies outside the lattice of {shape[1]} by {shape[0]}: "
            "correct the model."
        )
    return np.unique(points % shape, axis=0)
