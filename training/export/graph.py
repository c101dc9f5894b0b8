"""The artifact's graph, from its metadata and weights (docs/artifact.md); no torch in here."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from neuralcpm_bridge.artifact import METADATA_KEY, Metadata, NeuralSpec
from neuralcpm_bridge.state import MOORE_HALF

from .builder import IR_VERSION, OPSET, GraphBuilder


def build_model(metadata: Metadata, weights: dict[str, NDArray[Any]]) -> onnx.ModelProto:
    """ids `[B, H, W]`, types `[B, C]` → energy, symbolic, neural `[B]`."""
    graph = EnergyGraph(metadata, weights)
    height, width = metadata.fixed_lattice or ("H", "W")
    cells = metadata.fixed_cells or "C"
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["B", height, width]),
        helper.make_tensor_value_info("types", TensorProto.INT64, ["B", cells]),
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["B"]) for name in ("energy", "symbolic", "neural")
    ]
    built = graph.builder
    proto = helper.make_graph(built.nodes, "neuralcpm", inputs, outputs, initializer=built.initializers)
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="neuralcpm-bridge")
    model.ir_version = IR_VERSION
    helper.set_model_props(model, {METADATA_KEY: metadata.model_dump_json()})
    onnx.checker.check_model(model)
    return model


class EnergyGraph:
    """Adds the parts of the energy to a graph, in the order of docs/artifact.md."""

    def __init__(self, metadata: Metadata, weights: dict[str, NDArray[Any]]) -> None:
        self.metadata = metadata
        self.builder = b = GraphBuilder(weights)
        self.batch = b.shape("ids", 0, 1)
        self.cells = b.shape("types", 1, 2)
        flat = b.reshape("ids", [0, -1])
        self.flat_ids = flat
        self.type_map = b.op("Reshape", b.op("GatherElements", "types", flat, axis=1), b.shape("ids", 0))
        zero = b.op("ConstantOfShape", self.batch, value=helper.make_tensor("zero", TensorProto.DOUBLE, [1], [0.0]))
        symbolic = self.symbolic() if metadata.symbolic is not None else zero
        neural = self.neural(metadata.neural) if metadata.neural is not None else zero
        b.rename(symbolic, "symbolic")
        b.rename(neural, "neural")
        b.rename(b.op("Add", symbolic, neural), "energy")

    # -- analytic terms --------------------------------------------------------------------------------------

    def symbolic(self) -> str:
        b = self.builder
        energy = b.op("Expand", "symbolic.offset", self.batch)
        assert self.metadata.symbolic is not None
        terms = {
            "contact": self.contact,
            "volume": self.volume,
            "volume_function": self.volume_function,
            "surface": self.surface,
            "external": self.external,
        }
        for term in self.metadata.symbolic.terms:
            energy = b.op("Add", energy, terms[term]())
        return b.op("Mul", energy, "symbolic.weight")

    def contact(self) -> str:
        b = self.builder
        energies = b.reshape("symbolic.contact.J", [-1])
        row = b.op("Mul", self.type_map, b.const(len(self.metadata.types)))
        total = None
        for offset in MOORE_HALF:
            id_here, id_there = self.pair("ids", offset)
            row_here, _ = self.pair(row, offset)
            _, type_there = self.pair(self.type_map, offset)
            differs = b.double(b.op("Not", b.op("Equal", id_here, id_there)))
            paid = b.op("Mul", differs, b.op("Gather", energies, b.op("Add", row_here, type_there)))
            direction = b.sum(paid, 1, 2)
            total = direction if total is None else b.op("Add", total, direction)
        assert total is not None
        return b.op("Mul", total, b.const(0.25, np.float64))

    def pair(self, value: str, offset: tuple[int, int]) -> tuple[str, str]:
        """Both ends of every Moore pair in one direction."""
        here = there = value
        for axis, step in zip((1, 2), offset, strict=True):
            if step == 0:
                continue
            b = self.builder
            if self.metadata.boundary == "periodic":
                there = b.op("Concat", b.slice(there, axis, step), b.slice(there, axis, 0, step), axis=axis)
            elif step > 0:
                here, there = b.slice(here, axis, 0, -1), b.slice(there, axis, 1)
            else:
                here, there = b.slice(here, axis, 1), b.slice(there, axis, 0, -1)
        return here, there

    def volumes(self) -> str:
        """Sites of every id, `[B, C]` double."""
        b = self.builder
        ones = b.op("Add", b.op("Mul", b.double(self.flat_ids), b.const(0.0, np.float64)), b.const(1.0, np.float64))
        return b.op("ScatterElements", self.no_cells(), self.flat_ids, ones, axis=1, reduction="add")

    def no_cells(self) -> str:
        """Zeros, `[B, C]` double."""
        return self.builder.op("Mul", self.builder.double("types"), self.builder.const(0.0, np.float64))

    def of_cells(self, weight: str) -> str:
        """A weight per type, of every id."""
        return self.builder.op("Gather", weight, self.builder.op("Max", "types", self.builder.const(0)))

    def over_cells(self, energies: str) -> str:
        """Sum of `[B, C]` over the ids that are cells."""
        b = self.builder
        return b.sum(b.op("Mul", energies, b.double(b.op("Greater", "types", b.const(0)))), 1)

    def constraint(self, quantity: str, term: str) -> str:
        """strength (quantity − target)² of every id, summed."""
        b = self.builder
        difference = b.op("Sub", quantity, self.of_cells(f"symbolic.{term}.target"))
        strength = self.of_cells(f"symbolic.{term}.strength")
        return self.over_cells(b.op("Mul", strength, b.op("Mul", difference, difference)))

    def volume(self) -> str:
        return self.constraint(self.volumes(), "volume")

    def surface(self) -> str:
        b = self.builder
        total = self.no_cells()
        for offset in MOORE_HALF:
            ends = self.pair("ids", offset)
            differs = b.double(b.op("Not", b.op("Equal", *ends)))
            quarter = b.reshape(b.op("Mul", differs, b.const(0.25, np.float64)), [0, -1])
            for end in ends:
                total = b.op("ScatterElements", total, b.reshape(end, [0, -1]), quarter, axis=1, reduction="add")
        return self.constraint(total, "surface")

    def volume_function(self) -> str:
        b = self.builder
        center, low, high, stiffness = (
            self.of_cells(f"symbolic.volume_function.{part}") for part in ("center", "low", "high", "stiffness")
        )
        volumes = self.volumes()
        inside = b.op("Min", b.op("Max", volumes, low), high)
        x, beyond = b.op("Sub", inside, center), b.op("Sub", volumes, inside)
        value = slope = self.no_cells()
        coefficients = "symbolic.volume_function.coefficients"
        for power in reversed(range(b.weights[coefficients].shape[1])):  # Horner's rule for value and slope
            column = b.reshape(b.slice(coefficients, 1, power, power + 1), [-1])
            slope = b.op("Add", b.op("Mul", slope, x), value)
            value = b.op("Add", b.op("Mul", value, x), self.of_cells(column))
        slope = b.op("Add", b.op("Mul", slope, x), value)
        outside = b.op("Mul", beyond, b.op("Add", slope, b.op("Mul", stiffness, beyond)))
        return self.over_cells(b.op("Add", b.op("Mul", value, x), outside))

    def external(self) -> str:
        b = self.builder
        coupling = b.op("Gather", "symbolic.external.coupling", self.type_map)
        field = b.op("Transpose", "symbolic.external.field", perm=[1, 2, 0])
        return b.sum(b.op("Mul", coupling, field), 1, 2, 3)

    # -- networks --------------------------------------------------------------------------------------------

    def neural(self, spec: NeuralSpec) -> str:
        b = self.builder
        energy = {"nh": self.nh, "nh_cnn": self.nh_cnn, "cnn": self.cnn, "local_nh": self.local_nh}[spec.kind](spec)
        return b.op("Mul", energy, "neural.weight")

    def one_hot(self, value: str, numbers: str) -> str:
        """value `[B, H, W]` against numbers `[N]` → float `[B, N, H, W]`."""
        b = self.builder
        return b.cast(b.op("Equal", b.unsqueeze(value, 1), b.unsqueeze(numbers, 1, 2)), TensorProto.FLOAT)

    def type_channels(self) -> str:
        return self.one_hot(self.type_map, self.builder.const(range(len(self.metadata.types))))

    def per_cell(self, value: str) -> str:
        """`[B·C, ...]` → `[B, C, ...]`."""
        return self.builder.reshape(value, self.batch, self.cells, self.builder.shape(value, 1))

    def merged(self, value: str) -> str:
        """`[B, C, ...]` → `[B·C, ...]`."""
        return self.builder.reshape(value, [-1], self.builder.shape(value, 2))

    def cell_features(self, spec: NeuralSpec) -> str:
        """NH layers on every cell: `[B·C, W, h, w]`. In a Local NH slot 0 is the absent cell."""
        b = self.builder
        relative = spec.kind == "local_nh"
        numbers = b.arange(self.cells)
        if relative:
            numbers = b.op("Where", b.op("Equal", numbers, b.const(0)), b.const(-1), numbers)
        own = b.reshape(self.one_hot("ids", numbers), [-1, 1], b.shape("ids", 1))
        stride = {"strides": [spec.stride] * 2, "kernel_shape": [spec.stride] * 2}
        own_part = b.op("Conv", own, b.slice("neural.embedding.weight", 1, 0, 1), **stride)
        type_weight = b.slice("neural.embedding.weight", 1, 1)
        type_part = b.op("Conv", self.type_channels(), type_weight, "neural.embedding.bias", **stride)
        h = self.merged(b.op("Add", self.per_cell(own_part), b.unsqueeze(type_part, 1)))
        for number in range(len(spec.widths)):
            h = self.nh_layer(h, f"neural.layers.{number}", spec, relative)
            h = self.pool(h, spec.pools[number] if spec.pools else 1)
        return h

    def counts(self, dtype: int) -> str:
        """`[B, C]`: 1 for every id that exists."""
        return self.builder.cast(self.builder.op("GreaterOrEqual", "types", self.builder.const(0)), dtype)

    def nh_layer(self, h: str, name: str, spec: NeuralSpec, relative: bool) -> str:
        b, padding = self.builder, spec.padding
        phi = b.conv(h, f"{name}.reduce")
        for part in ("phi0", "phi1"):
            phi = b.silu(b.conv(phi, f"{name}.{part}", padding))
        total = b.conv(self.sum_over_cells(phi, relative), f"{name}.mix")
        shape = b.op("Concat", self.batch, self.cells, b.shape(total, 1), axis=0)
        shared = self.merged(b.op("Expand", b.unsqueeze(total, 1), shape))
        psi = b.silu(b.conv(b.op("Concat", h, shared, axis=1), f"{name}.psi0", padding))
        psi = b.conv(psi, f"{name}.psi1", padding)
        skip = b.conv(h, f"{name}.skip") if f"{name}.skip.weight" in b.weights else h
        return b.op("Add", psi, skip)

    def sum_over_cells(self, value: str, relative: bool) -> str:
        """`[B·C, W, h, w]` → `[B, W, h, w]`."""
        b = self.builder
        cells = self.per_cell(value)
        if relative:
            cells = b.op("Sub", cells, b.slice(cells, 1, 0, 1))
        return b.sum(b.op("Mul", cells, b.unsqueeze(self.counts(TensorProto.FLOAT), 2, 3, 4)), 1)

    def pool(self, value: str, size: int) -> str:
        if size == 1:
            return value
        return self.builder.op("MaxPool", value, kernel_shape=[size, size], strides=[size, size])

    def blocks(self, x: str, spec: NeuralSpec) -> str:
        b = self.builder
        for number, pool in enumerate(spec.conv_pools):
            name = f"neural.blocks.{number}"
            y = x
            for part in ("conv0", "conv1"):
                y = b.silu(b.conv(y, f"{name}.{part}", spec.padding))
            skip = b.conv(x, f"{name}.skip") if f"{name}.skip.weight" in b.weights else x
            x = self.pool(b.op("Add", y, skip), pool)
        return x

    def sites(self, value: str) -> str:
        """Sites of a coarse lattice `[..., h, w]`, float64 scalar tensor."""
        b = self.builder
        return b.double(b.op("ReduceProd", b.shape(value, 2), keepdims=0))

    def head(self, x: str, spec: NeuralSpec) -> str:
        """Dense layers in float64: `[B, in]` → `[B]`."""
        b = self.builder
        for number in range(len(spec.mlp)):
            name = f"neural.mlp.{number}"
            skip = b.linear64(x, f"{name}.skip") if f"{name}.skip.weight" in b.weights else x
            x = b.op("Add", b.silu(b.linear64(x, f"{name}.linear")), skip)
        return b.op("Squeeze", b.linear64(x, "neural.out"), b.const([1]))

    def nh(self, spec: NeuralSpec) -> str:
        b = self.builder
        h = self.cell_features(spec)
        per_cell = self.per_cell(b.sum(b.double(h), 2, 3))
        counts = b.unsqueeze(self.counts(TensorProto.DOUBLE), 2)
        total = b.sum(b.op("Mul", per_cell, counts), 1)
        times = b.op("Mul", b.sum(counts, 1), self.sites(h))
        return self.head(b.linear64(total, "neural.project", times), spec)

    def nh_cnn(self, spec: NeuralSpec) -> str:
        b = self.builder
        total = self.sum_over_cells(self.cell_features(spec), relative=False)
        cells = b.op("ReduceSum", self.counts(TensorProto.FLOAT), b.const([1]), keepdims=1)
        bias = b.unsqueeze(b.op("Mul", cells, "neural.project.bias"), 2, 3)
        x = b.op("Add", b.op("Conv", total, "neural.project.weight"), bias)
        return self.head(b.sum(b.double(self.blocks(x, spec)), 2, 3), spec)

    def cnn(self, spec: NeuralSpec) -> str:
        b = self.builder
        own = self.one_hot("ids", b.const(range(self.metadata.fixed_cells or 0)))
        stride = {"strides": [spec.stride] * 2}
        channels = b.op("Concat", own, self.type_channels(), axis=1)
        x = self.blocks(b.op("Conv", channels, "neural.embedding.weight", "neural.embedding.bias", **stride), spec)
        return self.head(b.linear64(b.sum(b.double(x), 2, 3), "neural.project", self.sites(x)), spec)

    def local_nh(self, spec: NeuralSpec) -> str:
        b = self.builder
        h = self.cell_features(spec)
        energies = b.double(self.per_cell(self.site_head(h, "neural.cell_head")))
        relative = b.op("Sub", energies, b.slice(energies, 1, 0, 1))
        counts = b.unsqueeze(self.counts(TensorProto.DOUBLE), 2, 3, 4)
        cells = b.sum(b.op("Mul", relative, counts), 1, 2, 3, 4)
        absent = b.op("Squeeze", b.slice(self.per_cell(h), 1, 0, 1), b.const([1]))
        background = b.sum(b.double(self.site_head(absent, "neural.background_head")), 1, 2, 3)
        return b.op("Add", cells, background)

    def site_head(self, h: str, name: str) -> str:
        return self.builder.conv(self.builder.silu(self.builder.conv(h, f"{name}.hidden")), f"{name}.out")
