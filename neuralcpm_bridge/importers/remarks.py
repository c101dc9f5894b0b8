"""What an import says about the sizes of cells and sites and about cells that were lost, and what it refuses there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..errors import UserError
from ..survey import diameter, recommended_scale
from .frames import Frame, Voxel
from .preparing import Prepared, cell_sites

MOST_LOST = 0.25
"""Share of cells that may vanish in a resampling: specks of a segmentation, not the tissue."""

FEWEST_ACROSS = 2.0
"""Sites across a cell, on the mean, that a resampling has to leave."""


def suitable_scale(frames: Sequence[Frame], voxel: tuple[float, ...] | None) -> float:
    """What brings cells to a size that models move well."""
    sites, cells = 0.0, 0
    for frame in frames:
        with suppress(UserError):  # said, about its file, where it is prepared
            own, count = cell_sites(frame, voxel)
            sites, cells = sites + own, cells + count
    if not cells:
        return 1.0
    lattice = frames[0].lattice()
    return recommended_scale(diameter(sites / cells, lattice), lattice.dimension)


def check_resampling(prepared: Sequence[Prepared], scale: float) -> None:
    """Some specks may vanish; a tissue of which a good part vanishes is another tissue."""
    lost, cells = sum(entry.lost_to_scale for entry in prepared), sum(entry.cells for entry in prepared)
    if lost > MOST_LOST * cells:
        raise UserError(
            f"{lost} of {cells} cells are too small to survive the resampling with --scale {scale:g}: use a larger "
            "--scale, so that small cells keep several pixels."
        )
    across = across_cells(prepared)
    if scale < 1 and across < FEWEST_ACROSS:
        raise UserError(
            f"Cells are {across:.1f} sites across after the resampling with --scale {scale:g}, which leaves them no "
            "shape: use a larger --scale, or --scale auto."
        )


def across_cells(prepared: Sequence[Prepared]) -> float:
    """Sites across a cell, on the mean."""
    sites = sum(np.count_nonzero(entry.frame.labels) for entry in prepared)
    return diameter(sites / sum(entry.cells - entry.lost_to_scale for entry in prepared), prepared[0].lattice)


def site_size(prepared: Sequence[Prepared]) -> dict[str, Any]:
    """Length of a site and its unit, where files say the same about it."""
    sides = [entry.side for entry in prepared if entry.side is not None and entry.side.unit]
    if len(sides) < len(prepared) or not Voxel(tuple(side.sizes[0] for side in sides)).even:
        return {}
    return {"site_size": float(f"{sides[0].sizes[0]:.6g}"), "length_unit": sides[0].unit}


def about_scale(prepared: Sequence[Prepared], scale: float, asked: bool) -> list[str]:
    """What a site is in nature, and what would suit the cells better."""
    across, size = across_cells(prepared), site_size(prepared)
    said = [f"A site is {size['site_size']:.4g} {size['length_unit']} wide."] if size else []
    if not asked:
        said.append(f"--scale auto is {scale:g}: cells are {across:.0f} sites across.")
    elif (better := recommended_scale(across, prepared[0].lattice.dimension)) < 1:
        said.append(
            f"Cells are {across:.0f} sites across, which a model moves slowly: --scale {scale * better:.2g} (what "
            f"--scale auto chooses) makes it {across * better:.0f}."
        )
    return said


def what_happened(prepared: Sequence[Prepared]) -> list[str]:
    notes = [_told(*entry) for entry in Counter(p.frame.told for p in prepared if p.frame.told).items()]
    notes += dict.fromkeys(entry.resampled for entry in prepared if entry.resampled)
    torn, states = sum(p.torn for p in prepared), sum(p.torn > 0 for p in prepared)
    border, scale = sum(p.lost_to_border for p in prepared), sum(p.lost_to_scale for p in prepared)
    if torn:
        notes.append(
            f"Cells in pieces, which no simulation keeps whole: {torn}, in {states} of {len(prepared)} snapshots."
        )
    if border:
        notes.append(f"Cells taken out at the border: {border}.")
    if scale:
        notes.append(f"Cells too small to survive the resampling: {scale}.")
    return notes


def _told(what: str, images: int) -> str:
    """How files were understood, many of them at once."""
    return f"1 file {what}" if images == 1 else f"{images} files: each {what}"
