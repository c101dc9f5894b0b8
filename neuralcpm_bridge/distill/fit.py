"""Least squares of ΔH on contacts, volumes, surfaces and lengths, no more of them than a held-out set asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..artifact import Metadata
from ..conventions import TARGETS
from ..delta import Part
from ..errors import UserError
from ..terms import TERMS, ModelTerm
from .features import BeforeAfter, FlipChanges, flip_changes, type_pairs
from .sampling import FlipSample

WORTH, WORTH_OF_NETWORK = 0.002, 0.03
"""Gain in held-out R² below which a further term is left out: simpler models are easier to believe. In a closure it is
the R² of what the network adds, which contacts and volumes would drown."""


@dataclass(frozen=True)
class Column:
    """One fitted number: its quantity, the type (or pair of types) it belongs to, its power, and what that is taken
    about, where it is not the mean."""

    quantity: str
    of: tuple[int, ...]
    power: int = 1
    about: float | None = None


@dataclass(frozen=True)
class Fit:
    """Coefficients of one choice of terms; `left`: sum of squares that it leaves on held-out flips."""

    columns: list[Column]
    coefficients: NDArray[np.float64]
    r2: float
    r2_held_out: float
    left: float

    def of(self, quantity: str, number: int, power: int) -> float:
        """A coefficient about the mean, 0 where it was not fitted."""
        column = Column(quantity, (number,), power)
        return float(self.coefficients[self.columns.index(column)]) if column in self.columns else 0.0


class Scale:
    """Middle, spread and range of one quantity over the cells of each type, `[T]`: what its powers are taken about."""

    def __init__(self, types: NDArray[np.int64], values: NDArray[np.float64], count: int) -> None:
        masks = [types == number for number in range(count)]

        def per_type(of: Callable[[NDArray[np.float64]], float]) -> NDArray[np.float64]:
            return np.array([0.0 if n == 0 or not m.any() else float(of(values[m])) for n, m in enumerate(masks)])

        self.center, self.spread = per_type(np.mean), np.maximum(per_type(np.std), 1.0)
        self.low, self.high = per_type(np.min), per_type(np.max)


class Problem:
    """The flips of a fit: what they change, the ΔH they have, which of them are held out."""

    def __init__(self, samples: list[FlipSample], meta: Metadata, part: Part = "full") -> None:
        self.count = len(meta.types)
        # Of contacts and surfaces alike: stock simulators have one neighbourhood for both.
        self.order = meta.orders.get("contact", meta.geometry.moore_order)
        self.changes = FlipChanges.joined([flip_changes(sample, self.count, self.order) for sample in samples])
        self.neural = np.concatenate([sample.neural for sample in samples])
        self.deltas = self.neural if part == "neural" else np.concatenate([sample.deltas for sample in samples])
        self.held_out = np.concatenate([np.full(sample.deltas.size, sample.held_out) for sample in samples])
        if not np.isfinite(self.deltas).all():
            raise UserError("The model's ΔH is not a number on some flips: the model file is unusable, train it again.")
        types = self.changes.types
        self.seen = [number for number in range(1, self.count) if (types == number).any()]
        self.scales = {name: Scale(types, self.quantity(name).before, self.count) for name in QUANTITIES}

    def quantity(self, name: str) -> BeforeAfter:
        found: BeforeAfter = getattr(self.changes, name)
        return found

    def orders(self, terms: Iterable[str]) -> dict[str, int]:
        """Neighbour orders of terms, by their names."""
        return {name: self.order for name in terms if TERMS[name].ordered}

    def column(self, column: Column) -> NDArray[np.float64]:
        """What a unit of a coefficient adds to every flip's ΔH."""
        if column.quantity == "contact":
            return self.changes.contacts[:, type_pairs(self.count).index((column.of[0], column.of[1]))]
        before, after = (self.power(column, values) for values in self.quantity(column.quantity))
        return ((after - before) * (self.changes.types == column.of[0])).sum(axis=1)

    def power(self, column: Column, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """What a unit of a coefficient charges for a cell's value."""
        number, scale = column.of[0], self.scales[column.quantity]
        center = scale.center[number] if column.about is None else column.about
        powers: NDArray[np.float64] = ((values - center) / scale.spread[number]) ** column.power
        return powers

    def fit(self, columns: list[Column]) -> Fit:
        design = np.stack([self.column(column) for column in columns], axis=1)
        norms = np.linalg.norm(design, axis=0)
        norms[norms == 0] = 1.0
        used = ~self.held_out
        scaled, *_ = np.linalg.lstsq(design[used] / norms, self.deltas[used], rcond=1e-10)
        return self.judged(columns, scaled / norms)

    def judged(self, columns: list[Column], coefficients: NDArray[np.float64]) -> Fit:
        """How well coefficients do, wherever they come from."""
        predicted = np.stack([self.column(column) for column in columns], axis=1) @ coefficients
        left = float(((self.deltas - predicted)[self.held_out] ** 2).sum())
        return Fit(columns, coefficients, self.r2(predicted, ~self.held_out), self.r2(predicted, self.held_out), left)

    def fit_constraints(self, columns: list[Column]) -> Fit:
        """The fit in which lengths are constraints that hold: of no negative strength, with targets between 0 and twice
        the longest cell seen. Where the free fit leaves this range, as a constant force does, its nearer end is taken.
        """
        found = self.fit(columns)
        for column, value in zip(found.columns, found.coefficients, strict=True):
            if column.quantity != "length" or column.power != 2:
                continue
            number, rest = column.of[0], [c for c in columns if (c.quantity, c.of) != ("length", column.of)]
            if column.about is not None:
                if value < 0:
                    return self.fit_constraints(rest)
                continue
            scale, slope = self.scales["length"], found.of("length", number, 1) / self.scales["length"].spread[number]
            farthest = 2 * scale.high[number]
            target = scale.center[number] - slope * scale.spread[number] ** 2 / (2 * value) if value > 0 else np.nan
            if not 0 <= target <= farthest:
                end = Column("length", column.of, 2, float(farthest) if slope < 0 else 0.0)
                return self.fit_constraints([*rest, end])
        return found

    def r2(self, predicted: NDArray[np.float64], where: NDArray[np.bool_]) -> float:
        truth = self.deltas[where]
        variance = float(((truth - truth.mean()) ** 2).sum())
        left = float(((truth - predicted[where]) ** 2).sum())
        return 1.0 - left / variance if variance > 0 else float(left == 0)

    @property
    def worth(self) -> float:
        """Sum of squares on held-out flips that a further term must explain."""
        neural, whole = (
            float(values[self.held_out].var() * self.held_out.sum()) for values in (self.neural, self.deltas)
        )
        return WORTH_OF_NETWORK * neural if neural > 0 else WORTH * whole


QUANTITIES = ("volume", "surface", "length")
FURTHER = {"length": ("length", (1, 2)), "surface": ("surface", (2,)), "volume_function": ("volume", (3, 4))}
"""Terms beyond contacts and parabolas of volumes: their quantity and the powers of it that they add. A surface needs no
first power, since that is a sum of contacts."""


def fitted(problem: Problem, meta: Metadata, simple: bool, host: str) -> Fit:
    """Contacts and volumes, and further terms one by one, the best first, as `distill` says."""
    columns = [Column("contact", pair) for pair in type_pairs(problem.count)]
    columns += [Column("volume", (number,), power) for number in problem.seen for power in (1, 2)]
    best = problem.fit(columns)
    further = {} if simple else {name: how for name, how in FURTHER.items() if carried(name, meta, problem.order, host)}
    while further:
        tried = {
            name: problem.fit_constraints(
                best.columns + [Column(quantity, (number,), power) for number in problem.seen for power in powers]
            )
            for name, (quantity, powers) in further.items()
        }
        name, fit = min(tried.items(), key=lambda entry: entry[1].left)
        if best.left - fit.left <= problem.worth:
            break
        best = fit
        del further[name]
    return best


def carried(name: str, meta: Metadata, order: int, host: str) -> bool:
    """Whether a stock host has an element for such a term on this lattice."""
    orders = {other: order for other, spec in TERMS.items() if spec.ordered}
    nothing = {weight: np.zeros(len(meta.types)) for weight in TERMS[name].weights if weight != "minor_target"}
    term = ModelTerm(name, nothing, meta.geometry, meta.boundary, orders)
    return not isinstance(TERMS[name].in_host(TARGETS[host], term), str)
