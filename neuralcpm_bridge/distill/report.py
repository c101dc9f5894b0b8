"""What a distillation found, for programs and for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..artifact import Metadata
from .fit import Distilled

GOOD, FAIR = 0.95, 0.75
"""Explained parts from which a distilled model may stand for the learned one, and below which it must not."""


def report_json(result: Distilled) -> dict[str, Any]:
    return {
        "r2": result.r2,
        "r2_heldout": result.r2_held_out,
        "decision_mismatch": result.decision_mismatch,
        "terms": {name: {"value": value, "share": result.shares[name]} for name, value in result.values.items()},
    }


def report_text(result: Distilled, meta: Metadata) -> list[str]:
    """A few plain sentences."""
    explained = 100 * result.r2_held_out
    lines = [
        f"{_sources(result)} explain {explained:.1f} % of what the model charges for a pixel copy (checked on copies "
        f"it was not fitted to; {100 * result.r2:.1f} % on those it was; {result.flips:,} in all).",
        f"A copy's chance of being accepted differs from the model's by {result.decision_mismatch:.3f} on average.",
    ]
    if result.network_explained is not None:
        lines.append(f"Of what the network itself adds, {100 * max(result.network_explained, 0.0):.0f} % is kept.")
    carried = sorted(result.shares.items(), key=lambda item: -abs(item[1]))
    main = [f"{_words(name)} ({100 * share:.0f} %)" for name, share in carried if abs(share) >= 0.02]
    if main:
        lines.append(f"What carries it: {', '.join(main)}.")
    if "volume_function" in result.terms:
        lines.append(
            "The volume energy is no parabola: a cell's stiffness depends on its size, which Morpheus can carry "
            "exactly and CompuCell3D's Volume plugin cannot."
        )
    if "surface" in result.terms:
        strength = result.terms["surface"]["strength"]
        strongest = int(np.argmax(np.abs(strength)))
        steady = strength[strongest] > 0
        manner = "keeps its outline near its usual length" if steady else "lets its outline vary"
        lines.append(f"Beyond contacts, {meta.types[strongest]} {manner} (a surface term).")
    kept = 1.0 if result.network_explained is None else result.network_explained
    lines.append(_verdict(min(result.r2_held_out, kept)))
    return lines


def _sources(result: Distilled) -> str:
    return "Contacts, volumes and surfaces" if "surface" in result.terms else "Contacts and volumes"


def _words(name: str) -> str:
    kind, _, of = name.rstrip(")").partition("(")
    first, _, second = of.partition(",")
    return {
        "J": f"contact of {first} with {second}",
        "lambda": f"volume of {first}",
        "surface": f"surface of {first}",
    }.get(kind, f"volume of {first} (power {kind[-1]})")


def _verdict(explained: float) -> str:
    if explained >= GOOD:
        return "The distilled model can stand for the learned one: little is lost."
    if explained >= FAIR:
        return (
            "The distilled model shows the main mechanisms, but not all: compare its runs with the learned model's "
            "before you rely on it."
        )
    return (
        "Much of what the network learned depends on shapes and arrangements that these energies do not see: use the "
        "plugin (Morpheus) or the steppable (CompuCell3D) for the exact model."
    )
