"""Writing a complete Morpheus model, element by element."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from lxml import etree

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.hosting.fit import AXES
from neuralcpm_bridge.lattice import Lattice, size_text
from neuralcpm_bridge.metrics.geometry import unwrapped
from neuralcpm_bridge.state import CellState

from .elements import number_text
from .reader import ELEMENT, TARGET

Stepper = Literal["edgelist", "random"]
VERSION = "4"
BORDER = "border"
"""The second medium that surrounds a lattice with a free boundary."""
NARROWEST = 6
"""Sites along a periodic axis: Morpheus keeps copies of three at either end and tells one of the two ends only."""
PROPERTIES_LOG = "properties"
"""Name of the table of cells' properties that a run leaves."""
LARGEST_SHORT = 2**15 - 1
"""Cell ids above this do not fit into the 16-bit images Morpheus writes."""


class MorpheusModel:
    """A model under construction: types first, then what belongs to them, then cells and output, then `write`.

    Energies and temperature are Morpheus' (conventions.TARGETS); columns are x, rows y, planes z, and the axes of
    hexagonal lattices are Morpheus' own skewed ones. `surface_order`: the neighbourhood in which contacts and surfaces
    are meant; copies are made from all neighbours around a site. `properties`: symbols that every cell type defines,
    and what a cell has of each until it is given a value.
    """

    def __init__(
        self,
        title: str,
        lattice: Lattice,
        *,
        surface_order: int | None = None,
        temperature: float = 1.0,
        steps: float = 1000,
        seed: int = 0,
        stepper: Stepper = "edgelist",
        medium: str = "medium",
        details: str = "",
        properties: Mapping[str, float] | None = None,
    ) -> None:
        _check_width(lattice)
        self.lattice, self.medium, self.properties = lattice, medium, dict(properties or {})
        self.root = etree.Element("MorpheusModel", version=VERSION)
        description = _add(self.root, "Description")
        _add(description, "Title").text = title
        _add(description, "Details").text = details
        self._add_space()
        self._add_time(steps, seed)
        self._types: dict[str, etree._Element] = {}
        self._cell_types = _add(self.root, "CellTypes")
        self._add_medium(medium)
        if self.has_border:
            # Frozen, lest it be copied into the lattice, where its contacts would cost nothing.
            _add(_add(self._add_medium(BORDER), "FreezeMotion"), "Condition").text = "1"
        self._add_sampler(temperature, stepper, surface_order or lattice.geometry.moore_order)
        self._populations = _add(self.root, "CellPopulations")
        for axis in self._axes("free"):
            for side in (f"-{axis}", axis):
                _add(self._populations, "BoundaryValue", boundary=side, value=BORDER)
        self._analysis = _add(self.root, "Analysis")

    @property
    def has_border(self) -> bool:
        return not all(self.lattice.periodic)

    @property
    def first_id(self) -> int:
        """What Morpheus adds to the number of every cell: the border is a cell of its own, numbered 1."""
        return int(self.has_border)

    # -- parts ---------------------------------------------------------------------------------------------------

    def add_type(self, name: str, elements: Iterable[etree._Element] = ()) -> None:
        """A cell type with what stands in it."""
        self._types[name] = _add(self._cell_types, "CellType", {"class": "biological"}, name=name)
        for symbol, value in self.properties.items():
            _add(self._types[name], "Property", symbol=symbol, value=number_text(value))
        self._types[name].extend(elements)

    def add_contact(self, first: str, second: str, energy: float) -> None:
        _add(self._interaction, "Contact", type1=first, type2=second, value=number_text(energy))

    def add_learned_term(self, attributes: dict[str, str]) -> None:
        """The plugin's element, the same in every type."""
        for element in self._types.values():
            _add(element, ELEMENT, attributes)

    def add_cells(self, state: CellState, names: tuple[str, ...]) -> None:
        """The cells of a state, node by node; `names` of the types in the state's order."""
        cells = dict(_nodes(state))
        for number, name in enumerate(names):
            members = [cell for cell in cells if state.types[cell] == number]
            if number == 0 or not members:
                continue
            population = _add(self._populations, "Population", type=name, size="0")
            for cell in members:
                element = _add(population, "Cell", id=str(cell + self.first_id))
                for symbol in self.properties:
                    value = number_text(float(state.properties[symbol][cell]))
                    _add(element, "PropertyData", {"symbol-ref": symbol}, value=value)
                _add(element, "Nodes").text = cells[cell]

    def add_snapshots(self, every: float, largest_id: int = LARGEST_SHORT) -> None:
        """Cell ids and types as TIFF pages, every so many Monte Carlo steps, the first state included; properties of
        cells as a table beside them."""
        plotter = _add(
            self._analysis,
            "TiffPlotter",
            {"time-step": number_text(every), "OME-header": "false"},
            format="16bit" if largest_id + self.first_id <= LARGEST_SHORT else "32bit",
            compression="false",
            timelapse="true",
        )
        for symbol in ("cell.id", "cell.type"):
            _add(plotter, "Channel", {"symbol-ref": symbol})
        if self.properties:
            logger = _add(self._analysis, "Logger", {"time-step": number_text(every)})
            read = _add(logger, "Input")
            for symbol in self.properties:
                _add(read, "Symbol", {"symbol-ref": symbol})
            _add(_add(logger, "Output"), "TextOutput", {"file-name": PROPERTIES_LOG}, separator="comma")

    def write(self, path: str | Path) -> None:
        with writing(path) as temporary:
            temporary.write_bytes(self.tobytes())

    def tobytes(self) -> bytes:
        etree.indent(self.root, space="    ")
        return bytes(etree.tostring(self.root, xml_declaration=True, encoding="UTF-8", pretty_print=True))

    # -- frame ---------------------------------------------------------------------------------------------------

    def _axes(self, boundary: str) -> list[str]:
        """Morpheus' names of the axes with a boundary, x first."""
        each = zip(AXES[-self.lattice.dimension :], self.lattice.boundary, strict=True)
        return [axis for axis, found in each if found == boundary][::-1]

    def _add_space(self) -> None:
        space = _add(self.root, "Space")
        lattice = _add(space, "Lattice", {"class": self.lattice.geometry.name})
        sizes = [*self.lattice.shape[::-1], 0][:3]
        _add(lattice, "Size", symbol=self._symbol("size"), value=", ".join(map(str, sizes)))
        conditions = _add(lattice, "BoundaryConditions")
        for axis in self._axes("periodic"):
            _add(conditions, "Condition", boundary=axis, type=TARGET.boundary_words["periodic"])
        for axis in self._axes("free"):
            for side in (f"-{axis}", axis):
                _add(conditions, "Condition", boundary=side, type=TARGET.boundary_words["free"])
        _add_neighbourhood(lattice, self.lattice.geometry.moore_order)
        _add(space, "SpaceSymbol", symbol=self._symbol("space"))

    def _add_time(self, steps: float, seed: int) -> None:
        time = _add(self.root, "Time")
        _add(time, "StartTime", value="0")
        _add(time, "StopTime", value=number_text(steps))
        _add(time, "RandomSeed", value=str(seed))
        _add(time, "TimeSymbol", symbol=self._symbol("time"))

    def _symbol(self, name: str) -> str:
        """A name that no property has: Morpheus' symbols are each one thing."""
        while name in self.properties:
            name += "_"
        return name

    def _add_medium(self, name: str) -> etree._Element:
        return _add(self._cell_types, "CellType", {"class": "medium"}, name=name)

    def _add_sampler(self, temperature: float, stepper: Stepper, surface_order: int) -> None:
        cpm = _add(self.root, "CPM")
        self._interaction = _add(cpm, "Interaction", default="0")
        sampler = _add(cpm, "MonteCarloSampler", stepper=stepper)
        _add(sampler, "MCSDuration", value="1")
        _add_neighbourhood(sampler, self.lattice.geometry.moore_order)
        _add(sampler, "MetropolisKinetics", temperature=number_text(temperature))
        _add_neighbourhood(_add(cpm, "ShapeSurface", scaling="none"), surface_order)


def _check_width(lattice: Lattice) -> None:
    narrow = [size for size, wraps in zip(lattice.shape, lattice.periodic, strict=True) if wraps and size < NARROWEST]
    if narrow:
        raise UserError(
            f"The lattice of {size_text(lattice.shape)} sites has a periodic axis of {narrow[0]}, but Morpheus follows "
            f"its borders from {NARROWEST} sites on only: use a larger lattice."
        )


def _nodes(state: CellState) -> Iterator[tuple[int, str]]:
    """Every cell with its nodes `x y z;…`, on from where it begins, across periodic borders."""
    ids, coordinates = unwrapped(state)
    places = np.zeros((ids.size, 3), dtype=np.int64)
    places[:, : state.lattice.dimension] = coordinates[:, ::-1]
    order = np.argsort(ids, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(ids[order])) + 1):
        if members.size:
            yield int(ids[members[0]]), ";".join(f"{x} {y} {z}" for x, y, z in places[members])


def _add(parent: etree._Element, tag: str, attributes: dict[str, str] | None = None, **more: str) -> etree._Element:
    return etree.SubElement(parent, tag, {**(attributes or {}), **more})


def _add_neighbourhood(parent: etree._Element, order: int) -> None:
    _add(_add(parent, "Neighborhood"), "Order").text = str(order)
