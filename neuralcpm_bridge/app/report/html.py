"""Pieces of the page. Everything that comes from a file or a user passes through `escape` here."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from neuralcpm_bridge import __version__
from neuralcpm_bridge.pictures import png_bytes, tile, type_colour
from neuralcpm_bridge.state import CellState

if TYPE_CHECKING:
    from PIL import Image

STATE_SIDE, SOLID_SIDE = 200, 400
"""Pixels of a state's picture; a 3D one has four panels."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The browser itself keeps the page from loading or running anything, whatever a run folder contains."""


class Figure(str):
    """A number already put into words, which stands to the right like other numbers."""


def number(value: float | int | str | None) -> str:
    """A value as people read it: four figures, thousands parted."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if value != value:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def rough(value: float) -> str:
    """Two figures, or all in front of the point: of errors and orders of magnitude."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def paragraph(text: str, style: str = "") -> str:
    return f'<p class="{escape(style)}">{escape(text)}</p>' if style else f"<p>{escape(text)}</p>"


def section(title: str, *content: str, key: str = "") -> str:
    """A titled section; nothing where it would be empty. `key`: what links inside the page call it."""
    body = "".join(content)
    place = f' id="{escape(key)}"' if key else ""
    return f"<section{place}><h2>{escape(title)}</h2>{body}</section>" if body else ""


def contents(entries: Iterable[tuple[str, str]]) -> str:
    """Links to sections, by key and title."""
    links = "".join(f'<li><a href="#{escape(key)}">{escape(title)}</a></li>' for key, title in entries)
    return f'<nav><ol class="contents">{links}</ol></nav>'


def bullets(lines: Iterable[str]) -> str:
    entries = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="sentences">{entries}</ul>' if entries else ""


def table(
    head: Sequence[str], rows: Iterable[Sequence[str | float | None]], marked: Iterable[Sequence[bool]] = ()
) -> str:
    """Rows of a name and values; numbers stand to the right, `marked` values are set off."""
    body, numeric = [], [False] * len(head)
    marks = [list(row) for row in marked]
    for index, (name, *values) in enumerate(rows):
        cells = [f'<th scope="row">{escape(_breakable(str(name)))}</th>']
        for place, value in enumerate(values):
            style = "" if isinstance(value, str) and not isinstance(value, Figure) else "number"
            numeric[place + 1] |= isinstance(value, (int, float, Figure))
            style += " near" if marks and marks[index][place] else ""
            cells.append(f'<td class="{style}">{escape(number(value))}</td>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    titles = "".join(
        f'<th scope="col"{" class=number" if right else ""}>{escape(title)}</th>'
        for title, right in zip(head, numeric, strict=True)
    )
    top = f"<thead><tr>{titles}</tr></thead>" if any(head) else ""
    return f'<div class="wide"><table>{top}<tbody>{"".join(body)}</tbody></table></div>' if body else ""


def _breakable(name: str) -> str:
    """A narrow page parts long names behind their underscores."""
    return name.replace("_", "_\N{ZERO WIDTH SPACE}")


def hash_table(rows: Iterable[tuple[str, str]]) -> str:
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="hash">{escape(text)}</td></tr>' for name, text in rows
    )
    return f'<div class="wide"><table><tbody>{body}</tbody></table></div>' if body else ""


def cards(facts: Iterable[tuple[str, str]]) -> str:
    """The few numbers one looks at first."""
    entries = "".join(f"<li><b>{escape(value)}</b><span>{escape(name)}</span></li>" for name, value in facts)
    return f'<ul class="cards">{entries}</ul>'


def states_figure(title: str, states: Sequence[CellState]) -> str:
    pictures, style = [], "states"
    for order, state in enumerate(states, start=1):
        solid = state.lattice.dimension == 3
        style = "states solids" if solid else style
        # shading takes more colours than the fills of a plane state
        drawn = tile(state, SOLID_SIDE).quantize(128) if solid else tile(state, STATE_SIDE).quantize(32)
        pictures.append(image(drawn, f"{title}, state {order}"))
    return f'<figure><figcaption>{escape(title)}</figcaption><div class="{style}">{"".join(pictures)}</div></figure>'


def image(drawn: Image.Image, alt: str) -> str:
    """A picture inside the page."""
    content = base64.b64encode(png_bytes(drawn)).decode("ascii")
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{content}">'


def type_key(names: Sequence[str]) -> str:
    entries = []
    for kind, name in enumerate(names):
        colour = "#{:02x}{:02x}{:02x}".format(*type_colour(kind))
        entries.append(f'<li><i style="background:{colour}"></i>{escape(name)}</li>')
    return f'<ul class="types">{"".join(entries)}</ul>'


def details(title: str, text: str) -> str:
    """A long text that one has to ask for."""
    return folded(title, f"<pre>{escape(text)}</pre>")


def folded(title: str, content: str) -> str:
    """What one has to ask for; nothing where there is nothing."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>" if content else ""


def commands(lines: Iterable[str]) -> str:
    """What to type into a terminal; on narrow screens lines break between words, never inside an option."""
    shown = (" ".join(f"<span>{escape(word)}</span>" for word in line.split(" ")) for line in lines)
    return f'<pre class="commands">{"".join(f"<code>{line}</code>" for line in shown)}</pre>'


def page(title: str, head: str, body: str) -> str:
    """The whole file, with its style and who wrote it when."""
    style = (files(__package__) / "style.css").read_text(encoding="utf-8")
    foot = paragraph(f"Written by neuralcpm-bridge {__version__} on {datetime.date.today().isoformat()}.")
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><header><h1>{escape(title)}</h1>{head}</header><main>{body}</main><footer>{foot}</footer></body></html>\n"
    )
