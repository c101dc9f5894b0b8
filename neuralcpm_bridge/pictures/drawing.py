"""Colours, fonts and files shared by all pictures."""

from __future__ import annotations

import io
import unicodedata
from bisect import bisect_right
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFont

from ..files import writing

Colour = tuple[int, int, int]

# Paul Tol's "light" scheme: fills that stay apart for colour-blind eyes, and under dark lines.
MEDIUM: Colour = (246, 244, 239)
TYPE_COLOURS: tuple[Colour, ...] = (
    (119, 170, 221),
    (238, 136, 102),
    (238, 221, 136),
    (68, 187, 153),
    (255, 170, 187),
    (153, 221, 255),
    (187, 204, 51),
    (170, 170, 0),
)
# His "bright" scheme, for thin lines on white.
LINE_COLOURS: tuple[Colour, ...] = (
    (68, 119, 170),
    (238, 102, 119),
    (34, 136, 51),
    (204, 187, 68),
    (102, 204, 238),
    (170, 51, 119),
)
INK: Colour = (44, 50, 62)
FAINT: Colour = (122, 128, 138)
RULE: Colour = (224, 226, 230)
PAPER: Colour = (255, 255, 255)

KNOWN = "°±·"
SPELLINGS = {
    "α": "alpha", "β": "beta", "δ": "delta", "ε": "epsilon", "λ": "lambda", "μ": "mu", "µ": "u", "π": "pi",
    "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "ψ": "psi", "Δ": "Delta ", "Σ": "Sum ", "×": "x",
    "−": "-", "–": "-", "—": "-", "≤": "<=", "≥": ">=", "…": "...",
}  # fmt: skip
"""How signs of this field read where there is no letter for them."""


def font(size: int) -> ImageFont.FreeTypeFont:
    """The typeface that comes with Pillow, so that pictures look the same on every machine."""
    return cast("ImageFont.FreeTypeFont", ImageFont.load_default(size))


def printable(text: str) -> str:
    """The text in the letters that typeface has: English ones."""
    spelled = "".join(SPELLINGS.get(letter, letter) for letter in text)
    bare = (letter for letter in unicodedata.normalize("NFKD", spelled) if not unicodedata.combining(letter))
    return "".join(letter if letter.isascii() or letter in KNOWN else "?" for letter in bare)


def write(draw: Any, at: tuple[float, float], text: str, colour: Colour, size: int) -> None:
    draw.text(at, printable(text), colour, font(size))


def text_width(text: str, size: int) -> int:
    return int(np.ceil(font(size).getlength(printable(text))))


def shortened(text: str, size: int, width: int) -> str:
    """The text, cut in its middle if it is wider than `width`: file names differ at both ends."""
    text = printable(text)
    if text_width(text, size) <= width:
        return text

    def cut(kept: int) -> str:
        return f"{text[: (kept + 1) // 2]}...{text[len(text) - kept // 2 :]}"

    # Halving, for names that strangers chose may have any length.
    kept = bisect_right(range(2, len(text)), width, key=lambda letters: text_width(cut(letters), size)) + 1
    return cut(kept) if kept > 1 else text[:1]


def type_colour(number: int) -> Colour:
    """The colour of a cell type (0 = medium); colours come again after the eighth type."""
    return MEDIUM if number == 0 else TYPE_COLOURS[(number - 1) % len(TYPE_COLOURS)]


def to_image(picture: Image.Image | NDArray[np.uint8]) -> Image.Image:
    return Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture


def png_bytes(picture: Image.Image | NDArray[np.uint8]) -> bytes:
    """The picture as a PNG file's content, for example for a report."""
    stream = io.BytesIO()
    to_image(picture).save(stream, "PNG", optimize=True)
    return stream.getvalue()


def save_png(picture: Image.Image | NDArray[np.uint8], path: str | Path) -> None:
    content = png_bytes(picture)
    with writing(path) as temporary:
        temporary.write_bytes(content)
