"""What a user reads: how the project was mapped to the model, learned against own parameters, the log line."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.conventions import TARGETS, neural_scale, symbolic_values

from .facts import Facts
from .mapping import UNMAPPED, Term
from .mirror import Consistency

PREFIX = "NeuralHamiltonian"
PROGRESS = "neuralcpm-progress"
"""First word of a line by which a watched run tells how far it is: done, in all."""


def mapping_table(
    facts: Facts,
    artifact: Artifact,
    type_of: Mapping[int, int],
    *,
    term: Term,
    weight: float,
    extinction: bool,
    temperature: float,
    by_cell: bool,
) -> str:
    """How types, temperature and boundary were taken."""
    meta = artifact.metadata
    rows = [("", "CompuCell3D", "model")]
    for number, name in sorted(facts.type_names.items()):
        kind = type_of[number]
        shown = meta.types[kind] if kind != UNMAPPED else "not mapped: refused when such a cell appears"
        rows.append((f"type {number}", name, shown))
    scale = neural_scale(meta, temperature)
    amplitude = f"{facts.amplitude_function} of the cells' own amplitudes" if by_cell else f"{temperature:g}"
    factor = "ΔH × amplitude / T" if by_cell else f"ΔH × {scale:g}"
    rows.append(("temperature", amplitude, f"T = {meta.temperature:g}, so {factor}"))
    if temperature == 0 and not by_cell:
        rows.append(("", "amplitude 0", "the learned term has no effect"))
    if facts.acceptance != "Default":
        rows.append(("acceptance", facts.acceptance, "trained with the default function"))
    words = TARGETS["cc3d"].boundary_words
    host_boundary = " × ".join(dict.fromkeys(words["periodic" if wraps else "free"] for wraps in facts.periodic[::-1]))
    padding = f", network pads with {meta.neural.padding}" if meta.neural else ""
    rows.append(("boundary", host_boundary, f"{meta.boundary}{padding}"))
    height, width = facts.shape
    rows.append(("lattice", f"x = {width}, y = {height}", f"{height} rows (y), {width} columns (x)"))
    rows.append(("energy", f"weight {weight:g}", f"term '{term}' of {meta.name} ({meta.architecture})"))
    ban = "its last pixel is never taken" if extinction else "may lose its last pixel and die"
    rows.append(("a cell", ban, "never taken in training" if meta.extinction else "could be taken in training"))
    return aligned(rows)


def parameter_table(facts: Facts, artifact: Artifact, type_of: Mapping[int, int], temperature: float) -> str:
    """The model's own J, λ and V* in CC3D's units at the project's temperature, beside the project's.

    A closure was trained as a complement of its own H_S: where the two differ, so does the tissue.
    Empty where the model has no such terms.
    """
    meta = artifact.metadata
    if meta.symbolic is None or set(meta.symbolic.terms) - {"contact", "volume"} or temperature <= 0:
        return ""
    learned = symbolic_values(meta, TARGETS["cc3d"], neural_scale(meta, temperature))
    numbers = [number for number in sorted(facts.type_names) if type_of[number] != UNMAPPED]
    rows = [("", "learned", "project")]
    for place, one in enumerate(numbers):
        for other in numbers[max(place, 1) if one == 0 else place :]:
            first, second = facts.type_names[one], facts.type_names[other]
            own = facts.contact.get(frozenset((first, second)))
            shown = f"{own:g}" if own is not None else "0" if facts.contact else "–"
            rows.append((f"J({first}, {second})", f"{learned.contact[type_of[one], type_of[other]]:.4g}", shown))
    if facts.contact and facts.contact_order != TARGETS["cc3d"].neighbor_order:
        rows.append(("Contact NeighborOrder", str(TARGETS["cc3d"].neighbor_order), str(facts.contact_order)))
    for number in numbers:
        name, kind = facts.type_names[number], type_of[number]
        if kind == 0:
            continue
        absent = "set per cell" if {"Volume", "VolumeLocalFlex"} & {*facts.plugins} else "–"
        own_values = [f"{value:g}" for value in facts.volume[name]] if name in facts.volume else [absent, absent]
        rows.append((f"LambdaVolume({name})", f"{learned.strength[kind]:.4g}", own_values[0]))
        rows.append((f"TargetVolume({name})", f"{learned.target_volume[kind]:.4g}", own_values[1]))
    return aligned(rows)


@dataclass(frozen=True)
class Progress:
    """One interval of the log."""

    mcs: int
    calls: int
    accepted: int
    seconds_inside: float
    seconds_passed: float
    neural_energy: float
    check: Consistency | None

    def line(self) -> str:
        each = 1e6 * self.seconds_inside / self.calls if self.calls else 0.0
        share = self.seconds_inside / self.seconds_passed if self.seconds_passed > 0 else 0.0
        accepted = self.accepted / self.calls if self.calls else 0.0
        text = (
            f"{PREFIX}: MCS {self.mcs}, {self.calls} ΔH at {each:.1f} µs, {share:.0%} of the time, "
            f"{accepted:.1%} accepted, neural energy {self.neural_energy:.6g}"
        )
        if self.check is not None:
            text += f", check {check_text(self.check)}"
        return text


def check_text(check: Consistency) -> str:
    if check.ok:
        return f"ok (drift {check.drift:.1e})"
    return f"FAILED: {check.pixels} pixels differed from CompuCell3D's lattice, which was taken over"


def say(text: str) -> None:
    """Print at once, on consoles that lack Greek letters too."""
    try:
        print(text, flush=True)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        print(text.encode(encoding, "replace").decode(encoding), flush=True)


def aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)
