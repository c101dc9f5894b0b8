"""States as pictures: one, many side by side with captions, and moving ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ..errors import UserError
from ..files import writing
from ..state import CellState
from .drawing import FAINT, INK, PAPER, RULE, shortened, text_width, to_image, type_colour, write
from .planes import Paint, hexagon_extent, hexagon_image, square_image
from .solids import solid_image

GAP = 14
CAPTION = 13
TITLE = 19
GIF_COLOURS = 128
"""Plane states need half of them; shading takes many."""

FRAME = 400
"""Side of a plane state in an animation, in pixels."""

PANELS = 1.5
"""Times the side of a plane state that a 3D one gets: it has four panels."""


def state_image(state: CellState, scale: int = 4) -> NDArray[np.uint8]:
    """RGB picture of a state `[h, w, 3]`, `scale` pixels per site: cells in their type's colour, borders dark."""
    paint = Paint.by_type(state.types)
    if state.lattice.dimension == 3:
        return np.array(solid_image(state, scale * 2 * max(state.shape), paint))
    if state.lattice.geometry.name == "hexagonal":
        return hexagon_image(state, paint, scale)
    return square_image(state.ids, paint, scale)


def tile(state: CellState, side: int, paint: Paint | None = None) -> Image.Image:
    """A state whose longer side has `side` pixels, by default in the colours of types.

    Where that is no whole number of pixels per site, and for hexagons, it is drawn larger and averaged down.
    """
    paint = paint or Paint.by_type(state.types)
    if state.lattice.dimension == 3:
        return solid_image(state, side, paint)
    if state.lattice.geometry.name == "hexagonal":
        image = to_image(hexagon_image(state, paint, 3 * side / max(hexagon_extent(state.lattice))))
    elif side % max(state.shape) == 0:
        return to_image(square_image(state.ids, paint, side // max(state.shape)))
    else:
        image = to_image(square_image(state.ids, paint, max(1, -(-2 * side // max(state.shape)))))
    ratio = side / max(image.size)
    size = (max(1, round(image.width * ratio)), max(1, round(image.height * ratio)))
    return image.resize(size, Image.Resampling.LANCZOS)


def contact_sheet(
    states: Sequence[CellState],
    captions: Sequence[str] = (),
    columns: int | None = None,
    title: str = "",
    type_names: Sequence[str] = (),
    side: int = 200,
) -> Image.Image:
    """States in rows of `columns`, captions below each, title and key of types above all.

    `side` is the longer side of each plane state in pixels.
    """
    if not states:
        raise UserError("A picture of no states was asked for: give at least one state.")
    tiles = [tile(state, side if state.lattice.dimension == 2 else round(PANELS * side)) for state in states]
    columns = columns or max(1, min(len(tiles), round(np.sqrt(1.6 * len(tiles)))))
    rows = -(-len(tiles) // columns)
    cell_width, cell_height = max(image.width for image in tiles), max(image.height for image in tiles)
    below = CAPTION + 9 if any(captions) else 0
    key = _key(states, type_names)
    width = columns * (cell_width + GAP) + GAP
    top = GAP + (TITLE + GAP if title else 0) + (CAPTION + GAP if key else 0)
    sheet = Image.new("RGB", (width, top + rows * (cell_height + below + GAP)), PAPER)
    draw = ImageDraw.Draw(sheet)
    if title:
        write(draw, (GAP, GAP), shortened(title, TITLE, width - 2 * GAP), INK, TITLE)
    draw_key(draw, key, GAP, top - CAPTION - GAP, width)
    for number, image in enumerate(tiles):
        left = GAP + number % columns * (cell_width + GAP)
        upper = top + number // columns * (cell_height + below + GAP)
        sheet.paste(image, (left, upper))
        draw.rectangle((left - 1, upper - 1, left + image.width, upper + image.height), outline=RULE)
        if number < len(captions):
            caption = shortened(captions[number], CAPTION, cell_width)
            write(draw, (left, upper + image.height + 5), caption, FAINT, CAPTION)
    return sheet


def strip(
    states: Sequence[CellState],
    captions: Sequence[str] = (),
    title: str = "",
    type_names: Sequence[str] = (),
    side: int = 200,
) -> Image.Image:
    """States in one row, for example over time."""
    return contact_sheet(states, captions, len(states), title, type_names, side)


def save_gif(
    states: Sequence[CellState],
    path: str | Path,
    captions: Sequence[str] = (),
    type_names: Sequence[str] = (),
    side: int = FRAME,
    frames_per_second: float = 10,
) -> None:
    """An animation of states, see `save_animation`."""
    texts = [*captions, *[""] * (len(states) - len(captions))]
    padding = " " if any(captions) else ""  # frames of one animation have one size
    drawn = [frame(state, text or padding, type_names, side) for state, text in zip(states, texts, strict=True)]
    save_animation(drawn, path, frames_per_second)


def frame(state: CellState, caption: str = "", type_names: Sequence[str] = (), side: int = FRAME) -> Image.Image:
    """One frame of an animation."""
    return contact_sheet([state], [caption], 1, type_names=type_names, side=side)


def save_animation(drawn: Sequence[Image.Image], path: str | Path, frames_per_second: float = 10) -> None:
    """Frames of one size as a GIF that repeats for ever and rests a second on its last frame."""
    if not drawn:
        raise UserError("An animation of no states was asked for: give at least one state.")
    both_ends = Image.new("RGB", (drawn[0].width, 2 * drawn[0].height))
    both_ends.paste(drawn[0], (0, 0))
    both_ends.paste(drawn[-1], (0, drawn[0].height))
    palette = both_ends.quantize(GIF_COLOURS)
    frames = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in drawn]
    pause = round(1000 / frames_per_second)
    durations = [pause] * (len(frames) - 1) + [max(pause, 1000)]
    with writing(path) as temporary:
        frames[0].save(
            temporary,
            "GIF",
            save_all=True,
            append_images=frames[1:],
            duration=durations,
            loop=0,
            optimize=False,
        )


def _key(states: Sequence[CellState], type_names: Sequence[str]) -> list[tuple[int, str]]:
    """Types on the pictures with their names; nothing where there are no names."""
    present = sorted({int(number) for state in states for number in np.unique(state.types[state.cells])})
    return [(number, type_names[number]) for number in present if number < len(type_names)]


def draw_key(draw: Any, key: list[tuple[int, str]], left: int, top: int, width: int) -> None:
    """Types with their colours and names, in one line from `left` to `width` at most."""
    for number, name in key:
        if left + CAPTION + 6 + text_width(name, CAPTION) > width:
            return  # a sheet of one small state has no room for many types
        box = (left, top + 1, left + CAPTION, top + 1 + CAPTION)
        draw.rectangle(box, fill=type_colour(number), outline=INK)
        left += CAPTION + 6
        write(draw, (left, top), name, INK, CAPTION)
        left += text_width(name, CAPTION) + GAP
