"""The artifact reader: what it accepts, and that nothing else gets through or takes it down."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuralcpm_bridge._engine import EngineError, Model, read_artifact

from .models import NH, artifact_bytes, field, metadata, network_weights, symbolic_weights, tensor, weights_hash

RNG = np.random.default_rng(5)
SYMBOLIC = symbolic_weights(RNG, ("contact", "volume"))
WEIGHTS = SYMBOLIC | network_weights(RNG, NH)
GOOD = artifact_bytes(WEIGHTS, metadata(WEIGHTS, neural=NH))


def refusal(path: Path, content: bytes, load=Model.load) -> str:
    path.write_bytes(content)
    with pytest.raises(EngineError) as caught:
        load(str(path))
    message = str(caught.value)
    assert message.endswith("."), message
    assert "\n" not in message
    return message


def test_reads_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(GOOD)
    text, weights, found = read_artifact(str(path))
    assert json.loads(text)["types"] == ["medium", "A", "B"]
    assert found == weights_hash(WEIGHTS)
    assert sorted(weights) == sorted(WEIGHTS)
    for name, array in WEIGHTS.items():
        assert weights[name].dtype == array.dtype
        np.testing.assert_array_equal(weights[name], array)
    model = Model.load(str(path))
    assert (model.boundary, model.covered, model.type_names) == ("periodic", True, ["medium", "A", "B"])


def test_reads_packed_dimensions(tmp_path: Path) -> None:
    """Writers may pack repeated integers or not."""
    array = SYMBOLIC["symbolic.contact.J"]
    packed = field(1, bytes([3, 3])) + field(2, 11) + field(8, b"symbolic.contact.J") + field(9, array.tobytes())
    only = {"symbolic.contact.J": array}
    content = artifact_bytes({}, {"weights_hash": weights_hash(only), "format": 1}) + field(7, field(5, packed))
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    np.testing.assert_array_equal(read_artifact(str(path))[1]["symbolic.contact.J"], array)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        pytest.param(b"", "no entry 'neuralcpm'", id="empty"),
        pytest.param(b"\x89PNG\r\n\x1a\n" + bytes(100), "not an ONNX file", id="picture"),
        pytest.param(b"hello, world, this is not a model", "not an ONNX file", id="text"),
        pytest.param(artifact_bytes(WEIGHTS, None), "not an exported Hamiltonian", id="foreign model"),
        pytest.param(artifact_bytes(WEIGHTS, {"format": 2}), "format 2", id="newer format"),
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
    assert part in refusal(tmp_path / "model.onnx", content, read_artifact)


def test_refuses_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.onnx"):
        with pytest.raises(EngineError, match="not a file"):
            Model.load(str(path))


def test_refuses_a_changed_symbolic_number(tmp_path: Path) -> None:
    description = metadata(WEIGHTS, neural=NH)
    description["symbolic"]["terms"]["volume"]["target"][1] += 1
    assert "symbolic.volume.target" in refusal(tmp_path / "model.onnx", artifact_bytes(WEIGHTS, description))


def test_recomputes_the_examples(tmp_path: Path) -> None:
    """A file whose stored energies do not come out is refused, one whose energies do is read."""
    weights = {
        "symbolic.volume.strength": np.array([0.0, 2.0, 1.0]),
        "symbolic.volume.target": np.array([0.0, 3.0, 3.0]),
    }
    example = {"shape": [2, 3], "runs": [[0, 2], [1, 1], [0, 3]], "types": [0, 1], "flips": [[0, 0, 1, -6.0]]}
    energies = {"energy": 8.0, "symbolic": 8.0, "neural": 0.0}
    description = metadata(weights) | {"symbolic": {"terms": metadata(weights)["symbolic"]["terms"]}}
    path = tmp_path / "model.onnx"
    path.write_bytes(artifact_bytes(weights, description | {"examples": [example | energies]}))
    Model.load(str(path))
    for wrong in (
        {"symbolic": 9.0},
        {"flips": [[0, 0, 1, -5.0]]},
        {"runs": [[0, 7]]},
        {"runs": [[3, 6]]},
        {"flips": [[9, 0, 1, 0]]},
    ):
        refusal(path, artifact_bytes(weights, description | {"examples": [example | energies | wrong]}))


def test_names_that_are_no_text_are_refused_in_text(tmp_path: Path) -> None:
    weight = field(1, 5) + field(2, 1) + field(8, b"neural.\xff\xed\xa0") + field(9, b"1234")
    content = field(1, 9) + field(7, field(2, b"graph") + field(5, weight))
    assert "neural.???" in refusal(tmp_path / "model.onnx", content)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_survives_any_damage(tmp_path: Path, data: st.DataObject) -> None:
    """Cut anywhere, flip any bytes: an error or a model, never a crash; changed weights never pass."""
    content = bytearray(GOOD)
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    for _ in range(data.draw(st.integers(0, 4))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes(content))
    try:
        model = Model.load(str(path))
    except EngineError:
        return
    for name, array in WEIGHTS.items():
        np.testing.assert_array_equal(model.weights[name], array)
