"""Energies of Morpheus models read back: the numbers that were written, and the names of what cannot be read."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.own_energies import read_own_energies
from neuralcpm_bridge.conventions import TARGETS
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import GEOMETRIES, Lattice

from ..analytic import WEIGHT, artifact_of, blocks, metadata_of, weights_of
from .conftest import USER_MODEL

BLUE = '<CellType class="biological" name="blue"/>'
BLUE_VOLUME = (
    '<CellType class="biological" name="blue"><Constant symbol="V" value="40"/>'
    '<VolumeConstraint target="V" strength="2"/>{more}</CellType>'
)


def written(folder: Path, more: str = "", **replaced: str) -> Path:
    text = USER_MODEL.replace(BLUE, BLUE_VOLUME.format(more=more))
    for change in replaced.values():
        old, new = change.split(" -> ")
        assert old in text
        text = text.replace(old, new)
    path = folder / "mine.xml"
    path.write_text(text, encoding="utf-8")
    return path


@given(st.integers(0, 2**32 - 1), st.sampled_from(list(GEOMETRIES)), st.booleans(), st.integers(1, 4), st.data())
def test_what_a_model_becomes_in_morpheus_is_read_back(
    seed: int, geometry: str, free: bool, order: int, data: st.DataObject
) -> None:
    rng, dimension = np.random.default_rng(seed), GEOMETRIES[geometry].dimension
    boundary = "free" if free else "periodic"
    terms = ("contact", "volume", *([] if free else data.draw(st.sets(st.just("surface")))))
    terms = (*terms, *(data.draw(st.sets(st.just("length"))) if dimension == 2 else ()))
    weights = weights_of(rng, terms)
    meta = metadata_of(weights, geometry, boundary, {"contact": order, "surface": order})
    lattice = Lattice.of((12,) * dimension, geometry, boundary)
    model = new_model(artifact_of(weights, meta), blocks(rng, lattice), RunPlan())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.xml"
        model.write(path)
        found = read_own_energies(path)
    assert found.not_read == ()
    assert found.lattice == lattice
    converted = found.of_types(meta.types).converted()
    assert converted.notes == ()
    assert converted.orders == {name: order for name in ("contact", "surface") if name in terms}
    for name, value in weights.items():
        wanted = np.where(np.arange(3) == 0, 0.0, value) if value.ndim == 1 else value  # medium has no constraint
        energy = name.endswith((".J", ".strength"))
        expected = wanted * (WEIGHT / meta.temperature if energy else 1.0)
        np.testing.assert_allclose(converted.weights[name], expected, rtol=1e-12, atol=0)


def test_constants_defaults_and_scaled_pairs(tmp_path: Path) -> None:
    found = read_own_energies(written(tmp_path))
    assert (found.temperature, found.types) == (4.0, ("medium", "red", "blue"))
    assert found.terms["volume"]["target"].tolist() == [0, 80, 40]
    # order 6 has 28 neighbours, and 'norm' divides their pairs by 18
    assert found.terms["contact"]["J"].tolist() == [[0, 12 / 18, 0], [12 / 18, 0, 0], [0, 0, 0]]
    pairs = found.of_types(("medium", "blue", "red")).converted().weights["symbolic.contact.J"]
    assert pairs[0, 2] == pytest.approx(12 / 18 * 28 / 2 / 4)
    [note] = found.not_read
    assert "divides pairs of order 6 by 18 (scaling='norm')" in note


@pytest.mark.parametrize("order", range(1, 7))
def test_ways_of_counting_pairs(order: int) -> None:
    """As Morpheus has them (1, 3 and 8 for order 2 on a square lattice)."""
    target, square = TARGETS["morpheus"], GEOMETRIES["square"]
    assert target.pair_divisor("none", square, order) == target.pair_divisor("classic", square, order) == 1
    assert target.pair_divisor("size", square, order) == square.neighbour_count(order)
    assert target.pair_divisor("norm", square, order) == (1, 3, 5, 11, 15, 18)[order - 1]
    assert target.pair_divisor("another", square, order) is None
    assert target.pair_divisor("norm", square, 9) is None


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    more = (
        '<SurfaceConstraint mode="aspherity" target="1" strength="1"/><Chemotaxis field="f" strength="3"/>'
        '<ConnectivityConstraint/><NeuralHamiltonian model="m.onnx"/><NeighborhoodReporter/><VectorMapper/>'
    )
    path = written(
        tmp_path,
        more,
        lattice='<Condition boundary="y" type="periodic"/> -> <Condition boundary="y" type="noflux"/>',
        field='<Constant symbol="T" value="4"/> -> <Constant symbol="T" value="4"/><Field symbol="f" value="0"/>',
        scaling='scaling="norm" -> scaling="none"',
        adhesion='value="12"/> -> value="12"><AddonAdhesion adhesive="1" strength="2"/></Contact>',
        kinetics='temperature="T"/> -> temperature="T" yield="0.3"/>',
    )
    assert read_own_energies(path).not_read == (
        'the SurfaceConstraint of blue (mode="aspherity", target="1", strength="1"): the surface term was left out',
        "Chemotaxis of blue",
        "ConnectivityConstraint of blue",
        "the learned term (NeuralHamiltonian)",
        "AddonAdhesion between red and medium",
        "the Field",
        "the yield 0.3",
        "what cells pay for touching the border of the lattice, where Morpheus has medium and training nothing",
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('value="12"', 'value="12*cell1.p"', r"no fixed numbers: red, medium: 12\*cell1.p; a closure"),
        ('temperature="T"', 'temperature="T*2"', r"has the temperature 'T\*2'"),
        ('target="80"', 'target="p"', r"no VolumeConstraint that could be read \(the VolumeConstraint of red"),
        ('scaling="norm"', 'scaling="odd"', "scaling 'odd', which cannot be read"),
    ],
)
def test_what_a_closure_must_know_is_asked_for(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        read_own_energies(written(tmp_path, change=f"{old} -> {new}"))
