"""Analytic energies from single flips: conditional noise-contrastive estimation, without chains.

Each datum x is classified against x' = x with one neighbour's id copied into one site. The copy's own proposal
probabilities cancel against the bias they give the copy dynamics, so that log-odds are ΔH/T and the loss is
softplus(−ΔH/T): convex in the energies of every term that offers features (J, λ, …), solved by Newton's method on
every flip of the data at once. (Gutmann's conditional NCE; Ceylan & Gutmann 2018.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots

from .hamiltonians import Flips, States, Symbolic

MAX_FLIPS = 2_000_000
"""Flips used at most, drawn evenly over the states: 100 MB, seconds, and far more than precision needs."""


RIDGE = 1e-5
"""Weight of the squared energies, in units of T, beside the loss of a flip: nothing where flips of both outcomes are
seen, a bound where outlines are so smooth that no flip of the data is ever right."""


class AnalyticFit(NamedTuple):
    """Energies by term, in the order of its features; the number of flips used and the mean loss per flip."""

    energies: dict[str, NDArray[np.float64]]
    flips: int
    loss: float

    def put_into(self, symbolic: Symbolic) -> None:
        """The fitted energies become the terms', with w_S = 1."""
        for name, energies in self.energies.items():
            symbolic.terms[name].start_at(torch.from_numpy(energies))
        symbolic.weight.set(torch.ones((), dtype=torch.float64))


def mean_volume(snapshots: Snapshots) -> float:
    """Mean number of sites of the cells that have any."""
    volumes = np.concatenate([state.volumes[state.cells] for state in snapshots])
    if not volumes.size:
        raise UserError("The data set has no cells, so it has no mean volume: give states with cells.")
    return float(volumes.mean())


def fit_analytic(symbolic: Symbolic, snapshots: Snapshots, *, temperature: float = 1.0, seed: int = 0) -> AnalyticFit:
    """Energies of the terms that make every single flip of the data as improbable as it should be; what terms aim at
    (V*) stays as it is, unless it is free."""
    rng = np.random.default_rng(seed)
    every = (_features(symbolic, snapshots, state, rng) for state in range(len(snapshots)))
    parts = [found for found in every if found is not None]
    if not parts:
        raise UserError("No state of the data set has a boundary between cells, so no energy can be learned from it.")
    names = list(parts[0])
    if not names:
        raise UserError(
            "A warm start fits contact and volume energies, which this model lacks: set warmstart.symbolic = false."
        )
    widths = [parts[0][name].shape[1] for name in names]
    features = np.concatenate([np.concatenate([part[name] for name in names], axis=1) for part in parts]) / temperature
    seen = np.abs(features).sum(axis=0) > 0
    energies, scale = np.zeros(features.shape[1]), np.sqrt((features[:, seen] ** 2).mean(axis=0))
    fitted, loss = _logistic_newton(features[:, seen] / scale)
    energies[seen] = fitted / scale
    by_term = np.split(energies, np.cumsum(widths)[:-1])
    return AnalyticFit(dict(zip(names, by_term, strict=True)), len(features), loss)


def _features(
    symbolic: Symbolic, snapshots: Snapshots, number: int, rng: np.random.Generator
) -> dict[str, NDArray[np.float64]] | None:
    """By term, `[n, k]`: what a unit of each energy adds to ΔH of every reversible flip of one state, if it has any."""
    flips = reversible_flips(snapshots, number, max(1, MAX_FLIPS // len(snapshots)), rng)
    if not flips.sites.numel():
        return None
    with torch.no_grad():
        found = {name: term.features(flips) for name, term in symbolic.terms.items()}
    return {name: features[0].numpy() for name, features in found.items() if features is not None}


def reversible_flips(snapshots: Snapshots, number: int, most: int, rng: np.random.Generator) -> Flips:
    """Copies of neighbours into sites of one state, `[1, n]`: all of them, or `most` drawn at random."""
    ids, types, properties = (
        torch.from_numpy(array[number : number + 1]) for array in (snapshots.ids, snapshots.types, snapshots.properties)
    )
    states = States(ids.long(), types.long(), snapshots.lattice, properties)
    every = torch.arange(snapshots.lattice.sites)[None]
    around = states.around(every, snapshots.lattice.geometry.moore_order)[0].T  # [neighbours, sites]
    own = states.flat[0]
    # A pixel without a like neighbour cannot be copied back: such flips have no reverse and say nothing.
    reversible = (around == own).any(0)
    direction, site = ((around != own) & (around >= 0) & reversible).nonzero(as_tuple=True)
    if site.numel() > most:
        chosen = torch.from_numpy(rng.choice(site.numel(), most, replace=False))
        direction, site = direction[chosen], site[chosen]
    return Flips(states, site[None], around[direction, site][None])


def _logistic_newton(features: NDArray[np.float64], steps: int = 30) -> tuple[NDArray[np.float64], float]:
    """Minimise mean softplus(−features·w): damped Newton steps with backtracking."""

    def value(w: NDArray[np.float64]) -> float:
        return float(np.logaddexp(0.0, -(features @ w)).mean()) + ridge / 2 * float(w @ w)

    ridge = RIDGE * float((features**2).mean())
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
