"""What a term of H_S is: its parameters, its energy, its ΔH of flips, its ONNX graph, its weights in the model file.

A class that derives from `Term` with a name registers itself in `TERMS`; everything else iterates over that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .states import Flips, Side, States

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..export.graph import EnergyGraph

TERMS: dict[str, type[Term]] = {}
"""The class of every term, in the order in which their energies are added."""

WEAKEST = 1e-6
"""Of fitted strengths that cannot be negative."""

START_STRENGTH = 0.05
"""Of a fresh constraint: the paper's λ before training."""


@dataclass(frozen=True)
class Start:
    """What a freshly made term may know: the number of types (medium included), the data's lattice shape, and the
    mean over the data of what a term measures, by cell type (one entry: shared by all)."""

    types: int
    shape: tuple[int, ...]
    means: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    order: int | None = None
    free_targets: bool = False
    """Whether a fit to single flips finds targets too, not strengths alone."""


class Term(nn.Module, ABC):
    """One summand of H_S. `order`: of the neighbourhood it looks at (None: the sites all around)."""

    name: ClassVar[str]
    order: int | None = None

    def __init_subclass__(cls, *, name: str | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if name is not None:
            cls.name = name
            TERMS[name] = cls

    @abstractmethod
    def forward(self, states: States) -> Tensor:
        """Energies `[B]` float64."""

    def flip_delta(self, flips: Flips) -> Tensor:
        """ΔH `[B, n]` float64 of independent flips; from whole energies, where a term knows nothing faster."""
        return flips.differences(self)

    @classmethod
    @abstractmethod
    def onnx(cls, graph: EnergyGraph, order: int) -> str:
        """Adds the energy to a graph; the name of the value `[B]` double."""

    @abstractmethod
    def weights(self, types: int) -> dict[str, Tensor]:
        """What the model file holds as `symbolic.NAME.*`, float64; by type the medium comes first."""

    @classmethod
    @abstractmethod
    def from_weights(cls, weights: Mapping[str, Tensor], order: int | None) -> Self:
        """The term with these weights of a model file."""

    @classmethod
    @abstractmethod
    def fresh(cls, start: Start) -> Self:
        """A term to train; may draw from torch's global generator."""

    def readable(self, weight: float) -> dict[str, float]:
        """Parameters by the names people give them, energies times w_S."""
        return {}

    def slopes(self, states: States) -> Tensor | None:
        """∂H/∂x `[B, sites, C]`, or what broadcasts to it, of occupancies x[site, id] from 0 to 1, if it has them."""
        return None

    def features(self, flips: Flips) -> Tensor | None:
        """`[B, n, k]`: what a unit of each fitted energy adds to ΔH of flips; None: a warm start leaves it alone."""
        return None

    def start_at(self, energies: Tensor) -> None:
        """Take fitted energies `[k]`, in the order of `features`."""
        raise NotImplementedError(f"the term {self.name} has no features")


class Positive(nn.Module):
    """A parameter that is positive by construction: softplus of an unconstrained tensor."""

    def __init__(self, value: Tensor, trainable: bool = True) -> None:
        super().__init__()
        self.raw = nn.Parameter(self._raw(value), requires_grad=trainable)

    def forward(self) -> Tensor:
        return F.softplus(self.raw.double())

    @torch.no_grad()
    def set(self, value: Tensor) -> None:
        self.raw.copy_(self._raw(value.to(self.raw.dtype)))

    @staticmethod
    def _raw(value: Tensor) -> Tensor:
        if not bool((value >= 0).all()):
            raise ValueError(f"a positive parameter was given {value.min().item()}")
        return torch.where(value > 20, value, torch.log(torch.expm1(value.double().clamp(max=20))).to(value.dtype))


class Signed(nn.Module):
    """A parameter of any sign, with the interface of `Positive`."""

    def __init__(self, value: Tensor, trainable: bool = True) -> None:
        super().__init__()
        self.raw = nn.Parameter(value.clone(), requires_grad=trainable)

    def forward(self) -> Tensor:
        return self.raw.double()

    @torch.no_grad()
    def set(self, value: Tensor) -> None:
        self.raw.copy_(value)


class CellTerm(Term):
    """Σ over cells of an energy of something measured about each cell; a cell without pixels counts."""

    @abstractmethod
    def measured(self, states: States) -> Tensor:
        """Of every id, `[B, C]` (or `[B, C, k]`, what has a target first) float64."""

    def measured_after(self, side: Side) -> Tensor:
        """Of one cell of every flip, as it will be: `[B, n]` (or `[B, n, k]`).

        A term whose flips change more than the two cells has none, and takes `flip_delta` and `features` from `Term`.
        """
        raise NotImplementedError(f"the term {self.name} does not say what a flip changes")

    @abstractmethod
    def energies(self, types: Tensor, measured: Tensor) -> Tensor:
        """Of cells of these types, in the shape of `types`."""

    def forward(self, states: States) -> Tensor:
        return states.over_cells(self.energies(states.types.clamp(min=0), self.measured(states)))

    def flip_delta(self, flips: Flips) -> Tensor:
        now = self.measured(flips.states)
        return sum((self._change(side, now) for side in flips.sides), torch.zeros(()))

    def _change(self, side: Side, now: Tensor) -> Tensor:
        change = self.energies(side.types, self.measured_after(side)) - self.energies(side.types, side.of(now))
        return torch.where(side.changes, change, torch.zeros_like(change))


class Constraint(CellTerm):
    """Σ over cells strength[type] (Q − target[type])² of a quantity Q.

    Strength and target have one entry per cell type (medium left out), or one that all types share.
    """

    signed: ClassVar[bool] = False
    """Whether a strength may be negative: a fit may find any sign of it."""

    free_target: bool = False
    """Whether a fit to single flips finds the target too."""

    def __init__(self, strength: Tensor, target: Tensor, order: int | None = None, train_target: bool = True) -> None:
        super().__init__()
        self.order = order
        self.strength = Signed(strength) if self.signed else Positive(strength)
        self.target = nn.Parameter(target.clone(), requires_grad=train_target)

    @classmethod
    @abstractmethod
    def quantity_onnx(cls, graph: EnergyGraph, order: int) -> str:
        """Adds Q of every id to a graph, `[B, C]` double."""

    def energies(self, types: Tensor, measured: Tensor) -> Tensor:
        return of_types(self.strength(), types) * self.excess(types, measured)

    def excess(self, types: Tensor, measured: Tensor) -> Tensor:
        """(Q − target)²."""
        return (measured - of_types(self.target.double(), types)) ** 2

    @classmethod
    def onnx(cls, graph: EnergyGraph, order: int) -> str:
        return graph.constraint(cls.quantity_onnx(graph, order), cls.name)

    def weights(self, types: int) -> dict[str, Tensor]:
        values = {"strength": self.strength(), "target": self.target.double()}
        return {key: with_medium(value, types) for key, value in values.items()}

    @classmethod
    def from_weights(cls, weights: Mapping[str, Tensor], order: int | None) -> Self:
        return cls(shared_or_all(weights["strength"]), shared_or_all(weights["target"]), order)

    @classmethod
    def fresh(cls, start: Start) -> Self:
        target = torch.tensor(start.means[cls.name])
        made = cls(torch.full_like(target, START_STRENGTH), target, start.order)
        made.free_target = start.free_targets
        return made

    def readable(self, weight: float) -> dict[str, float]:
        names = numbered(f"{self.name}_strength", self.strength())
        found = {key: weight * value for key, value in names.items()}
        return found | numbered(f"{self.name}_target", self.target)

    def features(self, flips: Flips) -> Tensor:
        """By strength: the change of the sum of (Q − target)² over the cells that share it; where the target is free,
        behind them the changes of the sums of Q − target."""
        now, after = self.measured(flips.states), [self.measured_after(side) for side in flips.sides]
        squares = self._changes(flips, now, after, self.excess)
        if not self.free_target:
            return squares

        def distance(types: Tensor, measured: Tensor) -> Tensor:
            quantity = measured if measured.shape == types.shape else measured[..., 0]
            return quantity - of_types(self.target.double(), types)

        return torch.cat([squares, self._changes(flips, now, after, distance)], dim=2)

    def _changes(
        self, flips: Flips, now: Tensor, after: Sequence[Tensor], of: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Of a function of cells' types and what is measured of them, summed by strength, `[B, n, k]`."""
        count = self.strength.raw.numel()
        total = torch.zeros(*flips.sites.shape, count, dtype=torch.float64, device=flips.sites.device)
        for side, later in zip(flips.sides, after, strict=True):
            change = of(side.types, later) - of(side.types, side.of(now))
            change = torch.where(side.changes, change, torch.zeros_like(change))
            index = (side.types - 1).clamp(min=0) if count > 1 else torch.zeros_like(side.types)
            total.scatter_add_(2, index[..., None], change[..., None].detach())
        return total

    def start_at(self, energies: Tensor) -> None:
        """Strengths, and where the target is free the slopes there: s (Q − t)² + l (Q − t) has its least value
        l / 2s below t."""
        count = self.strength.raw.numel()
        strengths = energies[:count] if self.signed else energies[:count].clamp(min=WEAKEST)
        if self.free_target:
            # Where data say nothing of a strength, the least value is anywhere: not farther off than the target itself.
            shift = (energies[count:] / (2 * strengths)).clamp(-self.target.abs(), self.target.abs() / 2)
            with torch.no_grad():
                self.target.copy_(self.target - shift)
        self.strength.set(strengths)


def of_types(values: Tensor, types: Tensor) -> Tensor:
    """A value per cell type (medium left out), or one for all of them, of cells of these types."""
    return values.expand(types.shape) if values.numel() == 1 else values[(types - 1).clamp(min=0)]


def with_medium(values: Tensor, types: int) -> Tensor:
    """Values per cell type, or one for all of them, as `[T]` with a 0 for the medium."""
    cells = values.expand(types - 1) if values.numel() == 1 else values
    return torch.cat([values.new_zeros(1), cells])


def shared_or_all(of_types: Tensor) -> Tensor:
    """`[T]` without the medium's entry; one entry where all types share it, so that they stay shared."""
    cells = of_types[1:]
    return cells[:1] if bool((cells == cells[0]).all()) else cells


def numbered(name: str, values: Tensor) -> dict[str, float]:
    """`name` for one value that all types share, `name1`, `name2` … otherwise."""
    found = values.detach().flatten().tolist()
    return {name: found[0]} if len(found) == 1 else {f"{name}{k}": value for k, value in enumerate(found, 1)}
