"""PIF, CC3D's list of boxes: `id TypeName x1 x2 y1 y2 z1 z2`, both ends included. Rows are y, columns x, planes z."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.files import writing


def pif_text(ids: NDArray[np.integer], type_names: Mapping[int, str]) -> str:
    """`ids` `[H, W]` or `[D, H, W]` (0 = medium, left out) and the type name of every id, one line per run along x."""
    lines = []
    planes = ids.reshape(-1, *ids.shape[-2:])
    for plane, row in np.ndindex(planes.shape[:2]):
        sites = planes[plane, row]
        starts = np.flatnonzero(np.concatenate([[True], sites[1:] != sites[:-1]]))
        ends = np.concatenate([starts[1:], [sites.size]]) - 1
        for start, end in zip(starts, ends, strict=True):
            cell = int(sites[start])
            if cell:
                lines.append(f"{cell} {type_names[cell]} {start} {end} {row} {row} {plane} {plane}")
    return "\n".join(lines) + "\n"


def write_pif(path: Path, ids: NDArray[np.integer], type_names: Mapping[int, str]) -> None:
    with writing(path) as temporary:
        temporary.write_text(pif_text(ids, type_names), encoding="utf-8")
