"""Cells and contacts of states, as the cell graph sees them: whole numbers of the lattice made into a few inputs.

They follow from the state alone, so they are computed once, in float64 and outside of autograd.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from neuralcpm_bridge.artifact import CELL_INPUTS

from .moments import Moments, covariances, nearest
from .states import States

ROUND = 1e-3
"""Squared anisotropy of cells that are neither rods nor discs: what a quotient of nothings would be is rounding."""

EDGE_INPUTS = ("contact", "distance", "alignment", "own radius", "other radius")
"""Of a contact as one of the two cells sees it: its length, how far the middles are apart, how parallel the two cells
lie, and how far each of them extends along the line between the middles."""


class Distances(NamedTuple):
    """Of all pairs of cells of a state, touching or not (P, each seen from both sides): both cells' numbers, and how
    far the middles are apart, `[P]`."""

    receiver: Tensor
    sender: Tensor
    apart: Tensor


class CellGraphs(NamedTuple):
    """Cells that have sites (N, numbered through a batch of B states) and their contacts (E, each seen from both
    sides); inputs as they are, float64."""

    batch: int
    state: Tensor
    """Number of the state, `[N]` int64."""
    ids: Tensor
    types: Tensor
    inputs: Tensor
    """`[N, F]`."""
    medium: Tensor
    """Contact with the medium, `[N]`."""
    receiver: Tensor
    """Number of the cell that sees the contact, `[E]`; `sender`: of the other one."""
    sender: Tensor
    contacts: Tensor
    """`[E, 5]`."""
    distances: Distances | None
    """Of all pairs, where they were asked for."""

    @property
    def surface(self) -> Tensor:
        return self.inputs[:, CELL_INPUTS.index("surface")]


def describe(states: States, order: int, with_distances: bool = False) -> CellGraphs:
    """The graphs of states; `order`: of the neighbours that touch."""
    return states.once(("cell graphs", order, with_distances), lambda: _describe(states, order, with_distances))


@torch.no_grad()
def _describe(states: States, order: int, with_distances: bool) -> CellGraphs:
    weight = states.pair_weight(order)
    moments = Moments.of(states)
    volumes = moments.sums[..., 0]
    batch, ids_each = states.types.shape
    alive = volumes > 0
    alive[:, 0] = False
    state, ids = alive.nonzero(as_tuple=True)
    number = torch.full((batch * ids_each,), -1, device=ids.device)
    number[state * ids_each + ids] = torch.arange(len(ids), device=ids.device)

    first, second, pairs = touching(states, order)  # of unordered pairs, first < second
    with_medium = first % ids_each == 0
    length = pairs.double() * weight
    medium = torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
    medium[number[second[with_medium]]] = length[with_medium]
    a, b = number[first[~with_medium]], number[second[~with_medium]]
    receiver, sender = torch.cat([a, b]), torch.cat([b, a])
    contact = length[~with_medium].repeat(2)
    surface = medium.index_add(0, receiver, contact)

    shape = covariances(moments)[state, ids]
    trace = shape.diagonal(dim1=1, dim2=2).sum(1)
    uneven = anisotropy(shape, trace)
    inputs = [volumes[state, ids].double(), uneven, trace.sqrt(), surface, prolateness(shape, trace, uneven)]
    own = torch.cat([torch.stack(inputs, dim=1), states.properties[state, ids].double()], dim=1)
    way = between_middles(moments, state, ids, receiver, sender)
    contacts = torch.cat([contact[:, None], relations(way, shape, trace, receiver, sender)], dim=1)
    distances = all_distances(moments, state, ids) if with_distances else None
    return CellGraphs(batch, state, ids, states.types[state, ids], own, medium, receiver, sender, contacts, distances)


def all_distances(moments: Moments, state: Tensor, ids: Tensor) -> Distances:
    """Of all pairs of cells that have sites; `state`, `ids`: of these cells, state by state."""
    each = torch.bincount(state)
    partners, cells = each[state], torch.arange(len(ids), device=ids.device)
    receiver = torch.repeat_interleave(cells, partners)
    # Numbers 0, 1, … within every cell's partners, counted from the first cell of its state.
    within = torch.arange(len(receiver), device=ids.device) - (partners.cumsum(0) - partners)[receiver]
    sender = (each.cumsum(0) - each)[state][receiver] + within
    others = receiver != sender
    receiver, sender = receiver[others], sender[others]
    way = between_middles(moments, state, ids, receiver, sender)
    return Distances(receiver, sender, way.square().sum(1).sqrt())


def touching(states: States, order: int) -> tuple[Tensor, Tensor, Tensor]:
    """Every pair of different ids that touch: both as `state · C + id`, the lower id first, and how many pairs of
    neighbours lie between them, `[n]` each."""
    ids_each, keys = states.types.shape[1], [states.ids.new_zeros(0)]
    for here, there in states.pairs(states.ids.int(), order):  # narrow: half of the time is memory
        where = (here != there).nonzero(as_tuple=True)
        a, b = here[where].long(), there[where].long()
        keys.append((where[0] * ids_each + torch.minimum(a, b)) * ids_each + torch.maximum(a, b))
    key, pairs = torch.unique(torch.cat(keys), return_counts=True)
    first = key // ids_each
    return first, first // ids_each * ids_each + key % ids_each, pairs


def anisotropy(shape: Tensor, trace: Tensor) -> Tensor:
    """0: round, 1: a rod; of covariances `[N, d, d]`."""
    dimension = shape.shape[-1]
    round_one = trace[:, None, None] / dimension * torch.eye(dimension, dtype=shape.dtype, device=shape.device)
    squares = (shape - round_one).square().sum((1, 2)) * dimension / (dimension - 1)
    return torch.where(trace > 0, squares.sqrt() / trace.clamp(min=1e-300), 0.0)


def prolateness(shape: Tensor, trace: Tensor, uneven: Tensor) -> Tensor:
    """The anisotropy with a sign: that of rods is positive, of discs negative; 0 in 2D, which has no discs."""
    if shape.shape[-1] == 2:
        return torch.zeros_like(trace)
    scaled = 3 * shape / trace.clamp(min=1e-300)[:, None, None] - torch.eye(3, dtype=shape.dtype, device=shape.device)
    return torch.where(trace > 0, torch.linalg.det(scaled) / (2 * (uneven.square() + ROUND)), 0.0)


def between_middles(moments: Moments, state: Tensor, ids: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Nearest images of the ways between cells' middles, in space, `[E, d]` float64."""
    lattice = moments.states.lattice
    sums, sites = moments.sums[state, ids], moments.first[state, ids]
    coordinates = torch.from_numpy(lattice.coordinates()).to(ids.device)[sites]
    n, total = sums[:, :1], sums[:, 1 : 1 + lattice.dimension]
    unit = n[start] * n[end]
    way = (coordinates[end] - coordinates[start]) * unit + total[end] * n[start] - total[start] * n[end]
    return (nearest(way, lattice, unit[:, 0]).double() / unit) @ torch.from_numpy(lattice.geometry.basis).to(ids.device)


def relations(way: Tensor, shape: Tensor, trace: Tensor, receiver: Tensor, sender: Tensor) -> Tensor:
    """Distance, alignment, own and other radius along the way, `[E, 4]`."""
    distance = way.square().sum(1).sqrt()
    direction = way / torch.where(distance > 0, distance, 1.0)[:, None]
    traces = trace[receiver] * trace[sender]
    product = (shape[receiver] * shape[sender]).sum((1, 2))
    found = [distance, torch.where(traces > 0, product / traces.clamp(min=1e-300), 0.0)]
    for end in (receiver, sender):
        along = torch.einsum("ei,eij,ej->e", direction, shape[end], direction)
        found.append(torch.where(distance > 0, along.clamp(min=0), trace[end] / shape.shape[-1]).sqrt())
    return torch.stack(found, dim=1)
