"""Conversions: a host that counts in its own way arrives at the energy of the training convention."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from neuralcpm_bridge._engine import State
from neuralcpm_bridge.artifact import Metadata, NeuralEntry
from neuralcpm_bridge.conventions import (
    TARGETS,
    HostValues,
    host_notes,
    neural_scale,
    parameter_rows,
    symbolic_values,
    uncarried_terms,
)
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState
from neuralcpm_bridge.terms import TERMS, VolumeFunction, described_terms

from .analytic import WEIGHT, artifact_of, blocks, metadata_of, weights_of

HOSTS = ("cc3d", "morpheus")


def engine_energy(meta: Metadata, weights: dict[str, Any], state: CellState) -> float:
    return State(artifact_of(weights, meta).model, state.ids, state.types).energy()[0]


def host_energy(state: CellState, values: HostValues, surface_unit: float) -> float:
    """What a host's own elements add up to: pairs once each, surfaces by ordered pairs, one parabola per cell."""
    ids, types, lattice = state.ids.ravel(), state.types, state.lattice
    total = 0.0
    for name, term in values.terms.items():
        leaving = np.zeros(types.size)
        if term.order is not None:
            for here, there in lattice.pairs(term.order):
                differs = ids[here] != ids[there]
                one, other = ids[here[differs]], ids[there[differs]]
                if name == "contact":
                    total += term["J"][types[one], types[other]].sum()
                np.add.at(leaving, np.concatenate([one, other]), surface_unit)
        for cell in range(1, types.size):
            of = types[cell]
            positions = lattice.in_space(lattice.coordinates(np.flatnonzero(ids == cell)))
            if name == "volume_function":
                total += VolumeFunction(**term.values)(of, np.array(float(len(positions))))
            elif name != "contact":
                axes = axis_lengths(positions)
                measured = {"volume": len(positions), "surface": leaving[cell], "length": axes[-1]}[name]
                total += term["strength"][of] * (measured - term["target"][of]) ** 2
                if "minor_target" in term.values:
                    total += term["strength"][of] * (axes[0] - term["minor_target"][of]) ** 2
    return float(total)


def axis_lengths(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Axes of the ellipse or ellipsoid with these moments, shortest first; nothing for no pixel."""
    if not len(positions):
        return np.zeros(positions.shape[1])
    spread = positions - positions.mean(axis=0)
    values = np.linalg.eigvalsh(spread.T @ spread / len(positions)).clip(0)
    return 4 * np.sqrt(values) if positions.shape[1] == 2 else 2 * np.sqrt(5 * values)


LATTICES = {"square": (10, 11), "hexagonal": (10, 11), "cubic": (8, 9, 8)}


@given(
    geometry=st.sampled_from(list(LATTICES)),
    boundary=st.sampled_from(["periodic", "free"]),
    order=st.integers(1, 4),
    host=st.sampled_from(HOSTS),
    scale=st.sampled_from([1.0, 4.0, 0.3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_host_arrives_at_our_energy(
    geometry: str, boundary: str, order: int, host: str, scale: float, seed: int
) -> None:
    """Every term that a host carries, on every lattice, order and boundary."""
    rng = np.random.default_rng(seed)
    lattice, target = Lattice.of(LATTICES[geometry], geometry, boundary), TARGETS[host]
    every = weights_of(rng, tuple(TERMS), lattice.dimension)
    uncarried = uncarried_terms(metadata_of(every, geometry, boundary, {"contact": order, "surface": order}), target)
    weights = {key: value for key, value in every.items() if key.split(".")[1] not in uncarried}
    meta = metadata_of(weights, geometry, boundary, {"contact": order, "surface": order})
    values = symbolic_values(meta, target, scale)
    assert set(values.terms) == {key.split(".")[1] for key in weights} >= {"contact", "volume"}
    assert values.temperature == scale * meta.temperature
    state = blocks(rng, lattice)
    found = host_energy(state, values, target.surface_unit[geometry])
    assert found == pytest.approx(scale * engine_energy(meta, weights, state), rel=1e-9)


def test_what_each_host_carries() -> None:
    rng = np.random.default_rng(0)
    for geometry, shape in LATTICES.items():
        for boundary in ("periodic", "free"):
            meta = metadata_of(weights_of(rng, tuple(TERMS), len(shape)), geometry, boundary)
            assert set(uncarried_terms(meta, TARGETS["embedded"])) == set()
            in_cc3d = {"volume_function"} | ({"length"} if boundary == "periodic" else set())
            assert set(uncarried_terms(meta, TARGETS["cc3d"])) == in_cc3d
            in_morpheus = ({"surface"} if boundary == "free" else set()) | ({"length"} if len(shape) == 3 else set())
            assert set(uncarried_terms(meta, TARGETS["morpheus"])) == in_morpheus


def refused(meta: Metadata, host: str, term: str) -> str:
    reason = uncarried_terms(meta, TARGETS[host])[term]
    with pytest.raises(UserError, match=f"{term!r}.*cannot carry, because .*term 'full'"):
        symbolic_values(meta, TARGETS[host])
    return reason


def test_reasons_why_a_host_cannot() -> None:
    rng = np.random.default_rng(0)
    shaped = weights_of(rng, ("contact", "surface"))
    assert "order" in refused(metadata_of(shaped, orders={"contact": 4, "surface": 1}), "morpheus", "surface")
    assert not uncarried_terms(metadata_of(shaped, orders={"contact": 4, "surface": 1}), TARGETS["cc3d"])
    assert "border" in refused(metadata_of(shaped, boundary=("free", "periodic")), "morpheus", "surface")
    far = metadata_of(weights_of(rng, ("contact",)), orders={"contact": 7})
    assert "order 6" in refused(far, "morpheus", "contact")
    assert not uncarried_terms(far, TARGETS["cc3d"])
    long = weights_of(rng, ("length",), dimension=3)
    del long["symbolic.length.minor_target"]
    assert "minor axis" in refused(metadata_of(long, "cubic", "free"), "cc3d", "length")
    assert "loses a pixel" in refused(metadata_of(long, "cubic", "free"), "morpheus", "length")
    mixed = metadata_of(weights_of(rng, ("length",)), boundary=("free", "periodic"))
    assert "periodic" in refused(mixed, "cc3d", "length")
    negative = weights_of(rng, ("volume",))
    negative["symbolic.volume.target"][1] = -3
    assert "-3 without its sign" in refused(metadata_of(negative), "cc3d", "volume")
    assert not uncarried_terms(metadata_of(negative), TARGETS["morpheus"])
    outer = {"symbolic.external.field": np.ones((2, 4, 4)), "symbolic.external.coupling": np.ones((3, 2))}
    for host in HOSTS:
        assert "no element" in refused(metadata_of(outer), host, "external")
    with pytest.raises(UserError, match="no analytic terms"):
        symbolic_values(metadata_of({}).model_copy(update={"symbolic": None}), TARGETS["cc3d"])


def test_the_numbers_of_the_moore_neighbourhood_are_quarters() -> None:
    """As every model of format 1 was written into both hosts."""
    meta = metadata_of(weights_of(np.random.default_rng(0), ("contact", "volume", "surface")))
    assert meta.symbolic is not None
    own = meta.symbolic.terms
    for host in HOSTS:
        terms = symbolic_values(meta, TARGETS[host]).terms
        np.testing.assert_allclose(terms["contact"]["J"], WEIGHT * np.array(own["contact"]["J"]) / 4)
        assert terms["contact"].order == 2
        np.testing.assert_allclose(terms["volume"]["strength"], WEIGHT * np.array(own["volume"]["strength"]))
        np.testing.assert_allclose(terms["volume"]["target"], own["volume"]["target"])
        np.testing.assert_allclose(terms["surface"]["strength"], WEIGHT * np.array(own["surface"]["strength"]) / 16)
        np.testing.assert_allclose(terms["surface"]["target"], 4 * np.array(own["surface"]["target"]))
    embedded = symbolic_values(meta, TARGETS["embedded"]).terms
    np.testing.assert_allclose(embedded["contact"]["J"], WEIGHT * np.array(own["contact"]["J"]))
    assert neural_scale(meta, 3.0) == 2.0


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 7])
def test_volume_functions_of_any_degree(degree: int) -> None:
    rng = np.random.default_rng(degree)
    weights = weights_of(rng, ("volume_function",), degree=degree)
    meta = metadata_of(weights)
    function = VolumeFunction(**symbolic_values(meta, TARGETS["morpheus"]).terms["volume_function"].values)
    for volume in (0, 1, 2, 5, 11, 12, 20):  # below, within and above the polynomial's range
        ids = np.zeros((5, 5), dtype=np.int32)
        ids.ravel()[:volume] = 1
        state = CellState(ids, np.array([0, 2]))
        expected = engine_energy(meta, weights, state)
        assert function(2, np.array(float(volume))) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_notes_say_what_a_host_does_otherwise() -> None:
    rng = np.random.default_rng(0)
    plain = metadata_of(weights_of(rng, ("contact", "volume")))
    assert all(host_notes(plain, target) == [] for target in TARGETS.values())
    dying = metadata_of(weights_of(rng, ("contact", "volume")), extinction=False)
    assert host_notes(dying, TARGETS["cc3d"]) == []
    assert "last pixel" in host_notes(dying, TARGETS["morpheus"])[0]
    long = metadata_of(weights_of(rng, ("length",)), boundary="free")
    assert "single pixel" in host_notes(long, TARGETS["morpheus"])[0]
    assert len(host_notes(long, TARGETS["cc3d"])) == 1


def test_boundaries_are_taken_to_the_letter() -> None:
    for host, word in {"cc3d": "Periodic", "morpheus": "periodic"}.items():
        target = TARGETS[host]
        assert target.boundary_named(word) == "periodic"
        assert target.boundary_named(f"\n{word}\n   ") == "periodic"
        for other in (word.swapcase(), f" {word}", "NoFlux", "constant", ""):
            assert target.boundary_named(other) == "free"


def test_the_table_of_parameters_has_every_number() -> None:
    rng = np.random.default_rng(0)
    weights = weights_of(rng, ("contact", "volume", "surface"))
    weights["symbolic.volume.strength"][1:] = 0.5
    weights["symbolic.volume.target"][1:] = 20.0
    network = NeuralEntry(kind="local_nh", widths=(4,), pools=(1,), weight=2.5)
    rows = {row.title: row for row in parameter_rows(metadata_of(weights, boundary="free", neural=network))}
    pairs = ["J medium, A", "J medium, B", "J A, A", "J A, B", "J B, B"]
    assert list(rows) == [*pairs, "λ", "V*", "σ, A", "σ, B", "S*, A", "S*, B", "T", "w_NN"]
    assert [rows[title].key for title in (*pairs, "λ", "V*")] == ["J01", "J02", "J11", "J12", "J22", "lambda", ""]
    strength = weights["symbolic.surface.strength"][2]
    assert rows["σ, B"].values == pytest.approx(
        {"embedded": 0.7 * strength, "cc3d": 0.7 * strength / 16, "morpheus": None}
    )
    assert rows["λ"].values == pytest.approx(dict.fromkeys(TARGETS, 0.35))
    assert set(rows["T"].values.values()) == {1.5}
    assert set(rows["w_NN"].values.values()) == {2.5}
    outer = {"symbolic.external.field": np.ones((2, 4, 4)), "symbolic.external.coupling": np.ones((3, 2))}
    assert sum("coupling" in row.title for row in parameter_rows(metadata_of(outer))) == 6


def test_the_description_of_terms_is_the_files() -> None:
    weights = weights_of(np.random.default_rng(0), tuple(TERMS))
    weights |= {"symbolic.external.field": np.ones((2, 4, 5)), "symbolic.external.coupling": np.ones((3, 2))}
    described = json.loads(json.dumps(described_terms(weights, {"contact": 4, "surface": 1})))
    assert list(described) == list(TERMS)
    assert (described["contact"]["order"], described["surface"]["order"]) == (4, 1)
    assert described["external"] == {"fields": 2, "coupling": [[1.0, 1.0]] * 3}
    assert "minor_target" not in described["length"]


def test_networks_stay_on_square_lattices() -> None:
    network = NeuralEntry(kind="local_nh", widths=(4,), pools=(1,), weight=1.0)
    for geometry in ("hexagonal", "cubic"):
        with pytest.raises(UserError, match="2D square lattices only"):
            metadata_of({}, geometry, neural=network)
