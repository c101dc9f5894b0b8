"""What a Morpheus model says its cells cost, as far as its numbers are fixed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.mapping import listed
from neuralcpm_bridge.hosting.own_energies import OwnEnergies
from neuralcpm_bridge.terms import HostTerm

from .check import require_sound
from .elements import CONSTRAINTS
from .reader import ELEMENT, TARGET, CellTypeEntry, ModelFile, read_model

SILENT = (
    *("Property", "PropertyVector", "Constant", "ConstantVector", "Variable", "VariableVector", "Function"),
    *("Equation", "System", "Event", "Reporter", "Mapper"),
)
"""Ends of the names of elements of a CellType that keep or compute numbers, and cost cells nothing by themselves."""
EXACT = ("none", "size")
"""Ways of counting pairs that all versions of Morpheus share."""


def read_own_energies(path: str | Path) -> OwnEnergies:
    """Contact energies, and volume, surface and length constraints by type; refused where contacts, volumes or the
    temperature are no fixed numbers."""
    model = read_model(path)
    require_sound(model, learned=False)
    lattice, temperature = model.lattice, model.number(model.temperature)
    if not model.cell_types or temperature is None:
        found = (
            f"the temperature {model.temperature!r}" if model.cell_types and model.temperature else "no CPM with cells"
        )
        raise UserError(f"{path} has {found}, but cells that move at a fixed temperature are needed: correct it.")
    reader = Reader(model)
    terms = reader.terms()
    return OwnEnergies(
        source=model.path.name,
        target=TARGET,
        lattice=lattice,
        types=(model.medium, *(entry.name for entry in model.cell_types)),
        temperature=temperature,
        terms=terms,
        not_read=tuple(dict.fromkeys((*reader.not_read, *_not_read(model)))),
    )


class Reader:
    """The terms of one model; `not_read` grows while it reads."""

    def __init__(self, model: ModelFile) -> None:
        self.model, self.not_read = model, list[str]()
        self.order, self.divisor = self._pairs()

    def terms(self) -> dict[str, HostTerm]:
        terms = {"contact": HostTerm({"J": self._contacts() / self.divisor}, self.order)}
        for term, (tag, _) in CONSTRAINTS.items():
            if any(entry.element.find(tag) for entry in self.model.cell_types) and (found := self._constraint(term)):
                terms[term] = found
        if "volume" not in terms:
            raise UserError(
                f"{self.model.path} has no VolumeConstraint that could be read{self._why('volume')}, but a closure "
                "must know what it closes: give its cell types one, with a fixed target and strength."
            )
        return terms

    def _why(self, term: str) -> str:
        said = [sentence for sentence in self.not_read if term in sentence]
        return f" ({listed(said)})" if said else ""

    def _pairs(self) -> tuple[int, float]:
        """The neighbour order of contacts and surfaces, and what Morpheus divides their counts by."""
        found, geometry, word = (
            self.model.surface_neighbourhood,
            self.model.lattice.geometry,
            self.model.surface_scaling,
        )
        order = None if found is None else found.order(geometry)
        divisor = None if order is None else TARGET.pair_divisor(word, geometry, order)
        if order is None or divisor is None:
            raise UserError(
                f"{self.model.path} counts contacts in the ShapeSurface of {found or 'no neighbourhood'} with the "
                f"scaling {word!r}, which cannot be read: use an order that Morpheus has and the scaling none."
            )
        if word not in EXACT:
            self.not_read.append(
                f"whether your Morpheus divides pairs of order {order} by {divisor:g} (scaling={word!r}), as was taken "
                "here: versions differ, scaling='none' does not"
            )
        return order, divisor

    def _contacts(self) -> NDArray[np.float64]:
        """Energies as the file has them, `[T, T]`."""
        model, names = self.model, [self.model.medium, *(entry.name for entry in self.model.cell_types)]
        default = model.number(model.contact_default)
        given = {frozenset((each.type1, each.type2)): each for each in model.contacts}
        numbers = {pair: model.number(each.value) for pair, each in given.items()}
        unread = [f"{each.type1}, {each.type2}: {each.value}" for pair, each in given.items() if numbers[pair] is None]
        if unread or default is None:
            raise UserError(
                f"{model.path} has contact energies that are no fixed numbers: {listed(unread) or 'the default'}; a "
                "closure needs to know what it closes: write numbers or global constants."
            )
        energies = np.zeros((len(names), len(names)))
        for row, first in enumerate(names):
            for column, second in enumerate(names):
                energies[row, column] = numbers.get(frozenset((first, second)), default)
        energies[0, 0] = 0.0
        interaction = model.root.find("CPM/Interaction")
        assert interaction is not None  # the checker has seen to it
        return -energies if interaction.attributes.get("negative") in ("true", "1") else energies

    def _constraint(self, term: str) -> HostTerm | None:
        """Its numbers by type; None where one of them is none."""
        tag, more = CONSTRAINTS[term]
        values = {"strength": [0.0], "target": [0.0]}
        for entry in self.model.cell_types:
            element = entry.element.find(tag)
            if element is None:
                for column in values.values():
                    column.append(0.0)
                continue
            wanted = {"strength": element.attributes.get("strength"), "target": element.attributes.get("target")}
            numbers = {key: self._number(text, entry) for key, text in wanted.items()}
            otherwise = any(element.attributes.get(key) != value for key, value in more.items())
            if None in numbers.values() or otherwise or "exponent" in element.attributes:
                said = ", ".join(f'{key}="{value}"' for key, value in element.attributes.items())
                self.not_read.append(f"the {tag} of {entry.name} ({said}): the {term} term was left out")
                return None
            for key, column in values.items():
                column.append(numbers[key] or 0.0)
        arrays = {key: np.array(column) for key, column in values.items()}
        if term == "surface":
            arrays = {"strength": arrays["strength"] / self.divisor**2, "target": arrays["target"] * self.divisor}
        return HostTerm(arrays, self.order if term == "surface" else None)

    def _number(self, text: str | None, entry: CellTypeEntry) -> float | None:
        """Of a number, a global constant or one of the cell type."""
        found = self.model.number(text)
        if found is None and text is not None:
            for constant in entry.element.all("Constant"):
                if constant.attributes.get("symbol") == text.strip():
                    return self.model.number(constant.attributes.get("value"))
        return found


def _not_read(model: ModelFile) -> Iterator[str]:
    read = {tag for tag, _ in CONSTRAINTS.values()}
    for entry in model.types:
        for child in entry.element.children:
            if child.tag == ELEMENT:
                yield f"the learned term ({ELEMENT})"
            elif not (child.tag in read or child.tag.endswith(SILENT) or _is_border(entry, child.tag)):
                yield f"{child.tag} of {entry.name}"
    for contact in model.contacts:
        for child in contact.element.children:
            yield f"{child.tag} between {contact.type1} and {contact.type2}"
    for tag in ("Global/Field", "Global/MembraneProperty", "Space/Lattice/Domain"):
        if model.root.find(tag):
            yield f"the {tag.split('/')[-1]}"
    kinetics = model.root.find("CPM/MonteCarloSampler/MetropolisKinetics")
    if kinetics is not None and model.number(kinetics.attributes.get("yield", "0")) != 0:
        yield f"the yield {kinetics.attributes['yield']}"
    around = model.lattice.geometry.moore_order
    copies = model.lattice_neighbourhood or model.sampler_neighbourhood
    if copies is not None and copies.order(model.lattice.geometry) != around:
        yield f"copies from neighbours of {copies} (training copies from order {around})"
    if not all(model.lattice.periodic) and not _free_border(model):
        yield "what cells pay for touching the border of the lattice, where Morpheus has medium and training nothing"


def _is_border(entry: CellTypeEntry, tag: str) -> bool:
    """Media are frozen where they surround a lattice."""
    return entry.is_medium and tag == "FreezeMotion"


def _free_border(model: ModelFile) -> bool:
    """Whether beyond the lattice lies a medium that nobody pays for touching, as `morpheus new` writes it."""
    values = {entry.attributes.get("value", "") for entry in model.root.all("CellPopulations/BoundaryValue")}
    media = {entry.name for entry in model.types if entry.is_medium} - {model.medium}
    paid = {
        name
        for contact in model.contacts
        if model.number(contact.value) != 0
        for name in (contact.type1, contact.type2)
    }
    return bool(values) and values <= media - paid and model.number(model.contact_default) == 0
