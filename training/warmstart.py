"""Contact and volume energies from single flips: conditional noise-contrastive estimation, without chains.

Each datum x is classified against x' = x with one neighbour's id copied into one site. The copy's own proposal
probabilities cancel against the bias they give the copy dynamics, so that log-odds are ΔH/T and the loss is
softplus(−ΔH/T): convex in J and λ, solved by Newton's method on every flip of the data at once. (Gutmann's
conditional NCE; Ceylan & Gutmann 2018.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots

from .flips import flip_features, neighbour_ids

MAX_FLIPS = 2_000_000
"""Flips used at most, drawn evenly over the states: 100 MB, seconds, and far more than precision needs."""


class AnalyticFit(NamedTuple):
    """`J[T, T]` (J[0, 0] = 0), λ shared by all cells, V*, the number of flips used and the mean loss per flip."""

    J: NDArray[np.float64]
    strength: float
    target: float
    flips: int
    loss: float


def mean_volume(snapshots: Snapshots) -> float:
    """Mean number of sites of the cells that have any."""
    volumes = np.concatenate([state.volumes[state.cells] for state in snapshots])
    if not volumes.size:
        raise UserError("The data set has no cells, so it has no mean volume: give states with cells.")
    return float(volumes.mean())


def fit_analytic(
    snapshots: Snapshots, *, target: float | None = None, temperature: float = 1.0, seed: int = 0
) -> AnalyticFit:
    """J and λ that make every single flip of the data as improbable as it should be; V* = `target` or the mean."""
    kinds = max(len(snapshots.type_names), int(snapshots.types.max()) + 1)
    wanted = target if target is not None else mean_volume(snapshots)
    features = _all_features(snapshots, kinds, wanted, seed) / temperature
    if not len(features):
        raise UserError("No state of the data set has a boundary between cells, so no energy can be learned from it.")
    pairs = [(a, b) for a in range(kinds) for b in range(max(a, 1), kinds)]
    seen = np.abs(features).sum(axis=0) > 0
    weights = np.zeros(features.shape[1])
    weights[seen], loss = _logistic_newton(features[:, seen])
    J = np.zeros((kinds, kinds))
    for (a, b), value in zip(pairs, weights[:-1], strict=True):
        J[a, b] = J[b, a] = value
    return AnalyticFit(J, max(float(weights[-1]), 1e-6), wanted, len(features), loss)


def _all_features(snapshots: Snapshots, kinds: int, target: float, seed: int) -> NDArray[np.float64]:
    """`[n, pairs + 1]`: pair counts / 4 by type pair, then the change of Σ(V − V*)², of every reversible flip."""
    rng = np.random.default_rng(seed)
    per_state = max(1, MAX_FLIPS // len(snapshots))
    targets = torch.full((kinds,), target, dtype=torch.float64)
    periodic = snapshots.boundary == "periodic"
    parts = []
    for ids_array, types_array in zip(snapshots.ids, snapshots.types, strict=True):
        ids, types = torch.from_numpy(ids_array).long()[None], torch.from_numpy(types_array).long()[None]
        around = neighbour_ids(ids, periodic)[:, 0].flatten(1)  # [8, sites]
        own = ids.flatten()
        # A pixel without a like neighbour cannot be copied back: such flips have no reverse and say nothing.
        reversible = (around == own).any(0)
        direction, site = ((around != own) & (around >= 0) & reversible).nonzero(as_tuple=True)
        if not site.numel():
            continue
        if site.numel() > per_state:
            chosen = torch.from_numpy(rng.choice(site.numel(), per_state, replace=False))
            direction, site = direction[chosen], site[chosen]
        new_ids = around[direction, site]
        found = flip_features(ids, types, site[None], new_ids[None], targets, periodic)
        contact = (found.contact + found.contact.transpose(2, 3))[0] / 4
        columns = [
            contact[:, a, b] if a != b else contact[:, a, b] / 2 for a in range(kinds) for b in range(max(a, 1), kinds)
        ]
        parts.append(torch.stack([*columns, found.volume[0].sum(1)], dim=1).numpy())
    return np.concatenate(parts) if parts else np.zeros((0, kinds * (kinds + 1) // 2))


def _logistic_newton(features: NDArray[np.float64], steps: int = 30) -> tuple[NDArray[np.float64], float]:
    """Minimise mean softplus(−features·w): damped Newton steps with backtracking."""

    def value(w: NDArray[np.float64]) -> float:
        return float(np.logaddexp(0.0, -(features @ w)).mean()) + ridge / 2 * float(w @ w)

    ridge = 1e-9 * float((features**2).mean())
    w = np.zeros(features.shape[1])
    current = value(w)
    for _ in range(steps):
        chance = 1 / (1 + np.exp(np.clip(features @ w, -500, 500)))
        gradient = -(features * chance[:, None]).mean(axis=0) + ridge * w
        curvature = (features * (chance * (1 - chance))[:, None]).T @ features / len(features)
        step = np.linalg.solve(curvature + ridge * np.eye(len(w)), gradient)
        size = 1.0
        while value(w - size * step) > current and size > 1e-6:
            size /= 2
        w = w - size * step
        previous, current = current, value(w)
        if previous - current < 1e-12:
            break
    return w, current
