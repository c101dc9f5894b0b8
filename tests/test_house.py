"""Who may import whom: the rooms of the house, read from the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOSTS = ("cc3d_steppables", "morpheus_xml")

FORBIDDEN = {
    "neuralcpm_bridge": ("torch", "training", "cc3d", *HOSTS, "neuralcpm_bridge.app"),
    "neuralcpm_bridge/hosting": ("torch", "training", "cc3d", *HOSTS, "neuralcpm_bridge.app"),
    "training": ("cc3d", *HOSTS, "neuralcpm_bridge.app", "neuralcpm_bridge.hosting"),
    "cc3d_steppables": ("torch", "training", "morpheus_xml", "neuralcpm_bridge.app"),
    "morpheus_xml": ("torch", "training", "cc3d", "cc3d_steppables", "neuralcpm_bridge.app"),
}
"""Packages that a room must not name, not even inside a function; the application may name all."""


def sources(room: str) -> list[Path]:
    inside = [path for path in sorted((ROOT / room).rglob("*.py")) if "app" not in path.relative_to(ROOT / room).parts]
    assert inside
    return inside


def imported(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Line, absolute name, and whether it happens when the module is imported, of every import of a module."""
    package = path.relative_to(ROOT).with_suffix("").parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node) for function in ast.walk(tree) if isinstance(function, ast.FunctionDef) for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        at_import = id(node) not in inside
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, at_import) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}", at_import) for alias in node.names)


@pytest.mark.parametrize("room", FORBIDDEN)
def test_rooms_import_what_they_may(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources(room)
        for line, name, _ in imported(path)
        if any(name == other or name.startswith(f"{other}.") for other in FORBIDDEN[room])
    ]
    assert not found


INSIDE_CC3D = ("steppable.py", "recorder.py")
"""Classes derived from CompuCell3D's own: what imports these runs inside of it."""


def test_cc3d_is_imported_inside_functions_only() -> None:
    """The package is to be usable, and testable, where CompuCell3D is not."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sources("cc3d_steppables")
        for line, name, at_import in imported(path)
        if path.name not in INSIDE_CC3D and at_import and (name == "cc3d" or name.startswith("cc3d."))
    ]
    assert not found
