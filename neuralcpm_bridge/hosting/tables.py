"""What a user reads: how a project was mapped to the model, learned beside own parameters, the log line."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..artifact import Artifact
from ..conventions import Target, neural_scale
from ..delta import Part
from ..lattice import boundary_text
from .callbacks import Tally
from .facts import Facts
from .fit import AXES, blind_share, host_boundary, padding_of
from .mapping import UNMAPPED
from .mirror import Consistency

PREFIX = "NeuralHamiltonian"
PROGRESS = "neuralcpm-progress"
"""First word of a line by which a watched run tells how far it is: done, in all."""
INDICES = ("planes", "rows", "columns")


def mapping_table(
    facts: Facts,
    artifact: Artifact,
    type_of: Mapping[int, int],
    target: Target,
    *,
    part: Part,
    weight: float,
    extinction: bool,
    temperature: float,
    by_cell: bool,
) -> str:
    """How types, temperature, lattice and boundary were taken."""
    meta = artifact.metadata
    rows = [("", target.host, "model")]
    for number, name in sorted(facts.type_names.items()):
        cell_type = type_of[number]
        shown = meta.types[cell_type] if cell_type != UNMAPPED else "not mapped: refused when such a cell appears"
        rows.append((f"type {number}", name, shown))
    rows += [(f"property {name}", target.property_words.format(name=name), name) for name in meta.properties]
    scale = neural_scale(meta, temperature)
    amplitude = f"{facts.amplitude_function} of the cells' own amplitudes" if by_cell else f"{temperature:g}"
    factor = "ΔH × amplitude / T" if by_cell else f"ΔH × {scale:g}"
    rows.append(("temperature", amplitude, f"T = {meta.temperature:g}, so {factor}"))
    if temperature == 0 and not by_cell:
        rows.append(("WARNING", "no temperature", "ΔH × 0: the learned term has no effect"))
    if facts.acceptance != "Default":
        rows.append(("acceptance", facts.acceptance, "trained with the default function"))
    lattice = facts.lattice
    padding = f", network pads with {padding_of(artifact)}" if padding_of(artifact) else ""
    rows.append(("boundary", host_boundary(lattice, target), f"{boundary_text(meta.boundary)}{padding}"))
    sides = [f"{axis} = {side}" for axis, side in zip(AXES[-lattice.dimension :], lattice.shape, strict=True)]
    places = [
        f"{side} {place} ({axis})"
        for side, place, axis in zip(
            lattice.shape, INDICES[-lattice.dimension :], AXES[-lattice.dimension :], strict=True
        )
    ]
    rows.append(("lattice", f"{lattice.geometry.name}, {', '.join(sides[::-1])}", ", ".join(places)))
    if blind := blind_share(artifact, lattice.shape):
        rows.append(
            ("blind", f"the last rows and columns, {blind:.1%}", "ΔH = 0 there: sides are no multiples of its blocks")
        )
    rows.append(("energy", f"weight {weight:g}", f"term '{part}' of {meta.name} ({meta.architecture})"))
    ban = "its last pixel is never taken" if extinction else "may lose its last pixel and die"
    rows.append(("a cell", ban, "never taken in training" if meta.extinction else "could be taken in training"))
    return aligned(rows)


def parameter_table(rows: Sequence[tuple[str, str, str]]) -> str:
    """The model's own numbers in the host's units beside the project's: name, learned, project. Empty without any.

    A closure was trained as a complement of its own H_S: where the two differ, so does the tissue.
    """
    return aligned([("", "learned", "project"), *rows]) if rows else ""


@dataclass(frozen=True)
class Progress:
    """One interval of the log; times are the processor's."""

    mcs: int
    tally: Tally
    seconds_passed: float
    neural_energy: float
    check: Consistency | None
    host: str
    sure: str = ""
    """What is known about the model's uncertainty."""

    def line(self) -> str:
        tally = self.tally
        share = min(tally.each * tally.calls / self.seconds_passed, 1.0) if self.seconds_passed > 0 else 0.0
        accepted = tally.accepted / tally.calls if tally.calls else 0.0
        text = (
            f"{PREFIX}: MCS {self.mcs}, {tally.calls} ΔH at {1e6 * tally.each:.1f} µs, {share:.0%} of the time, "
            f"{accepted:.1%} accepted, neural energy {self.neural_energy:.6g}"
        )
        if self.sure:
            text += f", {self.sure}"
        if self.check is not None:
            text += f", check {check_text(self.check, self.host)}"
        return text


def check_text(check: Consistency, host: str) -> str:
    if check.ok:
        return f"ok (drift {check.drift:.1e})"
    return f"FAILED: {check.pixels} pixels differed from {host}'s lattice, which was taken over"


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
