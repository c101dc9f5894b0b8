"""The artifact reader: what it accepts, and that nothing else gets through or takes it down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralcpm_bridge._engine import EngineError, Model, State

from .models import (
    LOCAL,
    NH,
    Weights,
    artifact_bytes,
    field,
    format_1,
    metadata,
    network_weights,
    symbolic_weights,
    tensor,
    weights_hash,
)

RNG = np.random.default_rng(5)
SYMBOLIC = symbolic_weights(RNG, ("contact", "volume"))
WEIGHTS = SYMBOLIC | network_weights(RNG, NH)
GOOD = artifact_bytes(WEIGHTS, metadata(WEIGHTS, neural=NH))


def read(path: Path, content: bytes) -> Model:
    path.write_bytes(content)
    return Model.load(str(path))


def refusal(path: Path, content: bytes) -> str:
    with pytest.raises(EngineError) as caught:
        read(path, content)
    message = str(caught.value)
    assert message.endswith("."), message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("describe", [metadata, format_1])
def test_reads_what_was_written(tmp_path: Path, describe: Any) -> None:
    model = read(tmp_path / "model.onnx", artifact_bytes(WEIGHTS, describe(WEIGHTS, neural=NH)))
    assert model.type_names == ["medium", "A", "B"]
    assert model.hash == weights_hash(WEIGHTS)
    assert sorted(model.weights) == sorted(WEIGHTS)
    for name, array in WEIGHTS.items():
        assert model.weights[name].dtype == array.dtype
        np.testing.assert_array_equal(model.weights[name], array)
    assert (model.geometry, model.boundary, model.covered) == ("square", ["periodic", "periodic"], True)


@pytest.mark.parametrize(
    ("geometry", "boundary"),
    [
        ("square", ["free", "periodic"]),
        ("hexagonal", ["periodic", "free"]),
        ("cubic", ["periodic", "free", "periodic"]),
    ],
)
def test_reads_lattices(tmp_path: Path, geometry: str, boundary: list[str]) -> None:
    description = metadata(SYMBOLIC, boundary, geometry=geometry, orders={"contact": 4})
    model = read(tmp_path / "model.onnx", artifact_bytes(SYMBOLIC, description))
    assert (model.geometry, model.boundary) == (geometry, boundary)


def test_orders_are_read(tmp_path: Path) -> None:
    """A single pixel has as many unlike pairs as neighbours, and 2/|N| of them each way."""
    weights = {"symbolic.surface.strength": np.array([0.0, 1, 1]), "symbolic.surface.target": np.zeros(3)}
    ids = np.zeros((9, 9), dtype=np.int32)
    ids[4, 4:6] = 1
    types = np.array([0, 1], dtype=np.int32)
    for order, count in {None: 8, 1: 4, 2: 8, 3: 12, 4: 20}.items():
        orders = {"surface": order} if order else None
        description = metadata(weights, orders=orders)
        description["symbolic"] = {"terms": description["symbolic"]["terms"]}
        model = read(tmp_path / "model.onnx", artifact_bytes(weights, description))
        assert State(model, ids, types).energy()[0] == pytest.approx((2 / count * 2 * (count - 1)) ** 2)


def test_reads_packed_dimensions(tmp_path: Path) -> None:
    """Writers may pack repeated integers or not."""
    array = SYMBOLIC["symbolic.contact.J"]
    packed = field(1, bytes([3, 3])) + field(2, 11) + field(8, b"symbolic.contact.J") + field(9, array.tobytes())
    only = {"symbolic.contact.J": array}
    description = metadata(only) | {"weights_hash": weights_hash(only)}
    description["symbolic"] = {"terms": description["symbolic"]["terms"]}
    model = read(tmp_path / "model.onnx", artifact_bytes({}, description) + field(7, field(5, packed)))
    np.testing.assert_array_equal(model.weights["symbolic.contact.J"], array)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        pytest.param(b"", "no entry 'neuralcpm'", id="empty"),
        pytest.param(b"\x89PNG\r\n\x1a\n" + bytes(100), "not an ONNX file", id="picture"),
        pytest.param(b"hello, world, this is not a model", "not an ONNX file", id="text"),
        pytest.param(artifact_bytes(WEIGHTS, None), "not an exported Hamiltonian", id="foreign model"),
        pytest.param(artifact_bytes(WEIGHTS, {"format": 3}), "format 3", id="newer format"),
        pytest.param(artifact_bytes(WEIGHTS, {"types": ["medium"]}), "'format'", id="no format"),
        pytest.param(artifact_bytes(WEIGHTS, "{"), "not valid JSON", id="cut JSON"),
        pytest.param(artifact_bytes(WEIGHTS, "[" * 1000), "too deep", id="deep JSON"),
        pytest.param(artifact_bytes(WEIGHTS, '{"a": 1, "a": 2}'), "twice", id="double key"),
        pytest.param(artifact_bytes(WEIGHTS, '{"a": 01}'), "not valid JSON", id="loose number"),
        pytest.param(artifact_bytes(WEIGHTS, '{"a": 1e999}'), "out of range", id="huge number"),
        pytest.param(artifact_bytes(WEIGHTS, '{"a": "\\ud800"}'), "not valid JSON", id="half a surrogate"),
        pytest.param(artifact_bytes(WEIGHTS, metadata(WEIGHTS, neural=NH)) + GOOD[-4:], "", id="trailing bytes"),
        pytest.param(
            artifact_bytes(WEIGHTS, metadata(WEIGHTS, neural=NH, weights_hash="0" * 64)), "changed after", id="hash"
        ),
        pytest.param(artifact_bytes(WEIGHTS, metadata(WEIGHTS, neural=NH | {"kind": "x"})), "unknown kind", id="kind"),
        pytest.param(artifact_bytes(WEIGHTS, metadata(WEIGHTS, neural=NH | {"stride": 3})), "shape", id="other stride"),
        pytest.param(
            artifact_bytes(WEIGHTS, metadata(WEIGHTS, neural=NH | {"members": 4})), "committees", id="a committee"
        ),
        pytest.param(
            artifact_bytes(WEIGHTS, metadata(WEIGHTS, neural=NH | {"properties": ["age"]})),
            "named properties of cells",
            id="properties",
        ),
        pytest.param(artifact_bytes(WEIGHTS, metadata(WEIGHTS)), "no place", id="weights without a network"),
        pytest.param(
            artifact_bytes(SYMBOLIC, metadata(SYMBOLIC, neural=NH)), "missing", id="a network without weights"
        ),
        pytest.param(
            artifact_bytes(WEIGHTS, metadata(SYMBOLIC | {}, neural=NH) | {"symbolic": None}), "differs", id="no copy"
        ),
        pytest.param(
            artifact_bytes(
                WEIGHTS | {"neural.out.bias": np.array([np.nan], dtype=np.float32)}, metadata(WEIGHTS, neural=NH)
            ),
            "undefined",
            id="not a number",
        ),
    ],
)
def test_refuses(tmp_path: Path, content: bytes, part: str) -> None:
    assert part in refusal(tmp_path / "model.onnx", content)


def described(geometry: str = "square", boundary: Any = "periodic", **more: Any) -> dict[str, Any]:
    return metadata(SYMBOLIC, boundary, geometry=geometry, **more)


def with_lattice(**lattice: Any) -> dict[str, Any]:
    description = described()
    return description | {"lattice": description["lattice"] | lattice}


LENGTH = symbolic_weights(RNG, ("length",), minor=True)
FLAT, SOLID = (symbolic_weights(RNG, ("external",), shape) for shape in ((5, 6), (4, 5, 6)))


@pytest.mark.parametrize(
    ("weights", "description", "part"),
    [
        pytest.param(SYMBOLIC, with_lattice(geometry="triangular"), "'triangular'", id="geometry"),
        pytest.param(SYMBOLIC, with_lattice(geometry=6), "geometry", id="geometry as a number"),
        pytest.param(SYMBOLIC, with_lattice(boundary=["periodic"] * 3), "3 boundaries", id="boundaries"),
        pytest.param(SYMBOLIC, with_lattice(geometry="cubic"), "2 boundaries", id="a boundary too few"),
        pytest.param(SYMBOLIC, with_lattice(boundary=["periodic", "noflux"]), "'noflux'", id="boundary word"),
        pytest.param(SYMBOLIC, with_lattice(boundary=None), "boundary", id="no boundary"),
        pytest.param(SYMBOLIC, described() | {"lattice": None}, "boundary", id="no lattice in format 2"),
        pytest.param(SYMBOLIC, described(orders={"contact": 0}), "symbolic.terms.contact.order", id="order 0"),
        pytest.param(SYMBOLIC, described(orders={"contact": 21}), "orders from 1 to 20", id="order"),
        pytest.param(SYMBOLIC, described("cubic", orders={"contact": 10}), "orders from 1 to", id="order in 3D"),
        pytest.param(SYMBOLIC, described(orders={"contact": 1.5}), "order", id="half an order"),
        pytest.param(SYMBOLIC, described(fixed_lattice=[4, 5, 6]), "fixed_lattice", id="fixed lattice in 3D"),
        pytest.param(SYMBOLIC, described("cubic", fixed_lattice=[4, 5]), "fixed_lattice", id="fixed lattice in 2D"),
        pytest.param(SYMBOLIC, described(fixed_lattice=[4, 0]), "fixed_lattice", id="fixed to nothing"),
        pytest.param(LENGTH, metadata(LENGTH), "in 3D only", id="shortest axis in 2D"),
        pytest.param(LENGTH, metadata(LENGTH, geometry="hexagonal"), "in 3D only", id="shortest axis on hexagons"),
        pytest.param(SOLID, metadata(SOLID), "external fields", id="fields in 3D"),
        pytest.param(FLAT, metadata(FLAT, geometry="cubic"), "external fields", id="fields in 2D"),
        *(
            pytest.param(
                SYMBOLIC | network_weights(RNG, spec),
                metadata(SYMBOLIC, neural=spec, geometry=geometry),
                "convolutions are for 2D square lattices",
                id=f"{spec['kind']} on a {geometry} lattice",
            )
            for spec in (NH, LOCAL)
            for geometry in ("hexagonal", "cubic")
        ),
    ],
)
def test_refuses_a_lattice(tmp_path: Path, weights: Weights, description: dict[str, Any], part: str) -> None:
    assert part in refusal(tmp_path / "model.onnx", artifact_bytes(weights, description))


def test_a_fixed_lattice_takes_no_other(tmp_path: Path) -> None:
    for geometry, shape, other in (("square", [4, 5], (5, 4)), ("cubic", [2, 3, 4], (2, 3, 5))):
        description = described(geometry, fixed_lattice=shape)
        model = read(tmp_path / "model.onnx", artifact_bytes(SYMBOLIC, description))
        types = np.zeros(1, dtype=np.int32)
        State(model, np.zeros(shape, dtype=np.int32), types)
        with pytest.raises(EngineError, match="is bound to"):
            State(model, np.zeros(other, dtype=np.int32), types)


@pytest.mark.parametrize(
    ("bad", "part"),
    [
        (tensor("neural.x", np.zeros(4, dtype=np.float32), raw=field(9, bytes(15))), "15 bytes"),
        (field(1, 2**40) + field(1, 2**40) + field(2, 1) + field(8, b"neural.x"), "impossible shape"),
        (field(1, 2**64 - 1) + field(2, 1) + field(8, b"neural.x"), "impossible shape"),
        (field(2, 7) + field(8, b"neural.x"), "data type 7"),
        (tensor("neural.x", np.zeros(1)) + field(14, 1), "another file"),
        (tensor("symbolic.weight", np.array(1.0)), "twice"),
    ],
)
def test_refuses_a_bad_tensor(tmp_path: Path, bad: bytes, part: str) -> None:
    content = artifact_bytes(WEIGHTS, metadata(WEIGHTS, neural=NH)) + field(7, field(5, bad))
    assert part in refusal(tmp_path / "model.onnx", content)


def test_refuses_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.onnx"):
        with pytest.raises(EngineError, match="not a file"):
            Model.load(str(path))


def test_refuses_a_changed_symbolic_number(tmp_path: Path) -> None:
    description = metadata(WEIGHTS, neural=NH)
    description["symbolic"]["terms"]["volume"]["target"][1] += 1
    assert "symbolic.volume.target" in refusal(tmp_path / "model.onnx", artifact_bytes(WEIGHTS, description))


VOLUME = {"symbolic.volume.strength": np.array([0.0, 2.0, 1.0]), "symbolic.volume.target": np.array([0.0, 3.0, 3.0])}
EXAMPLE = {"shape": [2, 3], "runs": [[0, 2], [1, 1], [0, 3]], "types": [0, 1]}
ENERGIES = {"energy": 8.0, "symbolic": 8.0, "neural": 0.0}


@pytest.mark.parametrize(
    ("description", "example", "wrong_flips"),
    [
        pytest.param(
            metadata(VOLUME), EXAMPLE | {"flips": [[0, 1, -6.0], [2, 0, 10.0]]}, [6, 1, 0.0], id="format 2, by site"
        ),
        pytest.param(
            format_1(VOLUME), EXAMPLE | {"flips": [[0, 0, 1, -6.0]]}, [9, 0, 1, 0.0], id="format 1, by row and column"
        ),
        pytest.param(
            metadata(VOLUME, geometry="cubic"),
            {"shape": [2, 1, 3], "runs": [[0, 5], [1, 1]], "types": [0, 1], "flips": [[4, 1, -6.0]]},
            [0, 0, 1, -6.0],  # rows and columns belong to square lattices
            id="3D",
        ),
    ],
)
def test_recomputes_the_examples(
    tmp_path: Path, description: dict[str, Any], example: dict[str, Any], wrong_flips: list[float]
) -> None:
    """A file whose stored energies do not come out is refused, one whose energies do is read."""
    description = description | {"symbolic": {"terms": description["symbolic"]["terms"]}}
    path = tmp_path / "model.onnx"
    good = example | ENERGIES
    read(path, artifact_bytes(VOLUME, description | {"examples": [good]}))
    for wrong in (
        {"symbolic": 9.0},
        {"neural": 1.0},
        {"flips": [[*good["flips"][0][:-1], -5.0]]},
        {"flips": [wrong_flips]},
        {"flips": [[0]]},
        {"runs": [[0, 7]]},
        {"runs": [[0, 2]]},
        {"runs": [[3, 6]]},
        {"shape": [6]},
        {"shape": [2, -3]},
        {"types": [0, 5]},
    ):
        refusal(path, artifact_bytes(VOLUME, description | {"examples": [good | wrong]}))


def test_names_that_are_no_text_are_refused_in_text(tmp_path: Path) -> None:
    weight = field(1, 5) + field(2, 1) + field(8, b"neural.\xff\xed\xa0") + field(9, b"1234")
    content = field(1, 9) + field(7, field(2, b"graph") + field(5, weight))
    assert "neural.???" in refusal(tmp_path / "model.onnx", content)


@settings(max_examples=300)
@given(data=st.data())
def test_survives_any_damage(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Cut anywhere, flip any bytes: an error or a model, never a crash; changed weights never pass."""
    content = bytearray(GOOD)
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    for _ in range(data.draw(st.integers(0, 4))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.onnx"
    path.write_bytes(bytes(content))
    try:
        model = Model.load(str(path))
    except EngineError:
        return
    for name, array in WEIGHTS.items():
        np.testing.assert_array_equal(model.weights[name], array)
