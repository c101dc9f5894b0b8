"""A model's analytic terms as Morpheus' own elements; what `new` and `inject` write is made of the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lxml import etree

from neuralcpm_bridge.conventions import HostValues
from neuralcpm_bridge.lattice import Geometry
from neuralcpm_bridge.terms import HostTerm, VolumeFunction

CONSTRAINTS: dict[str, tuple[str, dict[str, str]]] = {
    "volume": ("VolumeConstraint", {}),
    "surface": ("SurfaceConstraint", {"mode": "surface"}),
    "length": ("LengthConstraint", {"mode": "length"}),
}
"""Terms with a strength and a target per type: the element that carries each, and what else that says."""

VOLUME_SYMBOLS = ("volume_energy", "volume_strength")
"""Symbols that a function of the volume defines in a CellType."""


def contacts(values: HostValues, numbers: Mapping[str, int]) -> Iterator[tuple[str, str, float]]:
    """Energies of all pairs of types; `numbers`: the model's type of each of Morpheus', the medium first."""
    if "contact" not in values.terms:
        return
    energies, names = values.terms["contact"]["J"], list(numbers)
    for position, first in enumerate(names):
        for second in names[max(position, 1) :]:
            yield first, second, float(energies[numbers[first], numbers[second]])


def surface_order(values: HostValues, geometry: Geometry) -> int:
    """Of the ShapeSurface in which the terms that look at neighbours are meant, which is the same for all."""
    return next((term.order for term in values.terms.values() if term.order is not None), geometry.moore_order)


def constraints(values: HostValues, number: int) -> list[etree._Element]:
    """What stands in the CellType of one type, `number` in the model."""
    terms, elements = dict(values.terms), []
    if "volume_function" in terms:
        # Morpheus has one VolumeConstraint per type, so a parabola beside the function becomes part of it.
        function = VolumeFunction(**terms.pop("volume_function").values)
        elements += volume_function(function, number, terms.pop("volume", None))
    for name, (tag, more) in CONSTRAINTS.items():
        if name in terms:
            target, strength = (number_text(float(terms[name][key][number])) for key in ("target", "strength"))
            elements.append(etree.Element(tag, {**more, "target": target, "strength": strength}))
    return elements


def volume_function(function: VolumeFunction, number: int, parabola: HostTerm | None = None) -> list[etree._Element]:
    """A function f(V), with λ (V − V*)² added, and the VolumeConstraint that has it as its energy.

    Morpheus charges s·[(V' − t)² − (V − t)²] for V' = V ± 1. With s = ½[f(V+1) + f(V−1) − 2f(V)] and
    t = V − [f(V+1) − f(V−1)]/(4s) that is f(V') − f(V) both ways.
    """
    symbol, strength = VOLUME_SYMBOLS
    energy = etree.Element("Function", symbol=symbol, name="learned energy of the volume v")
    etree.SubElement(energy, "Parameter", symbol="v")
    etree.SubElement(energy, "Expression").text = _energy_text(function, number) + _parabola_text(parabola, number)
    up, here, down = (f"{symbol}(cell.volume{shift})" for shift in ("+1", "", "-1"))
    curvature = etree.Element("Function", symbol=strength, name="half the curvature of that energy")
    # A vanishing curvature has no target; 1e-9 changes the energy by as much.
    bare = f"0.5*({up}+{down}-2*{here})"
    etree.SubElement(curvature, "Expression").text = f"if(abs({bare})<1e-9,1e-9,{bare})"
    target = f"cell.volume-({up}-{down})/(4*{strength})"
    return [energy, curvature, etree.Element("VolumeConstraint", strength=strength, target=target)]


def _energy_text(function: VolumeFunction, number: int) -> str:
    """p(u) + p'(u)·(v − u) + stiffness·(v − u)², u = v limited to low … high, as an expression of v."""
    low, high, center, stiffness = (
        _operand(float(part[number])) for part in (function.low, function.high, function.center, function.stiffness)
    )
    inside = f"min(max(v,{low}),{high})"
    x, beyond = f"({inside}-{center})", f"(v-{inside})"
    coefficients = function.coefficients[number]
    slope = _polynomial_text(x, [power * value for power, value in enumerate(coefficients, start=1)])
    return f"{x}*{_polynomial_text(x, list(coefficients))}+{beyond}*({slope}+{stiffness}*{beyond})"


def _polynomial_text(x: str, coefficients: list[float]) -> str:
    """c0 + c1·x + c2·x² + …, factored."""
    text = "0"
    for coefficient in reversed(coefficients):
        text = _operand(coefficient) if text == "0" else f"({_operand(coefficient)}+{x}*{text})"
    return text


def _parabola_text(parabola: HostTerm | None, number: int) -> str:
    if parabola is None:
        return ""
    away = f"(v-{_operand(float(parabola['target'][number]))})"
    return f"+{_operand(float(parabola['strength'][number]))}*{away}*{away}"


def _operand(value: float) -> str:
    return number_text(value) if value >= 0 else f"({number_text(value)})"


def number_text(value: float) -> str:
    """The shortest text that reads back as the same double."""
    return repr(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
