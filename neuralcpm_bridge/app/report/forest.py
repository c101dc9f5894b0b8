"""Measures of models beside the data's, each with its error: one row per measure, readable on a phone without zooming.

Rows are laid out by the page's style, not drawn, so that their words keep their size on every screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from neuralcpm_bridge.metrics.comparing import SHARE_TOLERANCE, WITHIN, Measured, distance, is_share

from . import html
from .charts import colour_of

REACH = 6.0
"""Standard errors to each side of the data's mean that a row shows; what lies beyond is named at its end."""
INK = "#2c323e"
SAID = (
    "Every measure's mean with its standard error, as distance from the data in standard errors of the difference: "
    "grey is within two of them, rings lie farther away. What the models miss most stands first."
)

Rows = Mapping[str, Measured]


def forest(wanted: Rows, models: Mapping[str, Rows]) -> str:
    """Every measure that the data and all models have; models by their names."""
    titles = shared_titles(wanted, models.values())
    if not titles:
        return ""
    far = {title: max(abs(distance(rows[title], wanted[title], title)) for rows in models.values()) for title in titles}
    ordered = sorted(titles, key=lambda title: -far[title])
    rows = (_row(title, wanted[title], {name: found[title] for name, found in models.items()}) for title in ordered)
    return f'{html.paragraph(SAID)}{_key(models)}<div class="forest">{_ruler()}{"".join(rows)}</div>'


def shared_titles(wanted: Rows, models: Iterable[Rows]) -> list[str]:
    """Measures that are known, as numbers, of everybody."""
    every = [wanted, *models]
    return [title for title in wanted if all(title in rows and np.isfinite(rows[title]).all() for rows in every)]


def _row(title: str, wanted: Measured, models: Mapping[str, Measured]) -> str:
    units = [_unit(title, wanted, found) for found in models.values()]
    lanes = 1 + len(models)
    marks = [_mark(0.0, wanted.error / max(units), 0, lanes, INK)]
    for lane, (found, unit) in enumerate(zip(models.values(), units, strict=True), start=1):
        marks.append(_mark(distance(found, wanted, title), found.error / unit, lane, lanes, colour_of(lane - 1)))
    values = [("data", wanted), *models.items()]
    told = ", ".join(f"{name} {_figure(value.mean)}" for name, value in values)
    return (
        f'<div class="measure"><span class="name">{html.escape(title)}</span><span class="values">{html.escape(told)}'
        f'</span><div class="lanes" style="height:{11 * lanes}px">{"".join(marks)}</div></div>'
    )


def _unit(title: str, wanted: Measured, found: Measured) -> float:
    """What one standard error of the difference is."""
    return SHARE_TOLERANCE / WITHIN if is_share(title) else float(np.hypot(found.error, wanted.error)) or 1.0


def _mark(place: float, error: float, lane: int, lanes: int, colour: str) -> str:
    """A dot with its bar, or at the end of the row how far away it would be."""
    top = f"top:{100 * (lane + 0.5) / lanes:.1f}%"
    if abs(place) > REACH:
        side = "left" if place < 0 else "right"
        text = f"‹ {abs(place):.0f}" if place < 0 else f"{abs(place):.0f} ›"
        return f'<b class="beyond" style="{side}:0;{top};color:{colour}">{text}</b>'
    low, high = _percent(max(place - error, -REACH)), _percent(min(place + error, REACH))
    fill = colour if abs(place) <= WITHIN else "var(--paper)"
    return (
        f'<i class="bar" style="left:{low:.1f}%;width:{high - low:.1f}%;{top};background:{colour}"></i>'
        f'<i class="dot" style="left:{_percent(place):.1f}%;{top};border-color:{colour};background:{fill}"></i>'
    )


def _percent(place: float) -> float:
    return 50 * (1 + place / REACH)


def _ruler() -> str:
    """Numbers above the rows."""
    places = (-4, -2, 0, 2, 4)
    texts = (f'<i style="left:{_percent(place):.1f}%">{_signed(place)}</i>' for place in places)
    return f'<div class="measure ruler"><span class="name"></span><div class="lanes">{"".join(texts)}</div></div>'


def _figure(value: float) -> str:
    """Three figures of a value; all are in the table."""
    return html.number(float(f"{value:.3g}")).replace("-", "−")


def _signed(place: int) -> str:
    return "data" if place == 0 else f"{'+' if place > 0 else '−'}{abs(place)}"


def _key(models: Mapping[str, Rows]) -> str:
    names = [("data", INK), *((name, colour_of(number)) for number, name in enumerate(models))]
    entries = (f'<li><i style="background:{colour}"></i>{html.escape(name)}</li>' for name, colour in names)
    return f'<ul class="key flush">{"".join(entries)}</ul>'
