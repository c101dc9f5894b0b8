"""MorpheusML of versions 1 to 3 brought up to version 4, by the rules that Morpheus' own editor goes by.

A rule is where something stood and where it stands now, as paths below the root; `@name` is an attribute, `@text` an
element's text. A rule moves everything that is found there, unless it says otherwise.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

from lxml import etree

CURRENT = 4
ATTRIBUTE, TEXT = "@", "@text"


@dataclass(frozen=True)
class Rule:
    """`fill`: the old place stays, and the new one too where something is there already. `needs`: an element without
    which the rule does not apply."""

    old: str
    new: str
    fill: bool = False
    needs: str = ""


def _moved(*places: tuple[str, str]) -> tuple[Rule, ...]:
    return tuple(Rule(old, new) for old, new in places)


_CELL = "CellTypes/CellType"
_POPULATION = "CellPopulations/Population"
_ARRANGEMENT = f"{_POPULATION}/InitCellObjects/Arrangement"

FROM_1 = (
    *_moved(
        ("Lattice/@size", "Space/Lattice/Size/@value"),
        ("Lattice/@structure", "Space/Lattice/@class"),
        ("Lattice/BoundaryConditions", "Space/Lattice/BoundaryConditions"),
        ("Simulation/SpaceScale/NodeLength", "Space/Lattice/NodeLength"),
        ("Simulation/SpaceScale/MembraneSize", "Space/MembraneSize"),
        ("Simulation/@start", "Time/StartTime/@value"),
        ("Simulation/@stop", "Time/StopTime/@value"),
        ("Simulation/@save", "Time/SaveInterval/@value"),
        ("Simulation/RandomSeed", "Time/RandomSeed"),
        ("Simulation/MCSDuration", "CPM/MCSDuration"),
        ("Simulation/Title", "Description/Title"),
        ("CellType", _CELL),
        ("CellPopulation", _POPULATION),
        ("Interaction", "CPM/Interaction"),
        ("MetropolisKinetics", "CPM/MetropolisKinetics"),
        ("Analysis/Logger/Cell", "Analysis/Logger/Input/Cell"),
        ("Space/MembraneSize/@value", "Space/MembraneProperty/@resolution"),
        ("Space/MembraneProperty", "Space/MembraneLattice"),
        (f"{_CELL}/System/Equation", f"{_CELL}/System/Rule"),
        (f"{_CELL}/Event/Equation", f"{_CELL}/Event/Rule"),
        ("Space/MembraneLattice/@resolution", "Space/MembraneLattice/Resolution/@value"),
        ("Space/MembraneLattice/@symbol", "Space/MembraneLattice/Resolution/@symbol"),
        ("PDE/Layer", "Global/Field"),
        ("Global/Field/Initial/InitPDEExpression/Expression/@text", "Global/Field/@value"),
        ("PDE/Constant", "Global/Constant"),
        ("PDE/Function", "Global/Function"),
        ("PDE/System", "Global/System"),
        (f"{_CELL}/MembraneProperty/Initial/InitPDEExpression/Expression/@text", f"{_CELL}/MembraneProperty/@value"),
        (f"{_CELL}/Global", f"{_CELL}/Variable"),
        *(
            (f"{_CELL}/{constraint}/{part}/@{old}", f"{_CELL}/{constraint}/@{part.lower()}")
            for constraint in ("VolumeConstraint", "SurfaceConstraint", "LengthConstraint")
            for part in ("Strength", "Target")
            for old in ("value", "symbol-ref")
        ),
        (f"{_CELL}/Chemotaxis/Layer/@symbol-ref", f"{_CELL}/Chemotaxis/@value"),
        (f"{_CELL}/Chemotaxis/Strength/@symbol-ref", f"{_CELL}/Chemotaxis/@strength"),
        (f"{_CELL}/Freezer", f"{_CELL}/FreezeMotion"),
        (f"{_CELL}/Persistence", f"{_CELL}/PersistentMotion"),
        (f"{_CELL}/FlipCells", f"{_CELL}/FlipCellMotion"),
        (f"{_CELL}/Proliferation", f"{_CELL}/CellDivision"),
        (f"{_CELL}/Apoptosis", f"{_CELL}/CellDeath"),
        (f"{_CELL}/NeighborsReporter/Input/@symbol-ref", f"{_CELL}/NeighborsReporter/Input/@value"),
        (f"{_CELL}/NeighborsReporter/Output/@symbol-ref", f"{_CELL}/NeighborsReporter/Output/@value"),
        (f"{_CELL}/NeighborsReporter", f"{_CELL}/NeighborhoodReporter"),
        (f"{_CELL}/PopulationReporter/Input/@symbol-ref", f"{_CELL}/PopulationReporter/Input/@value"),
        (f"{_CELL}/PopulationReporter/@mapping", f"{_CELL}/PopulationReporter/Output/@mapping"),
        (f"{_CELL}/PopulationReporter", f"{_CELL}/CellReporter"),
        (f"{_CELL}/CellReporter/Polarisation/Input/@symbol-ref", f"{_CELL}/CellReporter/Input/@value"),
        (f"{_CELL}/CellReporter/Polarisation/Output/@symbol-ref", f"{_CELL}/CellReporter/Polarity/@symbol-ref"),
        (f"{_POPULATION}/InitLattice", f"{_POPULATION}/InitCellLattice"),
        *(
            (f"{_POPULATION}/{maker}/@{old}", f"{_POPULATION}/{maker}/@{new}")
            for maker in ("InitRectangle", "InitCircle")
            for old, new in (("cells", "number-of-cells"), ("type", "mode"))
        ),
        (f"{_POPULATION}/InitCircle/Dimensions/@size", f"{_POPULATION}/InitCircle/Dimensions/@radius"),
        *(
            (f"Analysis/{plugin}/@interval", f"Analysis/{plugin}/@time-step")
            for plugin in ("Gnuplotter", "Logger", "HistogramLogger", "TiffPlotter")
        ),
        ("Analysis/Gnuplotter/Cells/@symbol-ref", "Analysis/Gnuplotter/Cells/@value"),
        ("Analysis/Gnuplotter/Cells", "Analysis/Gnuplotter/Plot/Cells"),
        ("Analysis/Gnuplotter/PDE", "Analysis/Gnuplotter/Plot/Field"),
        ("Analysis/Gnuplotter/Arrows/@symbol-rev", "Analysis/Gnuplotter/Arrows/@orientation"),
        ("Analysis/Gnuplotter/Arrows", "Analysis/Gnuplotter/Plot/CellArrows"),
        ("Analysis/Gnuplotter/Labels", "Analysis/Gnuplotter/Plot/CellLabels"),
    ),
)
FROM_2 = (
    *_moved(
        ("CPM/Interaction/Neighborhood", "CPM/ShapeSurface/Neighborhood"),
        ("CPM/MCSDuration", "CPM/MonteCarloSampler/MCSDuration"),
        ("CPM/MetropolisKinetics/Neighborhood", "CPM/MonteCarloSampler/Neighborhood"),
        ("CPM/MetropolisKinetics/@stepper", "CPM/MonteCarloSampler/@stepper"),
        ("CPM/MetropolisKinetics", "CPM/MonteCarloSampler/MetropolisKinetics"),
    ),
    Rule("Space/Lattice/Neighborhood", "CPM/ShapeSurface/Neighborhood", fill=True, needs="CPM"),
)
FROM_3 = (
    *_moved(
        (f"{_CELL}/CellReporter", f"{_CELL}/Mapper"),
        ("CPM/ShapeBoundary", "CPM/ShapeSurface"),
        ("Analysis/Gnuplotter/Plot/CellLabels/@symbol-ref", "Analysis/Gnuplotter/Plot/CellLabels/@value"),
        ("Analysis/Logger/Restriction/@force-node-granularity", "Analysis/Logger/Input/@force-node-granularity"),
    ),
    Rule(f"{_POPULATION}/Cell/@name", f"{_POPULATION}/Cell/@id", fill=True),
    *_moved(
        *(
            (f"{_ARRANGEMENT}/Object/{shape}", f"{_ARRANGEMENT}/{shape}")
            for shape in ("Point", "Box", "Sphere", "Ellipsoid", "Cylinder")
        )
    ),
)
STEPS = {1: FROM_1, 2: FROM_2, 3: FROM_3}
DEFAULTS = (
    (f"{_CELL}/SurfaceConstraint", "mode", "aspherity"),
    (f"{_CELL}/LengthConstraint", "mode", "length"),
    ("CPM/ShapeSurface", "scaling", "norm"),
    ("CPM/MonteCarloSampler/MetropolisKinetics", "temperature", "1"),
)
"""Attributes that version 4 demands; what its editor fills in where they are missing."""
VECTORS = ("Space/Lattice/Size",)
"""Whose values had no commas."""


def upgraded(content: bytes, version: int) -> bytes | None:
    """The file as version 4; None where nothing in it is written otherwise today, so that it may stay as it is."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
    root = etree.fromstring(content, parser)
    before = etree.tostring(root)
    root.tag = "MorpheusModel"  # which version 1 calls CellularPottsModel
    for step in range(version, CURRENT):
        for rule in STEPS[step]:
            _apply(root, rule)
    for path, name, value in DEFAULTS:
        for element in root.findall(path):
            element.set(name, element.get(name, value))
    for element in (element for path in VECTORS for element in root.findall(path)):
        numbers = element.get("value", "").split()
        if len(numbers) > 1 and "," not in element.get("value", ""):
            element.set("value", ", ".join(numbers))
    if etree.tostring(root) == before:
        return None
    _add_required(root)
    root.set("version", str(CURRENT))
    etree.indent(root, space="    ")
    return bytes(etree.tostring(root.getroottree(), xml_declaration=True, encoding="UTF-8", pretty_print=True))


def _apply(root: etree._Element, rule: Rule) -> None:
    if rule.needs and root.find(rule.needs) is None:
        return
    old, new = rule.old.split("/"), rule.new.split("/")
    shared = 0
    while shared < min(len(old), len(new)) - 1 and old[shared] == new[shared]:
        shared += 1
    for ancestor in root.findall("/".join(old[:shared])) if shared else [root]:
        for found in _found(ancestor, old[shared:]):
            _put(ancestor, found, old[-1], new[shared:], rule)


def _found(ancestor: etree._Element, path: list[str]) -> list[etree._Element]:
    """The elements that a path names, or those that have the attribute or text it names."""
    if not path[-1].startswith(ATTRIBUTE):
        return list(ancestor.findall("/".join(path)))
    owners = ancestor.findall("/".join(path[:-1])) if len(path) > 1 else [ancestor]
    if path[-1] == TEXT:
        return [owner for owner in owners if (owner.text or "").strip()]
    return [owner for owner in owners if path[-1][1:] in owner.attrib]


def _put(ancestor: etree._Element, found: etree._Element, old: str, new: list[str], rule: Rule) -> None:
    parent = ancestor
    for tag in new[:-1]:
        child = parent.find(tag)
        parent = child if child is not None else etree.SubElement(parent, tag)
    name = new[-1]
    if name.startswith(ATTRIBUTE):
        if old == TEXT:
            value, found.text = (found.text or "").strip(), None
        else:
            value = found.get(old[1:], "")
            if not rule.fill:
                del found.attrib[old[1:]]
        if not (rule.fill and name[1:] in parent.attrib):
            parent.set(name[1:], value)
    elif not (rule.fill and parent.find(name) is not None):
        moved = deepcopy(found) if rule.fill else found
        moved.tag = name
        before = found.getparent()
        if rule.fill or before is not parent:
            moved.tail = None
            parent.append(moved)
            _drop_if_empty(before)


def _drop_if_empty(element: etree._Element | None) -> None:
    """What a rule has emptied is no element of version 4."""
    if element is None or len(element) or element.attrib or (element.text or "").strip():
        return
    above = element.getparent()
    if above is not None:
        above.remove(element)


def _add_required(root: etree._Element) -> None:
    """What version 4 demands and earlier ones did not: empty, or named as Morpheus' editor names it."""
    for path, symbol in (
        ("Description/Title", ""),
        ("Description/Details", ""),
        ("Time/TimeSymbol", "time"),
        ("Space/SpaceSymbol", "space"),
    ):
        parent, name = path.split("/")
        above = root.find(parent)
        if above is None:
            above = etree.SubElement(root, parent)
        if above.find(name) is None:
            made = etree.SubElement(above, name)
            if symbol:
                made.set("symbol", symbol)
