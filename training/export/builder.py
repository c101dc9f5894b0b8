"""A thin layer over onnx.helper: nodes by name of their operation, constants on the fly."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 18
IR_VERSION = 9
"""Old enough for every ONNX Runtime the package supports."""

END = np.iinfo(np.int64).max


class GraphBuilder:
    """Collects the nodes of a graph; every method returns the name of the value it makes."""

    def __init__(self, weights: dict[str, NDArray[Any]]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        named = sorted(weights.items())
        self.initializers = [numpy_helper.from_array(np.asarray(value, order="C"), name) for name, value in named]
        self.weights = weights
        self._constants: dict[tuple[str, bytes, tuple[int, ...]], str] = {}

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def rename(self, value: str, name: str) -> str:
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        return name

    def const(self, value: ArrayLike, dtype: type = np.int64) -> str:
        array: NDArray[Any] = np.asarray(value, dtype=dtype)
        key = (str(array.dtype), array.tobytes(), array.shape)
        if key not in self._constants:
            self._constants[key] = f"constant_{len(self._constants)}"
            self.initializers.append(numpy_helper.from_array(array, self._constants[key]))
        return self._constants[key]

    def cast(self, value: str, to: int) -> str:
        return self.op("Cast", value, to=to)

    def double(self, value: str) -> str:
        return self.cast(value, TensorProto.DOUBLE)

    def shape(self, value: str, start: int, end: int | None = None) -> str:
        attributes = {"start": start} if end is None else {"start": start, "end": end}
        return self.op("Shape", value, **attributes)

    def slice(self, value: str, axis: int, start: int, end: int = END) -> str:
        return self.op("Slice", value, self.const([start]), self.const([end]), self.const([axis]))

    def reshape(self, value: str, *parts: str | list[int]) -> str:
        """Shape from pieces: names of shape tensors or literal dimensions."""
        names = [part if isinstance(part, str) else self.const(part) for part in parts]
        shape = names[0] if len(names) == 1 else self.op("Concat", *names, axis=0)
        return self.op("Reshape", value, shape)

    def unsqueeze(self, value: str, *axes: int) -> str:
        return self.op("Unsqueeze", value, self.const(list(axes)))

    def sum(self, value: str, *axes: int) -> str:
        return self.op("ReduceSum", value, self.const(list(axes)), keepdims=0)

    def silu(self, value: str) -> str:
        return self.op("Mul", value, self.op("Sigmoid", value))

    def arange(self, count: str) -> str:
        """0 … count−1, count a one-element tensor."""
        scalar = self.op("Squeeze", count)
        return self.op("Range", self.const(0), scalar, self.const(1))

    def wrap(self, value: str) -> str:
        """One row and column of circular padding on the last two of four axes."""
        for axis in (2, 3):
            value = self.op("Concat", self.slice(value, axis, -1), value, self.slice(value, axis, 0, 1), axis=axis)
        return value

    def conv(self, value: str, name: str, padding: str = "zeros") -> str:
        """A named convolution (or a dense layer as a 1×1 one) with stride 1 on `[N, channels, h, w]`."""
        weight, kernel = f"{name}.weight", 1
        if self.weights[weight].ndim == 2:
            weight = self.unsqueeze(weight, 2, 3)
        else:
            kernel = self.weights[weight].shape[-1]
        if kernel == 3 and padding == "circular":
            return self.op("Conv", self.wrap(value), weight, f"{name}.bias")
        return self.op("Conv", value, weight, f"{name}.bias", pads=[kernel // 2] * 4)

    def linear64(self, value: str, name: str, times: str | None = None) -> str:
        """A named dense or 1×1 layer on `[B, in]` in float64; `times` `[B, 1]`: summands that share its bias."""
        weight = self.double(f"{name}.weight")
        if self.weights[f"{name}.weight"].ndim == 4:
            weight = self.op("Flatten", weight)
        bias = self.double(f"{name}.bias")
        if times is not None:
            bias = self.op("Mul", times, bias)
        return self.op("Add", self.op("MatMul", value, self.op("Transpose", weight, perm=[1, 0])), bias)
