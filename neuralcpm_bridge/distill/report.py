"""What a distillation found, for programs and for people: first what it does, then how well it fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..artifact import Metadata
from ..sampling import GROWTH_MCS
from .behaviour import Behaviour
from .result import Distilled

GOOD, FAIR = 0.95, 0.75
"""Explained parts of ΔH from which a distilled model may stand for the learned one, and below which it must not, where
behaviour does not say."""

EXACT = "use the plugin (Morpheus) or the steppable (CompuCell3D) for the exact model."


def report_json(result: Distilled, behaviour: Behaviour | None = None) -> dict[str, Any]:
    return {
        "r2": result.r2,
        "r2_heldout": result.r2_held_out,
        "decision_mismatch": result.decision_mismatch,
        "terms": {name: {"value": value, "share": result.shares[name]} for name, value in result.values.items()},
        "network_explained": result.network_explained,
        "refined": result.refined,
        "behaviour": None if behaviour is None else behaviour.json(),
    }


def report_text(result: Distilled, meta: Metadata, behaviour: Behaviour | None = None) -> list[str]:
    """A few plain sentences."""
    lines = [] if behaviour is None else [*_behaviour(behaviour), _verdict(behaviour)]
    lines += _how_it_fits(result)
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
    if "length" in result.terms:
        lines += _lengths(result, meta)
    if behaviour is None:
        kept = 1.0 if result.network_explained is None else result.network_explained
        lines.append(_verdict_by_flips(min(result.r2_held_out, kept)))
    return lines


def _behaviour(found: Behaviour) -> list[str]:
    runs = f"{found.runs.replicates} runs of {GROWTH_MCS + found.runs.mcs} MCS from single pixels"
    if found.mattering:
        kept = ", ".join(f"{title} {100 * row.kept:.0f} %" for title, row in found.mattering.items())
        return [f"Kept of what the network does to the tissue ({runs}): {kept}."]
    if all(row.without is None for row in found.measures.values()):
        return [f"Compared in {len(found.measures)} measures of {runs}."]
    return [f"The network changes no measure beyond noise in {runs}."]


def _verdict(found: Behaviour) -> str:
    if found.verdict == "good":
        return "The distilled model can stand for the learned one: little is lost."
    wrong = "; ".join(
        f"{title} {row.distilled.mean:.3g} ± {row.distilled.error:.2g} instead of {row.model.mean:.3g} ± "
        f"{row.model.error:.2g}"
        for title, row in found.wrong.items()
    )
    if found.verdict == "partly":
        return f"The distilled model does most of it, but not all ({wrong}): see whether your question depends on it."
    return f"The distilled model loses what the network is there for ({wrong}): {EXACT}"


def _how_it_fits(result: Distilled) -> list[str]:
    lines = [
        f"{_sources(result)} explain {100 * result.r2_held_out:.1f} % of what the model charges for a pixel copy "
        f"(checked on copies it was not fitted to; {100 * result.r2:.1f} % on those it was; {result.flips:,} in all).",
        f"A copy's chance of being accepted differs from the model's by {result.decision_mismatch:.3f} on average.",
    ]
    if result.network_explained is not None:
        lines.append(
            f"Of what the network itself charges, {100 * max(result.network_explained, 0.0):.0f} % is explained."
        )
    if result.refined:
        lines.append("After the fit to copies its energies were tuned until its runs resembled the model's.")
    carried = sorted(result.shares.items(), key=lambda item: -abs(item[1]))
    main = [f"{term_words(name)} ({100 * share:.0f} %)" for name, share in carried if abs(share) >= 0.02]
    return [*lines, f"What carries it: {', '.join(main)}."] if main else lines


def _lengths(result: Distilled, meta: Metadata) -> list[str]:
    strength, target = (result.terms["length"][weight] for weight in ("strength", "target"))
    return [
        f"A length constraint on {meta.types[number]}: strength {strength[number]:.3g}, length {target[number]:.3g}."
        for number in np.flatnonzero(strength)
    ]


def _sources(result: Distilled) -> str:
    names = ["Contacts", "volumes", *(f"{name}s" for name in ("surface", "length") if name in result.terms)]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def term_words(name: str) -> str:
    """A key of `Distilled.values` as people say it."""
    kind, _, of = name.rstrip(")").partition("(")
    first, _, second = of.partition(",")
    return {
        "J": f"contact of {first} with {second}",
        "lambda": f"volume of {first}",
        "surface": f"surface of {first}",
        "length": f"length of {first}",
    }.get(kind, f"volume of {first} (power {kind[-1]})")


def _verdict_by_flips(explained: float) -> str:
    if explained >= GOOD:
        return "The distilled model can stand for the learned one: little is lost."
    if explained >= FAIR:
        return (
            "The distilled model shows the main mechanisms, but not all: compare its runs with the learned model's "
            "before you rely on it."
        )
    return (
        "Much of what the network learned depends on shapes and arrangements that these energies do not see: " + EXACT
    )
