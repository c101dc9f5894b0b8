"""CompuCell3D: lattice data (legacy VTK) and PIF files. Planes are z, rows y, columns x."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from ..conventions import TARGETS
from ..errors import UserError
from ..lattice import Boundary, GeometryName, Layout
from .frames import Frame, Moment, check_listed_sites, check_sites, extent_text, label_number, types_on_sites
from .safe_xml import parse_xml

TARGET = TARGETS["cc3d"]
MEDIUM = "Medium"
HEAD_BYTES = 2000
"""Of a VTK file: more than its header has."""


@dataclass(frozen=True)
class Model:
    """What the files beside the lattice say; None where they do not."""

    types: dict[int, str] | None = None
    geometry: GeometryName | None = None
    shape: tuple[int, ...] | None = None
    boundary: tuple[Boundary, ...] | None = None
    """Along z, y and x, whether or not there is a third axis."""

    def frame(self, path: Path, labels: NDArray[np.integer], types: dict[int, str], order: tuple[str, ...]) -> Frame:
        """A snapshot of this model; hexagonal lattices are stored in rows."""
        if self.geometry == "hexagonal" and labels.ndim == 3:
            raise UserError(
                "The lattice is hexagonal in 3D, where sites have twelve neighbours, but only plane hexagonal lattices "
                "can be used: this simulation cannot."
            )
        boundary = None if self.boundary is None else self.boundary[-labels.ndim :]
        layout: Layout = "rows" if self.geometry == "hexagonal" else "axes"
        return Frame(path, None, labels, types, order, boundary, True, self.geometry, layout)


def _geometry(text: str | None) -> GeometryName | None:
    """What CompuCell3D takes the text of LatticeType for: hexagonal, in letters of any size, or nothing of its own.

    Empty lines around the word do not count, blanks beside it do.
    """
    word = "".join(line for line in (text or "").splitlines() if line.strip())
    return "hexagonal" if word.lower() == "hexagonal" else None


def read_vtk(path: Path) -> list[Frame]:
    """A `Step_*.vtk` of CC3D's LatticeData folder."""
    head = _text(path, HEAD_BYTES)
    if not head.startswith("# vtk DataFile") or "STRUCTURED_POINTS" not in head:
        raise UserError("The file is no legacy VTK file of STRUCTURED_POINTS: give a Step_*.vtk of CompuCell3D.")
    if not re.search(r"^ASCII\s*$", head, re.MULTILINE):
        raise UserError("The VTK file is binary, but CompuCell3D writes ASCII: give the file as CompuCell3D wrote it.")
    size = re.search(r"^DIMENSIONS\s+(\d+)\s+(\d+)\s+(\d+)\s*$", head, re.MULTILINE)
    if size is None:
        raise UserError("The VTK file has no DIMENSIONS: run the simulation again.")
    shape = _flat_if_thin(tuple(int(number) for number in size.groups())[::-1])
    check_sites(shape)
    text = _text(path)
    labels, types = (_array(text, name, int(np.prod(shape))).reshape(shape) for name in ("CellId", "CellType"))
    found = types_on_sites(labels, types, "CellType")
    model = _beside(path)
    names = model.types or {number: f"type{number}" for number in sorted({*found.values()})}
    missing = sorted({*found.values()} - {*names})
    if missing:
        raise UserError(f"Type {missing[0]} is not among the types of the .dml file: keep the two files together.")
    named = {label: names[number] for label, number in found.items()}
    frame = model.frame(path, labels, named, tuple(names[number] for number in sorted(names) if number))
    step = re.search(r"(\d+)$", path.stem)
    if step is not None:  # LatticeData holds one simulation, and names its files by their Monte Carlo step
        frame.moment = Moment(str(path.parent), float(step[1]), "MCS")
    return [frame]


def read_pif(path: Path, lattice: tuple[int, ...] | None) -> list[Frame]:
    """A PIF file: lines `[cluster] id type x1 x2 y1 y2 z1 z2`, both ends included; later lines win.

    The size of the lattice comes from the model beside it, or from `lattice` ((planes,) rows, columns).
    """
    boxes = _pif_boxes(_text(path))
    model = _beside(path)
    shape = lattice or model.shape
    if shape is None:
        raise UserError(
            "A PIF file does not say how large its lattice is, and there is no CC3DML file beside it: pass "
            "--lattice ROWSxCOLUMNS, in 3D PLANESxROWSxCOLUMNS."
        )
    listed = sum((x2 - x1 + 1) * (y2 - y1 + 1) * (z2 - z1 + 1) for *_, (x1, x2, y1, y2, z1, z2) in boxes)
    check_listed_sites(shape, listed)
    labels = np.zeros(shape if len(shape) == 3 else (1, *shape), dtype=np.int64)
    named: dict[int, str] = {}
    for line, label, cell_type, (x1, x2, y1, y2, z1, z2) in boxes:
        ends = ((z1, z2), (y1, y2), (x1, x2))
        if any(not 0 <= low <= high < size for (low, high), size in zip(ends, labels.shape, strict=True)):
            raise UserError(
                f"Line {line} covers x {x1} to {x2}, y {y1} to {y2} and z {z1} to {z2}, but the lattice has "
                f"{extent_text(labels.shape)}: correct it, or pass --lattice."
            )
        if cell_type != MEDIUM and named.setdefault(label, cell_type) != cell_type:
            raise UserError(
                f"Line {line} gives cell {label} the type {cell_type}, but it had {named[label]}: correct it."
            )
        box = tuple(slice(low, high + 1) for low, high in ends)
        labels[box] = 0 if cell_type == MEDIUM else label
    order = tuple(name for number, name in sorted((model.types or {}).items()) if number)
    return [model.frame(path, labels.reshape(shape), named, order or tuple(dict.fromkeys(named.values())))]


def _pif_boxes(text: str) -> list[tuple[int, int, str, tuple[int, ...]]]:
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    clusters = bool(lines) and lines[0][1][-1] == "Clusters"
    first = 1 if clusters else 0  # a column of cluster ids comes before the cell's id
    boxes = []
    for number, words in lines[first:]:
        try:
            label, cell_type = label_number(words[first]), words[first + 1]
            numbers = tuple(map(int, words[first + 2 :]))
            if len(numbers) not in (4, 6):
                raise ValueError
        except (ValueError, IndexError):
            raise UserError(
                f"Line {number} is '{' '.join(words)[:60]}', but 'id type x1 x2 y1 y2 z1 z2' is expected: correct it."
            ) from None
        boxes.append((number, label + 1, cell_type, (*numbers, 0, 0)[:6]))  # CC3D's ids may begin with 0
    return boxes


def _beside(path: Path) -> Model:
    """What CC3D's own files near a lattice say: the .dml of LatticeData, and the project's CC3DML."""
    types = geometry = shape = boundary = None
    for summary in sorted(path.parent.glob("*.dml"))[:1]:
        root = parse_xml(summary)
        element = root.find("Lattice")
        geometry = _geometry(None if element is None else element.get("Type"))
        types = _type_names(root.findall("CellType"))
    for candidate in [*sorted(path.parent.glob("*.xml")), *sorted((path.parent.parent / "Simulation").glob("*.xml"))]:
        root = parse_xml(candidate)
        if root.tag != "CompuCell3D":
            continue
        potts = root.find("Potts")
        if potts is not None:
            geometry = geometry or _geometry(potts.findtext("LatticeType"))
            shape = _dimensions(potts.find("Dimensions"))
            boundary = tuple(TARGET.boundary_named(potts.findtext(f"Boundary_{axis}") or "") for axis in "zyx")
        types = types or _type_names(root.findall("Plugin[@Name='CellType']/CellType"))
        break
    return Model(types, geometry, shape, boundary)


def _dimensions(element: etree._Element | None) -> tuple[int, ...] | None:
    try:
        return None if element is None else _flat_if_thin(tuple(int(element.get(axis, "1")) for axis in "zyx"))
    except ValueError:
        return None  # given by a steering parameter or a script: the model does not say


def _flat_if_thin(shape: tuple[int, ...]) -> tuple[int, ...]:
    """CompuCell3D's lattices all have three axes; those of one plane are plane."""
    return shape[1:] if shape[0] == 1 else shape


def _type_names(elements: list[etree._Element]) -> dict[int, str] | None:
    try:
        return {int(e.attrib["TypeId"]): str(e.attrib["TypeName"]) for e in elements} or None
    except (KeyError, ValueError):
        raise UserError("A CellType beside the lattice lacks its TypeId or TypeName: correct that file.") from None


def _array(text: str, name: str, count: int) -> NDArray[np.int64]:
    """One array of the file's FIELD, `[count]`."""
    start = re.search(rf"^{name}\s+1\s+(\d+)\s+\w+\s*$", text, re.MULTILINE)
    if start is None:
        raise UserError(f"The VTK file has no array {name}: give lattice data with the cell field in it.")
    end = re.compile(r"^[A-Za-z]", re.MULTILINE).search(text, start.end())
    part = text[start.end() : end.start() if end else len(text)]
    if re.search(r"[^\d\s]", part):
        raise UserError(f"Array {name} holds something else than whole numbers: write the file again.")
    values = np.fromstring(part, dtype=np.int64, sep=" ")
    if values.size != count:
        raise UserError(
            f"Array {name} has {values.size} values for a lattice of {count} sites: the file is cut off, write it "
            "again."
        )
    return values


def _text(path: Path, most: int = -1) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(most).decode("utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"The file cannot be read ({error.strerror}): check it.") from None
