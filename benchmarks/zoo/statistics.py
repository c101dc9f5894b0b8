"""What tells each mechanism: one number per state, measured from ids and types alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.metrics import second_moments
from neuralcpm_bridge.metrics.geometry import mean_coordinates
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

Floats = NDArray[np.float64]
Statistic = Callable[[CellState], float]

A, B = 1, 2


def per_state(statistic: Statistic, states: Snapshots) -> Floats:
    """One value per state; NaN where a state has none."""
    return np.array([statistic(state) for state in states])


def mean_and_error(values: Floats) -> tuple[float, float]:
    """Over the states that have a value."""
    known = values[~np.isnan(values)]
    if not known.size:
        return float("nan"), float("nan")
    return float(known.mean()), float(known.std(ddof=1) / np.sqrt(known.size)) if known.size > 1 else 0.0


# -- shapes --------------------------------------------------------------------------------------------------------


def extents(state: CellState) -> Floats:
    """Root mean square extent along each principal axis of every id, `[C, d]`, longest first."""
    found = np.full((state.types.size, state.lattice.dimension), np.nan)
    alive = state.cells[state.volumes[state.cells] > 0]
    found[alive] = np.sqrt(np.linalg.eigvalsh(second_moments(state)[alive])[:, ::-1])
    return found


def elongation(cell_type: int) -> Statistic:
    """Mean of longest over shortest extent."""

    def measure(state: CellState) -> float:
        own = extents(state)[state.types == cell_type]
        return float(np.nanmean(own[:, 0] / own[:, -1]))

    return measure


def flatness(cell_type: int) -> Statistic:
    """Mean of middle over shortest extent, in 3D: large for discs, 1 for rods and balls."""

    def measure(state: CellState) -> float:
        own = extents(state)[state.types == cell_type]
        return float(np.nanmean(own[:, 1] / own[:, 2]))

    return measure


def lengths_apart(state: CellState) -> float:
    """How much longer, by longest extent over the cube root of its volume, a cell of B is than one of A."""
    scaled = extents(state)[:, 0] / np.where(state.volumes > 0, state.volumes, np.nan) ** (1 / state.lattice.dimension)
    return float(np.nanmean(scaled[state.types == B]) - np.nanmean(scaled[state.types == A]))


def roughness(cell_type: int) -> Statistic:
    """Mean border, in pairs of neighbouring sites that it parts, over that of a disc of the same volume."""

    def measure(state: CellState) -> float:
        contacts, dimension = contact_table(state), state.lattice.dimension
        own = np.flatnonzero((state.types == cell_type) & (state.volumes > 0))
        return float((contacts[own].sum(axis=1) / state.volumes[own] ** (1 - 1 / dimension)).mean())

    return measure


# -- contacts ------------------------------------------------------------------------------------------------------


def contact_table(state: CellState) -> NDArray[np.int64]:
    """Pairs of sites next to each other (all sites around one) in two ids, `[C, C]`, from both sides."""
    lattice, flat, ids = state.lattice, state.ids.ravel(), state.types.size
    counts = np.zeros(ids * ids, dtype=np.int64)
    for here, there in lattice.pairs(lattice.geometry.moore_order):
        first, second = flat[here], flat[there]
        unlike = first != second
        counts += np.bincount(first[unlike] * ids + second[unlike], minlength=ids * ids)
    table = counts.reshape(ids, ids)
    return table + table.T


def with_neighbours(own: int, other: int, count: int) -> Statistic:
    """Share of the cells of a type that touch exactly so many cells of another (or their own)."""

    def measure(state: CellState) -> float:
        touching = contact_table(state)[np.ix_(state.types == own, state.types == other)] > 0
        return float((touching.sum(axis=1) == count).mean())

    return measure


def off_exposure(cell_type: int, share: float) -> Statistic:
    """Mean distance of the share of a cell's border that lies at the medium from a given one."""

    def measure(state: CellState) -> float:
        contacts = contact_table(state)[state.types == cell_type]
        return float(np.abs(contacts[:, 0] / contacts.sum(axis=1) - share).mean())

    return measure


def parallel(cell_type: int) -> Statistic:
    """Mean of (d cos² − 1)/(d − 1) of the angle between the long axes of touching cells of a type: 1 parallel."""

    def measure(state: CellState) -> float:
        own = np.flatnonzero((state.types == cell_type) & (state.volumes > 0))
        axes = np.linalg.eigh(second_moments(state)[own]).eigenvectors[:, :, -1]
        first, second = np.nonzero(np.triu(contact_table(state)[np.ix_(own, own)] > 0))
        if not first.size:
            return float("nan")
        cosines, dimension = (axes[first] * axes[second]).sum(axis=1), state.lattice.dimension
        return float(((dimension * cosines**2 - 1) / (dimension - 1)).mean())

    return measure


# -- places --------------------------------------------------------------------------------------------------------


def flattened_at_medium(state: CellState) -> float:
    """Mean extent along the medium over that towards it, of the cells with a tenth to three quarters of their border
    there; towards it: from the cell's middle to the middle of its sites at the medium."""
    lattice, flat = state.lattice, state.ids.ravel()
    contacts, middles, moments = contact_table(state), mean_coordinates(state), second_moments(state)
    shares = contacts[:, 0] / np.maximum(contacts.sum(axis=1), 1)
    around = lattice.neighbours(lattice.geometry.moore_order)
    border = np.flatnonzero((flat > 0) & (flat[around] == 0).any(axis=1))
    ratios = []
    for cell in state.cells:
        sites = border[flat[border] == cell]
        if not 0.1 <= shares[cell] <= 0.75 or not sites.size:
            continue
        towards = lattice.shortest(lattice.coordinates(sites) - middles[cell]).mean(axis=0)
        towards /= np.linalg.norm(towards)
        outward = towards @ moments[cell] @ towards
        along = (np.trace(moments[cell]) - outward) / (lattice.dimension - 1)
        ratios.append(np.sqrt(along / outward))
    return float(np.mean(ratios)) if ratios else float("nan")


def volume_per_neighbour(state: CellState) -> float:
    """Slope of the cells' volumes over the numbers of cells that they touch, in sites per neighbour."""
    touching = (contact_table(state)[1:, 1:] > 0).sum(axis=1)
    if touching.std() == 0:
        return float("nan")
    return float(np.polyfit(touching, state.volumes[1:], 1)[0])


def nearest_of_own(cell_type: int) -> Statistic:
    """Mean distance from a cell's middle to the nearest other one of its type, in diameters of a round cell."""

    def measure(state: CellState) -> float:
        own, lattice = np.flatnonzero((state.types == cell_type) & (state.volumes > 0)), state.lattice
        middles = mean_coordinates(state)[own]
        ways = lattice.shortest((middles[:, None] - middles[None]).reshape(-1, lattice.dimension))
        distances = np.linalg.norm(ways, axis=1).reshape(own.size, own.size) + np.diag(np.full(own.size, np.inf))
        ball = {2: np.pi / 4, 3: np.pi / 6}[lattice.dimension] / lattice.geometry.site_volume
        diameter = (state.volumes[own].mean() / ball) ** (1 / lattice.dimension)
        return float(distances.min(axis=1).mean() / diameter)

    return measure
