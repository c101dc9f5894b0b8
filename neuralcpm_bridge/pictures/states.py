"""States as pictures: one, many side by side with captions, and moving ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..files import writing
from ..state import CellState
from .drawing import FAINT, INK, PAPER, RULE, pillow, shortened, text_width, to_image, type_colour, write

if TYPE_CHECKING:
    from PIL.Image import Image

GAP = 14
CAPTION = 13
TITLE = 19
GIF_COLOURS = 64


def state_image(state: CellState, scale: int = 4) -> NDArray[np.uint8]:
    """RGB picture of a state, `[H * scale, W * scale, 3]`: cells in their type's colour, borders dark."""
    colours = np.array([type_colour(number) for number in range(int(state.types.max()) + 1)], dtype=np.uint8)
    picture = colours[state.type_map].repeat(scale, axis=0).repeat(scale, axis=1)
    ids = state.ids.repeat(scale, axis=0).repeat(scale, axis=1)
    thickness = max(1, round(0.35 * scale))
    before = thickness // 2  # pixels of the line above (left of) the border; the rest lies below (right of) it
    line = np.zeros(ids.shape, dtype=bool)
    below, right = ids[1:] != ids[:-1], ids[:, 1:] != ids[:, :-1]
    for shift in range(-before, thickness - before):
        rows, cols = np.nonzero(below)
        line[np.clip(rows + 1 + shift, 0, ids.shape[0] - 1), cols] = True
        rows, cols = np.nonzero(right)
        line[rows, np.clip(cols + 1 + shift, 0, ids.shape[1] - 1)] = True
    picture[line] = INK
    return picture


def tile(state: CellState, side: int) -> Image:
    """A state whose longer side has `side` pixels.

    Where that is no whole number of pixels per site it is drawn larger and averaged down.
    """
    longest = max(state.shape)
    if side % longest == 0:
        return to_image(state_image(state, side // longest))
    image = to_image(state_image(state, max(1, -(-2 * side // longest))))
    ratio = side / max(image.size)
    size = (max(1, round(image.width * ratio)), max(1, round(image.height * ratio)))
    return image.resize(size, pillow().Resampling.LANCZOS)


def contact_sheet(
    states: Sequence[CellState],
    captions: Sequence[str] = (),
    columns: int | None = None,
    title: str = "",
    type_names: Sequence[str] = (),
    side: int = 200,
) -> Image:
    """States in rows of `columns`, captions below each, title and key of types above all."""
    if not states:
        raise UserError("A picture of no states was asked for: give at least one state.")
    tiles = [tile(state, side) for state in states]
    columns = columns or max(1, min(len(tiles), round(np.sqrt(1.6 * len(tiles)))))
    rows = -(-len(tiles) // columns)
    cell_width, cell_height = max(image.width for image in tiles), max(image.height for image in tiles)
    below = CAPTION + 9 if any(captions) else 0
    key = _key(states, type_names)
    width = columns * (cell_width + GAP) + GAP
    top = GAP + (TITLE + GAP if title else 0) + (CAPTION + GAP if key else 0)
    sheet = pillow().new("RGB", (width, top + rows * (cell_height + below + GAP)), PAPER)
    draw = pillow("ImageDraw").Draw(sheet)
    if title:
        write(draw, (GAP, GAP), shortened(title, TITLE, width - 2 * GAP), INK, TITLE)
    _draw_key(draw, key, GAP, top - CAPTION - GAP, width)
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
) -> Image:
    """States in one row, for example over time."""
    return contact_sheet(states, captions, len(states), title, type_names, side)


def save_gif(
    states: Sequence[CellState],
    path: str | Path,
    captions: Sequence[str] = (),
    type_names: Sequence[str] = (),
    side: int = 400,
    frames_per_second: float = 10,
) -> None:
    """An animation that repeats for ever and rests a second on its last frame."""
    if not states:
        raise UserError("An animation of no states was asked for: give at least one state.")
    texts = [*captions, *[""] * (len(states) - len(captions))]
    padding = " " if any(captions) else ""  # frames of one animation have one size
    drawn = [
        contact_sheet([state], [text or padding], 1, type_names=type_names, side=side)
        for state, text in zip(states, texts, strict=True)
    ]
    both_ends = pillow().new("RGB", (drawn[0].width, 2 * drawn[0].height))
    both_ends.paste(drawn[0], (0, 0))
    both_ends.paste(drawn[-1], (0, drawn[0].height))
    palette = both_ends.quantize(GIF_COLOURS)
    frames = [frame.quantize(palette=palette, dither=pillow().Dither.NONE) for frame in drawn]
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
    present = sorted({int(kind) for state in states for kind in np.unique(state.types[state.cells])})
    return [(kind, type_names[kind]) for kind in present if kind < len(type_names)]


def _draw_key(draw: Any, key: list[tuple[int, str]], left: int, top: int, width: int) -> None:
    for number, name in key:
        if left + CAPTION + 6 + text_width(name, CAPTION) > width:
            return  # a sheet of one small state has no room for many types
        box = (left, top + 1, left + CAPTION, top + 1 + CAPTION)
        draw.rectangle(box, fill=type_colour(number), outline=INK)
        left += CAPTION + 6
        write(draw, (left, top), name, INK, CAPTION)
        left += text_width(name, CAPTION) + GAP
