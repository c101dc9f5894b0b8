"""The cell graph by its definition (docs/artifact.md): loops over cells and contacts, nothing of tensors or engines."""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import NeuralSpec
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

Weights = dict[str, NDArray[np.float64]]
"""By name, without `neural.`."""


def nearest(way: NDArray[np.int64], lattice: Lattice, unit: int = 1) -> NDArray[np.int64]:
    """Images of ways `[…, d]` along the geometry's axes, counted in 1/unit, within half a ring (its end included)."""
    way = np.array(way)
    for axis, (size, wraps) in enumerate(zip(lattice.shape, lattice.periodic, strict=True)):
        if wraps:
            turns = -((size * unit - 2 * way[..., axis]) // (2 * size * unit))
            way -= turns[..., None] * unit * lattice.periods[axis]
    return way


def silu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x / (1 + np.exp(-x))


def soft(x: list[float], weights: Weights, name: str) -> NDArray[np.float64]:
    z = (np.array(x) - weights[f"{name}_mean"]) / weights[f"{name}_deviation"]
    return z / np.sqrt(1 + z**2 / 9)


class Cell(NamedTuple):
    """Sites, the sum of their whole coordinates, in one piece, and their covariance in space."""

    volume: int
    total: NDArray[np.int64]
    shape: NDArray[np.float64]


def measured(state: CellState, cell: int) -> Cell:
    lattice = state.lattice
    places = lattice.coordinates(np.flatnonzero(state.ids.ravel() == cell))
    places = places[0] + nearest(places - places[0], lattice)
    shape = np.atleast_2d(np.cov(lattice.in_space(places - places[0]).T, bias=True))
    return Cell(len(places), places.sum(0), shape)


def contacts_of(state: CellState, order: int) -> NDArray[np.float64]:
    """Neighbour pairs of two ids, times 2/|N|, `[C, C]`."""
    counts = np.zeros((state.types.size,) * 2)
    ids = state.ids.ravel()
    for here, there in state.lattice.pairs(order):
        a, b = ids[here], ids[there]
        np.add.at(counts, (a[a != b], b[a != b]), 1)
    return (counts + counts.T) * state.lattice.geometry.pair_weight(order)


def reference(state: CellState, spec: NeuralSpec, weights: Weights) -> list[float]:
    """H of every member, without w_NN."""
    lattice, dimension = state.lattice, state.lattice.dimension
    alive = [cell for cell in range(1, state.types.size) if (state.ids == cell).any()]
    cells = {cell: measured(state, cell) for cell in alive}
    contacts = contacts_of(state, spec.order)
    surface = contacts.sum(1)
    share = contacts / np.sqrt(weights["surface"] ** 2 + surface**2)[:, None]

    def inputs(cell: int) -> NDArray[np.float64]:
        volume, _, shape = cells[cell]
        trace = np.trace(shape)
        away = shape - np.eye(dimension) * trace / dimension
        anisotropy = np.sqrt((away**2).sum() * dimension / (dimension - 1)) / trace if trace > 0 else 0.0
        prolateness = 0.0
        if dimension == 3 and trace > 0:
            prolateness = np.linalg.det(3 * away / trace) / (2 * (anisotropy**2 + 1e-3))
        raw = [volume, anisotropy, np.sqrt(trace), surface[cell], prolateness]
        raw += [state.properties[name][cell] for name in spec.properties]
        one_hot = np.arange(1, len(weights["low"])) == state.types[cell]
        return np.concatenate([one_hot, soft(raw, weights, "cell")])

    def between(a: int, b: int) -> NDArray[np.float64]:
        n, m = cells[a].volume, cells[b].volume
        exact = nearest(cells[b].total * n - cells[a].total * m, lattice, n * m)
        return lattice.in_space(exact / (n * m))

    def edge(a: int, b: int) -> NDArray[np.float64]:
        way = between(a, b)
        distance = np.sqrt((way**2).sum())
        traces = [np.trace(cells[end].shape) for end in (a, b)]
        radii = [np.sqrt(trace / dimension) for trace in traces]
        if distance > 0:
            u = way / distance
            radii = [np.sqrt(max(u @ cells[end].shape @ u, 0)) for end in (a, b)]
        both = traces[0] * traces[1]
        alignment = (cells[a].shape * cells[b].shape).sum() / both if both > 0 else 0.0
        return soft([contacts[a, b], distance, alignment, *radii], weights, "edge")

    edges = {(a, b): edge(a, b) for a in alive for b in alive if a != b and contacts[a, b] > 0}
    energies = []
    for member in range(spec.members):

        def of(name: str, member: int = member) -> NDArray[np.float64]:
            return weights[f"members.{member}.{name}"]

        def affine(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
            return of(f"{name}.weight") @ x + of(f"{name}.bias")

        h = {cell: affine("embed_more", silu(affine("embed", inputs(cell)))) for cell in alive}
        for number in range(spec.rounds):
            name, later = f"rounds.{number}", {}
            for cell in alive:
                own = affine(f"{name}.own", h[cell])
                half = own.size // 2

                def heard(a: int, b: int, values: NDArray[np.float64], half: int = half) -> NDArray[np.float64]:
                    loud = silu(values)
                    touch = (contacts[a, b] > 0) / 2
                    return np.r_[share[a, b] * np.minimum(loud[:half], 255), touch * np.minimum(loud[half:], 7)]

                total = heard(cell, 0, own + of(f"{name}.medium"))
                for (a, b), e in edges.items():
                    if a == cell:
                        said = own + of(f"{name}.other.weight") @ h[b] + of(f"{name}.edge.weight") @ e
                        total = total + heard(a, b, said)
                psi = silu(affine(f"{name}.psi0", np.concatenate([h[cell], total])))
                later[cell] = h[cell] + affine(f"{name}.psi1", psi)
            h = later
        energies.append(sum(float(affine("out", silu(affine("hidden", h[cell])))[0]) for cell in alive))
        if spec.knots:
            kinds = [(a, b) for a in range(1, len(weights["low"])) for b in range(a, len(weights["low"]))]
            knots = np.linspace(0, weights["reach"], spec.knots)
            for a, b in permutations(alive, 2):
                kind = kinds.index(tuple(sorted((int(state.types[a]), int(state.types[b])))))
                distance = np.sqrt((between(a, b) ** 2).sum())
                energies[-1] += float(np.interp(distance, knots, of("pairs")[kind])) / 2
    return energies
