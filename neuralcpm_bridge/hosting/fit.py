"""Whether a model can serve a host's lattice: its geometry, and what lies beyond its borders."""

from __future__ import annotations

from ..artifact import Artifact
from ..conventions import Target
from ..delta import Part
from ..errors import UserError
from ..lattice import Boundary, Lattice, boundary_text

AXES = "zyx"


def check_lattice(lattice: Lattice, artifact: Artifact, part: Part, target: Target, setting: str) -> None:
    """Refuse a lattice that a model cannot serve; `setting` is what a user changes for another boundary there."""
    meta = artifact.metadata
    known = meta.lattice.geometry
    if lattice.geometry.name != known:
        raise UserError(
            f"The project's lattice is {lattice.geometry.name}, but the model is for {known} lattices: use a project "
            "on such a lattice, or another model."
        )
    here = host_boundary(lattice, target)
    padding = padding_of(artifact)
    if padding == "circular" and not all(lattice.periodic):
        raise UserError(
            f"The project's boundary is {here}, but the model's network wraps around (circular padding): set {setting} "
            f"to {target.boundary_words['periodic']}, or use a model with zero padding."
        )
    # A network that pads with zeros although it was trained on periodic lattices never saw across a border: it serves
    # every boundary as it did in training.
    if padding == "zeros" and "periodic" not in meta.boundary and any(lattice.periodic):
        raise UserError(
            f"The project's boundary is {here}, but the model was trained on lattices with a border and its network "
            f"does not see across it: set {setting} to {target.boundary_words['free']}, or use a model with circular "
            "padding."
        )
    if meta.neural is not None and padding is None and meta.boundary != lattice.boundary:
        raise UserError(
            f"The project's boundary is {here}, but the model's network sees {boundary_text(meta.boundary)} lattices: "
            f"change {setting}, or use another model."
        )
    if part == "full" and meta.symbolic is not None and meta.boundary != lattice.boundary:
        raise UserError(
            f"The project's boundary is {here}, but the model's own terms are {boundary_text(meta.boundary)}: "
            f"change {setting}, or use term='neural' beside the project's own energies."
        )


def padding_of(artifact: Artifact) -> str | None:
    """How a convolutional network continues a lattice beyond its border; None: the model has none."""
    network = artifact.metadata.neural
    return None if network is None or network.is_graph else network.padding


def host_boundary(lattice: Lattice, target: Target) -> str:
    """The boundary in the host's words, axis by axis where they differ: `Periodic in x, NoFlux in y`."""
    words: list[tuple[str, Boundary]] = list(zip(AXES[-lattice.dimension :], lattice.boundary, strict=True))[::-1]
    if len(set(lattice.boundary)) == 1:
        return target.boundary_words[lattice.boundary[0]]
    return ", ".join(f"{target.boundary_words[boundary]} in {axis}" for axis, boundary in words)
