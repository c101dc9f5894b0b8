"""The zoo's results as a table in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .mechanisms import MECHANISMS, Mechanism
from .scoring import learned

HEADER = """\
| mechanism | lattice | statistic | seed | minutes (processor) | none → truth | closure's share | baseline's share | \
p_volume | p_unfragmented | learned |
|---|---|---|---|---|---|---|---|---|---|---|"""


def table(results: Sequence[dict[str, Any]]) -> str:
    """One line per fit, in the zoo's order, and how many mechanisms were learned in all of their seeds."""
    order = list(MECHANISMS)
    known = sorted(
        (r for r in results if r["mechanism"] in MECHANISMS), key=lambda r: (order.index(r["mechanism"]), r["seed"])
    )
    lines = [HEADER, *(_line(MECHANISMS[result["mechanism"]], result) for result in known)]
    by_name: dict[str, list[bool]] = {}
    for result in known:
        by_name.setdefault(result["mechanism"], []).append(learned(result))
    complete = sum(all(each) for each in by_name.values())
    lines += ["", f"Learned in every seed: {complete} of {len(by_name)} mechanisms."]
    return "\n".join(lines)


def data_table(rows: Sequence[dict[str, Any]]) -> str:
    """What the data sets show before anything is learned."""
    lines = [
        "| mechanism | about | lattice | cells of A + B, sites each | states after MCS | statistic | data | none | "
        "standard errors apart | p_unfragmented |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in rows:
        mechanism = MECHANISMS[each["mechanism"]]
        tissue = mechanism.tissue
        lines.append(
            f"| {mechanism.name}-s{each['seed']} | {mechanism.about}: {mechanism.sentence} | {_lattice(mechanism)} | "
            f"{tissue.cells[0]} + {tissue.cells[1]}, {tissue.target:g} | {mechanism.samples}, {mechanism.mcs} | "
            f"{mechanism.statistic_name} | {_value(each['data'])} | {_value(each['none'])} | {each['apart']:.0f} | "
            f"{each['p_unfragmented']:.3f} |"
        )
    return "\n".join(lines)


def _line(mechanism: Mechanism, result: dict[str, Any]) -> str:
    start = (
        f"| {mechanism.name} | {_lattice(mechanism)} | {mechanism.statistic_name} | {result['seed']} | "
        f"{result['minutes']:.1f} ({result['processor_minutes']:.1f}) |"
    )
    if "failed" in result:
        return f"{start} | failed: {result['failed']} | | | | no |"
    statistic, shares = result["statistic"], result["share"]
    cells = [
        f"{statistic['none'][0]:.3g} → {statistic['truth'][0]:.3g}",
        _value(shares["closure"]),
        _value(shares["baseline"]),
        f"{result['p_volume']['closure']:.2f}",
        f"{result['p_unfragmented']['closure']:.2f}",
        "yes" if learned(result) else "no",
    ]
    return f"{start} {' | '.join(cells)} |"


def _lattice(mechanism: Mechanism) -> str:
    tissue = mechanism.tissue
    return f"{tissue.geometry} {tissue.side}{'³' if tissue.geometry == 'cubic' else '²'}"


def _value(value: Sequence[float]) -> str:
    mean, error = value
    return f"{mean:.3f} ± {error:.3f}"
