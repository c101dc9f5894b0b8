"""Least squares of ΔH on contacts, volumes and surfaces, no more of them than a held-out set asks for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..artifact import Metadata
from ..conventions import TARGETS
from ..errors import UserError
from ..terms import TERMS, ModelTerm, Values
from .features import FlipChanges, flip_changes, type_pairs
from .sampling import FlipSample

WORTH = 0.002
"""Gain in held-out R² below which a further term is left out: simpler models are easier to believe."""
HIGHEST_POWER = 4
NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Column:
    """One fitted number: its term, the type (or pair of types) it belongs to, and what it is called."""

    term: str
    of: tuple[int, ...]
    power: int = 1


@dataclass(frozen=True)
class Fit:
    """Coefficients of one choice of terms."""

    columns: list[Column]
    coefficients: NDArray[np.float64]
    r2: float
    r2_held_out: float


@dataclass
class Distilled:
    """The fitted energies, in the training convention, and how well they stand for the model.

    `terms`: the weights of each term by their names in `TERMS`: `contact`, `volume` or, where it is no parabola,
    `volume_function`, and `surface` where it explains more; `orders`: their neighbour orders.
    `shares`: part of the variance of ΔH that each contact pair, volume and surface carries, by the names of `values`.
    `network_explained`: part of the variance of the network's own ΔH that is not left over, on held-out flips; None
    where the model is nothing but a network or has none. Contacts and volumes vary far more than what a closure adds to
    them, so a high R² alone may hide that what it adds is lost.
    """

    terms: dict[str, Values]
    orders: dict[str, int]
    r2: float
    r2_held_out: float
    decision_mismatch: float
    flips: int
    network_explained: float | None = None
    values: dict[str, float] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)


class Problem:
    """The flips of a fit: what they change, the ΔH they have, which of them are held out."""

    def __init__(self, samples: list[FlipSample], meta: Metadata) -> None:
        self.count = len(meta.types)
        # Of contacts and surfaces alike: stock simulators have one neighbourhood for both.
        self.order = meta.orders.get("contact", meta.geometry.moore_order)
        self.changes = FlipChanges.joined([flip_changes(sample, self.count, self.order) for sample in samples])
        self.deltas = np.concatenate([sample.deltas for sample in samples])
        self.neural = np.concatenate([sample.neural for sample in samples])
        self.held_out = np.concatenate([np.full(sample.deltas.size, sample.held_out) for sample in samples])
        if not np.isfinite(self.deltas).all():
            raise UserError("The model's ΔH is not a number on some flips: the model file is unusable, train it again.")
        of_type = [self.changes.types == number for number in range(self.count)]
        self.seen = [bool(mask.any()) for mask in of_type]
        self.center = self._per_type(of_type, self.changes.volumes, np.mean)
        self.spread = np.maximum(self._per_type(of_type, self.changes.volumes, np.std), 1.0)
        self.low = np.maximum(self._per_type(of_type, self.changes.volumes, np.min) - 1, 0)
        self.high = self._per_type(of_type, self.changes.volumes, np.max) + 1
        self.target_surface = self._per_type(of_type, self.changes.surfaces, np.mean)

    def _per_type(self, masks: list[NDArray[np.bool_]], values: NDArray[np.float64], of: object) -> NDArray[np.float64]:
        assert callable(of)
        return np.array([0.0 if n == 0 or not m.any() else float(of(values[m])) for n, m in enumerate(masks)])

    def column(self, column: Column) -> NDArray[np.float64]:
        """What a unit of a coefficient adds to every flip's ΔH."""
        changes = self.changes
        if column.term == "contact":
            return changes.contacts[:, type_pairs(self.count).index((column.of[0], column.of[1]))]
        number = column.of[0]
        if column.term == "volume":
            before = (changes.volumes - self.center[number]) / self.spread[number]
            after = (changes.volumes + changes.volume_change - self.center[number]) / self.spread[number]
        else:
            before = changes.surfaces - self.target_surface[number]
            after = before + changes.surface_change
        return ((after**column.power - before**column.power) * (changes.types == number)).sum(axis=1)

    def fit(self, columns: list[Column]) -> Fit:
        design = np.stack([self.column(column) for column in columns], axis=1)
        norms = np.linalg.norm(design, axis=0)
        norms[norms == 0] = 1.0
        used = ~self.held_out
        scaled, *_ = np.linalg.lstsq(design[used] / norms, self.deltas[used], rcond=1e-10)
        coefficients = scaled / norms
        predicted = design @ coefficients
        return Fit(columns, coefficients, self.r2(predicted, used), self.r2(predicted, self.held_out))

    def r2(self, predicted: NDArray[np.float64], where: NDArray[np.bool_]) -> float:
        truth = self.deltas[where]
        variance = float(((truth - truth.mean()) ** 2).sum())
        left = float(((truth - predicted[where]) ** 2).sum())
        return 1.0 - left / variance if variance > 0 else float(left == 0)


def distill(samples: list[FlipSample], meta: Metadata, *, simple: bool = False) -> Distilled:
    """Contacts and volumes always; surfaces and a volume energy that is no parabola where they explain more.

    `simple`: without these, as CompuCell3D's own plugins carry no such volume energy.
    """
    problem = Problem(samples, meta)
    cells = [number for number in range(1, problem.count) if problem.seen[number]]
    basic = [Column("contact", pair) for pair in type_pairs(problem.count)]
    basic += [Column("volume", (number,), power) for number in cells for power in (1, 2)]
    surface = [Column("surface", (number,), 2) for number in cells]
    higher = [Column("volume", (number,), power) for number in cells for power in range(3, HIGHEST_POWER + 1)]
    extras = {"surface": surface, "volume_function": higher}
    best = problem.fit(basic)
    for extra in (extra for name, extra in extras.items() if not simple and in_morpheus(name, meta, problem.order)):
        more = problem.fit(best.columns + extra)
        if more.r2_held_out > best.r2_held_out + WORTH:
            best = more
    return _result(problem, best, meta)


def in_morpheus(name: str, meta: Metadata, order: int) -> bool:
    """Whether stock Morpheus, which knows most, carries such a term on this lattice."""
    orders = {other: order for other, spec in TERMS.items() if spec.ordered}
    term = ModelTerm(name, {}, meta.geometry, meta.boundary, orders)
    return not isinstance(TERMS[name].in_host(TARGETS["morpheus"], term), str)


def _result(problem: Problem, fit: Fit, meta: Metadata) -> Distilled:
    found = dict(zip(fit.columns, fit.coefficients, strict=True))
    contact = np.zeros((problem.count, problem.count))
    for a, b in type_pairs(problem.count):
        contact[a, b] = contact[b, a] = found[Column("contact", (a, b))]
    terms: dict[str, Values] = {"contact": {"J": contact}, **_volumes(problem, found, meta.temperature)}
    surfaces = np.zeros(problem.count)
    for column, value in found.items():
        if column.term == "surface":
            surfaces[column.of[0]] = value
    if surfaces.any():
        terms["surface"] = {"strength": surfaces, "target": problem.target_surface}
    design = {column: problem.column(column) * value for column, value in found.items()}
    predicted = np.sum(list(design.values()), axis=0)
    accept = [np.exp(-np.maximum(d, 0.0) / meta.temperature) for d in (predicted, problem.deltas)]
    result = Distilled(
        terms=terms,
        orders={name: problem.order for name in terms if TERMS[name].ordered},
        r2=fit.r2,
        r2_held_out=fit.r2_held_out,
        decision_mismatch=float(np.abs(accept[0] - accept[1])[problem.held_out].mean()),
        flips=problem.deltas.size,
    )
    if meta.neural is not None and meta.symbolic is not None:
        neural, left = (values[problem.held_out] for values in (problem.neural, problem.deltas - predicted))
        result.network_explained = 1.0 - float((left**2).sum() / max(neural.var() * neural.size, NEGLIGIBLE))
    _name(result, problem, design, meta)
    return result


def _volumes(problem: Problem, found: dict[Column, float], temperature: float) -> dict[str, Values]:
    """λ and V* where every type's energy is a parabola that holds, else the function f(V)."""
    powers = np.zeros((problem.count, HIGHEST_POWER))
    for column, value in found.items():
        if column.term == "volume":
            number = column.of[0]
            powers[number, column.power - 1] = value / problem.spread[number] ** column.power
    linear, quadratic = powers[:, 0], powers[:, 1]
    flat = np.abs(powers).max(axis=1) < NEGLIGIBLE
    if not powers[:, 2:].any() and (flat | (quadratic > NEGLIGIBLE)).all():
        strength = np.where(flat, 0.0, quadratic)
        target = problem.center - linear / (2 * np.where(flat, 1.0, quadratic))
        return {"volume": {"strength": strength, "target": np.where(flat, problem.center, target)}}
    # Beyond the volumes seen a cell must come back: the parabola there is no flatter than one unit of temperature
    # per spread squared.
    stiffness = np.maximum(quadratic, temperature / problem.spread**2)
    parts = {"center": problem.center, "low": problem.low, "high": problem.high}
    return {"volume_function": parts | {"coefficients": powers, "stiffness": stiffness}}


def _name(result: Distilled, problem: Problem, design: dict[Column, NDArray[np.float64]], meta: Metadata) -> None:
    """Values and shares by the names a reader knows; the volume's share stands with its strength."""
    names = meta.types
    truth = problem.deltas - problem.deltas.mean()
    variance = max(float((truth**2).sum()), np.finfo(float).tiny)

    def share(*columns: Column) -> float:
        return float(sum(((design[c] - design[c].mean()) * truth).sum() for c in columns if c in design) / variance)

    def add(key: str, value: float, part: float) -> None:
        result.values[key], result.shares[key] = float(value), part

    terms = result.terms
    for a, b in type_pairs(problem.count):
        add(f"J({names[a]},{names[b]})", terms["contact"]["J"][a, b], share(Column("contact", (a, b))))
    for number in range(1, problem.count):
        powers = [Column("volume", (number,), power) for power in range(1, HIGHEST_POWER + 1)]
        if "volume" in terms:
            add(f"lambda({names[number]})", terms["volume"]["strength"][number], share(*powers))
            add(f"target_volume({names[number]})", terms["volume"]["target"][number], 0.0)
        else:
            for column, value in zip(powers, terms["volume_function"]["coefficients"][number], strict=True):
                add(f"volume^{column.power}({names[number]})", value, share(column))
        if "surface" in terms:
            column = Column("surface", (number,), 2)
            add(f"surface({names[number]})", terms["surface"]["strength"][number], share(column))
