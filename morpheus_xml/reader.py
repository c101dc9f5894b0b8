"""What a MorpheusML file says about its cellular Potts model: types, energies, lattice, populations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from neuralcpm_bridge.conventions import TARGETS
from neuralcpm_bridge.errors import UserError, reading
from neuralcpm_bridge.hosting.fit import AXES
from neuralcpm_bridge.lattice import GEOMETRIES, Boundary, Geometry, Lattice

from .document import Document, Edit, Element, parse_content, parse_model
from .upgrade import CURRENT, upgraded

TARGET = TARGETS["morpheus"]
ELEMENT = "NeuralHamiltonian"
ROOTS = ("MorpheusModel", "CellularPottsModel")
"""Today's, and that of version 1."""
NEARLY = 1e-5
"""What a site may lie beyond a neighbourhood's distance."""
OPTIMAL = {"square": 4, "hexagonal": 4, "cubic": 6}
"""The orders that newer Morpheus calls optimal."""


@dataclass(frozen=True)
class CellTypeEntry:
    """A `<CellType>`: its name, whether it is a medium, and its constraints as they are written."""

    name: str
    is_medium: bool
    element: Element

    @property
    def volume(self) -> Element | None:
        return self.element.find("VolumeConstraint")

    @property
    def surface(self) -> Element | None:
        return self.element.find("SurfaceConstraint")

    @property
    def length(self) -> Element | None:
        return self.element.find("LengthConstraint")

    @property
    def learned(self) -> list[Element]:
        return list(self.element.all(ELEMENT))


@dataclass(frozen=True)
class Neighbourhood:
    """A `<Neighborhood>`: `order 2`, `distance 1.5` or a name, as the file says it."""

    kind: str
    value: str
    element: Element

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"

    def order(self, geometry: Geometry) -> int | None:
        """Its order; None where it is none of those Morpheus and the lattice have in common."""
        if self.kind == "name":
            return None
        if self.value == "optimal":
            return OPTIMAL[geometry.name]
        try:
            order = int(self.value) if self.kind == "order" else geometry.order_within(float(self.value) + NEARLY)
        except (ValueError, UserError):
            return None
        return order if 1 <= order <= TARGET.highest_order[geometry.name] else None


@dataclass(frozen=True)
class ContactEntry:
    """A `<Contact>`; `value` may be an expression."""

    type1: str
    type2: str
    value: str
    element: Element


@dataclass(frozen=True)
class PopulationEntry:
    """A `<Population>`: its type, and how its cells are made (names of initialisers, or explicit cells)."""

    type: str
    size: str
    cells: int
    initialisers: tuple[str, ...]
    element: Element


@dataclass(frozen=True)
class ModelFile:
    """A MorpheusML file, read. Numbers that may be expressions stay text."""

    document: Document
    version: int
    """Of the file; the document is what version 4 makes of it, or of a checkpoint what Morpheus starts from."""
    is_upgraded: bool
    """Whether that is another text than the file's."""
    title: str
    lattice_class: str
    size: str
    boundaries: dict[str, str]
    lattice_neighbourhood: Neighbourhood | None
    sampler_neighbourhood: Neighbourhood | None
    surface_neighbourhood: Neighbourhood | None
    surface_scaling: str
    temperature: str | None
    stepper: str | None
    stop_time: str | None
    types: tuple[CellTypeEntry, ...]
    contacts: tuple[ContactEntry, ...]
    contact_default: str
    populations: tuple[PopulationEntry, ...]

    @property
    def root(self) -> Element:
        return self.document.root

    @property
    def path(self) -> Path:
        return self.document.path

    @property
    def cell_types(self) -> tuple[CellTypeEntry, ...]:
        """The types of cells, media left out."""
        return tuple(entry for entry in self.types if not entry.is_medium)

    @property
    def learned(self) -> list[str]:
        """Files of the learned models, as they are named, in their order."""
        return list(dict.fromkeys(found.attributes["model"] for entry in self.types for found in entry.learned))

    @property
    def medium(self) -> str:
        """The medium's name; Morpheus makes one called Medium where a file declares none."""
        return next((entry.name for entry in self.types if entry.is_medium), "Medium")

    @property
    def lattice(self) -> Lattice:
        """The lattice in the order of an array's axes, y before x; refused where nothing can be learned on it."""
        element = self.root.find("Space/Lattice") or self.root
        where = f"{self.path}, {element.where()}"
        geometry = GEOMETRIES.get(self.lattice_class)
        if geometry is None:
            raise UserError(
                f"{where}: the lattice is {self.lattice_class or 'of no class'}, but learned energies are defined on "
                f"{', '.join(GEOMETRIES)} ones: use one of these classes."
            )
        parts = self.size.split(",") if "," in self.size else self.size.split()
        sizes = [self.number(text) for text in parts][: geometry.dimension]
        if len(sizes) < geometry.dimension or not all(size is not None and size >= 1 for size in sizes):
            raise UserError(
                f"{where}: the size is '{self.size}', but numbers or global constants are needed for the "
                f"{geometry.dimension} axes of a {geometry.name} lattice: correct it."
            )
        shape = tuple(int(size) for size in reversed(sizes) if size is not None)
        return Lattice(geometry, shape, tuple(self._boundary(axis) for axis in AXES[-geometry.dimension :]))

    def _boundary(self, axis: str) -> Boundary:
        return TARGET.boundary_named(self.boundaries.get(axis, ""))

    def number(self, text: str | None) -> float | None:
        """The value of a number or of a global constant; None where it is an expression or changes."""
        if text is None:
            return None
        try:
            return float(text)
        except ValueError:
            pass
        for constant in self.root.all("Global/Constant"):
            if constant.attributes.get("symbol") == text.strip():
                value = constant.attributes.get("value", "")
                return self.number(value) if value.strip() != text.strip() else None
        return None


def read_model(path: str | Path) -> ModelFile:
    """Read a MorpheusML file, brought up to version 4, or a checkpoint; refused where it is none or of a version that
    nobody knows."""
    with reading(path, "a readable Morpheus model"):
        return _model_file(parse_model(path))


def model_of(path: Path, content: bytes) -> ModelFile:
    """As `read_model`, of a text that is no file yet."""
    return _model_file(parse_content(path, content))


def _model_file(document: Document) -> ModelFile:
    version = _version(document)
    content = upgraded(document.content, version) if version < CURRENT else None
    if content is not None:
        document = parse_content(document.path, content)
    document = _restartable(document)
    root = document.root
    lattice = root.find("Space/Lattice")
    boundaries: dict[str, str] = {}
    for condition in root.all("Space/Lattice/BoundaryConditions/Condition"):
        side, kind = condition.attributes.get("boundary", ""), condition.attributes.get("type", "")
        boundaries[side] = kind
        if kind == "periodic":  # of both sides or of none; a side that is not named is noflux
            boundaries |= {side.removeprefix("-"): kind, f"-{side.removeprefix('-')}": kind}
    cpm = root.find("CPM")
    return ModelFile(
        document=document,
        version=version,
        is_upgraded=content is not None,
        title=_text(root.find("Description/Title")) or "",
        lattice_class=lattice.attributes.get("class", "") if lattice else "",
        size=_attribute(root, "Space/Lattice/Size", "value") or "",
        boundaries=boundaries,
        lattice_neighbourhood=_neighbourhood(root.find("Space/Lattice/Neighborhood")),
        sampler_neighbourhood=_neighbourhood(root.find("CPM/MonteCarloSampler/Neighborhood")),
        surface_neighbourhood=_neighbourhood(root.find("CPM/ShapeSurface/Neighborhood")),
        surface_scaling=_attribute(root, "CPM/ShapeSurface", "scaling") or "norm",
        temperature=_attribute(root, "CPM/MonteCarloSampler/MetropolisKinetics", "temperature"),
        stepper=_attribute(root, "CPM/MonteCarloSampler", "stepper"),
        stop_time=_attribute(root, "Time/StopTime", "value"),
        types=tuple(
            CellTypeEntry(e.attributes.get("name", ""), e.attributes.get("class") == "medium", e)
            for e in root.all("CellTypes/CellType")
        ),
        contacts=tuple(_contact(e) for e in (cpm.all("Interaction/Contact") if cpm else ())),
        contact_default=_attribute(root, "CPM/Interaction", "default") or "0",
        populations=tuple(_population(e) for e in root.all("CellPopulations/Population")),
    )


def _restartable(document: Document) -> Document:
    """A checkpoint without its populations of media, which Morpheus writes and refuses to begin with."""
    root = document.root
    media = {e.attributes.get("name") for e in root.all("CellTypes/CellType") if e.attributes.get("class") == "medium"}
    edits = [
        Edit(element.start, element.end, "\n" * document.source(element).count("\n"))  # lines keep their numbers
        for element in root.all("CellPopulations/Population")
        if element.attributes.get("type") in media and {e.tag for e in element.walk()} == {"Population", "Cell"}
    ]
    return parse_content(document.path, document.edited(edits)) if edits else document


def _version(document: Document) -> int:
    path, root = document.path, document.root
    if root.tag not in ROOTS:
        raise UserError(f"{path} begins with <{root.tag}>, but a Morpheus model begins with <{ROOTS[0]}>: give one.")
    version = root.attributes.get("version", "1")
    if version not in map(str, range(1, CURRENT + 1)):
        raise UserError(
            f"{path} is MorpheusML version {version}, but versions 1 to {CURRENT} are known: open it in Morpheus' "
            "editor and save it as one of these."
        )
    return int(version)


def _attribute(root: Element, path: str, name: str) -> str | None:
    element = root.find(path)
    return element.attributes.get(name) if element else None


def _text(element: Element | None) -> str | None:
    return element.text.strip() if element else None


def _neighbourhood(element: Element | None) -> Neighbourhood | None:
    for kind in ("Distance", "Order", "Name"):  # what Morpheus takes first, should there be several
        found = element.find(kind) if element else None
        if found:
            return Neighbourhood(kind.lower(), found.text.strip(), found)
    return None


def _contact(element: Element) -> ContactEntry:
    values = element.attributes
    return ContactEntry(values.get("type1", ""), values.get("type2", ""), values.get("value", ""), element)


def _population(element: Element) -> PopulationEntry:
    listed = ("Cell", "InitProperty", "InitVectorProperty")
    makers = tuple(child.tag for child in element.children if child.tag not in listed)
    return PopulationEntry(
        element.attributes.get("type", ""),
        element.attributes.get("size", ""),
        sum(child.tag == "Cell" for child in element.children),
        makers,
        element,
    )
