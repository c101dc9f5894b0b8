"""The analytic terms of cells that are described, not drawn: what they add to a learned response."""

from __future__ import annotations

import numpy as np

from ..artifact import Metadata
from ..conventions import model_terms
from ..lattice import Geometry
from ..terms import Values, VolumeFunction
from .cells import Cells, Floats
from .deformations import lengths, widths


def analytic_energy(meta: Metadata, cells: Cells, order: int) -> Floats:
    """w_S·H_S of every variant, `[G]`, but for external potentials, which depend on places.

    `order`: of the neighbours that count as contacts of these cells; where a term has another one, contacts are taken
    as that many times longer or shorter as interfaces are on the mean.
    """
    total = np.zeros(len(cells.volume))
    for term in model_terms(meta):
        unit = _length(cells.geometry, term.order) / _length(cells.geometry, order) if term.name in term.orders else 1.0
        total += term.scale * _energy(term.name, term.values, cells, unit)
    return total


def _length(geometry: Geometry, order: int) -> float:
    """Of a unit of interface as contacts of an order count it."""
    return geometry.pairs_per_length(order) * geometry.pair_weight(order)


def _energy(name: str, values: Values, cells: Cells, unit: float) -> Floats:
    types = cells.types
    if name == "contact":
        with_cells = values["J"][types[cells.receiver], types[cells.sender]] * cells.contact / 2
        return unit * (with_cells.sum(axis=1) + (values["J"][types, 0] * cells.medium).sum(axis=1))
    if name == "volume_function":
        function = VolumeFunction(**values)
        return np.sum([function(kind, cells.volume[:, i]) for i, kind in enumerate(types)], axis=0)
    if name == "external":
        return np.zeros(len(cells.volume))
    measured = {
        "volume": lambda: cells.volume,
        "surface": lambda: unit * cells.surface,
        "length": lambda: lengths(cells),
    }
    energy = (measured[name]() - values["target"][types]) ** 2
    if "minor_target" in values:
        energy += (widths(cells) - values["minor_target"][types]) ** 2
    return (values["strength"][types] * energy).sum(axis=1)
