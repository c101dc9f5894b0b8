"""What a user's own model says its cells cost: numbers in the host's units, and what could not be read.

Each host package has a `read_own_energies(path)` that returns one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..artifact import Metadata
from ..conventions import Target, model_terms
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


def closes(meta: Metadata, read: Callable[[], OwnEnergies], matched: Mapping[str, str]) -> str:
    """Of a term that was learned beside a project's own energies: whether this project has them, in a sentence; empty
    where it was not.

    `read` says what this project has, `matched` which of the model's types each of its own is.
    """
    source = meta.training.get("like")
    if not source:
        return ""
    try:
        own = read()
        names = [own.types[0]] + [name for known in meta.types[1:] for name, model in matched.items() if model == known]
        found = own.of_types(names).converted()
    except UserError as error:
        return f"WARNING: the term was learned beside the energies of {source}, which could not be compared: {error}"
    now = {key.split(".", 1)[1]: value for key, value in found.weights.items()}
    other = [] if len(names) == len(meta.types) else ["types"]
    for term in model_terms(meta):
        for weight, value in term.values.items():
            then = value * (term.scale / meta.temperature if weight in TERMS[term.name].energies else 1.0)
            same = now.pop(f"{term.name}.{weight}", np.empty(0))
            if same.shape != then.shape or not np.allclose(same, then, rtol=1e-9, atol=1e-12):
                other.append(term.name)
    other += [key.split(".")[0] for key in now if "." in key]  # terms that the model does not have
    other += [name for name, order in meta.orders.items() if found.orders.get(name) != order]
    if not other:
        return f"The term was learned beside these very energies ({source}): it is what they miss."
    return (
        f"WARNING: the term was learned beside the energies of {source}, and this project has others "
        f"({listed(dict.fromkeys(other))}): it is not what these miss."
    )
