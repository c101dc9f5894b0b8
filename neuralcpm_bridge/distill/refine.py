"""A fit brought nearer to what the model does: its terms are tuned until runs of both agree in contacts, volumes and
lengths on the mean.

ΔH of single copies is what a fit sees first, but small errors that agree with each other add up over a run. Terms are
linear in their coefficients, H = Σ θ_k Φ_k, so the likelihood of the model's samples rises along ⟨Φ⟩ of the distilled
model's runs less ⟨Φ⟩ of the model's own, and the covariance of Φ says how far to go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..artifact import Artifact
from ..metrics.geometry import second_moments
from ..snapshots import Snapshots
from ..state import CellState
from .behaviour import Runs, in_memory
from .features import longest_axes
from .fit import Column, Fit, Problem
from .result import fitted_terms

ROUNDS = 16
SETTLED = 6
"""Last rounds that are averaged: each is as noisy as its runs are few."""
STEP = 0.5
SHRINKAGE = 0.2
"""Weight of the diagonal in covariances of few samples."""
WEAKEST = 1e-4
"""Of a constraint's strength, in units of the temperature per squared spread: one that pushed away would not hold."""


def refined(
    problem: Problem,
    fit: Fit,
    artifact: Artifact,
    data: Snapshots,
    runs: Runs,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Fit:
    """Coefficients from runs, those of the flips being the start; volumes that are no parabola stay."""
    meta = artifact.metadata
    wanted = _features(problem, fit.columns, runs.of(artifact, data, stream=1))
    theta, late = fit.coefficients.copy(), []
    moving = np.array([not (c.quantity == "volume" and fit.of("volume", c.of[0], 3)) for c in fit.columns])
    strengths = np.array([column.power == 2 and column.quantity != "surface" for column in fit.columns])
    for number in range(ROUNDS):
        terms = fitted_terms(problem, replace(fit, coefficients=theta), meta.temperature)
        samples = runs.of(in_memory(terms, problem.orders(terms), meta), data, stream=2 + number)
        found = _features(problem, fit.columns, samples)
        spread = np.concatenate([values - values.mean(axis=0) for values in (found, wanted)])[:, moving]
        covariance = spread.T @ spread / max(len(spread) - 2, 1)
        covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * np.diag(np.diag(covariance))
        uphill = (found.mean(axis=0) - wanted.mean(axis=0))[moving] * meta.temperature
        theta[moving] += STEP * (np.linalg.pinv(covariance, hermitian=True) @ uphill)
        theta = np.where(strengths, np.maximum(theta, WEAKEST * meta.temperature), theta)
        late.append(theta.copy())
        progress(number + 1, ROUNDS)
    return problem.judged(fit.columns, np.mean(late[-SETTLED:], axis=0))


def _features(problem: Problem, columns: list[Column], samples: Snapshots) -> NDArray[np.float64]:
    """Of every state, what each coefficient multiplies, `[states, columns]`."""
    return np.stack([_of_state(problem, columns, state) for state in samples])


def _of_state(problem: Problem, columns: list[Column], state: CellState) -> NDArray[np.float64]:
    geometry = state.lattice.geometry
    contacts = state.contacts(problem.count, problem.order) * geometry.pair_weight(problem.order)
    shapes = second_moments(state) - geometry.site_moment * np.eye(geometry.dimension)
    cells = state.cells
    measured = {
        "volume": state.volumes[cells].astype(np.float64),
        "surface": state.surfaces(problem.order)[cells],
        "length": longest_axes(shapes[cells]),
    }
    return np.array(
        [
            contacts[column.of]
            if column.quantity == "contact"
            else problem.power(column, measured[column.quantity])[state.types[cells] == column.of[0]].sum()
            for column in columns
        ]
    )
