"""Line charts as inline SVG: sharp on a phone and on paper, styled by the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.pictures import Line
from neuralcpm_bridge.pictures.charts import nice_ticks, tick_texts
from neuralcpm_bridge.pictures.drawing import LINE_COLOURS

WIDTH, HEIGHT = 380, 216
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 10, 34
MOST_POINTS = 400
"""A curve has no more points than a phone has pixels; the file stays small."""


def svg_chart(title: str, lines: Sequence[Line], x_label: str = "step") -> str:
    """Curves with axes and a key, or nothing where no value is finite. Lines of one name share a colour."""
    curves = [(line, _thinned(line)) for line in lines]
    finite = [points for _, points in curves if len(points)]
    if not finite:
        return ""
    everything = np.concatenate(finite)
    x_range, y_ticks = _span(everything[:, 0]), nice_ticks(*_span(everything[:, 1]), about=4)
    box = np.array([x_range, (y_ticks[0], y_ticks[-1])])
    names = list(dict.fromkeys(line.name for line, points in curves if len(points)))
    parts = [
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>',
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}: {escape(", ".join(names))}">',
        *_axes(box, y_ticks, x_label),
    ]
    for line, points in curves:
        if len(points):
            parts.append(_curve(line, _placed(points, box), colour_of(names.index(line.name))))
    parts.append("</svg>")
    if len(names) > 1:
        parts.append(_key(names))
    return "".join([*parts, "</figure>"])


def colour_of(number: int) -> str:
    return "#{:02x}{:02x}{:02x}".format(*LINE_COLOURS[number % len(LINE_COLOURS)])


def _thinned(line: Line) -> NDArray[np.float64]:
    points = np.stack([np.asarray(line.x, np.float64), np.asarray(line.y, np.float64)], axis=1)
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) <= MOST_POINTS:
        return points
    return points[np.unique(np.linspace(0, len(points) - 1, MOST_POINTS).round().astype(int))]


def _span(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    half = 0.5 * abs(low) or 0.5  # a constant is drawn in the middle
    return low - half, high + half


def _placed(points: NDArray[np.float64], box: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values on the drawing; `box` holds the smallest and largest x, then y."""
    share = (points - box[:, 0]) / (box[:, 1] - box[:, 0])
    across = LEFT + share[:, 0] * (WIDTH - LEFT - RIGHT)
    down = HEIGHT - BOTTOM - share[:, 1] * (HEIGHT - TOP - BOTTOM)
    return np.stack([across, down], axis=1)


def _axes(box: NDArray[np.float64], y_ticks: NDArray[np.float64], x_label: str) -> list[str]:
    parts = []
    floor, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value, text in zip(y_ticks, tick_texts(y_ticks), strict=True):
        _, at = _placed(np.array([[box[0, 0], value]]), box)[0]
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{at + 4:.1f}">{text}</text>')
    x_ticks = nice_ticks(float(box[0, 0]), float(box[0, 1]))
    for value, text in zip(x_ticks, tick_texts(x_ticks), strict=True):
        at, _ = _placed(np.array([[value, box[1, 0]]]), box)[0]
        if LEFT - 0.1 <= at <= right + 0.1:
            anchor = "end" if at > right - 10 else "middle"
            parts.append(f'<text class="tick" text-anchor="{anchor}" x="{at:.1f}" y="{floor + 15}">{text}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{floor}" y2="{floor}"/>')
    middle = (LEFT + right) / 2
    parts.append(f'<text class="label" text-anchor="middle" x="{middle}" y="{HEIGHT - 4}">{escape(x_label)}</text>')
    return parts


def _curve(line: Line, placed: NDArray[np.float64], colour: str) -> str:
    if len(placed) == 1:
        return f'<circle cx="{placed[0, 0]:.1f}" cy="{placed[0, 1]:.1f}" r="3" fill="{colour}"/>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    dashes = ' class="dashed"' if line.dashed else ""
    return f'<polyline points="{path}" stroke="{colour}"{dashes}/>'


def _key(names: Sequence[str]) -> str:
    entries = (
        f'<li><i style="background:{colour_of(number)}"></i>{escape(name)}</li>' for number, name in enumerate(names)
    )
    return f'<ul class="key">{"".join(entries)}</ul>'
