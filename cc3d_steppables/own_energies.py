"""What a CC3D project says its cells cost, as far as its CC3DML has the numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from neuralcpm_bridge.conventions import TARGETS
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.mapping import listed
from neuralcpm_bridge.hosting.own_energies import OwnEnergies
from neuralcpm_bridge.lattice import Geometry
from neuralcpm_bridge.terms import HostTerm

from .document import number, parse, read_text
from .energies import CONSTRAINTS, CONTACT, PLUGINS, Energies
from .project import Project
from .reader import ProjectFacts
from .script_text import STEPPABLE
from .templates import filled

SILENT = {
    *("CellType", "PlayerSettings", "SimpleClock", "CenterOfMass", "MomentOfInertia", "PolarizationVector"),
    *("VolumeTracker", "SurfaceTracker", "NeighborTracker", "PixelTracker", "BoundaryPixelTracker"),
    *("BoundaryTracker", "CellBoundaryTracker", "GlobalBoundaryPixelTracker", "BoundaryMonitor", "CellTypeMonitor"),
    *("ClusterSurfaceTracker", "ElasticityTracker", "PlasticityTracker", "CellVelocity", "CurvatureCalculator"),
}
"""Plugins that cost cells nothing."""
SET_IN_PYTHON = {
    *("targetVolume", "lambdaVolume", "targetSurface", "lambdaSurface", "targetClusterSurface", "lambdaClusterSurface"),
    *("lambdaVecX", "lambdaVecY", "lambdaVecZ", "fluctAmpl", "type"),
}
"""Attributes of a cell that change its energy."""


def read_own_energies(path: str | Path) -> OwnEnergies:
    """Contact energies, and volume, surface and length constraints for all cells or by type; refused where contacts,
    volumes or the temperature are no numbers to be read. Without a Contact plugin contacts cost nothing."""
    project = Project.open(path)
    facts = project.facts()
    if project.xml is None or facts is None:
        raise UserError(
            f"{path} describes itself in Python, so its energies are known only when it runs: give a project with a "
            "CC3DML file (XMLScript)."
        )
    if facts.temperature <= 0:
        raise UserError(
            f"{project.xml} has no temperature for all cells, and energies are learned in units of it: set "
            "<Temperature> in <Potts>."
        )
    root = parse(filled(read_text(project.xml), project.values(), project.xml), project.xml)
    for term in ("contact", "volume"):
        if term not in facts.energies.terms and (term == "volume" or {*PLUGINS[term]} & {*facts.plugins}):
            raise UserError(_unreadable(project.xml, term, facts))
    return OwnEnergies(
        source=Path(path).name,
        target=TARGETS["cc3d"],
        lattice=facts.lattice,
        types=tuple(facts.names),
        temperature=facts.temperature,
        terms=_terms(facts.energies, facts.names, facts.lattice.geometry),
        not_read=(*_not_read(root, facts), *_scanned(project), *_in_python(project)),
    )


def _unreadable(xml: Path, term: str, facts: ProjectFacts) -> str:
    known = PLUGINS[term][0]
    there = [name for name in facts.plugins if name in PLUGINS[term]]
    found = f"has no plugin {known}"
    if there:
        what = "volumes" if term == "volume" else "contact energies"
        found = f"has {what} that Python sets cell by cell, or that a formula says, in its plugin {there[0]}"
    wanted = "energies of all pairs of types (Energy)" if term == "contact" else "a target and a strength by type"
    return f"{xml} {found}, but a closure needs to know what it closes: write {wanted} into the plugin {known}."


def _terms(energies: Energies, names: list[str], geometry: Geometry) -> dict[str, HostTerm]:
    """Numbers by type, in the order of names; a type that a plugin does not name has none."""
    count = len(names)
    matrix = np.zeros((count, count))
    for row, first in enumerate(names):
        for column, second in enumerate(names):
            matrix[row, column] = energies.contact.get(frozenset((first, second)), 0.0)
    matrix[0, 0] = 0.0
    terms = {"contact": HostTerm({"J": matrix}, energies.orders.get("contact", geometry.moore_order))}
    for term, rows in energies.constraints.items():
        weights = {weight for row in rows.values() for weight in row}
        terms[term] = HostTerm(
            {weight: _column(rows, names, weight) for weight in CONSTRAINTS[term].attributes if weight in weights},
            energies.orders.get(term),
        )
    return terms


def _column(rows: dict[str, dict[str, float]], names: list[str], weight: str) -> NDArray[np.float64]:
    return np.array([0.0, *(rows.get(name, {}).get(weight, 0.0) for name in names[1:])])


# -- what is there besides -----------------------------------------------------------------------------------------


def _not_read(root: etree._Element, facts: ProjectFacts) -> Iterator[str]:
    read = {CONTACT, *(known.plugin for term, known in CONSTRAINTS.items() if term in facts.energies.terms)}
    for name in dict.fromkeys(facts.plugins):
        if name not in SILENT | read:
            yield f"the plugin {name}"
    solvers = [step.get("Type", "") for step in root.findall("Steppable") if "Solver" in step.get("Type", "")]
    if solvers:
        yield f"fields ({listed(solvers)})"
    if facts.acceptance != "Default":
        yield f"the acceptance function {facts.acceptance}"
    potts = root.find("Potts")
    assert potts is not None  # facts were read from it
    if potts.find("FluctuationAmplitude/FluctuationAmplitudeParameters") is not None:
        yield "temperatures of single types (FluctuationAmplitude)"
    yield from (f"<{tag}> of <Potts>" for tag in ("Offset", "KBoltzman") if potts.find(tag) is not None)
    frozen = [each.get("TypeName", "") for each in root.findall("Plugin[@Name='CellType']/CellType[@Freeze]")]
    if frozen:
        yield f"that cells of type {listed(frozen)} are frozen"
    order, around = copy_order(potts, facts.lattice.geometry), facts.lattice.geometry.moore_order
    if order != around:
        yield f"copies from neighbours of order {order} (training copies from order {around})"


def _scanned(project: Project) -> Iterator[str]:
    if values := project.values():
        first = listed(f"{name} = {value}" for name, value in values.items())
        yield f"all but the first values of its parameter scan ({first})"


def copy_order(potts: etree._Element, geometry: Geometry) -> int:
    """How far a copied pixel may come from."""
    distance = potts.findtext("FlipNeighborMaxDistance")
    if distance is not None:
        return geometry.order_within(number(distance, "FlipNeighborMaxDistance"))
    return int(number(potts.findtext("NeighborOrder") or "1", "NeighborOrder"))


def _in_python(project: Project) -> Iterator[str]:
    """Steppables that the project registers, and energies of cells that its scripts set."""
    for script in sorted(project.file.parent.rglob("*.py")):
        try:
            tree = ast.parse(read_text(script).encode("utf-8", "surrogateescape"))
        except (SyntaxError, ValueError):
            yield f"{script.name}, which is no Python that could be looked at"
            continue
        registered = list(dict.fromkeys(_registered(tree)))
        if STEPPABLE in registered:
            yield f"the learned term that {script.name} registers"
        others = [name for name in registered if name != STEPPABLE]
        if others:
            yield f"what Python does at every step ({listed(others)} of {script.name})"
        set_there = {
            target.attr
            for node in ast.walk(tree)
            for target in _targets(node)
            if isinstance(target, ast.Attribute) and target.attr in SET_IN_PYTHON
        }
        if set_there:
            yield f"what {script.name} sets of single cells ({listed(sorted(set_there))})"


def _registered(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node).endswith(("register_steppable", "registerSteppable")):
            given = (*node.args, *(word.value for word in node.keywords))
            yield from (_called(argument) for argument in given if isinstance(argument, ast.Call))


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []
