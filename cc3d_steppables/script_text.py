"""A learned term in a project's main Python script: one marked block before the simulation starts."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from neuralcpm_bridge.errors import UserError

BEGIN = "# >>> neuralcpm: the learned Hamiltonian"
END = "# <<< neuralcpm"
STEPPABLE = "NeuralHamiltonianSteppable"
STARTERS = ("run", "mainLoop")
PLAIN_SCRIPT = "from cc3d import CompuCellSetup\n\nCompuCellSetup.run()\n"
"""What a project of CC3DML alone stands for."""


def with_block(script: str, options: list[str], path: Path, serialised: bool = False) -> str:
    """The script with the registration before its `CompuCellSetup.run()`; an earlier block is replaced.

    `serialised`: a project that the script itself describes gets one Potts work node.
    """
    script = without_block(script)
    line_end = "\r\n" if "\r\n" in script else "\n"
    line, named = starting_line(script, path)
    lines = script.splitlines(keepends=True)
    indent = re.match(r"\s*", lines[line]).group().strip("\r\n")  # type: ignore[union-attr]
    block = [
        BEGIN,
        *([] if named else ["from cc3d import CompuCellSetup"]),
        f"from cc3d_steppables import {STEPPABLE}{', one_potts_node' if serialised else ''}",
        *(["one_potts_node()"] if serialised else []),
        "CompuCellSetup.register_steppable(",
        f"    steppable={STEPPABLE}(",
        *(f"        {option}," for option in options),
        "    )",
        ")",
        END,
    ]
    lines[line:line] = [f"{indent}{entry}{line_end}" for entry in block]
    return "".join(lines)


def without_block(script: str) -> str:
    """The script as it was before `with_block`."""
    return re.sub(
        rf"^[ \t]*{re.escape(BEGIN)}.*?{re.escape(END)}[ \t]*\r?\n", "", script, flags=re.DOTALL | re.MULTILINE
    )


def has_block(script: str) -> bool:
    return BEGIN in script


def registrations(script: str) -> list[int]:
    """Lines outside of our block that make a learned term, under whatever name it was imported."""
    visible = re.sub(
        rf"^[ \t]*{re.escape(BEGIN)}.*?{re.escape(END)}[ \t]*\r?\n",
        lambda block: "\n" * block.group().count("\n"),
        script,
        flags=re.DOTALL | re.MULTILINE,
    )
    try:
        tree = ast.parse(visible)
    except (SyntaxError, ValueError):  # of Python 2: whatever speaks of it outside of comments
        lines = visible.splitlines()
        return [number for number, line in enumerate(lines, 1) if STEPPABLE in line.partition("#")[0]]
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == STEPPABLE
    } | {STEPPABLE}
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id in names)
        or (isinstance(node, ast.Attribute) and node.attr == STEPPABLE)
    )


def starting_line(script: str, path: Path) -> tuple[int, bool]:
    """Index of the line that starts the simulation, and whether it names CompuCellSetup."""
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError) as error:
        raise UserError(
            f"{path} is not a Python 3 script ({error}): CompuCell3D 4 cannot run it, convert it."
        ) from None
    found = None
    for statement in ast.walk(tree):
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
            continue
        called = statement.value.func
        if isinstance(called, ast.Attribute) and called.attr in STARTERS and _is_setup(called.value):
            found = (statement.lineno - 1, isinstance(called.value, ast.Name))
        elif isinstance(called, ast.Name) and called.id in STARTERS:
            found = (statement.lineno - 1, False)
    if found is None:
        raise UserError(f"{path} never calls CompuCellSetup.run(): add it at the end of the script.")
    return found


def _is_setup(node: ast.expr) -> bool:
    """`CompuCellSetup` or `cc3d.CompuCellSetup`."""
    return (isinstance(node, ast.Name) and node.id == "CompuCellSetup") or (
        isinstance(node, ast.Attribute) and node.attr == "CompuCellSetup"
    )
