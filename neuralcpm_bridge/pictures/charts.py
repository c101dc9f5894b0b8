"""A line chart: what training curves, parameters and measures over time need, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageDraw

from ..errors import UserError
from .drawing import FAINT, INK, LINE_COLOURS, PAPER, RULE, Colour, shortened, text_width, write

SHARP = 3  # drawn this much larger and averaged down: smooth lines and letters
TEXT = 13
TITLE = 16
MARGIN = 16
DASH = 6


@dataclass(frozen=True)
class Line:
    """One curve; NaN leaves a gap. A dashed one is thinner, for what the others are compared with.

    Lines of the same name share one colour and one entry of the key.
    """

    name: str
    x: ArrayLike
    y: ArrayLike
    dashed: bool = False


def line_chart(
    lines: Sequence[Line],
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    size: tuple[int, int] = (720, 400),
) -> Image.Image:
    """Curves with axes, title and key."""
    curves = [(line, _points(line)) for line in lines]
    known = [points[~np.isnan(points).any(axis=1)] for _, points in curves]
    everything = np.concatenate(known) if known else np.zeros((0, 2))
    if not len(everything):
        raise UserError("A chart without any finite value was asked for: give at least one point.")
    x_ticks, y_ticks = (nice_ticks(*_range(everything[:, axis])) for axis in (0, 1))
    y_texts = tick_texts(y_ticks)
    names = list(dict.fromkeys(line.name for line in lines))
    colours = {name: LINE_COLOURS[number % len(LINE_COLOURS)] for number, name in enumerate(names)}

    canvas = _Canvas(size)
    left = MARGIN + max(text_width(text, TEXT) for text in y_texts) + 8
    top = MARGIN + (TITLE + 10 if title else 0) + (TEXT + 10 if y_label or len(names) > 1 else 0)
    bottom = size[1] - MARGIN - TEXT - 8 - (TEXT + 6 if x_label else 0)
    frame = _Frame((left, top, size[0] - MARGIN - 8, bottom), x_ticks, y_ticks)
    if title:
        canvas.text((MARGIN, MARGIN - 4), shortened(title, TITLE, size[0] - 2 * MARGIN), INK, TITLE)
    if y_label:
        canvas.text((MARGIN, top - TEXT - 14), y_label, FAINT)
    for value, text in zip(y_ticks, y_texts, strict=True):
        _, y = frame.place(x_ticks[0], value)
        canvas.line([(left, y), (frame.box[2], y)], RULE, 1)
        canvas.text((left - 8 - text_width(text, TEXT), y - TEXT / 2 - 2), text, FAINT)
    for value, text in zip(x_ticks, tick_texts(x_ticks), strict=True):
        x, _ = frame.place(value, y_ticks[0])
        canvas.line([(x, bottom), (x, bottom + 4)], FAINT, 1)
        canvas.text((x - text_width(text, TEXT) / 2, bottom + 6), text, FAINT)
    canvas.line([(left, bottom), (frame.box[2], bottom)], FAINT, 1)
    if x_label:
        width = text_width(x_label, TEXT)
        canvas.text(((left + frame.box[2] - width) / 2, size[1] - MARGIN - TEXT), x_label, FAINT)
    for line, points in curves:
        placed = np.stack(frame.place(points[:, 0], points[:, 1]), axis=1)
        canvas.curve(placed, colours[line.name], 1.3 if line.dashed else 2, line.dashed)
    if len(names) > 1:
        _draw_key(canvas, colours, frame.box[2], top - TEXT - 14)
    return canvas.image()


def nice_ticks(low: float, high: float, about: int = 5) -> NDArray[np.float64]:
    """Round numbers (steps of 1, 2 or 5 times a power of ten) that reach from below `low` to above `high`."""
    raw = (high - low) / about
    power = 10.0 ** np.floor(np.log10(raw))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first, last = np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9)
    return np.arange(first, last + 1) * step


def _range(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    if high - low > 1e-12 * max(abs(low), abs(high)):
        return low, high
    half = 0.5 * abs(low) or 0.5  # a constant is drawn in the middle
    return low - half, high + half


def tick_texts(ticks: NDArray[np.float64]) -> list[str]:
    """Ticks as short as they can be told apart."""
    step, largest = ticks[1] - ticks[0], np.abs(ticks).max()
    if largest >= 1e5 or step < 1e-4:
        return [f"{value:.10g}" if value == 0 else np.format_float_scientific(value, 2, trim="-") for value in ticks]
    decimals = max(0, -int(np.floor(np.log10(step) + 1e-9)))
    return [f"{value:.{decimals}f}" for value in ticks + 0.0]


def _points(line: Line) -> NDArray[np.float64]:
    x, y = np.asarray(line.x, dtype=np.float64), np.asarray(line.y, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise UserError(
            f"Curve {line.name} has x of shape {x.shape} but y of shape {y.shape}: give lists of one length."
        )
    points = np.stack([x, y], axis=1)
    points[~np.isfinite(points).all(axis=1)] = np.nan
    return points


class _Frame:
    """The box of the curves and the way from values to pixels."""

    def __init__(self, box: tuple[float, float, float, float], x: NDArray[Any], y: NDArray[Any]) -> None:
        self.box = box
        self.x, self.y = (x[0], x[-1]), (y[0], y[-1])

    def place(self, x: Any, y: Any) -> tuple[Any, Any]:
        left, top, right, bottom = self.box
        return (
            left + (x - self.x[0]) / (self.x[1] - self.x[0]) * (right - left),
            bottom - (y - self.y[0]) / (self.y[1] - self.y[0]) * (bottom - top),
        )


class _Canvas:
    """Drawing in the coordinates of the final picture, done `SHARP` times larger."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self.large = Image.new("RGB", (size[0] * SHARP, size[1] * SHARP), PAPER)
        self.draw = ImageDraw.Draw(self.large)

    def text(self, at: tuple[float, float], text: str, colour: Colour, size: int = TEXT) -> None:
        write(self.draw, (at[0] * SHARP, at[1] * SHARP), text, colour, size * SHARP)

    def line(self, points: Any, colour: Colour, width: float) -> None:
        scaled = [(float(x) * SHARP, float(y) * SHARP) for x, y in points]
        self.draw.line(scaled, colour, round(width * SHARP), joint="curve")

    def curve(self, points: NDArray[np.float64], colour: Colour, width: float, dashed: bool) -> None:
        gaps = np.flatnonzero(np.isnan(points[:, 0]))
        for part in np.split(points, gaps):
            part = part[~np.isnan(part[:, 0])]
            if len(part) == 1:
                x, y = part[0] * SHARP
                radius = 1.5 * width * SHARP
                self.draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
            elif len(part) > 1:
                for piece in _dashes(part) if dashed else [part]:
                    self.line(piece, colour, width)

    def image(self) -> Image.Image:
        return self.large.resize(self.size, Image.Resampling.LANCZOS)


def _dashes(points: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The curve cut into dashes of equal length on the picture."""
    reached = np.r_[0, np.cumsum(np.hypot(*np.diff(points, axis=0).T))]
    starts = np.arange(0, reached[-1], 2 * DASH)
    pieces = []
    for start in starts:
        end = min(start + DASH, reached[-1])
        along = np.r_[start, reached[(reached > start) & (reached < end)], end]
        pieces.append(np.stack([np.interp(along, reached, points[:, axis]) for axis in (0, 1)], axis=1))
    return pieces


def _draw_key(canvas: _Canvas, colours: dict[str, Colour], right: float, top: float) -> None:
    """Names of the curves, from the right end of the line above the box."""
    for name, colour in reversed(colours.items()):
        right -= text_width(name, TEXT)
        canvas.text((right, top), name, INK)
        canvas.line([(right - 26, top + TEXT / 2 + 2), (right - 6, top + TEXT / 2 + 2)], colour, 3)
        right -= 26 + 16
