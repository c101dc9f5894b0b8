"""Cells and contacts as the cell graph sees them, kept as what can be changed: volumes, shapes, contacts, distances.

The network's inputs (docs/artifact.md) follow from these, so that whoever stretches a cell changes everything that a
stretched cell changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..lattice import Geometry, Lattice
from ..metrics.geometry import mean_coordinates, second_moments
from ..state import CellState

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

ROUND = 1e-3
"""Squared anisotropy of cells that count as neither rods nor discs."""


@dataclass(frozen=True)
class Cells:
    """Cells with sites (N) and their contacts (E, each seen from both sides, in the order of who sees it), in G
    variants. Lengths are in space, volumes in sites, contacts and surfaces weighted with 2/|N|."""

    geometry: Geometry
    ids: Numbers
    types: Numbers
    receiver: Numbers
    """Number of the cell that sees the contact, `[E]`; `sender`: of the other one; `reverse`: of the contact as that
    one sees it."""
    sender: Numbers
    reverse: Numbers
    volume: Floats
    """`[G, N]`."""
    shape: Floats
    """Covariance of a cell's sites, `[G, N, d, d]`."""
    medium: Floats
    """Contact with the medium, `[G, N]`."""
    contact: Floats
    """`[G, E]`."""
    way: Floats
    """From the one cell's middle to the other's, `[G, E, d]`."""
    properties: Floats
    """Named ones, in the order of their names, `[G, N, P]`."""
    apart: Floats
    """Distances of the middles of all cells, `[N, N]`, the same in every variant."""

    @property
    def surface(self) -> Floats:
        """`[G, N]`."""
        return self.medium + self.summed(self.contact)

    def summed(self, of_contacts: Floats) -> Floats:
        """Sums over the contacts of every cell, `[G, E, …]` → `[G, N, …]`."""
        total = np.zeros((of_contacts.shape[0], self.types.size, *of_contacts.shape[2:]))
        if self.receiver.size:
            starts = np.flatnonzero(np.r_[True, self.receiver[1:] != self.receiver[:-1]])
            total[:, self.receiver[starts]] = np.add.reduceat(of_contacts, starts, axis=1)
        return total

    def inputs(self) -> Floats:
        """Of cells: volume, anisotropy, radius of gyration, surface, prolateness, properties; `[G, N, 5 + P]`."""
        trace = np.trace(self.shape, axis1=2, axis2=3)
        dimension = self.geometry.dimension
        uneven = self.shape - trace[..., None, None] / dimension * np.eye(dimension)
        squares = (uneven**2).sum(axis=(2, 3)) * dimension / (dimension - 1)
        anisotropy = np.divide(np.sqrt(squares), trace, out=np.zeros_like(trace), where=trace > 0)
        prolateness = np.zeros_like(trace)
        if dimension == 3:
            scaled = dimension * uneven / np.where(trace > 0, trace, 1.0)[..., None, None]
            prolateness = np.linalg.det(scaled) / (2 * (anisotropy**2 + ROUND))
        own = np.stack([self.volume, anisotropy, np.sqrt(trace), self.surface, prolateness], axis=-1)
        return np.concatenate([own, self.properties], axis=-1)

    def contact_inputs(self) -> Floats:
        """Of contacts: their length, the distance of the middles, alignment, own and other radius; `[G, E, 5]`."""
        distance = np.linalg.norm(self.way, axis=-1)
        direction = self.way / np.where(distance > 0, distance, 1.0)[..., None]
        trace = np.trace(self.shape, axis1=2, axis2=3)
        ends = (self.receiver, self.sender)
        product = (self.shape[:, self.receiver] * self.shape[:, self.sender]).sum(axis=(2, 3))
        traces = trace[:, self.receiver] * trace[:, self.sender]
        alignment = np.divide(product, traces, out=np.zeros_like(traces), where=traces > 0)
        radii = []
        for end in ends:
            along = np.einsum("gei,geij,gej->ge", direction, self.shape[:, end], direction)
            along = np.where(distance > 0, np.maximum(along, 0), trace[:, end] / self.geometry.dimension)
            radii.append(np.sqrt(along))
        return np.stack([self.contact, distance, alignment, *radii], axis=-1)

    # -- parts and variants ------------------------------------------------------------------------------------------

    def around(self, cells: list[int], steps: int) -> tuple[Cells, Numbers]:
        """The cells up to so many contacts away from some, and the numbers that these have there."""
        near = np.zeros(self.types.size, dtype=bool)
        near[cells] = True
        for _ in range(steps):
            near[self.receiver[near[self.sender]]] = True
        number = np.cumsum(near) - 1
        inside = near[self.receiver] & near[self.sender]
        contact_number = np.cumsum(inside) - 1
        part = replace(
            self,
            ids=self.ids[near],
            types=self.types[near],
            receiver=number[self.receiver[inside]],
            sender=number[self.sender[inside]],
            reverse=contact_number[self.reverse[inside]],
            volume=self.volume[:, near],
            shape=self.shape[:, near],
            # Contacts with cells outside stay part of a surface: as contact with the medium, which nobody varies there.
            medium=(self.surface - self.summed(np.where(inside, self.contact, 0.0)))[:, near],
            contact=self.contact[:, inside],
            way=self.way[:, inside],
            properties=self.properties[:, near],
            apart=self.apart[np.ix_(near, near)],
        )
        return part, number[cells]

    def variants(self, count: int) -> Cells:
        """So many copies of one variant, to be changed."""
        names = ("volume", "shape", "medium", "contact", "way", "properties")
        copies: dict[str, Any] = {name: np.repeat(getattr(self, name), count, axis=0) for name in names}
        return replace(self, **copies)


def cells_of(state: CellState, order: int) -> Cells:
    """The cells of a state and who touches whom; `order`: of the neighbours that touch."""
    lattice, alive = state.lattice, state.cells
    if not alive.size:
        raise UserError(
            "A state without cells was given, but there is nothing to explain in it: give states with cells."
        )
    number = np.full(state.types.size, -1)
    number[alive] = np.arange(alive.size)
    first, second, length = _touching(state, order)
    with_medium = first == 0
    medium = np.zeros(alive.size)
    medium[number[second[with_medium]]] = length[with_medium]
    a, b = number[first[~with_medium]], number[second[~with_medium]]
    receiver, sender = np.r_[a, b], np.r_[b, a]
    sorting = np.argsort(receiver, kind="stable")
    place = np.empty_like(sorting)
    place[sorting] = np.arange(sorting.size)
    opposite = np.r_[np.arange(a.size) + a.size, np.arange(a.size)]
    receiver, sender = receiver[sorting], sender[sorting]
    middles = mean_coordinates(state)[alive]
    shape = second_moments(state)[alive] - lattice.geometry.site_moment * np.eye(lattice.dimension)
    return Cells(
        geometry=lattice.geometry,
        ids=alive,
        types=state.types[alive].astype(np.int64),
        receiver=receiver,
        sender=sender,
        reverse=place[opposite[sorting]],
        volume=state.volumes[alive][None].astype(np.float64),
        shape=shape[None],
        medium=medium[None],
        contact=np.r_[length[~with_medium], length[~with_medium]][sorting][None],
        way=lattice.shortest(middles[sender] - middles[receiver])[None],
        properties=state.property_table()[alive][None],
        apart=_apart(lattice, middles),
    )


def _apart(lattice: Lattice, middles: Floats) -> Floats:
    ways = lattice.shortest((middles[None] - middles[:, None]).reshape(-1, lattice.dimension))
    return np.array(np.linalg.norm(ways, axis=1).reshape(len(middles), len(middles)))


def _touching(state: CellState, order: int) -> tuple[Numbers, Numbers, Floats]:
    """Every pair of ids that touch, the lower id first, and their contact."""
    count = state.types.size
    keys = [np.minimum(a, b).astype(np.int64) * count + np.maximum(a, b) for a, b in state.meetings(order)]
    key, pairs = np.unique(np.concatenate(keys), return_counts=True)
    return key // count, key % count, np.array(pairs * state.lattice.geometry.pair_weight(order), dtype=np.float64)
