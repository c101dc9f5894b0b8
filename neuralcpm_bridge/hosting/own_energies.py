"""What a user's own model says its cells cost: numbers in the host's units, and what could not be read.

Each host package has a `read_own_energies(path)` that returns one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..conventions import Target
from ..errors import UserError
from ..lattice import Lattice
from ..terms import TERMS, HostTerm, ModelTerm
from .mapping import listed


class Converted(NamedTuple):
    """`weights` by the names that a model file has for them, `orders` by term; `notes`: where the host means something
    else than these numbers say."""

    weights: dict[str, NDArray[np.float64]]
    orders: dict[str, int]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class OwnEnergies:
    """Terms by the names of `TERMS`; their numbers follow `types`, the medium first."""

    source: str
    """What a user calls it."""
    target: Target
    lattice: Lattice
    types: tuple[str, ...]
    temperature: float
    terms: dict[str, HostTerm]
    not_read: tuple[str, ...] = ()

    def of_types(self, names: Sequence[str]) -> OwnEnergies:
        """The same of some types in another order; the medium is the first, whatever it is called."""
        strangers = [name for name in names[1:] if name not in self.types[1:]]
        if strangers:
            raise UserError(
                f"The data have cells of type {listed(map(repr, strangers))}, but {self.source} knows "
                f"{listed(self.types[1:]) or 'none'}: give the types of the data the names that they have there "
                "(neuralcpm data import --types)."
            )
        rows = [0, *(self.types.index(name, 1) for name in names[1:])]
        terms = {
            name: replace(term, values={key: _chosen(value, rows) for key, value in term.values.items()})
            for name, term in self.terms.items()
        }
        others = [name for name in self.types[1:] if name not in names[1:]]
        unseen = (f"cells of type {listed(others)}, of which the data have none",) if others else ()
        return replace(self, types=tuple(names), terms=terms, not_read=(*self.not_read, *unseen))

    def converted(self) -> Converted:
        """In the training convention, in units of the temperature."""
        orders = {name: term.order for name, term in self.terms.items() if term.order is not None}
        weights: dict[str, NDArray[np.float64]] = {"symbolic.weight": np.array(1.0), "symbolic.offset": np.array(0.0)}
        notes = []
        for name, term in self.terms.items():
            place = self.lattice.geometry, self.lattice.boundary
            values, otherwise = TERMS[name].of_host(
                self.target, ModelTerm(name, term.values, *place, orders, self.temperature)
            )
            weights |= {f"symbolic.{name}.{key}": value for key, value in values.items()}
            if otherwise:
                notes.append(f"what is special about the {name} term there: {otherwise}")
        return Converted(weights, orders, tuple(notes))


def _chosen(values: NDArray[np.float64], rows: list[int]) -> NDArray[np.float64]:
    return values[np.ix_(rows, rows)] if values.ndim == 2 else values[rows]
