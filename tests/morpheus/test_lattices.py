"""Square, hexagonal and cubic models, any order, boundaries axis by axis: written, and read back as they were."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morpheus_xml.check import check_model
from morpheus_xml.inject import inject
from morpheus_xml.model import BORDER, MorpheusModel
from morpheus_xml.new import RunPlan, needs_plugin, new_model
from morpheus_xml.reader import TARGET, ModelFile, read_model
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import GEOMETRIES, Lattice
from neuralcpm_bridge.state import CellState

from ..analytic import WEIGHT, artifact_of, metadata_of, weights_of
from .conftest import USER_MODEL

SHAPES = {"square": (9, 11), "hexagonal": (8, 10), "cubic": (6, 7, 9)}


def made(
    terms: tuple[str, ...], geometry: str, boundary: str | tuple[str, ...] = "periodic", **orders: int
) -> tuple[dict[str, np.ndarray], Artifact]:
    weights = weights_of(np.random.default_rng(4), terms)
    return weights, artifact_of(weights, metadata_of(weights, geometry, boundary, orders=orders))


def tissue(lattice: Lattice, seed: int = 0, cells: int = 5) -> CellState:
    """Boxes anywhere, across borders too where these are periodic."""
    rng = np.random.default_rng(seed)
    ids = np.zeros(lattice.shape, dtype=np.int32)
    for cell in range(1, cells + 1):
        axes = [
            (rng.integers(size) + np.arange(3)) % size if wraps else rng.integers(size - 2) + np.arange(3)
            for size, wraps in zip(lattice.shape, lattice.periodic, strict=True)
        ]
        ids[np.ix_(*axes)] = cell
    return CellState(ids, np.concatenate([[0], 1 + np.arange(cells) % 2]), lattice)


def written(artifact: Artifact, state: CellState, path: Path) -> ModelFile:
    new_model(artifact, state, RunPlan()).write(path)
    model = read_model(path)
    assert check_model(model, learned=False) == []
    return model


def cells_of(model: ModelFile) -> tuple[np.ndarray, dict[int, str], dict[int, np.ndarray]]:
    """Ids by site, the type of each cell, and its nodes (z, y, x) as the file lists them."""
    lattice = model.lattice
    ids, types, nodes = np.zeros(lattice.shape, dtype=np.int64), {}, {}
    for population in model.populations:
        for cell in population.element.all("Cell"):
            number = int(cell.attributes["id"])
            found = cell.find("Nodes")
            assert found is not None
            nodes[number] = np.array([[int(word) for word in node.split()] for node in found.text.split(";")])[:, ::-1]
            types[number] = population.type
            places = nodes[number][:, -lattice.dimension :] % lattice.shape
            assert not ids[tuple(places.T)].any()
            ids[tuple(places.T)] = number
    return ids, types, nodes


@st.composite
def lattices(draw: st.DrawFn) -> Lattice:
    geometry = draw(st.sampled_from(sorted(GEOMETRIES)))
    dimension = GEOMETRIES[geometry].dimension
    shape = [draw(st.integers(6, 9)) for _ in range(dimension)]
    return Lattice.of(shape, geometry, [draw(st.sampled_from(["periodic", "free"])) for _ in range(dimension)])


@given(lattice=lattices(), seed=st.integers(0, 1000))
def test_a_state_is_read_back_as_it_was(lattice: Lattice, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    _, artifact = made(("contact", "volume"), lattice.geometry.name, lattice.boundary)
    state = tissue(lattice, seed)
    model = written(artifact, state, tmp_path_factory.mktemp("model") / "model.xml")
    assert model.lattice == lattice
    ids, types, nodes = cells_of(model)
    first = 0 if all(lattice.periodic) else 1
    np.testing.assert_array_equal(np.where(ids > 0, ids - first, 0), state.ids)
    assert types == {int(cell) + first: " AB"[state.types[cell]] for cell in state.cells}
    for places in nodes.values():  # boxes, in one piece each, across borders too
        assert (np.ptp(places, axis=0) <= 2).all()


@pytest.mark.parametrize("geometry", sorted(GEOMETRIES))
def test_contacts_are_meant_in_the_neighbourhood_that_is_written(geometry: str, tmp_path: Path) -> None:
    lattice = Lattice.of(SHAPES[geometry], geometry)
    for order in range(1, TARGET.highest_order[geometry] + 1):
        weights, artifact = made(("contact", "surface"), geometry, contact=order, surface=order)
        model = written(artifact, tissue(lattice), tmp_path / "model.xml")
        assert (model.surface_scaling, str(model.surface_neighbourhood)) == ("none", f"order {order}")
        copies = f"order {lattice.geometry.moore_order}"
        assert str(model.lattice_neighbourhood) == str(model.sampler_neighbourhood) == copies
        energies = {(c.type1, c.type2): float(c.value) for c in model.contacts}
        expected = WEIGHT * lattice.geometry.pair_weight(order) * weights["symbolic.contact.J"]
        assert energies[("A", "B")] == pytest.approx(expected[1, 2])
        assert energies[("medium", "A")] == pytest.approx(expected[0, 1])
        assert not any(entry.learned for entry in model.types)


@pytest.mark.parametrize(
    ("geometry", "terms", "orders", "boundary"),
    [
        ("hexagonal", ("contact",), {"contact": 6}, "periodic"),
        ("square", ("contact", "surface"), {"contact": 2, "surface": 3}, "periodic"),
        ("hexagonal", ("contact", "surface"), {}, ("free", "periodic")),
        ("cubic", ("volume", "length"), {}, "periodic"),
    ],
)
def test_what_morpheus_cannot_carry_goes_through_the_plugin(
    geometry: str,
    terms: tuple[str, ...],
    orders: dict[str, int],
    boundary: str | tuple[str, ...],
    tmp_path: Path,
) -> None:
    """Orders it does not have, two orders at once, the surface at a border, 3D lengths."""
    _, artifact = made(terms, geometry, boundary, **orders)
    assert needs_plugin(artifact.metadata)
    model = written(artifact, tissue(Lattice.of(SHAPES[geometry], geometry, boundary)), tmp_path / "model.xml")
    assert {element.attributes["term"] for entry in model.types for element in entry.learned} == {"full"}
    assert not model.contacts
    assert not any(entry.volume or entry.surface or entry.length for entry in model.types)


@pytest.mark.parametrize("boundary", list(product(["periodic", "free"], repeat=3)))
def test_free_axes_end_at_a_frozen_medium(boundary: tuple[str, ...], tmp_path: Path) -> None:
    _, artifact = made(("contact", "volume"), "cubic", boundary)
    model = written(artifact, tissue(Lattice.of(SHAPES["cubic"], "cubic", boundary)), tmp_path / "model.xml")
    free = {axis for axis, word in zip("zyx", boundary, strict=True) if word == "free"}
    sides = {e.attributes["boundary"]: e.attributes["value"] for e in model.root.all("CellPopulations/BoundaryValue")}
    assert sides == {side: BORDER for axis in free for side in (axis, f"-{axis}")}
    for axis, word in zip("zyx", boundary, strict=True):
        expected = "periodic" if word == "periodic" else "constant"
        assert (model.boundaries[axis], model.boundaries[f"-{axis}"]) == (expected, expected)
    media = [entry.name for entry in model.types if entry.is_medium]
    assert media == ["medium", *([BORDER] if free else [])]


@pytest.mark.parametrize("geometry", ["square", "hexagonal"])
def test_lengths_are_a_constraint_of_their_own(geometry: str, tmp_path: Path) -> None:
    weights, artifact = made(("contact", "length"), geometry, ("free", "periodic"))
    lattice = Lattice.of(SHAPES[geometry], geometry, ("free", "periodic"))
    model = written(artifact, tissue(lattice), tmp_path / "model.xml")
    for number, entry in enumerate(model.cell_types, start=1):
        assert entry.length is not None
        assert entry.length.attributes["mode"] == "length"
        assert float(entry.length.attributes["target"]) == pytest.approx(weights["symbolic.length.target"][number])
        strength = WEIGHT * weights["symbolic.length.strength"][number]
        assert float(entry.length.attributes["strength"]) == pytest.approx(strength)


def test_rings_too_narrow_for_morpheus_are_refused() -> None:
    with pytest.raises(UserError, match=r"5 × 9 sites has a periodic axis of 5, but Morpheus .* from 6 sites on"):
        MorpheusModel("narrow", Lattice.of((5, 9)))
    MorpheusModel("narrow", Lattice.of((5, 9), "hexagonal", ("free", "periodic")))


BLUE = '<CellType class="biological" name="blue"'
HEXAGONAL = (
    USER_MODEL.replace('class="square"', 'class="hexagonal"')
    .replace("<Order>6</Order>", "<Distance>3</Distance>")
    .replace(f"{BLUE}/>", f'{BLUE}><LengthConstraint target="9" strength="1" mode="eccentricity"/></CellType>')
)
TYPES = {"red": "A", "blue": "B"}


def test_a_distilled_model_on_a_hexagonal_lattice(tmp_path: Path) -> None:
    path = tmp_path / "user.xml"
    path.write_text(HEXAGONAL)
    weights, artifact = made(("contact", "volume", "length"), "hexagonal", contact=3)
    result = inject(path, artifact, types=TYPES, distilled=True)
    path.write_bytes(result.content)
    model = read_model(path)
    assert check_model(model) == []
    assert str(model.surface_neighbourhood) == "order 3"
    assert any("order 3" in note for note in result.notes)
    assert any("single pixel" in note for note in result.notes)
    red, blue = model.cell_types
    assert red.length is not None
    assert blue.length is not None
    assert blue.length.attributes["mode"] == "length"
    temperature = 4 / 1.5  # here over that of training
    strength = temperature * WEIGHT * weights["symbolic.length.strength"][2]
    assert float(blue.length.attributes["strength"]) == pytest.approx(strength)
    assert len(list(blue.element.all("LengthConstraint"))) == 1
    assert inject(path, artifact, types=TYPES, distilled=True).content == result.content


def test_a_function_of_the_volume_comes_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "user.xml"
    path.write_text(USER_MODEL)
    _, shaped = made(("contact", "volume", "volume_function"), "square")
    _, simple = made(("contact", "volume"), "square")
    for artifact, functions in ((shaped, 2), (shaped, 2), (simple, 0)):
        content = inject(path, artifact, types=TYPES, distilled=True).content
        path.write_bytes(content)
        model = read_model(path)
        assert check_model(model) == []
        for entry in model.cell_types:
            assert len(list(entry.element.all("Function"))) == functions
            assert len(list(entry.element.all("VolumeConstraint"))) == 1
    assert b"<!-- odd, but mine -->" in content
