"""What a model learned, as one HTML page: sentences, the energies of a state, response curves."""

from __future__ import annotations

from pathlib import Path

from neuralcpm_bridge.explain import Explanation
from neuralcpm_bridge.files import writing

from .report import html, learned


def write_page(found: Explanation, path: Path) -> None:
    """The page, with its pictures inside."""
    source = "states of the data" if found.of_data else "samples of the model itself, since no data were given"
    lede = f"What this model's network adds to the energy, in units of the temperature T, over {found.states} {source}."
    body = "".join(
        (
            html.section("In words", learned.sentences(found.sentences)),
            html.section("One state", learned.state_energies(found)),
            html.section("Response curves", learned.curves(found)),
            html.section("Analytic terms that come closest", learned.closest_terms(found.closest)),
        )
    )
    page = html.page(f"What did it learn? {found.model}", html.paragraph(lede, "lede"), body)
    with writing(path) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")
