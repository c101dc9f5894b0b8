"""Writing a complete Morpheus model, element by element."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from lxml import etree

from neuralcpm_bridge.conventions import TARGETS, Boundary, VolumeFunction
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.metrics.geometry import unwrapped
from neuralcpm_bridge.state import CellState

from .reader import ELEMENT

Stepper = Literal["edgelist", "random"]
TARGET = TARGETS["morpheus"]
VERSION = "4"
BORDER = "border"
"""The second medium that surrounds a lattice with free boundaries."""
SIDES = ("-x", "x", "-y", "y")
LARGEST_SHORT = 2**15 - 1
"""Cell ids above this do not fit into the 16-bit images Morpheus writes."""


class MorpheusModel:
    """A model under construction: types first, then what belongs to them, then cells and output, then `write`.

    Energies and temperature are Morpheus' (conventions.TARGETS); rows are y, columns are x.
    """

    def __init__(
        self,
        title: str,
        lattice: tuple[int, int],
        *,
        boundary: Boundary = "periodic",
        temperature: float = 1.0,
        steps: float = 1000,
        seed: int = 0,
        stepper: Stepper = "edgelist",
        medium: str = "medium",
        details: str = "",
    ) -> None:
        self.lattice, self.boundary, self.medium = lattice, boundary, medium
        self.root = etree.Element("MorpheusModel", version=VERSION)
        description = _add(self.root, "Description")
        _add(description, "Title").text = title
        _add(description, "Details").text = details
        self._add_space()
        self._add_time(steps, seed)
        self._types: dict[str, etree._Element] = {}
        self._cell_types = _add(self.root, "CellTypes")
        self._add_medium(medium)
        if boundary == "free":
            # Frozen, lest it be copied into the lattice, where its contacts would cost nothing.
            _add(_add(self._add_medium(BORDER), "FreezeMotion"), "Condition").text = "1"
        self._add_sampler(temperature, stepper)
        self._populations = _add(self.root, "CellPopulations")
        if boundary == "free":
            for side in SIDES:
                _add(self._populations, "BoundaryValue", boundary=side, value=BORDER)
        self._analysis = _add(self.root, "Analysis")

    # -- parts ---------------------------------------------------------------------------------------------------

    def add_type(self, name: str) -> None:
        self._types[name] = _add(self._cell_types, "CellType", {"class": "biological"}, name=name)

    def add_contact(self, first: str, second: str, energy: float) -> None:
        _add(self._interaction, "Contact", type1=first, type2=second, value=number_text(energy))

    def add_volume_constraint(self, name: str, target: float, strength: float) -> None:
        _add(self._types[name], "VolumeConstraint", target=number_text(target), strength=number_text(strength))

    def add_volume_function(self, name: str, function: VolumeFunction, number: int) -> None:
        """Any energy f(V) of a type (`number` in the function), exactly: strength and target that depend on V."""
        for element in volume_function_elements(function, number):
            self._types[name].append(element)

    def add_surface_constraint(self, name: str, target: float, strength: float) -> None:
        values = {"target": number_text(target), "strength": number_text(strength)}
        _add(self._types[name], "SurfaceConstraint", values, mode="surface")

    def add_learned_term(self, attributes: dict[str, str]) -> None:
        """The plugin's element, the same in every type."""
        for element in self._types.values():
            _add(element, ELEMENT, attributes)

    def add_cells(self, state: CellState, names: tuple[str, ...]) -> None:
        """The cells of a state, node by node; `names` of the types in the state's order."""
        first = 0 if self.boundary == "periodic" else 1  # the border is a cell of its own, numbered 1
        ids, coordinates = unwrapped(state, self.boundary == "periodic")
        nodes = coordinates.astype(np.int64)
        order = np.argsort(ids, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(ids[order])) + 1)
        cells = {int(ids[part[0]]): nodes[part] for part in parts if part.size}
        for number, name in enumerate(names):
            members = [cell for cell in cells if state.types[cell] == number]
            if number == 0 or not members:
                continue
            population = _add(self._populations, "Population", type=name, size="0")
            for cell in members:
                text = ";".join(f"{x} {y} 0" for y, x in cells[cell])
                _add(_add(population, "Cell", id=str(cell + first)), "Nodes").text = text

    def add_snapshots(self, every: float, largest_id: int = LARGEST_SHORT) -> None:
        """Cell ids and types as TIFF pages, every so many Monte Carlo steps, the first state included."""
        plotter = _add(
            self._analysis,
            "TiffPlotter",
            {"time-step": number_text(every), "OME-header": "false"},
            format="16bit" if largest_id <= LARGEST_SHORT else "32bit",
            compression="false",
            timelapse="true",
        )
        for symbol in ("cell.id", "cell.type"):
            _add(plotter, "Channel", {"symbol-ref": symbol})

    def write(self, path: str | Path) -> None:
        with writing(path) as temporary:
            temporary.write_bytes(self.tobytes())

    def tobytes(self) -> bytes:
        etree.indent(self.root, space="    ")
        return bytes(etree.tostring(self.root, xml_declaration=True, encoding="UTF-8", pretty_print=True))

    # -- frame ---------------------------------------------------------------------------------------------------

    def _add_space(self) -> None:
        space = _add(self.root, "Space")
        lattice = _add(space, "Lattice", {"class": "square"})
        height, width = self.lattice
        _add(lattice, "Size", symbol="size", value=f"{width}, {height}, 0")
        conditions = _add(lattice, "BoundaryConditions")
        for side in SIDES:
            if self.boundary == "free" or not side.startswith("-"):
                _add(conditions, "Condition", boundary=side, type=TARGET.boundary_words[self.boundary])
        _add_neighbourhood(lattice)
        _add(space, "SpaceSymbol", symbol="space")

    def _add_time(self, steps: float, seed: int) -> None:
        time = _add(self.root, "Time")
        _add(time, "StartTime", value="0")
        _add(time, "StopTime", value=number_text(steps))
        _add(time, "RandomSeed", value=str(seed))
        _add(time, "TimeSymbol", symbol="time")

    def _add_medium(self, name: str) -> etree._Element:
        return _add(self._cell_types, "CellType", {"class": "medium"}, name=name)

    def _add_sampler(self, temperature: float, stepper: Stepper) -> None:
        cpm = _add(self.root, "CPM")
        self._interaction = _add(cpm, "Interaction", default="0")
        sampler = _add(cpm, "MonteCarloSampler", stepper=stepper)
        _add(sampler, "MCSDuration", value="1")
        _add_neighbourhood(sampler)
        _add(sampler, "MetropolisKinetics", temperature=number_text(temperature))
        _add_neighbourhood(_add(cpm, "ShapeSurface", scaling="none"))


def volume_function_elements(function: VolumeFunction, number: int) -> list[etree._Element]:
    """A function f(V) and the VolumeConstraint that has it as its energy, for one CellType.

    Morpheus charges s·[(V' − t)² − (V − t)²] for V' = V ± 1. With s = ½[f(V+1) + f(V−1) − 2f(V)] and
    t = V − [f(V+1) − f(V−1)]/(4s) that is f(V') − f(V) both ways.
    """
    center, low, high = (number_text(float(part[number])) for part in (function.center, function.low, function.high))
    c1, c2, c3, c4 = (f"({number_text(value)})" for value in function.coefficients[number])
    inside = f"min(max(v,{low}),{high})"
    x, beyond = f"({inside}-{center})", f"(v-{inside})"
    polynomial = f"{x}*({c1}+{x}*({c2}+{x}*({c3}+{x}*{c4})))"
    slope = f"({c1}+{x}*(2*{c2}+{x}*(3*{c3}+{x}*4*{c4})))"
    stiffness = number_text(float(function.stiffness[number]))
    energy = etree.Element("Function", symbol="volume_energy", name="learned energy of the volume v")
    _add(energy, "Parameter", symbol="v")
    _add(energy, "Expression").text = f"{polynomial}+{beyond}*({slope}+{stiffness}*{beyond})"
    up, here, down = (f"volume_energy(cell.volume{shift})" for shift in ("+1", "", "-1"))
    curvature = etree.Element("Function", symbol="volume_strength", name="half the curvature of that energy")
    # A vanishing curvature has no target; 1e-9 changes the energy by as much.
    bare = f"0.5*({up}+{down}-2*{here})"
    _add(curvature, "Expression").text = f"if(abs({bare})<1e-9,1e-9,{bare})"
    constraint = etree.Element(
        "VolumeConstraint", strength="volume_strength", target=f"cell.volume-({up}-{down})/(4*volume_strength)"
    )
    return [energy, curvature, constraint]


def _add(parent: etree._Element, tag: str, attributes: dict[str, str] | None = None, **more: str) -> etree._Element:
    return etree.SubElement(parent, tag, {**(attributes or {}), **more})


def _add_neighbourhood(parent: etree._Element) -> None:
    _add(_add(parent, "Neighborhood"), "Order").text = str(TARGET.neighbor_order)


def number_text(value: float) -> str:
    """The shortest text that reads back as the same double."""
    return repr(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
