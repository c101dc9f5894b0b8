"""The stub of the compiled module says what the module has."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import neuralcpm_bridge
from neuralcpm_bridge import _engine

STUB = ast.parse((Path(neuralcpm_bridge.__file__).parent / "_engine.pyi").read_text(encoding="utf-8"))
Definition = ast.ClassDef | ast.FunctionDef


def definitions(body: list[ast.stmt]) -> dict[str, Definition | None]:
    """Classes and functions by name; None for plain attributes."""
    found: dict[str, Definition | None] = {}
    for node in body:
        if isinstance(node, Definition):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = None
    return found


def public(thing: Any) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def arguments(function: ast.FunctionDef) -> list[str]:
    named = [argument.arg for argument in function.args.kwonlyargs]
    return [*(argument.arg for argument in function.args.args), *(["*", *named] if named else [])]


def compiled_arguments(function: Any) -> list[str]:
    """From the signature in the documentation, types and defaults left out."""
    signature = function.__doc__.splitlines()[0]
    inside = signature[signature.index("(") + 1 : signature.rindex(") ->")]
    while (shorter := re.sub(r"\[[^\[\]]*\]|\([^()]*\)", "", inside)) != inside:
        inside = shorter
    return [argument.split(":")[0].strip() for argument in inside.split(",") if argument.strip()]


def test_names() -> None:
    module = definitions(STUB.body)
    assert set(module) == public(_engine)
    for name, definition in module.items():
        if isinstance(definition, ast.ClassDef) and name != "EngineError":
            assert set(definitions(definition.body)) - {"__init__"} == public(getattr(_engine, name)), name


def test_arguments() -> None:
    checked = 0
    for name, definition in definitions(STUB.body).items():
        if isinstance(definition, ast.FunctionDef):
            assert arguments(definition) == compiled_arguments(getattr(_engine, name)), name
        for method, node in definitions(definition.body if isinstance(definition, ast.ClassDef) else []).items():
            compiled = getattr(getattr(_engine, name), method, None)
            if isinstance(node, ast.FunctionDef) and method != "__init__" and not isinstance(compiled, property):
                assert arguments(node) == compiled_arguments(compiled), (name, method)
                checked += 1
    assert checked > 20
