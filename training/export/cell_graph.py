"""The cell graph as an ONNX graph: lists of cells and contacts made by Unique and Scatter, not cells × cells.

`training/hamiltonians/graphs.py` and `cell_graph.py` say the same in torch; names of values follow them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from onnx import TensorProto, helper

from neuralcpm_bridge.artifact import NeuralEntry

from ..hamiltonians.cell_graph import FARTHEST, LOUDEST, LOUDEST_TOUCH, TOUCH
from ..hamiltonians.graphs import ROUND
from ..hamiltonians.moments import coordinates_onnx, covariances_onnx, first_sites_onnx, summed_ways_onnx

if TYPE_CHECKING:
    from .graph import EnergyGraph

Components = dict[tuple[int, int], str]
"""Of symmetric matrices, by pair of axes, the upper half."""

TINY = 1e-300
"""Divisor where there is nothing to divide."""


class Cells(NamedTuple):
    """Of the cells that have sites, `[N]` each: number of the state, `state · C + id`, type."""

    state: str
    key: str
    types: str


class Contacts(NamedTuple):
    """Contact with the medium `[N]`; of contacts, each from both sides, `[E]`: both ends, length. Doubles."""

    medium: str
    receiver: str
    sender: str
    length: str


class Pairs(NamedTuple):
    """Of all pairs of cells, from both sides: number of the state, of the knot before their distance among those of all
    kinds of pairs, and how far behind it they are, as a share of the way to the next one."""

    state: str
    knot: str
    share: str


class Results(NamedTuple):
    """Doubles, w_NN included: mean and standard deviation of the committee, `[B]`, and its members, `[B, K]`; and of
    every id whether its cell is like those of the training data, `[B, C]`."""

    neural: str
    spread: str
    members: str
    inside: str


class CellGraphNetwork:
    """Adds the energies of a committee to a graph."""

    def __init__(self, graph: EnergyGraph, spec: NeuralEntry) -> None:
        self.graph, self.builder, self.spec = graph, graph.builder, spec
        self.ids_each = graph.builder.shape("types", 1, 2)
        """C, `[1]`."""
        self.cells = self._cells()
        self.count = graph.builder.shape(self.cells.key, 0)
        """N, `[1]`."""

    def results(self) -> Results:
        b = self.builder
        contacts = self._contacts()
        shape = {pair: self._of_cells(value) for pair, value in covariances_onnx(self.graph).items()}
        trace = b.op("Sum", *(shape[axis, axis] for axis in range(self.graph.geometry.dimension)))
        surface = self._added(contacts.medium, contacts.receiver, contacts.length)
        uneven = self._anisotropy(shape, trace)
        own = [self._of_cells(self.graph.volumes), uneven, b.op("Sqrt", trace), surface]
        raw = self._columns([*own, self._prolateness(shape, trace, uneven)], self._properties())
        inputs = self._standardised(raw, "cell")
        edges = self._standardised(self._columns(self._edge_inputs(contacts, shape, trace)), "edge")
        known = b.double("neural.surface")
        norm = b.op("Sqrt", b.op("Add", b.op("Mul", known, known), b.op("Mul", surface, surface)))
        to_cells = self._heard(contacts.length, b.op("Gather", norm, contacts.receiver))
        to_medium = self._heard(contacts.medium, norm)
        features = b.op("Concat", self._one_hot(), inputs, axis=1)
        energies = []
        for member in range(self.spec.members):
            name = f"neural.members.{member}"
            h = self._linear(b.silu(self._linear(features, f"{name}.embed")), f"{name}.embed_more")
            for number in range(self.spec.rounds):
                h = self._round(h, f"{name}.rounds.{number}", contacts, edges, to_cells, to_medium)
            of_cell = self._linear(b.silu(self._linear(h, f"{name}.hidden")), f"{name}.out")
            energies.append(self._per_state(b.double(b.reshape(of_cell, [-1])), self.cells.state))
        if self.spec.knots:
            pairs = self._pairs_at_knots()
            energies = [
                b.op("Add", energy, self._of_pairs(pairs, f"neural.members.{member}.pairs"))
                for member, energy in enumerate(energies)
            ]
        return Results(*self._committee(energies), self._inside(raw))

    # -- cells and contacts ------------------------------------------------------------------------------------

    def _cells(self) -> Cells:
        b = self.builder
        is_cell = b.op("Greater", b.arange(self.ids_each), b.const(0))
        alive = b.op("And", b.op("Greater", self.graph.volumes, b.const(0.0, np.float64)), is_cell)
        state, ids = (b.reshape(part, [-1]) for part in self._split(b.op("NonZero", alive), 2))
        key = b.op("Add", b.op("Mul", state, self.ids_each), ids)
        return Cells(state, key, b.op("Gather", b.reshape("types", [-1]), key))

    def _contacts(self) -> Contacts:
        """Keys of neighbours of different cells, lower id first, counted by Unique."""
        b, ids_each = self.builder, self.ids_each
        keys = []
        states = b.unsqueeze(b.arange(b.shape("ids", 0, 1)), 1)
        for offset in self.graph.geometry.half_offsets(self.spec.order).tolist():
            here, there = (b.reshape(end, [0, -1]) for end in self.graph.ends("ids", offset))
            lower = b.op("Add", b.op("Mul", states, ids_each), b.op("Min", here, there))
            key = b.op("Add", b.op("Mul", lower, ids_each), b.op("Max", here, there))
            differs = b.op("Not", b.op("Equal", here, there))
            keys.append(b.op("Compress", b.reshape(key, [-1]), b.reshape(differs, [-1]), axis=0))
        # Unique refuses nothing at all to sort: a key that is none goes first and is cut off.
        name = f"Unique_{len(b.nodes)}"
        every = b.op("Concat", b.const([-1]), *keys, axis=0)
        outputs = [name, f"{name}_first", f"{name}_inverse", f"{name}_counts"]
        b.nodes.append(helper.make_node("Unique", [every], outputs, sorted=1))
        key, pairs = b.slice(name, 0, 1), b.slice(outputs[3], 0, 1)
        first = b.op("Div", key, ids_each)
        states_of = b.op("Mul", b.op("Div", first, ids_each), ids_each)
        second = b.op("Add", states_of, b.op("Mod", key, ids_each))
        weight = self.graph.geometry.pair_weight(self.spec.order)
        length = b.op("Mul", b.double(pairs), b.const(weight, np.float64))

        number = self._numbers()
        with_medium = b.op("Equal", b.op("Mod", first, ids_each), b.const(0))
        between = b.op("Not", with_medium)
        touched = b.op("Gather", number, b.op("Compress", second, with_medium, axis=0))
        medium = self._added(self._zeros(), touched, b.op("Compress", length, with_medium, axis=0))
        a, c = (b.op("Gather", number, b.op("Compress", end, between, axis=0)) for end in (first, second))
        once = b.op("Compress", length, between, axis=0)
        return Contacts(
            medium, b.op("Concat", a, c, axis=0), b.op("Concat", c, a, axis=0), b.op("Concat", once, once, axis=0)
        )

    def _numbers(self) -> str:
        """Of the cell with a key, `[B·C]`; 0 where there is none."""
        b = self.builder
        none = b.reshape(b.op("Mul", "types", b.const(0)), [-1])
        return b.op("ScatterElements", none, self.cells.key, b.arange(self.count), axis=0)

    def _of_cells(self, values: str) -> str:
        """Of a value `[B, C]` the cells' own, `[N]`."""
        return self.builder.op("Gather", self.builder.reshape(values, [-1]), self.cells.key)

    def _properties(self) -> list[str]:
        if not self.spec.properties:
            return []
        b = self.builder
        rows = b.reshape("properties", [-1, len(self.spec.properties)])
        return [b.op("Gather", rows, self.cells.key)]

    def _anisotropy(self, shape: Components, trace: str) -> str:
        b, dimension = self.builder, self.graph.geometry.dimension
        mean = b.op("Mul", trace, b.const(1 / dimension, np.float64))
        squares = []
        for (i, j), value in shape.items():
            part = b.op("Sub", value, mean) if i == j else value
            square = b.op("Mul", part, part)
            squares.append(square if i == j else b.op("Add", square, square))
        total = b.op("Mul", b.op("Sum", *squares), b.const(dimension / (dimension - 1), np.float64))
        # Without extent both are 0.
        return b.op("Div", b.op("Sqrt", total), b.op("Max", trace, b.const(TINY, np.float64)))

    def _prolateness(self, shape: Components, trace: str, uneven: str) -> str:
        b = self.builder
        if self.graph.geometry.dimension == 2:
            return self._zeros()
        one, third = b.const(1.0, np.float64), b.const(1 / 3, np.float64)
        unit = b.op("Mul", b.op("Max", trace, b.const(TINY, np.float64)), third)
        a = {
            (i, j): b.op("Sub", b.op("Div", value, unit), one) if i == j else b.op("Div", value, unit)
            for (i, j), value in shape.items()
        }

        def product(*entries: tuple[int, int]) -> str:
            return b.op("Mul", b.op("Mul", a[entries[0]], a[entries[1]]), a[entries[2]])

        mixed = product((0, 1), (0, 2), (1, 2))
        less = [product((axis, axis), off, off) for axis, off in enumerate(((1, 2), (0, 2), (0, 1)))]
        determinant = b.op("Sub", b.op("Sum", product((0, 0), (1, 1), (2, 2)), mixed, mixed), b.op("Sum", *less))
        squared = b.op("Add", b.op("Mul", uneven, uneven), b.const(ROUND, np.float64))
        found = b.op("Div", determinant, b.op("Add", squared, squared))
        return b.op("Where", b.op("Greater", trace, b.const(0.0, np.float64)), found, self._zeros())

    def _edge_inputs(self, contacts: Contacts, shape: Components, trace: str) -> list[str]:
        """Length, distance, alignment, own and other radius, `[E]` each."""
        b, zero = self.builder, self.builder.const(0.0, np.float64)
        way = self._between_middles(contacts.receiver, contacts.sender)
        distance = b.op("Sqrt", b.op("Sum", *(b.op("Mul", part, part) for part in way)))
        apart = b.op("Greater", distance, zero)
        direction = [b.op("Div", part, b.op("Where", apart, distance, b.const(1.0, np.float64))) for part in way]
        traces = [b.op("Gather", trace, end) for end in (contacts.receiver, contacts.sender)]
        shapes = [
            {pair: b.op("Gather", value, end) for pair, value in shape.items()}
            for end in (contacts.receiver, contacts.sender)
        ]
        product = self._total({pair: b.op("Mul", shapes[0][pair], shapes[1][pair]) for pair in shape})
        alignment = b.op("Div", product, b.op("Max", b.op("Mul", *traces), b.const(TINY, np.float64)))
        radii = []
        for own, total in zip(shapes, traces, strict=True):
            parts = {(i, j): b.op("Mul", own[i, j], b.op("Mul", direction[i], direction[j])) for i, j in own}
            along = b.op("Max", self._total(parts), zero)
            share = b.op("Mul", total, b.const(1 / self.graph.geometry.dimension, np.float64))
            radii.append(b.op("Sqrt", b.op("Where", apart, along, share)))
        return [contacts.length, distance, alignment, *radii]

    def _between_middles(self, receiver: str, sender: str) -> list[str]:
        """By axis of space: nearest images of the ways between middles, `[E]` each; whole numbers (of 1/(n·m)) until
        the end."""
        b, geometry = self.builder, self.graph.geometry
        volumes = self._of_cells(self.graph.volumes)
        n, m = (b.op("Gather", volumes, end) for end in (receiver, sender))
        unit = b.op("Mul", n, m)
        places = coordinates_onnx(self.graph, self._of_cells(first_sites_onnx(self.graph)))
        sums = [self._of_cells(total) for total in summed_ways_onnx(self.graph)]
        ways = []
        for axis, place, total in zip(self.graph.axes, places, sums, strict=True):
            start, end = (b.op("Gather", place, side) for side in (receiver, sender))
            behind, ahead = (b.op("Gather", total, side) for side in (receiver, sender))
            way = b.op("Mul", b.double(b.op("Sub", end, start)), unit)
            way = b.op("Add", way, b.op("Sub", b.op("Mul", ahead, n), b.op("Mul", behind, m)))
            if self.graph.periodic[axis - 1]:
                ring = b.op("Mul", b.double(b.shape("ids", axis, axis + 1)), unit)
                turns = b.op("Div", b.op("Sub", ring, b.op("Add", way, way)), b.op("Add", ring, ring))
                way = b.op("Add", way, b.op("Mul", ring, b.op("Floor", turns)))
            ways.append(b.op("Div", way, unit))
        in_space = []
        for column in geometry.basis.T:
            parts = [
                b.op("Mul", way, b.const(step, np.float64)) for way, step in zip(ways, column, strict=True) if step
            ]
            in_space.append(b.op("Sum", *parts))
        return in_space

    def _total(self, components: Components) -> str:
        """Sum over all entries of symmetric matrices."""
        b = self.builder
        return b.op("Sum", *(value if i == j else b.op("Add", value, value) for (i, j), value in components.items()))

    # -- the network -------------------------------------------------------------------------------------------

    def _round(self, h: str, name: str, contacts: Contacts, edges: str, to_cells: str, to_medium: str) -> str:
        b = self.builder
        own, other, edge = (
            self._linear(value, f"{name}.{part}") for value, part in ((h, "own"), (h, "other"), (edges, "edge"))
        )
        heard = b.op("Sum", b.op("Gather", own, contacts.receiver), b.op("Gather", other, contacts.sender), edge)
        loud = b.op("Mul", to_cells, self._sound(heard))
        total = b.op("Mul", to_medium, self._sound(b.op("Add", own, f"{name}.medium")))
        into = b.unsqueeze(contacts.receiver, 1)
        total = b.op("ScatterND", total, into, loud, reduction="add")
        psi = b.silu(self._linear(b.op("Concat", h, total, axis=1), f"{name}.psi0"))
        return b.op("Add", h, self._linear(psi, f"{name}.psi1"))

    def _sound(self, values: str) -> str:
        loudest = np.repeat([LOUDEST, LOUDEST_TOUCH], self.spec.width // 2)
        return self.builder.op("Min", self.builder.silu(values), self.builder.const(loudest, np.float32))

    def _heard(self, contact: str, norm: str) -> str:
        """Weights of messages along contacts `[n]`, by entry of the message, `[n, W]`."""
        b, half = self.builder, np.zeros((1, self.spec.width))
        half[0, self.spec.width // 2 :] = 1
        touches = b.op("Greater", contact, b.const(0.0, np.float64))
        touch = b.op("Mul", b.double(touches), b.const(TOUCH, np.float64))
        share = b.op("Mul", b.unsqueeze(b.op("Div", contact, norm), 1), b.const(1 - half, np.float64))
        return self._single(b.op("Add", share, b.op("Mul", b.unsqueeze(touch, 1), b.const(half, np.float64))))

    def _linear(self, values: str, name: str) -> str:
        """A named dense layer, with a bias where it has one, on `[n, in]`."""
        b = self.builder
        product = b.op("MatMul", values, b.op("Transpose", f"{name}.weight", perm=[1, 0]))
        return b.op("Add", product, f"{name}.bias") if f"{name}.bias" in b.weights else product

    def _one_hot(self) -> str:
        b = self.builder
        types = b.op("Equal", b.unsqueeze(self.cells.types, 1), b.const(range(1, self.graph.types)))
        return self._single(types)

    def _standardised(self, values: str, name: str) -> str:
        b = self.builder
        mean, deviation = b.double(f"neural.{name}_mean"), b.double(f"neural.{name}_deviation")
        z = b.op("Div", b.op("Sub", values, mean), deviation)
        square = b.op("Mul", b.op("Mul", z, z), b.const(1 / FARTHEST**2, np.float64))
        return self._single(b.op("Div", z, b.op("Sqrt", b.op("Add", square, b.const(1.0, np.float64)))))

    def _pairs_at_knots(self) -> Pairs:
        """All pairs of different cells of a state; of these alone there are cells × cells."""
        b, knots = self.builder, self.spec.knots
        here, there = b.unsqueeze(self.cells.state, 1), b.unsqueeze(self.cells.state, 0)
        own, other = b.unsqueeze(self.cells.key, 1), b.unsqueeze(self.cells.key, 0)
        paired = b.op("And", b.op("Equal", here, there), b.op("Not", b.op("Equal", own, other)))
        receiver, sender = (b.reshape(part, [-1]) for part in self._split(b.op("NonZero", paired), 2))
        way = self._between_middles(receiver, sender)
        apart = b.op("Sqrt", b.op("Sum", *(b.op("Mul", part, part) for part in way)))
        last = b.const(float(knots - 1), np.float64)
        step = b.op("Div", b.double("neural.reach"), last)
        at = b.op("Min", b.op("Div", apart, step), last)
        knot = b.op("Min", b.cast(at, TensorProto.INT64), b.const(knots - 2))
        types = [b.op("Gather", self.cells.types, end) for end in (receiver, sender)]
        one = b.const(1)
        low, high = (b.op("Sub", b.op(extreme, *types), one) for extreme in ("Min", "Max"))
        before = b.op("Div", b.op("Mul", low, b.op("Sub", low, one)), b.const(2))
        row = b.op("Sub", b.op("Mul", low, b.const(self.graph.types - 1)), before)
        row = b.op("Add", row, b.op("Sub", high, low))
        first = b.op("Add", b.op("Mul", row, b.const(knots)), knot)
        return Pairs(b.op("Gather", self.cells.state, receiver), first, b.op("Sub", at, b.double(knot)))

    def _of_pairs(self, pairs: Pairs, name: str) -> str:
        """Energies by state, `[B]`: each pair is seen from both sides, and half of it counts."""
        b = self.builder
        energies = b.double(b.reshape(name, [-1]))
        nearer, farther = (b.op("Gather", energies, b.op("Add", pairs.knot, b.const(k))) for k in (0, 1))
        found = b.op("Add", nearer, b.op("Mul", pairs.share, b.op("Sub", farther, nearer)))
        return self._per_state(b.op("Mul", found, b.const(0.5, np.float64)), pairs.state)

    def _per_state(self, values: str, state: str) -> str:
        """Sums of doubles over the cells, or pairs, of every state, `[B]`."""
        b = self.builder
        batch = b.shape("ids", 0, 1)
        zero = b.op("ConstantOfShape", batch, value=helper.make_tensor("zero", TensorProto.DOUBLE, [1], [0.0]))
        return self._added(zero, state, values)

    def _committee(self, energies: list[str]) -> tuple[str, str, str]:
        b, share = self.builder, self.builder.const(1 / self.spec.members, np.float64)
        members = [b.op("Mul", energy, "neural.weight") for energy in energies]
        mean = b.op("Mul", b.op("Sum", *members), share)
        away = [b.op("Sub", member, mean) for member in members]
        variance = b.op("Mul", b.op("Sum", *(b.op("Mul", each, each) for each in away)), share)
        return mean, b.op("Sqrt", variance), self._columns(members)

    def _inside(self, raw: str) -> str:
        """Whether all inputs `[N, F]` of a cell lie within those of its type; ids without sites are not outside."""
        b = self.builder
        low, high = (b.op("Gather", b.double(f"neural.{end}"), self.cells.types) for end in ("low", "high"))
        within = b.op("And", b.op("GreaterOrEqual", raw, low), b.op("LessOrEqual", raw, high))
        outside = b.op("ReduceMax", b.cast(b.op("Not", within), TensorProto.INT64), b.const([1]), keepdims=0)
        nobody = b.reshape(b.op("Mul", "types", b.const(0)), [-1])
        known = b.op("ScatterElements", nobody, self.cells.key, outside, axis=0)
        return b.op("Equal", b.reshape(known, b.shape("types", 0)), b.const(0))

    # -- lists -------------------------------------------------------------------------------------------------

    def _zeros(self) -> str:
        """`[N]` double."""
        return self._of_cells(self.graph.no_cells)

    def _added(self, onto: str, where: str, values: str) -> str:
        """Entries of values added onto entries of a list."""
        return self.builder.op("ScatterElements", onto, where, values, axis=0, reduction="add")

    def _single(self, value: str) -> str:
        return self.builder.cast(value, TensorProto.FLOAT)

    def _columns(self, columns: list[str], more: list[str] | None = None) -> str:
        """Lists `[n]` side by side, and blocks `[n, k]` behind them."""
        b = self.builder
        return b.op("Concat", *(b.unsqueeze(column, 1) for column in columns), *(more or []), axis=1)

    def _split(self, value: str, parts: int) -> list[str]:
        return [self.builder.slice(value, 0, part, part + 1) for part in range(parts)]
