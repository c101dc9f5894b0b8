"""Morpheus: TIFF images of cell.id and cell.type, and models or checkpoints (XML).

Planes are z, rows y, columns x; hexagonal lattices lie on skewed axes, as everywhere here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from ..conventions import TARGETS
from ..errors import UserError
from ..lattice import GEOMETRIES, Boundary, GeometryName
from .frames import ASK_STACK, Frame, Moment, Stack, check_listed_sites, label_number, types_on_sites
from .images import ome_depth, read_planes
from .safe_xml import parse_xml

XML_SUFFIXES = (".xml", ".xml.gz")
BUILT_IN_MEDIUM = "Medium"
"""The type Morpheus adds, behind the others, to a model that declares no medium."""

LISTED = ("Cell", "InitProperty", "InitVectorProperty", "InitMembraneProperty")
"""Parts of a population that place no cells, or list them node by node."""

CHANNELS = re.compile(r"cell\.(id|type)(?:_cell\.(id|type))?")


@dataclass(frozen=True)
class Model:
    """What a MorpheusModel says about its space and its types."""

    geometry: GeometryName
    shape: tuple[int, ...] | None
    boundary: tuple[Boundary, ...]
    classes: dict[str, str]
    """Cell types and their classes, in the order that numbers them."""

    @property
    def cell_types(self) -> tuple[str, ...]:
        return tuple(name for name, role in self.classes.items() if role != "medium")


def read_tiff(path: Path, stack: Stack | None = None) -> list[Frame]:
    """What a TiffPlotter wrote: channels, named by the file name, alternate from page to page, and planes from frame
    to frame; how many planes a frame has is said by the model beside it, by the file's OME header or by `stack`.
    """
    match = CHANNELS.match(path.name)
    channels = [name for name in match.groups() if name] if match else []
    if "id" not in channels:
        raise UserError(
            "Morpheus names the channels of an image in its file name, but this one does not begin with cell.id: "
            "keep the name, and plot the symbols cell.id and cell.type."
        )
    planes = read_planes(path)
    model = _model_beside(path)
    depth = _depth(path, model, stack, len(planes) // len(channels))
    deep = model.geometry == "cubic" if model else depth > 1
    if len(planes) % (len(channels) * depth):
        planes_each = f" of {depth} planes" if deep else ""
        raise UserError(
            f"The image has {len(planes)} pages for {len(channels)} channels{planes_each}: run the model again."
        )
    frames = []
    for number in range(0, len(planes), len(channels) * depth):
        pages = planes[number : number + len(channels) * depth]
        page = {
            name: np.stack(pages[first :: len(channels)]) if deep else pages[first]
            for first, name in enumerate(channels)
        }
        place = number // len(channels) // depth
        frame = Frame(path, place, page["id"], simulated=True, moment=Moment(str(path), place, "frames"))
        if model is not None:
            frame.boundary, frame.geometry = model.boundary, model.geometry
        if "type" in page:
            classes = model.classes if model else {}
            found = types_on_sites(page["id"], page["type"], "cell.type")
            frame.cell_types = {label: _name(number, tuple(classes)) for label, number in found.items()}
            names = model.cell_types if model else ()
            frame.type_order = names or tuple(dict.fromkeys(frame.cell_types.values()))
            _clear_media(frame, classes)
        frames.append(frame)
    return frames


def read_xml(path: Path) -> list[Frame]:
    """The cells that a model or a checkpoint lists node by node."""
    root = parse_xml(path)
    if root.tag != "MorpheusModel":
        raise UserError(f"The XML is a {root.tag}, but a MorpheusModel is needed: give a Morpheus model or checkpoint.")
    model = _model(root)
    if model.shape is None:
        raise UserError("The lattice has no size 'x, y, z' in numbers: give a checkpoint, or correct it.")
    check_listed_sites(model.shape, sum((nodes.text or "").count(";") + 1 for nodes in root.iter("Nodes")))
    classes = {BUILT_IN_MEDIUM: "medium"} | model.classes
    labels = np.zeros(model.shape, dtype=np.int64)
    types: dict[int, str] = {}
    for population in root.findall("CellPopulations/Population"):
        name = population.get("type") or ""
        if name not in classes:
            raise UserError(f"A population has the type {name!r}, which is not among the CellTypes: correct the model.")
        if classes[name] == "medium":
            continue
        made = [str(child.tag) for child in population if child.tag not in LISTED]
        if made:
            raise UserError(
                f"The model makes cells when it starts ({made[0]}), so they are not in the file: give a checkpoint, "
                "which Morpheus writes with SaveInterval."
            )
        for cell in population.findall("Cell"):
            label = _id(cell, types)
            types[label] = name
            sites = tuple(_nodes(cell, label, model).T)
            taken = labels[sites]
            if taken.any():
                raise UserError(
                    f"Cell {label} and cell {taken[taken > 0][0]} share a node, but a node has one cell: correct it."
                )
            labels[sites] = label
    return [Frame(path, None, labels, types, model.cell_types, model.boundary, True, model.geometry)]


def _clear_media(frame: Frame, classes: dict[str, str]) -> None:
    """A second medium, as models with free borders have, is medium too."""
    types = frame.cell_types or {}
    media = [label for label, name in types.items() if classes.get(name) == "medium"]
    frame.labels = np.where(np.isin(frame.labels, media), 0, frame.labels)
    frame.cell_types = {label: name for label, name in types.items() if label not in media}


# -- what a model says ---------------------------------------------------------------------------------------------


def _model_beside(path: Path) -> Model | None:
    for candidate in sorted(p for p in path.parent.iterdir() if p.name.endswith(XML_SUFFIXES)):
        root = parse_xml(candidate)
        if root.tag == "MorpheusModel":
            return _model(root)
    return None


def _model(root: etree._Element) -> Model:
    lattice = root.find("Space/Lattice")
    geometry = "missing" if lattice is None else str(lattice.get("class"))
    if lattice is None or geometry not in GEOMETRIES:
        raise UserError(f"The lattice is {geometry}, but {', '.join(GEOMETRIES)} ones can be used: this model cannot.")
    dimension = GEOMETRIES[geometry].dimension
    conditions = lattice.findall("BoundaryConditions/Condition")
    periodic = {
        str(entry.get("boundary")).removeprefix("-")
        for entry in conditions
        if TARGETS["morpheus"].boundary_named(entry.get("type") or "") == "periodic"
    }
    words: dict[bool, Boundary] = {True: "periodic", False: "free"}
    boundary = tuple(words[axis in periodic] for axis in "zyx"[-dimension:])
    classes = {str(e.get("name")): str(e.get("class")) for e in root.findall("CellTypes/CellType")}
    return Model(GEOMETRIES[geometry].name, _shape(lattice, dimension), boundary, classes)


def _shape(lattice: etree._Element, dimension: int) -> tuple[int, ...] | None:
    """(Planes,) rows, columns; None where the size is an expression. A plane lattice ignores z, as Morpheus does."""
    size = lattice.find("Size")
    text = "" if size is None else size.get("value") or ""
    try:
        numbers = [int(float(number)) for number in re.split(r"[\s,]+", text.strip())]
    except (ValueError, OverflowError):  # an expression, or infinite
        return None
    return tuple(numbers[:dimension][::-1]) if len(numbers) >= dimension else None


def _depth(path: Path, model: Model | None, stack: Stack | None, planes: int) -> int:
    """Planes of one frame."""
    if model is not None and model.geometry != "cubic":
        return 1
    if model is not None and model.shape is not None:
        return max(model.shape[0], 1)
    said = ome_depth(path)
    if said is not None:
        return said
    if stack is None and planes > 1:
        raise UserError(
            f"The image has {planes} planes, and neither a model beside it nor its header says whether they are depth "
            f"or time: {ASK_STACK}."
        )
    return planes if stack == "volume" else 1


def _name(number: int, names: tuple[str, ...]) -> str:
    if not names:
        return f"type{number}"
    if number >= len(names):
        raise UserError(f"Type {number} is not among the types of the model beside the image: keep the two together.")
    return names[number]


def _id(cell: etree._Element, taken: dict[int, str]) -> int:
    text = cell.get("id")
    if text is None:
        return max(taken, default=0) + 1
    try:
        number = label_number(text)
    except ValueError:
        number = 0
    if number == 0 or number in taken:
        raise UserError(f"A cell has the id {text[:40]!r}, but ids are positive and differ: correct the model.")
    return number


def _nodes(cell: etree._Element, label: int, model: Model) -> NDArray[np.int64]:
    """Sites `[n, d]` of a cell, which may reach over a periodic border."""
    shape = model.shape or ()
    text = cell.findtext("Nodes") or ""
    try:
        nodes = [[int(n) for n in re.split(r"[\s,]+", part.strip())] for part in text.split(";") if part.strip()]
        if any(len(node) < len(shape) for node in nodes):
            raise ValueError
        points = np.array([node[: len(shape)][::-1] for node in nodes], dtype=np.int64).reshape(-1, len(shape))
    except ValueError:
        raise UserError(f"The nodes of cell {label} are not of the form 'x y z;x y z': correct the model.") from None
    outside = ((points < 0) | (points >= shape)) & np.array([word == "free" for word in model.boundary])
    if outside.any():
        node = ", ".join(str(place) for place in points[outside.any(axis=1)][0][::-1])
        size = " by ".join(str(length) for length in shape[::-1])
        raise UserError(
            f"Cell {label} has the node {node}, which lies outside the lattice of {size}: correct the model."
        )
    return np.unique(points % shape, axis=0)
