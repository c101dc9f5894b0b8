"""Contact and volume energies in words: who holds together, who keeps apart, how firmly cells keep their volume."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import Metadata
from neuralcpm_bridge.conventions import model_terms
from neuralcpm_bridge.explain.sentences import figure

from . import html

SLIGHT = 0.1
"""Units of the temperature per unit of contact below which nobody minds whom they touch."""


def contact_sentences(meta: Metadata, medium: bool = True) -> Iterator[str]:
    """What follows from tensions: of two types, J of both less half of each one's own; with the medium likewise.

    `medium`: whether there is any in the data; contacts with it are not known otherwise.
    """
    energies = contact_energies(meta)
    if energies is None:
        return
    for a in range(1, len(meta.types)):
        for b in range(a + 1, len(meta.types)):
            tension = energies[a, b] - (energies[a, a] + energies[b, b]) / 2
            both = f"{meta.types[a]} and {meta.types[b]}"
            amount = f"{figure(abs(tension))} T per unit of contact"
            if abs(tension) < SLIGHT:
                yield f"{both} touch each other as readily as their own type ({amount} of difference)."
            elif tension > 0:
                yield f"{both} keep apart: touching each other costs {amount} more than touching their own type."
            else:
                yield f"{both} mix: touching each other costs {amount} less than touching their own type."
    for a in range(1, len(meta.types) if medium else 0):
        tension = energies[0, a] - energies[a, a] / 2
        amount = f"{figure(abs(tension))} T per unit of contact"
        holds = "holds together: its surface to the medium costs" if tension > 0 else "spreads: its surface gains"
        yield f"{meta.types[a]} {holds} {amount}."


def volume_sentences(meta: Metadata) -> Iterator[str]:
    """Targets, and how far volumes would scatter under the constraint alone."""
    for term in model_terms(meta):
        if term.name != "volume":
            continue
        for number in range(1, len(meta.types)):
            strength, target = term.scale * term.values["strength"][number], term.values["target"][number]
            if strength > 0:
                scatter = np.sqrt(meta.temperature / (2 * strength))
                name = meta.types[number]
                yield f"{name} keeps a volume near {target:.0f} sites; alone it would vary by ± {figure(scatter)}."


def contact_table(meta: Metadata) -> str:
    """J of every pair of types, in units of the temperature."""
    energies = contact_energies(meta)
    if energies is None:
        return ""
    rows = [[name, *energies[number]] for number, name in enumerate(meta.types) if number]
    caption = html.paragraph("Contact energies J per unit of contact, in units of the temperature T.")
    return caption + html.table(["", *meta.types], rows)


def contact_energies(meta: Metadata) -> NDArray[np.float64] | None:
    """w_S·J / T, `[T, T]`."""
    for term in model_terms(meta):
        if term.name == "contact":
            return np.array(term.scale * term.values["J"] / meta.temperature, dtype=np.float64)
    return None
