"""The analytic terms of the cellular Potts model, in the order in which energies are added (docs/extending.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from .moments import Moments, axes, axes_onnx
from .states import Flips, Side, States
from .term import START_STRENGTH, CellTerm, Constraint, Start, Term, of_types, shared_or_all, with_medium
from .term import TERMS as TERMS

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..export.graph import EnergyGraph


class Contact(Term, name="contact"):
    """2/|N| Σ over unordered pairs of neighbours that belong to different cells J[type, type].

    J is symmetric, the medium's with itself 0.
    """

    def __init__(self, J: Tensor, order: int | None = None) -> None:
        super().__init__()
        self.order, self.types = order, J.shape[0]
        self.pairs: list[tuple[int, int]] = [(a, b) for a in range(self.types) for b in range(a, self.types) if b > 0]
        self.energies = nn.Parameter(torch.stack([(J[a, b] + J[b, a]) / 2 for a, b in self.pairs]))

    @property
    def J(self) -> Tensor:
        """`[T, T]`, float64."""
        rows, cols = (torch.tensor(ends) for ends in zip(*self.pairs, strict=True))
        matrix = torch.zeros(self.types, self.types, dtype=torch.float64, device=self.energies.device)
        values = self.energies.double()
        return matrix.index_put((rows, cols), values).index_put((cols, rows), values)

    def counts(self, states: States) -> Tensor:
        """Unordered pairs of different cells by the types of their ends, `[B, T, T]` (not symmetrised)."""
        return states.once(("pairs by type", self.types, states.order(self.order)), lambda: self._counts(states))

    def _counts(self, states: States) -> Tensor:
        batch = states.ids.shape[0]
        # Narrow integers: half of the time is memory.
        own, type_map = states.ids.int(), states.type_map.int()
        total = torch.zeros(batch * self.types**2, dtype=torch.int64, device=own.device)
        order = states.order(self.order)
        for (id_a, id_b), (type_a, type_b) in zip(states.pairs(own, order), states.pairs(type_map, order), strict=True):
            where = (id_a != id_b).nonzero(as_tuple=True)
            index = (where[0] * self.types + type_a[where]) * self.types + type_b[where]
            total += torch.bincount(index, minlength=total.numel())
        return total.view(batch, self.types, self.types)

    def forward(self, states: States) -> Tensor:
        return (self.J * self.counts(states)).sum((1, 2)) * states.pair_weight(self.order)

    def flip_delta(self, flips: Flips) -> Tensor:
        return self.features(flips) @ self.energies.double()

    def features(self, flips: Flips) -> Tensor:
        """By pair of types: the pairs of neighbours that come less those that go, times 2/|N|."""
        states = flips.states
        around = flips.around(states.order(self.order))
        near_types = states.types.gather(1, around.clamp(min=0).flatten(1)).view_as(around)
        total = torch.zeros(*flips.sites.shape, self.types**2, dtype=torch.float64, device=around.device)
        for side in flips.sides:
            unlike = ((around != side.ids[..., None]) & (around >= 0)).double() * side.sign
            total.scatter_add_(2, side.types[..., None] * self.types + near_types, unlike)
        table = total.unflatten(2, (self.types, self.types))
        rows, cols = (list(ends) for ends in zip(*self.pairs, strict=True))
        unlike_types = torch.tensor([a != b for a, b in self.pairs], device=table.device)
        both = table[..., rows, cols] + table[..., cols, rows] * unlike_types
        return both * states.pair_weight(self.order)

    def slopes(self, states: States) -> Tensor:
        """What a site pays to all of its neighbours if it were a cell's, less to those of the same cell."""
        around = states.around_all(states.order(self.order))
        near = torch.where(around >= 0, states.types.gather(1, around.clamp(min=0).flatten(1)).view_as(around), 0)
        J, own = self.J, states.types.clamp(min=0)
        paid = torch.where((around >= 0)[..., None], J[near], torch.zeros((), dtype=J.dtype)).sum(2)  # [B, sites, T]
        paid = paid.gather(2, own[:, None].expand(-1, paid.shape[1], -1))
        alike = torch.where(around >= 0, J.diagonal()[near], torch.zeros((), dtype=J.dtype))
        return paid.scatter_add(2, around.clamp(min=0), -alike) * states.pair_weight(self.order)

    def start_at(self, energies: Tensor) -> None:
        with torch.no_grad():
            self.energies.copy_(energies)

    @classmethod
    def onnx(cls, graph: EnergyGraph, order: int) -> str:
        b = graph.builder
        energies = b.reshape(graph.weight("contact.J"), [-1])
        row = b.op("Mul", graph.type_map, b.const(graph.types))
        directions = []
        for offset in graph.geometry.half_offsets(order).tolist():
            id_here, id_there = graph.ends("ids", offset)
            row_here, _ = graph.ends(row, offset)
            _, type_there = graph.ends(graph.type_map, offset)
            differs = b.double(b.op("Not", b.op("Equal", id_here, id_there)))
            paid = b.op("Mul", differs, b.op("Gather", energies, b.op("Add", row_here, type_there)))
            directions.append(b.sum(paid, *graph.axes))
        return b.op("Mul", b.op("Sum", *directions), b.const(graph.geometry.pair_weight(order), np.float64))

    def weights(self, types: int) -> dict[str, Tensor]:
        return {"J": self.J}

    @classmethod
    def from_weights(cls, weights: Mapping[str, Tensor], order: int | None) -> Self:
        return cls(weights["J"], order)

    @classmethod
    def fresh(cls, start: Start) -> Self:
        """J around 2, where the paper starts."""
        return cls(2 + 2 * torch.rand(start.types, start.types) - 1, start.order)

    def readable(self, weight: float) -> dict[str, float]:
        values = self.energies.tolist()
        return {f"J{a}{b}": weight * value for (a, b), value in zip(self.pairs, values, strict=True)}


class Volume(Constraint, name="volume"):
    """Σ over cells λ[type] (V − V*[type])², V the number of sites."""

    def __init__(self, strength: Tensor, target: Tensor, order: int | None = None, train_target: bool = False) -> None:
        super().__init__(strength, target, order, train_target)

    def measured(self, states: States) -> Tensor:
        return states.volumes.double()

    def measured_after(self, side: Side) -> Tensor:
        return side.of(side.flips.states.volumes).double() + side.sign

    def slopes(self, states: States) -> Tensor:
        types = states.types.clamp(min=0)
        strength, target = (of_types(values.double(), types) for values in (self.strength(), self.target))
        slope = 2 * strength * (states.volumes.double() - target)
        return torch.where(states.types >= 1, slope, torch.zeros_like(slope))[:, None]

    @classmethod
    def quantity_onnx(cls, graph: EnergyGraph, order: int) -> str:
        return graph.volumes

    def readable(self, weight: float) -> dict[str, float]:
        values = self.strength().flatten().tolist()
        names = ["lambda"] if len(values) == 1 else [f"lambda{k}" for k in range(1, len(values) + 1)]
        return {name: weight * value for name, value in zip(names, values, strict=True)}


class VolumeFunction(CellTerm, name="volume_function"):
    """Σ over cells f(V), any f per type (neuralcpm_bridge.conventions.VolumeFunction): what distilling finds.

    All parts are `[T]`, medium first; coefficients are `[T, K]`, of the powers 1 to K.
    """

    PARTS = ("center", "low", "high", "coefficients", "stiffness")

    def __init__(self, center: Tensor, low: Tensor, high: Tensor, coefficients: Tensor, stiffness: Tensor) -> None:
        super().__init__()
        self.coefficients, self.stiffness = nn.Parameter(coefficients.clone()), nn.Parameter(stiffness.clone())
        self.center: Tensor
        self.low: Tensor
        self.high: Tensor
        for name, value in (("center", center), ("low", low), ("high", high)):
            self.register_buffer(name, value.clone())

    def measured(self, states: States) -> Tensor:
        return states.volumes.double()

    def measured_after(self, side: Side) -> Tensor:
        return side.of(side.flips.states.volumes).double() + side.sign

    def energies(self, types: Tensor, measured: Tensor) -> Tensor:
        inside = torch.minimum(torch.maximum(measured, self.low.double()[types]), self.high.double()[types])
        x, beyond = inside - self.center.double()[types], measured - inside
        coefficients = self.coefficients.double()[types]
        powers = torch.arange(1, coefficients.shape[-1] + 1, device=types.device)
        value = (coefficients * x[..., None] ** powers).sum(-1)
        slope = (coefficients * powers * x[..., None] ** (powers - 1)).sum(-1)
        return value + beyond * (slope + self.stiffness.double()[types] * beyond)

    @classmethod
    def onnx(cls, graph: EnergyGraph, order: int) -> str:
        b = graph.builder
        center, low, high, stiffness = (
            graph.of_cells(graph.weight(f"volume_function.{part}")) for part in ("center", "low", "high", "stiffness")
        )
        inside = b.op("Min", b.op("Max", graph.volumes, low), high)
        x, beyond = b.op("Sub", inside, center), b.op("Sub", graph.volumes, inside)
        value = slope = graph.no_cells
        coefficients = graph.weight("volume_function.coefficients")
        for power in reversed(range(b.weights[coefficients].shape[1])):  # Horner's rule for value and slope
            column = b.reshape(b.slice(coefficients, 1, power, power + 1), [-1])
            slope = b.op("Add", b.op("Mul", slope, x), value)
            value = b.op("Add", b.op("Mul", value, x), graph.of_cells(column))
        slope = b.op("Add", b.op("Mul", slope, x), value)
        outside = b.op("Mul", beyond, b.op("Add", slope, b.op("Mul", stiffness, beyond)))
        return graph.over_cells(b.op("Add", b.op("Mul", value, x), outside))

    def weights(self, types: int) -> dict[str, Tensor]:
        return {part: getattr(self, part).double() for part in self.PARTS}

    @classmethod
    def from_weights(cls, weights: Mapping[str, Tensor], order: int | None) -> Self:
        return cls(*(weights[part] for part in cls.PARTS))

    @classmethod
    def fresh(cls, start: Start) -> Self:
        """A parabola around the mean volume, from nothing to twice of it."""
        mean = with_medium(torch.tensor(start.means[cls.name]), start.types)
        coefficients = torch.zeros(start.types, 4)
        coefficients[1:, 1] = START_STRENGTH
        return cls(mean, 0 * mean, 2 * mean, coefficients, torch.full_like(mean, START_STRENGTH))


class Surface(Constraint, name="surface"):
    """Σ over cells strength[type] (S − target[type])², S = 2/|N| times the ordered pairs of neighbours leaving it."""

    signed = True

    def measured(self, states: States) -> Tensor:
        order = states.order(self.order)

        def leaving() -> Tensor:
            total = torch.zeros_like(states.types)
            for here, there in states.pairs(states.ids, order):
                differs = here != there
                total += states.count(here, differs) + states.count(there, differs)
            return total

        return states.once(("leaving pairs", order), leaving).double() * states.pair_weight(order)

    def measured_after(self, side: Side) -> Tensor:
        """A site's unlike neighbours come with it, each like one loses a pair; the other way round where it goes."""
        states = side.flips.states
        around = side.flips.around(states.order(self.order))
        like, any_at_all = (around == side.ids[..., None]).sum(2), (around >= 0).sum(2)
        gained = (any_at_all - 2 * like).double() * states.pair_weight(self.order)
        return side.of(self.measured(states)) + side.sign * gained

    @classmethod
    def quantity_onnx(cls, graph: EnergyGraph, order: int) -> str:
        b = graph.builder
        weight = b.const(graph.geometry.pair_weight(order), np.float64)
        total = graph.no_cells
        for offset in graph.geometry.half_offsets(order).tolist():
            ends = graph.ends("ids", offset)
            pairs = b.reshape(b.op("Mul", b.double(b.op("Not", b.op("Equal", *ends))), weight), [0, -1])
            for end in ends:
                total = b.op("ScatterElements", total, b.reshape(end, [0, -1]), pairs, axis=1, reduction="add")
        return total


class Length(Constraint, name="length"):
    """Σ over cells strength[type] (L − target[type])², L the longest axis of the ellipse or ellipsoid that has the
    covariance of the cell's sites in space; in 3D, where it is given, plus strength[type] (M − minor_target[type])²
    of the shortest axis M.
    """

    def __init__(
        self, strength: Tensor, target: Tensor, order: int | None = None, minor_target: Tensor | None = None
    ) -> None:
        super().__init__(strength, target, order)
        self.minor_target = None if minor_target is None else nn.Parameter(minor_target.clone())

    def measured(self, states: States) -> Tensor:
        """L and M, `[B, C, 2]`."""
        return axes(Moments.of(states))

    def measured_after(self, side: Side) -> Tensor:
        return axes(Moments.of(side.flips.states).after(side))

    def excess(self, types: Tensor, measured: Tensor) -> Tensor:
        total = (measured[..., 0] - of_types(self.target.double(), types)) ** 2
        if self.minor_target is None:
            return total
        return total + (measured[..., 1] - of_types(self.minor_target.double(), types)) ** 2

    @classmethod
    def quantity_onnx(cls, graph: EnergyGraph, order: int) -> str:
        return axes_onnx(graph)[0]

    @classmethod
    def onnx(cls, graph: EnergyGraph, order: int) -> str:
        energy = super().onnx(graph, order)
        if graph.weight("length.minor_target") not in graph.builder.weights:
            return energy
        return graph.builder.op("Add", energy, graph.constraint(axes_onnx(graph)[1], "length", "minor_target"))

    def weights(self, types: int) -> dict[str, Tensor]:
        if self.minor_target is None:
            return super().weights(types)
        return super().weights(types) | {"minor_target": with_medium(self.minor_target.double(), types)}

    @classmethod
    def from_weights(cls, weights: Mapping[str, Tensor], order: int | None) -> Self:
        return cls(order=order, **{part: shared_or_all(value) for part, value in weights.items()})


class ExternalPotential(Term, name="external"):
    """Σ over sites and fields field[k, site] · coupling[type, k]; bound to the lattice of its fields."""

    def __init__(self, field: Tensor, coupling: Tensor) -> None:
        super().__init__()
        self.field = nn.Parameter(field.clone())
        self.coupling = nn.Parameter(coupling.clone())

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the lattice."""
        return tuple(self.field.shape[1:])

    def forward(self, states: States) -> Tensor:
        coupling = self.coupling.double()[states.type_map.flatten(1)]
        return torch.einsum("bsk,ks->b", coupling, self.field.double().flatten(1))

    def flip_delta(self, flips: Flips) -> Tensor:
        field, coupling = self.field.double().flatten(1).T[flips.sites], self.coupling.double()
        gaining, losing = flips.sides
        return (field * (coupling[gaining.types] - coupling[losing.types])).sum(2)

    def slopes(self, states: States) -> Tensor:
        coupling = self.coupling.double()[states.types.clamp(min=0)]
        return torch.einsum("bck,ks->bsc", coupling, self.field.double().flatten(1))

    @classmethod
    def onnx(cls, graph: EnergyGraph, order: int) -> str:
        b = graph.builder
        coupling = b.op("Gather", graph.weight("external.coupling"), graph.type_map)
        field = b.op("Transpose", graph.weight("external.field"), perm=[*graph.axes, 0])
        return b.sum(b.op("Mul", coupling, field), *graph.axes, len(graph.axes) + 1)

    def weights(self, types: int) -> dict[str, Tensor]:
        return {"field": self.field.double(), "coupling": self.coupling.double()}

    @classmethod
    def from_weights(cls, weights: Mapping[str, Tensor], order: int | None) -> Self:
        return cls(weights["field"], weights["coupling"])

    @classmethod
    def fresh(cls, start: Start) -> Self:
        return cls(torch.zeros(1, *start.shape), torch.ones(start.types, 1))
