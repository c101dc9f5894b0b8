"""Small engine models made from arrays, and artifacts written byte by byte, without torch or onnx."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge._engine import Model
from neuralcpm_bridge.artifact import CELL_INPUTS

TYPES = ("medium", "A", "B")
Weights = dict[str, NDArray[Any]]


def symbolic_weights(
    rng: np.random.Generator, terms: tuple[str, ...], shape: tuple[int, ...] = (0, 0), minor: bool = False
) -> Weights:
    """Random numbers for the named terms; `minor`: the length term has a target for the shortest axis, too."""
    count = len(TYPES)
    weights: Weights = {"symbolic.weight": np.array(0.7), "symbolic.offset": np.array(-3.0)}
    if "contact" in terms:
        contact = rng.normal(2, 3, (count, count))
        contact = (contact + contact.T) / 2
        contact[0, 0] = 0
        weights["symbolic.contact.J"] = contact
    for term, target in {"volume": 9, "length": 5, "surface": 7}.items():
        if term in terms:
            weights[f"symbolic.{term}.strength"] = rng.uniform(0.1, 1, count)
            weights[f"symbolic.{term}.target"] = rng.uniform(0.5, 1.5, count) * target
    if minor:
        weights["symbolic.length.minor_target"] = rng.uniform(0.5, 3, count)
    if "volume_function" in terms:
        weights |= {
            "symbolic.volume_function.center": rng.uniform(4, 6, count),
            "symbolic.volume_function.low": rng.uniform(1, 3, count),
            "symbolic.volume_function.high": rng.uniform(6, 9, count),
            "symbolic.volume_function.coefficients": rng.normal(size=(count, 3)) * [1, 0.3, 0.1],
            "symbolic.volume_function.stiffness": rng.uniform(0.1, 1, count),
        }
    if "external" in terms:
        weights["symbolic.external.field"] = rng.normal(size=(2, *shape))
        weights["symbolic.external.coupling"] = rng.normal(size=(count, 2))
    return weights


def network_weights(rng: np.random.Generator, spec: dict[str, Any]) -> Weights:
    """Random weights of the right shapes for an `nh` or `local_nh`."""
    weights: Weights = {"neural.weight": np.array(1.3)}

    def affine(name: str, *shape: int) -> None:
        fan = int(np.prod(shape[1:]))
        weights[f"neural.{name}.weight"] = (rng.normal(size=shape) / fan**0.5).astype(np.float32)
        weights[f"neural.{name}.bias"] = rng.normal(scale=0.1, size=shape[0]).astype(np.float32)

    widths, stride = spec["widths"], spec["stride"]
    affine("embedding", widths[0], 1 + len(TYPES), stride, stride)
    before = widths[0]
    for index, width in enumerate(widths):
        layer = f"layers.{index}"
        affine(f"{layer}.reduce", width, before, 1, 1)
        for name in ("phi0", "phi1", "psi1"):
            affine(f"{layer}.{name}", width, width, 3, 3)
        affine(f"{layer}.mix", width, width, 1, 1)
        affine(f"{layer}.psi0", width, before + width, 3, 3)
        if before != width:
            affine(f"{layer}.skip", width, before, 1, 1)
        before = width
    project = spec["project"]
    if spec["kind"] == "local_nh":
        for head in ("cell_head", "background_head"):
            affine(f"{head}.hidden", project, before)
            affine(f"{head}.out", 1, project)
        return weights
    affine("project", project, before, 1, 1)
    before = project
    for index, size in enumerate(spec["mlp"]):
        affine(f"mlp.{index}.linear", size, before)
        if size != before:
            affine(f"mlp.{index}.skip", size, before)
        before = size
    affine("out", 1, before)
    return weights


def graph_weights(rng: np.random.Generator, spec: dict[str, Any]) -> Weights:
    """Random weights of the right shapes for a cell graph; statistics of small cells."""
    width, inputs = spec["width"], len(CELL_INPUTS) + len(spec["properties"])
    weights: Weights = {"neural.weight": np.array(1.3)}

    def add(name: str, *shape: int, loudness: float = 1.0) -> None:
        fan = int(np.prod(shape[1:]))
        weights[f"neural.{name}"] = (loudness * rng.normal(size=shape) / fan**0.5).astype(np.float32)

    for name, size in (("cell", inputs), ("edge", 5)):
        weights[f"neural.{name}_mean"] = rng.uniform(1, 4, size).astype(np.float32)
        weights[f"neural.{name}_deviation"] = rng.uniform(1, 3, size).astype(np.float32)
    for name in ("edge_mean", "edge_deviation"):  # a contact is seen from both sides: the last two are one quantity
        weights[f"neural.{name}"][-1] = weights[f"neural.{name}"][-2]
    weights["neural.surface"] = np.float32(8.0)
    for end in ("low", "high"):
        weights[f"neural.{end}"] = np.zeros((len(TYPES), inputs), dtype=np.float32)
    for member in range(spec["members"]):
        start = f"members.{member}"
        add(f"{start}.embed.weight", width, len(TYPES) - 1 + inputs)
        for layer in ("embed_more", "hidden"):
            add(f"{start}.{layer}.weight", width, width)
        for layer in ("embed", "embed_more", "hidden"):
            add(f"{start}.{layer}.bias", width, loudness=0.1)
        add(f"{start}.out.weight", 1, width, loudness=5.0)
        add(f"{start}.out.bias", 1)
        for number in range(spec["rounds"]):
            own = f"{start}.rounds.{number}"
            for layer, inner in (("own", width), ("psi0", 2 * width), ("psi1", width)):
                add(f"{own}.{layer}.weight", width, inner)
                add(f"{own}.{layer}.bias", width, loudness=0.1)
            add(f"{own}.other.weight", width, width)
            add(f"{own}.edge.weight", width, 5)
            add(f"{own}.medium", width)
        if knots := spec.get("knots", 0):
            add(f"{start}.pairs", len(TYPES) * (len(TYPES) - 1) // 2, knots)
            weights["neural.reach"] = np.float32(5.0)
    return weights


NH = {"kind": "nh", "stride": 2, "widths": [2, 3], "pools": [2, 1], "padding": "zeros", "project": 3, "mlp": [4, 4]}
GRAPH = {"kind": "cell_graph", "rounds": 1, "width": 16, "members": 2, "order": 2, "properties": ["age", "marker"]}
LOCAL = {"kind": "local_nh", "stride": 2, "widths": [3], "pools": [1], "padding": "circular", "project": 3, "mlp": []}


def metadata(
    weights: Weights,
    boundary: str | Sequence[str] = "periodic",
    neural: dict[str, Any] | None = None,
    geometry: str = "square",
    orders: dict[str, int] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A description that agrees with the weights; `orders` by term, the geometry's own where it names none."""
    dimension = 3 if geometry == "cubic" else 2
    words = [boundary] * dimension if isinstance(boundary, str) else list(boundary)
    entry: dict[str, Any] = {"format": 2, "name": "test", "types": list(TYPES), "neural": neural}
    entry["lattice"] = {"geometry": geometry, "boundary": words, "shape": None}
    terms: dict[str, dict[str, Any]] = {}
    for name, value in weights.items():
        if name.startswith("symbolic.") and name.count(".") == 2 and not name.endswith("field"):
            _, term, number = name.split(".")
            terms.setdefault(term, {})[number] = value.tolist()
    for term, order in (orders or {}).items():
        if term in terms:
            terms[term]["order"] = order
    if any(name.startswith("symbolic.") for name in weights):
        entry["symbolic"] = {"weight": 0.7, "offset": -3.0, "terms": terms}
    return entry | more


def format_1(weights: Weights, boundary: str = "periodic", **more: Any) -> dict[str, Any]:
    """The same in the words of format 1: square lattices, one boundary for both axes."""
    entry = metadata(weights, **more) | {"format": 1, "boundary": boundary, "neighbor_order": 2}
    return entry | {"lattice": None}


def make_model(
    weights: Weights,
    boundary: str | Sequence[str] = "periodic",
    neural: dict[str, Any] | None = None,
    geometry: str = "square",
    orders: dict[str, int] | None = None,
) -> Model:
    return Model(json.dumps(metadata(weights, boundary, neural, geometry, orders)), weights)


# -- artifacts by hand: docs/artifact.md and the protobuf wire format ------------------------------------------


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(name: str, array: NDArray[Any], **more: bytes) -> bytes:
    dims = b"".join(field(1, size) for size in array.shape)
    data_type = 1 if array.dtype == np.float32 else 11
    return dims + field(2, data_type) + field(8, name.encode()) + more.get("raw", field(9, array.tobytes()))


def weights_hash(weights: Weights) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(weights.items(), key=lambda item: item[0].encode()):
        digest.update(name.encode() + b"\0" + bytes([1 if array.dtype == np.float32 else 11, array.ndim]))
        digest.update(b"".join(size.to_bytes(8, "little") for size in array.shape) + array.tobytes())
    return digest.hexdigest()


def artifact_bytes(weights: Weights, description: dict[str, Any] | str | None) -> bytes:
    """An ONNX file with these initialisers (and a foreign one) and this description; the hash is added."""
    graph = field(5, tensor("unnamed", np.zeros(3, dtype=np.float32)))
    graph += b"".join(field(5, tensor(name, array)) for name, array in weights.items())
    content = field(1, 9) + field(2, b"test") + field(7, field(2, b"graph") + graph)
    if isinstance(description, dict):
        description = json.dumps({"weights_hash": weights_hash(weights), **description})
    if description is not None:
        content += field(14, field(1, b"neuralcpm") + field(2, description.encode()))
    return content
