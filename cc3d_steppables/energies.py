"""Energies as CC3D's own plugins are told them: read from a project, made from a model, written, compared.

A model's terms have the names and weights of `neuralcpm_bridge.terms`; here is which plugin carries each, under what
words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from lxml import etree

from neuralcpm_bridge.artifact import Metadata
from neuralcpm_bridge.conventions import TARGETS, symbolic_values
from neuralcpm_bridge.lattice import Geometry

from .document import leaf, number


@dataclass(frozen=True)
class Constraint:
    """A plugin that takes numbers per cell type: its name, its element for a type, the attribute of each weight."""

    plugin: str
    entry: str
    attributes: dict[str, str]
    others: tuple[str, ...] = ()
    """Plugins that do the same in another way."""
    formulas: tuple[str, ...] = ()
    """Children with which it means something else than a parabola."""


CONTACT = "Contact"
CONTACTS = (CONTACT, "ContactLocalFlex", "ContactLocalProduct", "AdhesionFlex")
CONSTRAINTS = {
    "volume": Constraint(
        "Volume",
        "VolumeEnergyParameters",
        {"strength": "LambdaVolume", "target": "TargetVolume"},
        ("VolumeLocalFlex",),
        ("VolumeEnergyExpression",),
    ),
    "surface": Constraint(
        "Surface",
        "SurfaceEnergyParameters",
        {"strength": "LambdaSurface", "target": "TargetSurface"},
        ("SurfaceLocalFlex",),
        ("SurfaceEnergyExpression", "ScaleSurface"),
    ),
    "length": Constraint(
        "LengthConstraint",
        "LengthEnergyParameters",
        {"strength": "LambdaLength", "target": "TargetLength", "minor_target": "MinorTargetLength"},
        ("LengthConstraintLocalFlex",),
    ),
}
SURFACE_TRACKER = "SurfaceTracker"
"""The plugin that knows at which neighbour order surfaces are counted."""

PLUGINS = {"contact": CONTACTS} | {name: (known.plugin, *known.others) for name, known in CONSTRAINTS.items()}
"""Plugins that say what a term of a model says; the first is the one that is written."""


@dataclass(frozen=True)
class Energies:
    """Numbers of CC3D's plugins by the names of cell types; terms that nobody set are not there."""

    contact: dict[frozenset[str], float] = field(default_factory=dict)
    """Pairs that are not listed cost nothing."""
    constraints: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """By term, type and weight."""
    orders: dict[str, int] = field(default_factory=dict)
    """Neighbour orders of contact and surface, where there are these terms."""

    @property
    def terms(self) -> list[str]:
        return [*(["contact"] if "contact" in self.orders else []), *self.constraints]

    # -- a model's -------------------------------------------------------------------------------------------

    @classmethod
    def of_model(cls, metadata: Metadata, types: Mapping[str, int], energy_scale: float = 1.0) -> Energies:
        """A model's terms in CC3D's units; `types`: the model's type of every name, Medium with 0 among them."""
        contact: dict[frozenset[str], float] = {}
        constraints: dict[str, dict[str, dict[str, float]]] = {}
        terms = symbolic_values(metadata, TARGETS["cc3d"], energy_scale).terms
        for term, values in terms.items():
            if term == "contact":
                contact = {
                    frozenset((first, second)): float(values["J"][one, other])
                    for first, one in types.items()
                    for second, other in types.items()
                }
                continue
            weights = [weight for weight in CONSTRAINTS[term].attributes if weight in values.values]
            constraints[term] = {
                name: {weight: float(values[weight][cell_type]) for weight in weights}
                for name, cell_type in types.items()
                if cell_type
            }
        orders = {term: values.order for term, values in terms.items() if values.order is not None}
        return cls(contact, constraints, orders)

    def over(self, other: Energies) -> Energies:
        """These numbers, and another's where these say nothing about a pair or type; this one's terms and orders."""
        return Energies(
            other.contact | self.contact if "contact" in self.orders else {},
            {term: other.constraints.get(term, {}) | rows for term, rows in self.constraints.items()},
            self.orders,
        )

    # -- a project's -----------------------------------------------------------------------------------------

    @classmethod
    def read(cls, root: etree._Element, names: Sequence[str], geometry: Geometry) -> Energies:
        """What a `<CompuCell3D>` element sets by type; nothing where Python sets it cell by cell."""
        constraints = {}
        for term, known in CONSTRAINTS.items():
            plugin = _plugin(root, known.plugin)
            if plugin is not None and not any(plugin.find(word) is not None for word in known.formulas):
                rows = _rows(plugin, known, names)
                if rows:
                    constraints[term] = rows
        contact: dict[frozenset[str], float] = {}
        orders = {"surface": _surface_order(root)} if "surface" in constraints else {}
        plugin = _plugin(root, CONTACT)
        if plugin is not None and plugin.find("WeightEnergyByDistance") is None:
            contact = {
                frozenset((entry.get("Type1", ""), entry.get("Type2", ""))): number(entry.text or "0", "Contact Energy")
                for entry in plugin.findall("Energy")
            }
            orders["contact"] = _contact_order(plugin, geometry)
        return cls(contact, constraints, orders)

    # -- CC3DML ----------------------------------------------------------------------------------------------

    def elements(self, names: Sequence[str]) -> list[etree._Element]:
        """The plugins, for all types of a project, Medium first."""
        written = []
        for term, rows in self.constraints.items():
            known = CONSTRAINTS[term]
            plugin = etree.Element("Plugin", Name=known.plugin)
            for name in names[1:]:
                # CC3D wants all of them; a strength of 0 is no constraint.
                row = dict.fromkeys(next(iter(rows.values()), {}), 0.0) | rows.get(name, {})
                numbers = {known.attributes[weight]: repr(value) for weight, value in row.items()}
                etree.SubElement(plugin, known.entry, {"CellType": name} | numbers)
            if term == "surface":
                tracker = etree.Element("Plugin", Name=SURFACE_TRACKER)
                for element in (tracker, plugin):  # whichever CC3D meets first decides
                    leaf(element, "NeighborOrder", str(self.orders[term]))
                written.append(tracker)
            written.append(plugin)
        if "contact" in self.orders:
            plugin = etree.Element("Plugin", Name=CONTACT)
            for place, first in enumerate(names):
                for second in names[place:]:
                    energy = etree.SubElement(plugin, "Energy", Type1=first, Type2=second)
                    energy.text = repr(self.contact.get(frozenset((first, second)), 0.0))
            leaf(plugin, "NeighborOrder", str(self.orders["contact"]))
            written.append(plugin)
        return written

    # -- for people and for comparing ------------------------------------------------------------------------

    def numbers(self, term: str, names: Sequence[str]) -> dict[str, float]:
        """Every number of a term under the name that CC3D's users give it; Medium is the first of the names."""
        found: dict[str, float] = {}
        if term == "contact" and term in self.orders:
            for place, first in enumerate(names):
                for second in names[max(place, 1) :]:
                    found[f"J({first}, {second})"] = self.contact.get(frozenset((first, second)), 0.0)
        for name in names[1:]:
            for weight, value in self.constraints.get(term, {}).get(name, {}).items():
                found[f"{CONSTRAINTS[term].attributes[weight]}({name})"] = value
        if term in self.orders:
            found[f"{PLUGINS[term][0]} NeighborOrder"] = self.orders[term]
        return found

    def within(self, other: Energies, names: Sequence[str]) -> bool:
        """Whether another's numbers, of the terms that these have, are these to rounding."""
        for term in self.terms:
            mine, theirs = self.numbers(term, names), other.numbers(term, names)
            if mine.keys() != theirs.keys() or not np.allclose(
                [*mine.values()], [theirs[name] for name in mine], rtol=1e-9, atol=1e-12
            ):
                return False
        return True


def _plugin(root: etree._Element, name: str) -> etree._Element | None:
    return root.find(f"Plugin[@Name='{name}']")


def _rows(plugin: etree._Element, known: Constraint, names: Sequence[str]) -> dict[str, dict[str, float]]:
    rows = {}
    for entry in plugin.findall(known.entry):
        texts = {weight: entry.get(word) for weight, word in known.attributes.items()}
        if texts["strength"] is not None and texts["target"] is not None:
            rows[entry.get("CellType", "")] = {
                weight: number(text, known.attributes[weight]) for weight, text in texts.items() if text is not None
            }
    words = [known.attributes[weight] for weight in ("strength", "target")]
    strength, target = (plugin.findtext(word) for word in words)
    if strength and target and not rows:  # one setting for every type
        both = {"strength": number(strength, words[0]), "target": number(target, words[1])}
        rows = dict.fromkeys(names[1:], both)
    return rows


def _contact_order(plugin: etree._Element, geometry: Geometry) -> int:
    depth = plugin.findtext("Depth")
    if depth is not None:
        return geometry.order_within(number(depth, "Depth"))
    return int(number(plugin.findtext("NeighborOrder") or "1", "NeighborOrder"))


def _surface_order(root: etree._Element) -> int:
    """CC3D takes the order from the first of the two plugins in the file."""
    for plugin in root.findall("Plugin"):
        if plugin.get("Name") in (SURFACE_TRACKER, CONSTRAINTS["surface"].plugin):
            text = plugin.findtext("NeighborOrder")
            if plugin.get("Name") == SURFACE_TRACKER:
                text = text or plugin.findtext("MaxNeighborOrder")
            return int(number(text or "1", "NeighborOrder"))
    return 1
