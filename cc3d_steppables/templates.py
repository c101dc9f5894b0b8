"""Projects of a parameter scan: `{{name}}` where a number stands elsewhere, and the values that the scan lists."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuralcpm_bridge.errors import UserError

PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
FIRST_ARGUMENT = ("arange", "linspace", "logspace", "randint", "uniform")
"""Functions of NumPy whose first argument is the first value, or one that could be drawn."""


def first_values(specs: Path | None) -> dict[str, str]:
    """The first value of every parameter, as text; code is read where it is a list or a plain range, never run."""
    if specs is None:
        return {}
    try:
        listed = json.loads(specs.read_text(encoding="utf-8"))["parameter_list"]
        entries = {str(name): dict(entry) for name, entry in listed.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{specs} is no list of a parameter scan ({error}): correct it.") from None
    values = {}
    for name, entry in entries.items():
        first = entry["values"][0] if entry.get("values") else _first_of(str(entry.get("code", "")))
        if first is not None:
            values[name] = str(first)
    return values


def filled(text: str, values: Mapping[str, str], where: Path) -> str:
    """The text with every `{{name}}` that has a value replaced; in CC3DML all must have one."""
    found = PLACEHOLDER.sub(lambda name: values.get(name.group(1), name.group()), text)
    left = PLACEHOLDER.search(found)
    if left and where.suffix != ".py":  # where {{x}} may be Python
        raise UserError(
            f"{where} has {left.group()} in place of a number, but the project lists no value for it that can be read "
            "without running code: list values in ParameterScanSpecs.json."
        )
    return found


def _first_of(code: str) -> Any:
    """The first value of `[1, 2]`, `list(range(5, 11))`, `np.arange(165, 220, 3)` or the like; None: unknown."""
    try:
        node: ast.expr = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    while isinstance(node, ast.Call) and node.args:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "range":
            return _literal(node.args[0]) if len(node.args) > 1 else 0
        if name in FIRST_ARGUMENT:
            return _literal(node.args[0])
        node = node.args[0]  # list(…), np.array(…)
    values = _literal(node)
    return values[0] if isinstance(values, (list, tuple)) and values else None


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
