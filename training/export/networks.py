"""Networks of convolutions on 2D square lattices as ONNX graphs (docs/artifact.md)."""

from __future__ import annotations

from onnx import TensorProto

from neuralcpm_bridge.artifact import NeuralEntry

from .builder import GraphBuilder


class NetworkGraph:
    """Adds w_NN · H_NN of `ids[B, H, W]` and `types[B, C]` to a graph."""

    def __init__(
        self, builder: GraphBuilder, spec: NeuralEntry, type_map: str, types: int, fixed_cells: int | None
    ) -> None:
        self.builder, self.spec, self.type_map, self.types = builder, spec, type_map, types
        self.fixed_cells = fixed_cells
        self.batch = builder.shape("ids", 0, 1)
        self.cells = builder.shape("types", 1, 2)

    def energy(self) -> str:
        kinds = {"nh": self.nh, "nh_cnn": self.nh_cnn, "cnn": self.cnn, "local_nh": self.local_nh}
        return self.builder.op("Mul", kinds[self.spec.kind](), "neural.weight")

    def one_hot(self, value: str, numbers: str) -> str:
        """value `[B, H, W]` against numbers `[N]` → float `[B, N, H, W]`."""
        b = self.builder
        return b.cast(b.op("Equal", b.unsqueeze(value, 1), b.unsqueeze(numbers, 1, 2)), TensorProto.FLOAT)

    def type_channels(self) -> str:
        return self.one_hot(self.type_map, self.builder.const(range(self.types)))

    def per_cell(self, value: str) -> str:
        """`[B·C, ...]` → `[B, C, ...]`."""
        return self.builder.reshape(value, self.batch, self.cells, self.builder.shape(value, 1))

    def merged(self, value: str) -> str:
        """`[B, C, ...]` → `[B·C, ...]`."""
        return self.builder.reshape(value, [-1], self.builder.shape(value, 2))

    def cell_features(self) -> str:
        """NH layers on every cell: `[B·C, W, h, w]`. In a Local NH slot 0 is the absent cell."""
        b = self.builder
        relative = self.spec.kind == "local_nh"
        numbers = b.arange(self.cells)
        if relative:
            numbers = b.op("Where", b.op("Equal", numbers, b.const(0)), b.const(-1), numbers)
        own = b.reshape(self.one_hot("ids", numbers), [-1, 1], b.shape("ids", 1))
        stride = {"strides": [self.spec.stride] * 2, "kernel_shape": [self.spec.stride] * 2}
        own_part = b.op("Conv", own, b.slice("neural.embedding.weight", 1, 0, 1), **stride)
        type_weight = b.slice("neural.embedding.weight", 1, 1)
        type_part = b.op("Conv", self.type_channels(), type_weight, "neural.embedding.bias", **stride)
        h = self.merged(b.op("Add", self.per_cell(own_part), b.unsqueeze(type_part, 1)))
        for number in range(len(self.spec.widths)):
            h = self.nh_layer(h, f"neural.layers.{number}", relative)
            h = self.pool(h, self.spec.pools[number] if self.spec.pools else 1)
        return h

    def counts(self, dtype: int) -> str:
        """`[B, C]`: 1 for every id that exists."""
        return self.builder.cast(self.builder.op("GreaterOrEqual", "types", self.builder.const(0)), dtype)

    def nh_layer(self, h: str, name: str, relative: bool) -> str:
        b, padding = self.builder, self.spec.padding
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

    def blocks(self, x: str) -> str:
        b = self.builder
        for number, pool in enumerate(self.spec.conv_pools):
            name = f"neural.blocks.{number}"
            y = x
            for part in ("conv0", "conv1"):
                y = b.silu(b.conv(y, f"{name}.{part}", self.spec.padding))
            skip = b.conv(x, f"{name}.skip") if f"{name}.skip.weight" in b.weights else x
            x = self.pool(b.op("Add", y, skip), pool)
        return x

    def sites(self, value: str) -> str:
        """Sites of a coarse lattice `[..., h, w]`, float64 scalar tensor."""
        b = self.builder
        return b.double(b.op("ReduceProd", b.shape(value, 2), keepdims=0))

    def head(self, x: str) -> str:
        """Dense layers in float64: `[B, in]` → `[B]`."""
        b = self.builder
        for number in range(len(self.spec.mlp)):
            name = f"neural.mlp.{number}"
            skip = b.linear64(x, f"{name}.skip") if f"{name}.skip.weight" in b.weights else x
            x = b.op("Add", b.silu(b.linear64(x, f"{name}.linear")), skip)
        return b.op("Squeeze", b.linear64(x, "neural.out"), b.const([1]))

    def nh(self) -> str:
        b = self.builder
        h = self.cell_features()
        per_cell = self.per_cell(b.sum(b.double(h), 2, 3))
        counts = b.unsqueeze(self.counts(TensorProto.DOUBLE), 2)
        total = b.sum(b.op("Mul", per_cell, counts), 1)
        times = b.op("Mul", b.sum(counts, 1), self.sites(h))
        return self.head(b.linear64(total, "neural.project", times))

    def nh_cnn(self) -> str:
        b = self.builder
        total = self.sum_over_cells(self.cell_features(), relative=False)
        cells = b.op("ReduceSum", self.counts(TensorProto.FLOAT), b.const([1]), keepdims=1)
        bias = b.unsqueeze(b.op("Mul", cells, "neural.project.bias"), 2, 3)
        x = b.op("Add", b.op("Conv", total, "neural.project.weight"), bias)
        return self.head(b.sum(b.double(self.blocks(x)), 2, 3))

    def cnn(self) -> str:
        b = self.builder
        own = self.one_hot("ids", b.const(range(self.fixed_cells or 0)))
        stride = {"strides": [self.spec.stride] * 2}
        channels = b.op("Concat", own, self.type_channels(), axis=1)
        x = self.blocks(b.op("Conv", channels, "neural.embedding.weight", "neural.embedding.bias", **stride))
        return self.head(b.linear64(b.sum(b.double(x), 2, 3), "neural.project", self.sites(x)))

    def local_nh(self) -> str:
        b = self.builder
        h = self.cell_features()
        energies = b.double(self.per_cell(self.site_head(h, "neural.cell_head")))
        relative = b.op("Sub", energies, b.slice(energies, 1, 0, 1))
        counts = b.unsqueeze(self.counts(TensorProto.DOUBLE), 2, 3, 4)
        cells = b.sum(b.op("Mul", relative, counts), 1, 2, 3, 4)
        absent = b.op("Squeeze", b.slice(self.per_cell(h), 1, 0, 1), b.const([1]))
        background = b.sum(b.double(self.site_head(absent, "neural.background_head")), 1, 2, 3)
        return b.op("Add", cells, background)

    def site_head(self, h: str, name: str) -> str:
        return self.builder.conv(self.builder.silu(self.builder.conv(h, f"{name}.hidden")), f"{name}.out")
