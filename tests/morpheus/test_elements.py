"""Terms as Morpheus' elements: numbers that read back, functions of the volume that charge what they should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from morpheus_xml.elements import constraints, contacts, number_text, surface_order
from morpheus_xml.reader import TARGET
from neuralcpm_bridge.conventions import HostValues, symbolic_values
from neuralcpm_bridge.lattice import GEOMETRIES
from neuralcpm_bridge.terms import VolumeFunction

from ..analytic import WEIGHT, metadata_of, weights_of

SCALE = 3.0


def values_of(
    terms: tuple[str, ...], geometry: str = "square", seed: int = 0, degree: int = 4
) -> tuple[Any, HostValues]:
    """Random weights, and the same in Morpheus' units."""
    weights = weights_of(np.random.default_rng(seed), terms, degree=degree)
    orders = dict.fromkeys(("contact", "surface"), 3)
    return weights, symbolic_values(metadata_of(weights, geometry, orders=orders), TARGET, energy_scale=SCALE)


def test_numbers_read_back_as_they_were() -> None:
    for value in (0.1, 1 / 3, 2.0, -5e-324, 1e300, 123456789.0):
        assert float(number_text(value)) == value


@pytest.mark.parametrize("geometry", ["square", "hexagonal"])
def test_strengths_and_targets_stand_in_the_type(geometry: str) -> None:
    weights, values = values_of(("contact", "volume", "surface", "length"), geometry)
    pairs = GEOMETRIES[geometry].neighbour_count(3) / 2  # of neighbours to a unit of surface
    units = {"volume": 1.0, "surface": pairs, "length": 1.0}
    for number in (1, 2):
        volume, surface, length = constraints(values, number)
        assert (surface.get("mode"), length.get("mode")) == ("surface", "length")
        for name, element in {"volume": volume, "surface": surface, "length": length}.items():
            assert element.tag == f"{name.capitalize()}Constraint"
            target, strength = (weights[f"symbolic.{name}.{key}"][number] for key in ("target", "strength"))
            assert float(element.get("target", "")) == pytest.approx(units[name] * target)
            assert float(element.get("strength", "")) == pytest.approx(SCALE * WEIGHT * strength / units[name] ** 2)
    assert surface_order(values, GEOMETRIES[geometry]) == 3
    found = {(a, b): energy for a, b, energy in contacts(values, {"out": 0, "one": 1, "two": 2, "too": 2})}
    assert len(found) == 9
    contact = weights["symbolic.contact.J"]
    assert found["one", "too"] == found["one", "two"] == pytest.approx(SCALE * WEIGHT * contact[1, 2] / pairs)


def test_what_a_model_lacks_is_not_written() -> None:
    _, values = values_of(("length",))
    assert [element.tag for element in constraints(values, 1)] == ["LengthConstraint"]
    assert list(contacts(values, {"medium": 0, "A": 1})) == []
    assert surface_order(values, GEOMETRIES["cubic"]) == 3


def charged(elements: list[etree._Element], volume: int, after: int) -> float:
    """What a VolumeConstraint of expressions charges, evaluated as Morpheus would."""
    energy, curvature, constraint = elements
    names = {"min": min, "max": max, "abs": abs, "if_": lambda test, yes, no: yes if test else no}

    def value(text: str) -> float:
        scope = names | {
            "volume_energy": lambda v: eval(energy.findtext("Expression") or "", names | {"v": v}),
            "cell_volume": volume,
        }
        if "volume_strength" in text:
            scope["volume_strength"] = value(curvature.findtext("Expression") or "")
        return float(eval(text.replace("cell.volume", "cell_volume").replace("if(", "if_("), scope))

    strength, target = (value(constraint.get(key, "")) for key in ("strength", "target"))
    return strength * ((after - target) ** 2 - (volume - target) ** 2)


@given(degree=st.integers(1, 7), seed=st.integers(0, 1000), parabola=st.booleans())
def test_a_volume_function_is_exact_through_strength_and_target(degree: int, seed: int, parabola: bool) -> None:
    """f(V ± 1) − f(V) at every volume, for every degree, and with a parabola beside the function."""
    terms = ("volume", "volume_function") if parabola else ("volume_function",)
    weights, values = values_of(terms, seed=seed, degree=degree)
    function = VolumeFunction(
        **{key: weights[f"symbolic.volume_function.{key}"] for key in values.terms["volume_function"].values}
    )

    def energy(number: int, volume: int) -> float:
        total = float(function(number, np.array(float(volume))))
        if parabola:
            strength, target = (weights[f"symbolic.volume.{key}"][number] for key in ("strength", "target"))
            total += strength * (volume - target) ** 2
        return SCALE * WEIGHT * total

    for number in (1, 2):
        elements = constraints(values, number)
        assert [element.tag for element in elements] == ["Function", "Function", "VolumeConstraint"]
        for volume in range(1, 20):
            for after in (volume - 1, volume + 1):
                expected = energy(number, after) - energy(number, volume)
                # Straight lines have no curvature but 1e-9, and a target as far away: they keep fewer digits.
                assert charged(elements, volume, after) == pytest.approx(expected, abs=1e-5)
