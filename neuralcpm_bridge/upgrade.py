"""Metadata of older model files in the words of the newest format; nothing else knows the older ones."""

from __future__ import annotations

from typing import Any

from .terms import TERMS


def upgraded(entry: dict[str, Any]) -> dict[str, Any]:
    """Metadata of format 1 (2D square lattices, Moore neighbours, flips by row and column) as format 2."""
    if entry.get("format") != 1:
        return entry
    entry = entry | {"format": 2}
    boundary, shape = entry.pop("boundary", "periodic"), entry.pop("lattice", None)
    entry.pop("neighbor_order", None)
    entry["lattice"] = {"geometry": "square", "boundary": [boundary, boundary], "shape": shape}
    if entry.get("symbolic") is not None:
        terms = entry["symbolic"]["terms"]
        moore = {name: {"order": 2, **values} if TERMS[name].ordered else values for name, values in terms.items()}
        entry["symbolic"] = entry["symbolic"] | {"terms": moore}
    entry["examples"] = [
        example
        | {"flips": [(row * example["shape"][1] + col, new_id, delta) for row, col, new_id, delta in example["flips"]]}
        for example in entry.get("examples", [])
    ]
    return entry
