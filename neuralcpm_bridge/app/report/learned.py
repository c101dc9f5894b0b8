"""What a network learned, as pieces of a page: sentences, the energies of a state, response curves, closest terms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.distill import Distilled
from neuralcpm_bridge.explain import Explanation, Response, energy_panels
from neuralcpm_bridge.explain.energies import BLUE_TO_RED
from neuralcpm_bridge.pictures.charts import nice_ticks, tick_texts

from . import html
from .charts import colour_of

WIDTH, HEIGHT = 380, 270
LEFT, RIGHT, TOP, FLOOR = 46, 8, 10, 190
"""Of the drawing; below the floor of the curves lie numbers and then, for each type, what the data cover."""
STRIP, STRIPS = 16, 222
NARROW = "\N{NO-BREAK SPACE}%"

SAID_OF_THE_STATE = (
    "A cell's energy is the network's own sum for it. A contact's is what the tissue saves or pays compared with both "
    "cells touching medium there: blue contacts hold together."
)
SAID_OF_TERMS = (
    "Contact, volume, surface and length energies, fitted to what the network alone charges for copies: they come "
    "on top of the model's own. What such terms do in runs, and what they lose, says neuralcpm distill."
)
SAID_OF_CURVES = (
    "The energy of the tissue as one cell is changed and everything that follows from it (its axes, surface, contacts, "
    "the places of its neighbours), 0 at the median; mean over cells, bands hold two thirds of them. Pale: beyond the "
    "cells that were seen. Dotted: with the analytic terms. Below: how many cells have which value."
)


def sentences(lines: Sequence[str]) -> str:
    return html.bullets(line.replace(" %", NARROW) for line in lines)


def state_energies(found: Explanation) -> str:
    """One state as the network sees it."""
    figures = []
    colours = ",".join("rgb({:.0f} {:.0f} {:.0f})".format(*colour) for colour in BLUE_TO_RED)
    for title, drawn, scale in energy_panels(found.energies):
        if scale is None:
            below = html.type_key(found.types)
        else:
            below = (
                f'<div><div class="scale" style="background:linear-gradient(90deg,{colours})"></div><div class="ends">'
                f"<span>−{scale:.3g} T</span><span>0</span><span>+{scale:.3g} T</span></div></div>"
            )
        caption = html.escape(title[0].upper() + title[1:])
        picture = html.image(drawn.quantize(128), f"One state: {title}")
        figures.append(f"<figure><figcaption>{caption}</figcaption>{picture}{below}</figure>")
    return f'{html.paragraph(SAID_OF_THE_STATE)}<div class="panels">{"".join(figures)}</div>'


def curves(found: Explanation, most: int | None = None) -> str:
    """Charts by quantity, where only `most` are wanted the strongest."""
    names = list(dict.fromkeys(response.quantity for response in found.responses))
    if most is not None:
        strongest = {name: max(r.strength for r in found.responses if r.quantity == name) for name in names}
        names = sorted(names, key=lambda name: -strongest[name])[:most]
    charts = [_chart([r for r in found.responses if r.quantity == name], found.types) for name in names]
    return f'{html.paragraph(SAID_OF_CURVES)}<div class="charts">{"".join(charts)}</div>' if charts else ""


def closest_terms(found: Distilled) -> str:
    """The analytic terms that come closest to the network."""
    rows = [
        [name, value, "" if name.startswith("target_") else html.Figure(f"{round(100 * found.shares[name])} %")]
        for name, value in found.values.items()
    ]
    total = ["all together", "", html.Figure(f"{100 * max(found.r2_held_out, 0.0):.0f} %")]
    table = html.table(["energy", "value", "of the network's ΔH"], [*rows, total])
    return html.paragraph(SAID_OF_TERMS) + table


def _chart(curves: Sequence[Response], types: Sequence[str]) -> str:
    """One quantity of all types as inline SVG."""
    first = curves[0]
    unit = f" ({first.unit})" if first.unit else ""
    x = (float(first.values[0]), float(first.values[-1]))
    shown = np.concatenate([np.r_[curve.energy, curve.low[_seen(curve)], curve.high[_seen(curve)]] for curve in curves])
    span = (shown.min(), shown.max()) if np.ptp(shown) > 1e-6 else (shown.min() - 1, shown.max() + 1)
    y_ticks = nice_ticks(float(span[0]), float(span[1]), about=4)
    box = np.array([x, (y_ticks[0], y_ticks[-1])])
    title = f"{first.quantity}{unit}"
    key = "chart-" + "".join(letter if letter.isalnum() else "-" for letter in first.quantity)
    parts = [
        f'<figure class="chart"><figcaption>{html.escape(title)}</figcaption>',
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">',
        f'<clipPath id="{html.escape(key)}"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{FLOOR - TOP}"/></clipPath>',
        *_axes(box, y_ticks),
        f'<g clip-path="url(#{html.escape(key)})">',
    ]
    numbers = [types.index(curve.cell_type) - 1 for curve in curves]
    parts += [_curve(curve, box, colour_of(number)) for curve, number in zip(curves, numbers, strict=True)]
    parts.append("</g>")
    for place, (curve, number) in enumerate(zip(curves, numbers, strict=True)):
        parts.append(_strip(curve, STRIPS + STRIP * (place + 1), colour_of(number)))
    names = (
        f'<li><i style="background:{colour_of(number)}"></i>{html.escape(curve.cell_type)}</li>'
        for curve, number in zip(curves, numbers, strict=True)
    )
    return "".join([*parts, f'</svg><ul class="key">{"".join(names)}</ul></figure>'])


def _seen(curve: Response) -> NDArray[np.bool_]:
    """Which values cells of the data have."""
    least, *_, most = curve.coverage.quantiles
    return (curve.values >= least) & (curve.values <= most)


def _placed(x: NDArray[np.float64], y: NDArray[np.float64], box: NDArray[np.float64]) -> str:
    across = LEFT + (x - box[0, 0]) / (box[0, 1] - box[0, 0]) * (WIDTH - LEFT - RIGHT)
    down = FLOOR - (y - box[1, 0]) / (box[1, 1] - box[1, 0]) * (FLOOR - TOP)
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))


def _axes(box: NDArray[np.float64], y_ticks: NDArray[np.float64]) -> list[str]:
    parts = []
    for value, text in zip(y_ticks, tick_texts(y_ticks), strict=True):
        at = float(_placed(box[0, :1], np.array([value]), box).split(",")[1])
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{at + 4:.1f}">{text}</text>')
    parts.append(f'<text class="tick" x="{LEFT + 4}" y="{TOP + 8}">T</text>')
    ticks = nice_ticks(float(box[0, 0]), float(box[0, 1]))
    for value, text in zip(ticks, tick_texts(ticks), strict=True):
        if box[0, 0] <= value <= box[0, 1]:
            at = float(_placed(np.array([value]), box[1, :1], box).split(",")[0])
            anchor = "end" if at > WIDTH - RIGHT - 10 else "middle"
            parts.append(f'<text class="tick" text-anchor="{anchor}" x="{at}" y="{FLOOR + 15}">{text}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{FLOOR}" y2="{FLOOR}"/>')
    return parts


def _curve(curve: Response, box: NDArray[np.float64], colour: str) -> str:
    x, seen = curve.values, _seen(curve)
    parts = [f'<polyline class="outside" points="{_placed(x, curve.energy, box)}" stroke="{colour}"/>']
    if seen.any():
        around = np.r_[x[seen], x[seen][::-1]]
        band = _placed(around, np.r_[curve.low[seen], curve.high[seen][::-1]], box)
        parts.append(f'<g class="bands"><path fill="{colour}" d="M{band}Z"/></g>')
        parts.append(f'<polyline points="{_placed(x[seen], curve.energy[seen], box)}" stroke="{colour}"/>')
        if curve.whole is not None:
            parts.append(
                f'<polyline class="whole" points="{_placed(x[seen], curve.whole[seen], box)}" stroke="{colour}"/>'
            )
    return "".join(parts)


def _strip(curve: Response, floor: int, colour: str) -> str:
    """How many cells have which value."""
    counts = curve.coverage.bins / max(curve.coverage.bins.max(), 1)
    width = (WIDTH - LEFT - RIGHT) / len(counts)
    return "".join(
        f'<rect x="{LEFT + number * width:.1f}" y="{floor - share * (STRIP - 3):.1f}" width="{width - 0.6:.1f}" '
        f'height="{share * (STRIP - 3):.1f}" fill="{colour}"/>'
        for number, share in enumerate(counts)
        if share > 0
    )
