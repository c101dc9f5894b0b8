"""Response curves as sentences, by rules that know nothing but the curve and where the data lie."""

from __future__ import annotations

import numpy as np

from ..distill import Distilled
from ..distill.report import term_words
from .responses import Response

HARDLY = 1.0
"""Units of temperature below which a change of the energy hardly changes what cells do."""
CLEARLY = 0.2
"""Of the whole change: by how much a curve must come back to have turned."""
CARRIES = 0.03
"""Share of what a network charges from which an analytic term is named."""


def sentence(response: Response, of: str = "the data") -> str:
    """What one curve says; `of`: whose cells it was averaged over."""
    low, high = response.coverage.most
    places, energies = response.between(low, high)
    subject, its = f"The energy of {response.cell_type}", f"its {response.quantity}"
    range_ = f"{_value(response, low)} to {_value(response, high)}, where most of {of} lie"
    if response.strength < HARDLY:
        return f"{subject} hardly depends on {its}: it changes by {_energy(response.strength)} from {range_}."
    begin, end, least, most = energies[0], energies[-1], energies.min(), energies.max()
    back = CLEARLY * response.strength
    for turned, word, verb, ends in (
        (min(begin, end) - least > back, "lowest", "rises", (begin - least, end - least)),
        (most - max(begin, end) > back, "highest", "falls", (most - begin, most - end)),
    ):
        if turned:
            place = places[energies.argmin() if word == "lowest" else energies.argmax()]
            towards = f"{verb} by {_energy(ends[0])} towards {_value(response, low)} and by {_energy(ends[1])} towards"
            towards += f" {_value(response, high)}, between which most of {of} lie"
            return f"{subject} is {word} where {its} is {_value(response, place)} and {towards}{_doubt(response)}."
    if end < begin:
        text = f"falls by {_energy(begin - end)} as {its} goes from {range_}{_lowest(response, of)}"
    else:
        text = f"rises by {_energy(end - begin)} as {its} goes from {range_}"
    return f"{subject} {text}{_doubt(response)}."


def closest_sentence(found: Distilled) -> str:
    """The analytic terms that come closest, those that carry most first."""
    main = sorted((name for name, share in found.shares.items() if share >= CARRIES), key=lambda n: -found.shares[n])
    terms = []
    for name in main:
        target = found.values.get(f"target_{name.replace('lambda', 'volume')}")
        value = figure(found.values[name]) + ("" if target is None else f", target {figure(target)}")
        terms.append(f"{term_words(name)} ({value}; {100 * found.shares[name]:.0f} %)")
    carried = f": {', '.join(terms)}" if terms else ""
    share = 100 * max(found.r2_held_out, 0.0)
    return f"Analytic terms that come closest explain {share:.0f} % of what the network charges for copies{carried}."


def lowest(response: Response) -> float | None:
    """Where the energy is lowest, if that lies inside of what the data cover."""
    first, *_, last = response.coverage.quantiles
    places, energies = response.between(max(first, response.values[0]), min(last, response.values[-1]))
    step = response.values[1] - response.values[0]
    place = float(places[energies.argmin()])
    return place if places[0] + step < place < places[-1] - step else None


def _lowest(response: Response, of: str) -> str:
    place = lowest(response)
    return f"; it still falls where {of} end" if place is None else f"; it is lowest near {_value(response, place)}"


def _doubt(response: Response) -> str:
    if response.members is None:
        return ""
    low, high = response.coverage.most
    spread = float(np.interp([low, high], response.values, response.members).max())
    return f"; the members of the committee disagree by ± {_energy(spread)}" if 2 * spread > response.strength else ""


def _value(response: Response, value: float) -> str:
    """A value, with that on the second ruler."""
    text = f"{figure(value)}{' ' * (response.unit == '%')}{response.unit if response.unit in ('%', '°') else ''}"
    if response.also is None:
        return text
    name, values = response.also
    return f"{text} ({name} {figure(float(np.interp(value, response.values, values)))})"


def _energy(value: float) -> str:
    return f"{figure(value)} T"


def figure(value: float) -> str:
    """Two figures, more for larger numbers."""
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}"
