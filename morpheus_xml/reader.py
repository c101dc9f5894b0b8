"""What a MorpheusML file says about its cellular Potts model: types, energies, lattice, populations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from neuralcpm_bridge.errors import UserError

from .document import Document, Element, parse_model

VERSIONS = ("3", "4")
"""MorpheusML versions whose elements mean what they mean today; Morpheus' own examples are of both."""
ELEMENT = "NeuralHamiltonian"


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
    def learned(self) -> list[Element]:
        return list(self.element.all(ELEMENT))


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
    version: str
    title: str
    lattice_class: str
    size: str
    boundaries: dict[str, str]
    lattice_neighbourhood: str | None
    sampler_neighbourhood: str | None
    surface_neighbourhood: str | None
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
    def medium(self) -> str:
        """The medium's name; Morpheus makes one called Medium where a file declares none."""
        return next((entry.name for entry in self.types if entry.is_medium), "Medium")

    @property
    def boundary(self) -> str | None:
        """`periodic`, `free` (no side periodic) or None (some are)."""
        kinds = {self.boundaries.get(side) == "periodic" for side in ("-x", "x", "-y", "y")}
        return None if len(kinds) > 1 else "periodic" if kinds.pop() else "free"

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
    """Read a MorpheusML file; refused where it is not one, or of a version this program does not know."""
    document = parse_model(path)
    root = document.root
    if root.tag != "MorpheusModel":
        raise UserError(f"{path} begins with <{root.tag}>, but a Morpheus model begins with <MorpheusModel>: give one.")
    version = root.attributes.get("version", "")
    if version not in VERSIONS:
        raise UserError(
            f"{path} is MorpheusML version {version or '(none)'}, but versions {' and '.join(VERSIONS)} are known: "
            "open it in Morpheus' editor and save it, which brings it up to date."
        )
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


def _attribute(root: Element, path: str, name: str) -> str | None:
    element = root.find(path)
    return element.attributes.get(name) if element else None


def _text(element: Element | None) -> str | None:
    return element.text.strip() if element else None


def _neighbourhood(element: Element | None) -> str | None:
    """`order 2` or `distance 1.5`, as the file says it."""
    for kind in ("Order", "Distance", "Name"):
        found = element.find(kind) if element else None
        if found:
            return f"{kind.lower()} {found.text.strip()}"
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
