"""A project that describes itself in Python, read without running it: PyCoreSpecs as far as they are literal."""

from __future__ import annotations

import ast
from typing import Any

from lxml import etree

from .document import leaf

UNKNOWN = object()
READ = {"dim_x", "dim_y", "dim_z", "fluctuation_amplitude", "lattice_type", "boundary_x", "boundary_y", "boundary_z"}
"""What is read of PottsCore."""


def read_specs(script: str) -> etree._Element | None:
    """The CC3DML that a script's PyCoreSpecs stand for: lattice, temperature, work nodes, types, names of plugins.

    None where the script has none, or where a number of the lattice only a run can tell.
    """
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError):
        return None
    known = _constants(tree)
    calls = {_name(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    if "PottsCore" not in calls or "CellTypePlugin" not in calls:
        return None
    potts = {word.arg: _value(word.value, known) for word in calls["PottsCore"].keywords if word.arg in READ}
    names = _positional(calls["CellTypePlugin"], known)
    metadata = {word.arg: _value(word.value, known) for word in _keywords(calls.get("Metadata"))}
    if UNKNOWN in potts.values() or UNKNOWN in names or UNKNOWN in metadata.values() or calls["PottsCore"].args:
        return None
    root = etree.Element("CompuCell3D")
    nodes = etree.SubElement(root, "Metadata")
    leaf(nodes, "NumberOfProcessors", str(metadata.get("num_processors", 1)))
    _add_potts(root, potts)
    types = etree.SubElement(root, "Plugin", Name="CellType")
    for number, name in enumerate(["Medium", *(name for name in names if name != "Medium")]):
        etree.SubElement(types, "CellType", TypeId=str(number), TypeName=str(name))
    for name in calls:
        if name.endswith("Plugin") and name != "CellTypePlugin":
            # Without numbers: scripts set them by methods.
            etree.SubElement(root, "Plugin", Name=name.removesuffix("Plugin"))
    return root


def _add_potts(root: etree._Element, given: dict[str, Any]) -> None:
    potts = etree.SubElement(root, "Potts")
    sides = {axis: str(given.get(f"dim_{axis}", 1)) for axis in "xyz"}
    etree.SubElement(potts, "Dimensions", sides)
    leaf(potts, "Temperature", str(given.get("fluctuation_amplitude", 10.0)))
    leaf(potts, "LatticeType", str(given.get("lattice_type", "Cartesian")))
    for axis in "xyz":
        leaf(potts, f"Boundary_{axis}", str(given.get(f"boundary_{axis}", "NoFlux")))


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Names that are given one literal, once, at the top of the script."""
    found: dict[str, Any] = {}
    for statement in ast.walk(tree):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in (target for target in targets if isinstance(target, ast.Name)):
            assert isinstance(statement, ast.Assign)
            value = _value(statement.value, found) if target.id not in found else UNKNOWN
            found[target.id] = value if statement in tree.body else UNKNOWN
    return found


def _value(node: ast.expr, known: dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return known.get(node.id, UNKNOWN)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return UNKNOWN


def _positional(call: ast.Call, known: dict[str, Any]) -> list[Any]:
    """Arguments of a call, lists with a star spread out."""
    values: list[Any] = []
    for argument in call.args:
        if isinstance(argument, ast.Starred):
            several = _value(argument.value, known)
            values += list(several) if isinstance(several, (list, tuple)) else [UNKNOWN]
        else:
            values.append(_value(argument, known))
    return values


def _keywords(call: ast.Call | None) -> list[ast.keyword]:
    return [] if call is None else call.keywords


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))
