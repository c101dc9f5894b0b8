"""Whether a model can serve a host's lattice: its geometry, and what lies beyond its borders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from ..artifact import Artifact
from ..conventions import Target
from ..delta import Part
from ..errors import UserError
from ..lattice import Boundary, Lattice, boundary_text, size_text
from ..state import CellState

AXES = "zyx"
BLIND_ALLOWED = 0.05
"""Share of sites that a network of blocks may not see: their copies cost nothing, wherever they are."""
Blocks = Literal["keep", "crop", "pad"]
"""What to do about a lattice whose sides are no multiples of a block."""


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
    # A cell graph sees the host's lattice, whatever its boundary, and serves all.
    # A network that pads with zeros although it was trained on periodic lattices never saw across a border: it serves
    # every boundary as it did in training.
    if padding == "zeros" and "periodic" not in meta.boundary and any(lattice.periodic):
        raise UserError(
            f"The project's boundary is {here}, but the model was trained on lattices with a border and its network "
            f"does not see across it: set {setting} to {target.boundary_words['free']}, or use a model with circular "
            "padding."
        )
    share = blind_share(artifact, lattice.shape)
    if share > BLIND_ALLOWED:
        less, more = (size_text(whole_blocks(artifact, lattice.shape, how)[::-1]) for how in ("crop", "pad"))
        raise UserError(
            f"The model's network sees blocks of {_block(artifact)} sites, so it would be blind to {share:.1%} of the "
            f"lattice of {size_text(lattice.shape[::-1])} sites: crop it to {less} or pad it to {more} sites (--blocks "
            "crop or --blocks pad), or use a cell graph, which sees every site."
        )
    if part == "full" and meta.symbolic is not None and meta.boundary != lattice.boundary:
        raise UserError(
            f"The project's boundary is {here}, but the model's own terms are {boundary_text(meta.boundary)}: "
            f"change {setting}, or use term='neural' beside the project's own energies."
        )


def blind_share(artifact: Artifact, shape: Sequence[int]) -> float:
    """The share of sites in the last rows and columns that fill no block of a convolutional network."""
    block, seen = _block(artifact), 1.0
    for side in shape:
        seen *= (side - side % block) / side
    return 1.0 - seen


def blind_sentence(artifact: Artifact, shape: Sequence[int]) -> str:
    """What a user is to know about rows that a network does not see; empty where it sees all."""
    share = blind_share(artifact, shape)
    if not share:
        return ""
    return (
        f"The network sees blocks of {_block(artifact)} × {_block(artifact)} sites: to the last rows and columns, "
        f"{share:.1%} of this lattice, it is blind (--blocks crop or pad changes the lattice)."
    )


def whole_blocks(artifact: Artifact, shape: Sequence[int], how: Blocks) -> tuple[int, ...]:
    """The nearest smaller (crop) or larger (pad) sides that are multiples of a block."""
    block = _block(artifact)
    if how == "keep":
        return tuple(shape)
    return tuple(side - side % block if how == "crop" else side + -side % block for side in shape)


def in_whole_blocks(artifact: Artifact, state: CellState, blocks: Blocks) -> CellState:
    """The state with sides that are multiples of a network's blocks: medium cut off or added behind the last sites."""
    sides = whole_blocks(artifact, state.lattice.shape, blocks)
    if sides == state.lattice.shape:
        return state
    kept = tuple(slice(0, min(side, old)) for side, old in zip(sides, state.lattice.shape, strict=True))
    ids = np.zeros(sides, dtype=state.ids.dtype)
    ids[kept] = state.ids[kept]
    if (ids > 0).sum() != (state.ids > 0).sum():
        raise UserError(
            f"Cropping the lattice to {size_text(sides[::-1])} sites would cut cells: use --blocks pad, or a state "
            "with medium in its last rows and columns."
        )
    return replace(state, ids=ids, lattice=replace(state.lattice, shape=sides))


def _block(artifact: Artifact) -> int:
    """Sites per side of what a network sees as one; 1 where it sees every site."""
    network = artifact.metadata.neural
    return 1 if network is None or network.is_graph else network.stride


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
