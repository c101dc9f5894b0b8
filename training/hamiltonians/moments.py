"""Moments of cells and the axes of the ellipses and ellipsoids that have them: in torch and as an ONNX graph.

Positions are nearest images along periodic axes of the way from a cell's first site: its shape as long as it spans less
than half of every ring. Axes are lengths in space, of hexagonal lattices in Cartesian coordinates.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from neuralcpm_bridge.lattice import Lattice

from .states import Side, States

if TYPE_CHECKING:
    from ..export.graph import EnergyGraph

FLAT = 1e-12
"""Share of the largest variance below which the smallest is rounding and counts as none: its root would be seen."""

JACOBI_SWEEPS = 5
"""Rounds of rotations that leave nothing of a 3 × 3 matrix off its diagonal: convergence is quadratic."""


def products(dimension: int) -> list[tuple[int, int]]:
    """Pairs of axes, each once."""
    return list(combinations_with_replacement(range(dimension), 2))


def axis_factor(dimension: int) -> float:
    """Of an ellipse the variance along an axis is its square over 16, of an ellipsoid over 20."""
    return 4.0 if dimension == 2 else 2.0 * np.sqrt(5.0)


class Moments(NamedTuple):
    """Of cells `[…]`: their reference site, sites, sums of coordinates and of products of coordinates, all exact."""

    states: States
    first: Tensor
    sums: Tensor
    """`[…, 1 + d + d(d+1)/2]` int64."""

    @classmethod
    def of(cls, states: States) -> Moments:
        """Of every id, `[B, C]`; the medium counts as one without sites."""

        def first() -> Tensor:
            none = torch.zeros_like(states.types).flatten()
            return none.scatter_reduce(0, key, site, "amin", include_self=False).view_as(states.types)

        def sums() -> Tensor:
            columns = torch.stack(_columns(_way(states, reference.flatten()[key], site)), dim=1)
            none = columns.new_zeros(states.types.numel(), columns.shape[1])
            return none.index_add(0, key, columns).unflatten(0, states.types.shape)

        key, site = states.once("sites of cells", lambda: _sites_of_cells(states))
        reference = states.once("first sites", first)
        return cls(states, reference, states.once("moments", sums))

    def after(self, side: Side) -> Moments:
        """Of one cell of every flip, as it will be, `[B, n]`; a cell that had no site begins at this one."""
        now, sites = side.of(self.sums), side.flips.sites
        reference = torch.where(now[..., 0] > 0, side.of(self.first), sites)
        added = torch.stack(list(_columns(_way(self.states, reference, sites))), dim=-1)
        return Moments(self.states, reference, now + side.sign * added)


def _sites_of_cells(states: States) -> Tensor:
    """`state · C + id` and number of every site that is not the medium's: most are, and have no shape; `[2, n]`."""
    state, site = (states.flat > 0).nonzero(as_tuple=True)
    return torch.stack([state * states.types.shape[1] + states.flat[state, site], site])


def spans(states: States) -> Tensor:
    """How far every id reaches along the geometry's axes, `[B, C, d]` int64: the greatest less the least way from its
    first site."""
    moments = Moments.of(states)
    key, site = states.once("sites of cells", lambda: _sites_of_cells(states))
    way = _way(states, moments.first.flatten()[key], site)
    none = way.new_zeros(states.types.numel(), way.shape[1])
    at = key[:, None].expand_as(way)
    reach = none.scatter_reduce(0, at, way, "amax") - none.scatter_reduce(0, at, way, "amin")
    return reach.unflatten(0, states.types.shape)


def _way(states: States, start: Tensor, end: Tensor) -> Tensor:
    """Nearest images of the way between sites, along the geometry's axes, `[…, d]` int64."""
    lattice = states.lattice
    coordinates = torch.from_numpy(lattice.coordinates()).to(states.ids.device)
    way = coordinates[end.to(states.ids.device)] - coordinates[start]
    return nearest(way, lattice, 1)


def nearest(way: Tensor, lattice: Lattice, unit: int | Tensor) -> Tensor:
    """Images of ways `[…, d]` along the geometry's axes, in units of 1 / `unit`, within half a ring (its end included).

    All numbers are whole: halves of a ring are halves on every machine.
    """
    periods = torch.from_numpy(lattice.periods).to(way.device)
    for axis, (size, wraps) in enumerate(zip(lattice.shape, lattice.periodic, strict=True)):
        if wraps:
            ring = size * unit
            rounds = torch.div(ring - 2 * way[..., axis], 2 * ring, rounding_mode="floor")
            way = way + (rounds * unit)[..., None] * periods[axis]
    return way


def _columns(way: Tensor) -> list[Tensor]:
    """1, the coordinates, their products."""
    parts = list(way.unbind(-1))
    return [torch.ones_like(parts[0]), *parts, *(parts[i] * parts[j] for i, j in products(len(parts)))]


def covariances(moments: Moments) -> Tensor:
    """Of the positions of a cell's sites in space, `[…, d, d]` float64; 0 for cells without sites."""
    geometry = moments.states.lattice.geometry
    dimension = geometry.dimension
    n, first, second = moments.sums.split([1, dimension, len(products(dimension))], dim=-1)
    covariance = torch.empty(*n.shape[:-1], dimension, dimension, dtype=torch.float64, device=n.device)
    for column, (i, j) in enumerate(products(dimension)):
        exact = n[..., 0] * second[..., column] - first[..., i] * first[..., j]
        covariance[..., i, j] = covariance[..., j, i] = exact / n[..., 0].clamp(min=1).double() ** 2
    basis = torch.from_numpy(geometry.basis).to(n.device)
    return basis.T @ covariance @ basis


def axes(moments: Moments) -> Tensor:
    """The longest and the shortest axis, `[…, 2]` float64; 0 for cells without sites."""
    variances = torch.linalg.eigvalsh(covariances(moments))
    largest = variances[..., -1].clamp(min=0)
    smallest = torch.where(variances[..., 0] > FLAT * largest, variances[..., 0], 0)
    return axis_factor(variances.shape[-1]) * torch.stack([largest, smallest], dim=-1).sqrt()


# -- the same as a graph -------------------------------------------------------------------------------------------


def axes_onnx(graph: EnergyGraph) -> tuple[str, str]:
    """The longest and the shortest axis of every id, `[B, C]` double each."""
    longest, shortest = graph.once("axes", lambda: _axes_onnx(graph))
    return longest, shortest


def covariances_onnx(graph: EnergyGraph) -> dict[tuple[int, int], str]:
    """By pair of axes: of the positions of every id's sites in space, `[B, C]` double each."""
    pairs = products(graph.geometry.dimension)
    return dict(zip(pairs, graph.once("covariances", lambda: _covariances_onnx(graph)), strict=True))


def _covariances_onnx(graph: EnergyGraph) -> list[str]:
    b = graph.builder
    n = b.op("Max", graph.volumes, b.const(1.0, np.float64))
    squared = b.op("Mul", n, n)
    ways, sums = ways_onnx(graph), summed_ways_onnx(graph)
    covariance: dict[tuple[int, int], str] = {}
    for i, j in products(graph.geometry.dimension):
        exact = b.op("Mul", n, graph.summed_by_id(b.op("Mul", ways[i], ways[j])))
        covariance[i, j] = b.op("Div", b.op("Sub", exact, b.op("Mul", sums[i], sums[j])), squared)
    return list(_in_space_onnx(graph, covariance).values())


def summed_ways_onnx(graph: EnergyGraph) -> list[str]:
    """By axis: sums over every id's sites of the ways from its first one, `[B, C]` double each."""
    return graph.once("summed ways", lambda: [graph.summed_by_id(way) for way in ways_onnx(graph)])


def _axes_onnx(graph: EnergyGraph) -> list[str]:
    b = graph.builder
    largest, smallest = _extremes_onnx(graph, covariances_onnx(graph))
    zero, factor = b.const(0.0, np.float64), b.const(axis_factor(graph.geometry.dimension), np.float64)
    largest = b.op("Max", largest, zero)
    visible = b.op("Greater", smallest, b.op("Mul", largest, b.const(FLAT, np.float64)))
    smallest = b.op("Where", visible, smallest, zero)
    return [b.op("Mul", b.op("Sqrt", variance), factor) for variance in (largest, smallest)]


def first_sites_onnx(graph: EnergyGraph) -> str:
    """Of every id, `[B, C]` int64; of those without sites one beyond the lattice."""

    def build() -> list[str]:
        b = graph.builder
        none = b.op("Expand", graph.sites, b.shape("types", 0))
        return [b.op("ScatterElements", none, graph.flat_ids, _numbers_onnx(graph), axis=1, reduction="min")]

    return graph.once("first sites", build)[0]


def _numbers_onnx(graph: EnergyGraph) -> str:
    """Of the sites, `[B, sites]` int64."""
    b = graph.builder
    return graph.once("numbers", lambda: [b.op("Expand", b.arange(graph.sites), b.shape(graph.flat_ids, 0))])[0]


def coordinates_onnx(graph: EnergyGraph, sites: str) -> list[str]:
    """By axis: whole-numbered coordinates of sites, in their shape, int64."""
    b, stride, found = graph.builder, graph.builder.const([1]), []
    for axis in reversed(graph.axes):
        size = b.shape("ids", axis, axis + 1)
        found.append(b.op("Mod", b.op("Div", sites, stride), size))
        stride = b.op("Mul", stride, size)
    return found[::-1]


def ways_onnx(graph: EnergyGraph) -> list[str]:
    """By axis: nearest images of the way from a cell's first site to each of its sites, `[B, sites]` double."""
    return graph.once("ways", lambda: _ways_onnx(graph))


def _ways_onnx(graph: EnergyGraph) -> list[str]:
    b = graph.builder
    reference = b.op("GatherElements", first_sites_onnx(graph), graph.flat_ids, axis=1)
    ends, starts = coordinates_onnx(graph, _numbers_onnx(graph)), coordinates_onnx(graph, reference)
    ways = []
    for axis, end, start in zip(graph.axes, ends, starts, strict=True):
        size = b.shape("ids", axis, axis + 1)
        way = b.op("Sub", end, start)
        if graph.periodic[axis - 1]:
            twice, back = b.op("Add", way, way), b.op("Neg", size)
            lower = b.op("Where", b.op("Greater", twice, size), back, b.const([0]))
            higher = b.op("Where", b.op("LessOrEqual", twice, back), size, b.const([0]))
            way = b.op("Sum", *(b.double(part) for part in (way, lower, higher)))
            ways.append(way)
        else:
            ways.append(b.double(way))
    return ways


def _in_space_onnx(graph: EnergyGraph, covariance: dict[tuple[int, int], str]) -> dict[tuple[int, int], str]:
    """basisᵀ · covariance · basis."""
    b, basis, dimension = graph.builder, graph.geometry.basis, graph.geometry.dimension
    turned = {}
    for i, j in products(dimension):
        parts = []
        for (k, m), value in covariance.items():
            factor = basis[k, i] * basis[m, j] + (basis[m, i] * basis[k, j] if k != m else 0.0)
            if factor:
                parts.append(b.op("Mul", value, b.const(factor, np.float64)))
        turned[i, j] = b.op("Sum", *parts)
    return turned


def _extremes_onnx(graph: EnergyGraph, a: dict[tuple[int, int], str]) -> tuple[str, str]:
    """Largest and smallest eigenvalue by Jacobi's rotations: exact to rounding also where eigenvalues meet."""
    b = graph.builder
    pairs = [(i, j) for i, j in a if i != j]
    for _ in range(JACOBI_SWEEPS if len(pairs) > 1 else 1):
        for i, j in pairs:
            _rotate_onnx(graph, a, i, j)
    diagonal = [a[i, i] for i in range(graph.geometry.dimension)]
    return b.op("Max", *diagonal), b.op("Min", *diagonal)


def _rotate_onnx(graph: EnergyGraph, a: dict[tuple[int, int], str], i: int, j: int) -> None:
    """Turn the axes i and j so that nothing couples them."""
    b, off = graph.builder, a[i, j]
    gap = b.op("Sub", a[j, j], a[i, i])
    twice = b.op("Add", off, off)
    root = b.op("Sqrt", b.op("Add", b.op("Mul", gap, gap), b.op("Mul", twice, twice)))
    # The tangent of the smaller angle; both are zero only where there is nothing to turn.
    under = b.op("Max", b.op("Add", b.op("Abs", gap), root), b.const(1e-300, np.float64))
    tangent = b.op("Div", twice, under)
    tangent = b.op("Where", b.op("Less", gap, b.const(0.0, np.float64)), b.op("Neg", tangent), tangent)
    moved = b.op("Mul", tangent, off)
    one = b.const(1.0, np.float64)
    cosine = b.op("Div", one, b.op("Sqrt", b.op("Add", one, b.op("Mul", tangent, tangent))))
    sine = b.op("Mul", tangent, cosine)
    a[i, i], a[j, j] = b.op("Sub", a[i, i], moved), b.op("Add", a[j, j], moved)
    a[i, j] = graph.no_cells
    for k in range(graph.geometry.dimension):
        if k in (i, j):
            continue
        ki, kj = (min(k, i), max(k, i)), (min(k, j), max(k, j))
        left, right = a[ki], a[kj]
        a[ki] = b.op("Sub", b.op("Mul", cosine, left), b.op("Mul", sine, right))
        a[kj] = b.op("Add", b.op("Mul", sine, left), b.op("Mul", cosine, right))
