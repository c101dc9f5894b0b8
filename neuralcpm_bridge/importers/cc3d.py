"""CompuCell3D: lattice data (legacy VTK) and PIF files. Rows are y, columns are x."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from ..errors import UserError
from .frames import MIXED, Frame, check_sites, types_on_sites
from .safe_xml import parse_xml

MEDIUM = "Medium"


@dataclass(frozen=True)
class Model:
    """What the files beside the lattice say; None where they do not."""

    types: dict[int, str] | None = None
    shape: tuple[int, int] | None = None
    boundary: str | None = None


def read_vtk(path: Path) -> list[Frame]:
    """A `Step_*.vtk` of CC3D's LatticeData folder."""
    text = _text(path)
    head = text[:2000]
    if not head.startswith("# vtk DataFile") or "STRUCTURED_POINTS" not in head:
        raise UserError("The file is no legacy VTK file of STRUCTURED_POINTS: give a Step_*.vtk of CompuCell3D.")
    if not re.search(r"^ASCII\s*$", head, re.MULTILINE):
        raise UserError("The VTK file is binary, but CompuCell3D writes ASCII: give the file as CompuCell3D wrote it.")
    size = re.search(r"^DIMENSIONS\s+(\d+)\s+(\d+)\s+(\d+)\s*$", head, re.MULTILINE)
    if size is None:
        raise UserError("The VTK file has no DIMENSIONS: run the simulation again.")
    width, height, depth = (int(number) for number in size.groups())
    _check_2d(depth)
    check_sites(height, width)
    labels, types = (_array(text, name, height * width).reshape(height, width) for name in ("CellId", "CellType"))
    kinds = types_on_sites(labels, types, "CellType")
    model = _beside(path)
    names = model.types or {number: f"type{number}" for number in sorted({*kinds.values()})}
    missing = sorted({*kinds.values()} - {*names})
    if missing:
        raise UserError(f"Type {missing[0]} is not among the types of the .dml file: keep the two files together.")
    named = {label: names[kind] for label, kind in kinds.items()}
    order = tuple(names[number] for number in sorted(names) if number)
    return [Frame(path, None, labels, named, order, model.boundary, simulated=True)]


def read_pif(path: Path, lattice: tuple[int, int] | None) -> list[Frame]:
    """A PIF file: lines `[cluster] id type x1 x2 y1 y2 z1 z2`, both ends included; later lines win.

    The size of the lattice comes from the model beside it, or from `lattice` (rows, columns).
    """
    boxes = _pif_boxes(_text(path))
    model = _beside(path)
    shape = lattice or model.shape
    if shape is None:
        raise UserError(
            "A PIF file does not say how large its lattice is, and there is no CC3DML file beside it: pass "
            "--lattice ROWSxCOLUMNS."
        )
    check_sites(*shape)
    labels = np.zeros(shape, dtype=np.int64)
    named: dict[int, str] = {}
    for line, label, kind, (x1, x2, y1, y2, z1, z2) in boxes:
        _check_2d(1 if z1 == z2 == 0 else 2)
        if not (0 <= x1 <= x2 < shape[1] and 0 <= y1 <= y2 < shape[0]):
            raise UserError(
                f"Line {line} covers x {x1} to {x2} and y {y1} to {y2}, but the lattice has {shape[1]} columns and "
                f"{shape[0]} rows: correct it, or pass --lattice."
            )
        if kind != MEDIUM and named.setdefault(label, kind) != kind:
            raise UserError(f"Line {line} gives cell {label} the type {kind}, but it had {named[label]}: correct it.")
        labels[y1 : y2 + 1, x1 : x2 + 1] = 0 if kind == MEDIUM else label
    order = tuple(name for number, name in sorted((model.types or {}).items()) if number)
    return [Frame(path, None, labels, named, order or tuple(dict.fromkeys(named.values())), model.boundary, True)]


def _pif_boxes(text: str) -> list[tuple[int, int, str, tuple[int, ...]]]:
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    clusters = bool(lines) and lines[0][1][-1] == "Clusters"
    first = 1 if clusters else 0  # a column of cluster ids comes before the cell's id
    boxes = []
    for number, words in lines[first:]:
        try:
            label, kind, numbers = int(words[first]), words[first + 1], tuple(int(w) for w in words[first + 2 :])
            if len(numbers) not in (4, 6) or label < 0:
                raise ValueError
        except (ValueError, IndexError):
            raise UserError(
                f"Line {number} is '{' '.join(words)[:60]}', but 'id type x1 x2 y1 y2 z1 z2' is expected: correct it."
            ) from None
        boxes.append((number, label + 1, kind, (*numbers, 0, 0)[:6]))  # CC3D's ids may begin with 0
    return boxes


def _beside(path: Path) -> Model:
    """What CC3D's own files near a lattice say: the .dml of LatticeData, and the project's CC3DML."""
    types = shape = boundary = None
    for summary in sorted(path.parent.glob("*.dml"))[:1]:
        root = parse_xml(summary)
        _check_square(root.find("Lattice"))
        types = _type_names(root.findall("CellType"))
    for candidate in [*sorted(path.parent.glob("*.xml")), *sorted((path.parent.parent / "Simulation").glob("*.xml"))]:
        root = parse_xml(candidate)
        if root.tag != "CompuCell3D":
            continue
        potts = root.find("Potts")
        if potts is not None:
            _check_square(potts.find("LatticeType"))
            shape, boundary = _dimensions(potts.find("Dimensions")), _boundary(potts)
        types = types or _type_names(root.findall("Plugin[@Name='CellType']/CellType"))
        break
    return Model(types, shape, boundary)


def _boundary(potts: etree._Element) -> str:
    """ "periodic", "free", or "mixed" where x and y differ."""
    periodic = [(potts.findtext(f"Boundary_{axis}") or "").strip() == "Periodic" for axis in "xy"]
    if periodic[0] != periodic[1]:
        return MIXED
    return "periodic" if periodic[0] else "free"


def _dimensions(element: etree._Element | None) -> tuple[int, int] | None:
    try:
        return None if element is None else (int(element.attrib["y"]), int(element.attrib["x"]))
    except (KeyError, ValueError):
        return None  # given by a steering parameter or a script: the model does not say


def _type_names(elements: list[etree._Element]) -> dict[int, str] | None:
    try:
        return {int(e.attrib["TypeId"]): str(e.attrib["TypeName"]) for e in elements} or None
    except (KeyError, ValueError):
        raise UserError("A CellType beside the lattice lacks its TypeId or TypeName: correct that file.") from None


def _check_square(element: etree._Element | None) -> None:
    kind = "" if element is None else (element.get("Type") or element.text or "").strip()
    if kind.lower() not in ("", "square"):
        raise UserError(f"The lattice is {kind.lower()}, but a square one is needed: this simulation cannot be used.")


def _check_2d(depth: int) -> None:
    if depth != 1:
        raise UserError("The lattice is 3D, but a 2D one (z = 0 only) is needed: this simulation cannot be used.")


def _array(text: str, name: str, count: int) -> NDArray[np.int64]:
    """One array of the file's FIELD, `[count]`."""
    start = re.search(rf"^{name}\s+1\s+(\d+)\s+\w+\s*$", text, re.MULTILINE)
    if start is None:
        raise UserError(f"The VTK file has no array {name}: give lattice data with the cell field in it.")
    end = re.compile(r"^[A-Za-z]", re.MULTILINE).search(text, start.end())
    words = text[start.end() : end.start() if end else len(text)].split()
    if len(words) != count:
        raise UserError(
            f"Array {name} has {len(words)} values for a lattice of {count} sites: the file is cut off, write it again."
        )
    try:
        return np.array(words, dtype=np.int64)
    except ValueError:
        raise UserError(f"Array {name} holds something else than whole numbers: write the file again.") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"The file cannot be read ({error.strerror}): check it.") from None
