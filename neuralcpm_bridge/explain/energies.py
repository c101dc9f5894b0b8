"""A state under the network: the energy of every cell and of every contact, as numbers and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..state import CellState
from .cells import Cells, Floats
from .network import Network, contact_shares

if TYPE_CHECKING:
    from PIL import Image

BLUE_TO_RED = np.array([(33, 102, 172), (146, 197, 222), (247, 247, 247), (244, 165, 130), (178, 24, 43)], dtype=float)
"""Paul Tol's BuRd: low, none, high; told apart by colour-blind eyes."""
PALE = (232, 232, 232)
SIDE = 340
GAP, TEXT, BAR = 18, 13, 10
STRONG = 0.98
"""Share of values that a colour scale holds; the few beyond are as dark as can be."""


@dataclass(frozen=True)
class Energies:
    """Of one state, in units of the temperature. `cells[N]`: as the network adds them up; `relative[N]`: less the mean
    of the cell's type over all states that were looked at; `spread[N]`: deviation of the committee's members, None
    without one; `contacts[E]`: see `contact_shares`."""

    state: CellState
    graph: Cells
    cells: Floats
    relative: Floats
    spread: Floats | None
    contacts: Floats

    def json(self, types: Sequence[str]) -> dict[str, Any]:
        graph = self.graph
        each = []
        for number, cell in enumerate(graph.ids):
            entry = {
                "id": int(cell),
                "type": types[graph.types[number]],
                "energy": float(self.cells[number]),
                "relative": float(self.relative[number]),
            }
            each.append(entry if self.spread is None else entry | {"spread": float(self.spread[number])})
        once = np.flatnonzero(graph.receiver < graph.sender)
        contacts = [
            {
                "cells": [int(graph.ids[graph.receiver[edge]]), int(graph.ids[graph.sender[edge]])],
                "length": float(graph.contact[0, edge]),
                "energy": float(self.contacts[edge]),
            }
            for edge in once
        ]
        return {"cells": each, "contacts": contacts}


def energies_of(network: Network, state: CellState, graph: Cells, means: Floats, temperature: float) -> Energies:
    """`means[T]`: of the energies of each type's cells, to compare with."""
    members = network.energies(graph)[:, 0] / temperature
    cells = members.mean(axis=0)
    spread = members.std(axis=0, ddof=1) if network.members > 1 else None
    shares = contact_shares(network, graph) / temperature
    return Energies(state, graph, cells, cells - means[graph.types], spread, shares)


class Panel(NamedTuple):
    """One picture of a state; `scale`: what the darkest colours stand for, in units of the temperature, None where
    colours are those of types."""

    title: str
    image: Image.Image
    scale: float | None


def energy_panels(found: Energies) -> list[Panel]:
    """Types of cells, their energies, and those of contacts per unit of their length."""
    from ..pictures.drawing import FAINT, MEDIUM
    from ..pictures.planes import Paint
    from ..pictures.states import tile

    graph, ids = found.graph, found.state.types.size
    cell_scale, density = scale_of(found.relative), found.contacts / graph.contact[0]
    contact_scale = scale_of(density)
    fills, pale = (np.tile(np.array(colour, dtype=np.uint8), (ids, 1)) for colour in (MEDIUM, PALE))
    fills[graph.ids], pale[0] = coloured(found.relative / cell_scale), MEDIUM
    lines = Paint(pale, _line_colours(graph, ids, coloured(density / contact_scale), FAINT), line=1.0)
    side = SIDE if found.state.lattice.dimension == 2 else 2 * SIDE
    paints = (
        ("types", Paint.by_type(found.state.types), None),
        ("energy of cells, less the mean of their type", Paint(fills), cell_scale),
        ("energy of contacts, per unit of contact", lines, contact_scale),
    )
    return [Panel(title, tile(found.state, side, paint), scale) for title, paint, scale in paints]


def energy_picture(found: Energies, types: Sequence[str]) -> Image.Image:
    """All panels side by side, with their keys."""
    from PIL import Image, ImageDraw

    from ..pictures.drawing import FAINT, INK, PAPER, write
    from ..pictures.states import draw_key

    panels = energy_panels(found)
    wide, high = panels[0].image.size
    sheet = Image.new("RGB", (len(panels) * (wide + GAP) + GAP, high + 4 * GAP + TEXT), PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, (title, image, scale) in enumerate(panels):
        left, below = GAP + number * (wide + GAP), GAP + TEXT + high + GAP // 2
        write(draw, (left, GAP // 2), title, INK, TEXT)
        sheet.paste(image, (left, GAP + TEXT))
        if scale is None:
            key = [(int(kind), types[kind]) for kind in np.unique(found.graph.types)]
            draw_key(draw, key, left, below, left + wide)
            continue
        bar = coloured(np.linspace(-1, 1, wide))[None].repeat(BAR, axis=0)
        sheet.paste(Image.fromarray(bar), (left, below))
        for share, text in ((0.0, f"-{scale:.3g} T"), (0.49, "0"), (0.85, f"+{scale:.3g} T")):
            write(draw, (left + share * wide, below + BAR + 2), text, FAINT, TEXT)
    return sheet


def scale_of(values: Floats) -> float:
    """What the darkest colours stand for."""
    return float(np.quantile(np.abs(values), STRONG)) if np.abs(values).max(initial=0.0) > 0 else 1.0


def coloured(shares: Floats) -> NDArray[np.uint8]:
    """Colours `[…, 3]` of values between −1 (blue) and 1 (red)."""
    place = (np.clip(shares, -1, 1) + 1) / 2 * (len(BLUE_TO_RED) - 1)
    channels = [np.interp(place, np.arange(len(BLUE_TO_RED)), BLUE_TO_RED[:, channel]) for channel in range(3)]
    return np.round(np.stack(channels, axis=-1)).astype(np.uint8)


def _line_colours(graph: Cells, ids: int, colours: NDArray[np.uint8], otherwise: tuple[int, int, int]) -> Any:
    """A function that gives lines between two ids the colour of their contact."""
    keys = graph.ids[graph.receiver].astype(np.int64) * ids + graph.ids[graph.sender]
    order = np.argsort(keys)
    known = np.r_[keys[order], np.iinfo(np.int64).max]
    table = np.concatenate([colours[order], np.array([otherwise], dtype=np.uint8)])

    def lines(a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.uint8]:
        wanted = a.astype(np.int64) * ids + b
        place = np.searchsorted(known, wanted)
        return table[np.where(known[place] == wanted, place, len(table) - 1)]

    return lines
