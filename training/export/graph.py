"""The artifact's graph, from its metadata and weights (docs/artifact.md): the terms, and what they are built of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from neuralcpm_bridge.artifact import METADATA_KEY, Metadata

from ..hamiltonians.terms import TERMS
from .builder import IR_VERSION, OPSET, GraphBuilder
from .cell_graph import CellGraphNetwork
from .networks import NetworkGraph

PARTS = ("symbolic", "neural")
AXES = {2: ("H", "W"), 3: ("D", "H", "W")}


def build_model(metadata: Metadata, weights: dict[str, NDArray[Any]]) -> onnx.ModelProto:
    """ids `[B, H, W]` or `[B, D, H, W]`, types `[B, C]` → energy, symbolic, neural `[B]`.

    Cell graphs also tell the energies of their members, `members` `[B, K]`, how far these disagree, `spread` `[B]`, and
    whether cells are like those of the training data, `inside` `[B, C]`; they may ask for `properties` `[B, C, P]`.
    """
    built = EnergyGraph(metadata, weights).builder
    shape = metadata.fixed_lattice or AXES[metadata.geometry.dimension]
    cells = metadata.fixed_cells or "C"
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["B", *shape]),
        helper.make_tensor_value_info("types", TensorProto.INT64, ["B", cells]),
    ]
    network = metadata.neural
    outputs = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["B"]) for name in ("energy", *PARTS)]
    if network is not None and network.is_graph:
        outputs += [
            helper.make_tensor_value_info("spread", TensorProto.DOUBLE, ["B"]),
            helper.make_tensor_value_info("members", TensorProto.DOUBLE, ["B", network.members]),
            helper.make_tensor_value_info("inside", TensorProto.BOOL, ["B", cells]),
        ]
        if network.properties:
            sizes = ["B", cells, len(network.properties)]
            inputs.append(helper.make_tensor_value_info("properties", TensorProto.DOUBLE, sizes))
    proto = helper.make_graph(built.nodes, "neuralcpm", inputs, outputs, initializer=built.initializers)
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="neuralcpm-bridge")
    model.ir_version = IR_VERSION
    helper.set_model_props(model, {METADATA_KEY: metadata.model_dump_json()})
    onnx.checker.check_model(model)
    return model


class EnergyGraph:
    """Adds the parts of the energy to a graph, and offers terms what they ask of states: `ids[B, *shape]`,
    `types[B, C]`. Every value is the name of a node's output."""

    def __init__(self, metadata: Metadata, weights: dict[str, NDArray[Any]]) -> None:
        self.metadata, self.geometry, self.types = metadata, metadata.geometry, len(metadata.types)
        self.axes = list(range(1, 1 + self.geometry.dimension))
        """Axes of `ids` that are the lattice's."""
        self.periodic = [word == "periodic" for word in metadata.boundary]
        self.builder = b = GraphBuilder(weights)
        self._kept: dict[object, list[str]] = {}
        batch = b.shape("ids", 0, 1)
        self.flat_ids = b.reshape("ids", [0, -1])
        self.type_map = b.op("Reshape", b.op("GatherElements", "types", self.flat_ids, axis=1), b.shape("ids", 0))
        zero = b.op("ConstantOfShape", batch, value=helper.make_tensor("zero", TensorProto.DOUBLE, [1], [0.0]))
        symbolic = neural = zero
        if metadata.symbolic is not None:
            energy = b.op("Expand", "symbolic.offset", batch)
            for name in metadata.symbolic.terms:
                order = metadata.orders.get(name, self.geometry.moore_order)
                energy = b.op("Add", energy, TERMS[name].onnx(self, order))
            symbolic = b.op("Mul", energy, "symbolic.weight")
        if metadata.neural is not None and metadata.neural.is_graph:
            found = CellGraphNetwork(self, metadata.neural).results()
            neural = found.neural
            for name in ("spread", "members", "inside"):
                b.rename(getattr(found, name), name)
        elif metadata.neural is not None:
            neural = NetworkGraph(b, metadata.neural, self.type_map, self.types, metadata.fixed_cells).energy()
        b.rename(symbolic, "symbolic")
        b.rename(neural, "neural")
        b.rename(b.op("Add", symbolic, neural), "energy")

    def once(self, key: object, build: Callable[[], list[str]]) -> list[str]:
        """What was built under this key, built at its first use."""
        if key not in self._kept:
            self._kept[key] = build()
        return self._kept[key]

    def weight(self, name: str) -> str:
        """The initialiser of `TERM.WEIGHT`."""
        return f"symbolic.{name}"

    # -- sites -------------------------------------------------------------------------------------------------

    @cached_property
    def sites(self) -> str:
        """How many there are, `[1]`."""
        return self.builder.op("ReduceProd", self.builder.shape("ids", 1), keepdims=1)

    def ends(self, value: str, offset: Sequence[int]) -> tuple[str, str]:
        """Both ends of every pair of neighbours in one direction, of a value `[B, *shape]`."""
        b, here, there = self.builder, value, value
        for axis, step, wraps in zip(self.axes, offset, self.periodic, strict=True):
            if step and wraps:
                there = b.op("Gather", there, self._around(axis, step), axis=axis)
            elif step > 0:
                here, there = b.slice(here, axis, 0, -step), b.slice(there, axis, step)
            elif step < 0:
                here, there = b.slice(here, axis, -step), b.slice(there, axis, 0, step)
        return here, there

    def _around(self, axis: int, step: int) -> str:
        """Indices along a periodic axis, so many steps on; right also on lattices narrower than the step."""

        def build() -> list[str]:
            b, size = self.builder, self.builder.shape("ids", axis, axis + 1)
            return [b.op("Mod", b.op("Add", b.arange(size), b.const(step)), size)]

        return self.once(("around", axis, step), build)[0]

    # -- cells -------------------------------------------------------------------------------------------------

    @cached_property
    def no_cells(self) -> str:
        """Zeros, `[B, C]` double."""
        return self.builder.op("Mul", self.builder.double("types"), self.builder.const(0.0, np.float64))

    @cached_property
    def volumes(self) -> str:
        """Sites of every id, `[B, C]` double."""
        b = self.builder
        ones = b.op("Add", b.op("Mul", b.double(self.flat_ids), b.const(0.0, np.float64)), b.const(1.0, np.float64))
        return self.summed_by_id(ones)

    def summed_by_id(self, values: str) -> str:
        """Sums of `[B, sites]` double over the sites of every id, `[B, C]`."""
        return self.builder.op("ScatterElements", self.no_cells, self.flat_ids, values, axis=1, reduction="add")

    def of_cells(self, weight: str) -> str:
        """A weight per type, of every id."""
        return self.builder.op("Gather", weight, self.builder.op("Max", "types", self.builder.const(0)))

    def over_cells(self, energies: str) -> str:
        """Sum of `[B, C]` over the ids that are cells."""
        b = self.builder
        return b.sum(b.op("Mul", energies, b.double(b.op("Greater", "types", b.const(0)))), 1)

    def constraint(self, quantity: str, term: str, target: str = "target") -> str:
        """strength (quantity − target)² of every id, summed."""
        b = self.builder
        difference = b.op("Sub", quantity, self.of_cells(self.weight(f"{term}.{target}")))
        strength = self.of_cells(self.weight(f"{term}.strength"))
        return self.over_cells(b.op("Mul", strength, b.op("Mul", difference, difference)))
