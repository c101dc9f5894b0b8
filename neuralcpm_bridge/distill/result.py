"""A fit as terms with names and numbers that a reader knows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..artifact import Metadata
from ..delta import Part
from ..terms import Values
from .features import type_pairs
from .fit import Column, Fit, Problem, fitted
from .sampling import FlipSample

HIGHEST_POWER = 4
NEGLIGIBLE = 1e-9


@dataclass
class Distilled:
    """The fitted energies, in the training convention, and how well they stand for the model.

    `terms`: the weights of each term by their names in `TERMS`: `contact`, `volume` or, where it is no parabola,
    `volume_function`, and `surface` and `length` where they explain more; `orders`: their neighbour orders.
    `shares`: part of the variance of ΔH that each of them carries, by the names of `values`.
    `network_explained`: part of the variance of the network's own ΔH that is not left over, on held-out flips; None
    where the model is nothing but a network or has none. Contacts and volumes vary far more than what a closure adds to
    them, so a high R² alone may hide that what it adds is lost. `refined`: whether runs were fitted after flips.
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
    refined: bool = False


def distill(
    samples: list[FlipSample], meta: Metadata, *, simple: bool = False, host: str = "morpheus", part: Part = "full"
) -> Distilled:
    """Contacts and volumes always; lengths, surfaces and a volume energy that is no parabola where they explain more
    and the host (a key of `TARGETS`) carries them on this lattice.

    `simple`: contacts and volumes only. `part`: "neural" fits what the network adds alone.
    """
    problem = Problem(samples, meta, part)
    return named(problem, fitted(problem, meta, simple, host), meta)


def fitted_terms(problem: Problem, fit: Fit, temperature: float) -> dict[str, Values]:
    """A fit as the weights of terms."""
    contact = np.zeros((problem.count, problem.count))
    for column, value in zip(fit.columns, fit.coefficients, strict=True):
        if column.quantity == "contact":
            contact[column.of] = contact[column.of[::-1]] = value
    terms: dict[str, Values] = {"contact": {"J": contact}, **_volumes(problem, fit, temperature)}
    for name in ("surface", "length"):
        strength, target = _parabolas(problem, fit, name)
        if strength.any():
            terms[name] = {"strength": strength, "target": target}
    return terms


def named(problem: Problem, fit: Fit, meta: Metadata) -> Distilled:
    """A fit under the names a reader knows, and how well it does."""
    terms = fitted_terms(problem, fit, meta.temperature)
    found = dict(zip(fit.columns, fit.coefficients, strict=True))
    design = {column: problem.column(column) * value for column, value in found.items()}
    predicted = np.sum(list(design.values()), axis=0)
    accept = [np.exp(-np.maximum(d, 0.0) / meta.temperature) for d in (predicted, problem.deltas)]
    result = Distilled(
        terms=terms,
        orders=problem.orders(terms),
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


def _powers(problem: Problem, fit: Fit, quantity: str) -> NDArray[np.float64]:
    """Coefficients of (quantity − center)^k, `[T, HIGHEST_POWER]`."""
    spread, powers = problem.scales[quantity].spread, range(1, HIGHEST_POWER + 1)
    rows = [[fit.of(quantity, n, k) / spread[n] ** k for k in powers] for n in range(problem.count)]
    return np.array(rows)


def _parabolas(problem: Problem, fit: Fit, quantity: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Strength and target of every type; types without an energy stay where they are."""
    scale, powers = problem.scales[quantity], _powers(problem, fit, quantity)
    flat = np.abs(powers).max(axis=1) < NEGLIGIBLE
    strength = np.where(flat, 0.0, powers[:, 1])
    target = np.where(flat, scale.center, scale.center - powers[:, 0] / (2 * np.where(flat, 1.0, powers[:, 1])))
    for column, value in zip(fit.columns, fit.coefficients, strict=True):
        if column.quantity == quantity and column.about is not None:
            strength[column.of[0]], target[column.of[0]] = value / scale.spread[column.of[0]] ** 2, column.about
    return strength, target


def _volumes(problem: Problem, fit: Fit, temperature: float) -> dict[str, Values]:
    """λ and V* where every type's energy is a parabola that holds, else the function f(V)."""
    powers, scale = _powers(problem, fit, "volume"), problem.scales["volume"]
    flat = np.abs(powers).max(axis=1) < NEGLIGIBLE
    if not powers[:, 2:].any() and (flat | (powers[:, 1] > NEGLIGIBLE)).all():
        strength, target = _parabolas(problem, fit, "volume")
        return {"volume": {"strength": strength, "target": target}}
    # Beyond the volumes seen a cell must come back: the parabola there is no flatter than one unit of temperature
    # per spread squared.
    stiffness = np.maximum(powers[:, 1], temperature / scale.spread**2)
    known = {"center": scale.center, "low": np.maximum(scale.low - 1, 0), "high": scale.high + 1}
    return {"volume_function": known | {"coefficients": powers, "stiffness": stiffness}}


def _name(result: Distilled, problem: Problem, design: dict[Column, NDArray[np.float64]], meta: Metadata) -> None:
    """Values and shares by the names a reader knows; a target's share stands with its strength."""
    names = meta.types
    truth = problem.deltas - problem.deltas.mean()
    variance = max(float((truth**2).sum()), np.finfo(float).tiny)

    def share(quantity: str, of: tuple[int, ...], power: int | None = None) -> float:
        parts = [d for c, d in design.items() if (c.quantity, c.of) == (quantity, of) and power in (None, c.power)]
        return float(sum(((part - part.mean()) * truth).sum() for part in parts) / variance)

    def add(key: str, value: float, part: float) -> None:
        result.values[key], result.shares[key] = float(value), part

    terms = result.terms
    for a, b in type_pairs(problem.count):
        add(f"J({names[a]},{names[b]})", terms["contact"]["J"][a, b], share("contact", (a, b)))
    for number, name in list(enumerate(names))[1:]:
        for quantity, key in {"volume": "lambda", "surface": "surface", "length": "length"}.items():
            if quantity in terms:
                add(f"{key}({name})", terms[quantity]["strength"][number], share(quantity, (number,)))
                if quantity != "surface":
                    add(f"target_{quantity}({name})", terms[quantity]["target"][number], 0.0)
            elif quantity == "volume":
                for power, value in enumerate(terms["volume_function"]["coefficients"][number], start=1):
                    add(f"volume^{power}({name})", value, share("volume", (number,), power))
