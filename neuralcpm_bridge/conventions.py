"""Targets: the exact conversion of the training convention into a host's, as data, and nowhere else.

The training convention (docs/conventions.md), for neighbourhoods N of a term's order:

    H_S = (2/|N|) Σ over unordered neighbour pairs J(τ_i, τ_j)·[id_i ≠ id_j] + Σ over cells λ (V − V*)² + …
    accept with min(1, exp(−ΔH/T))

For a closure the energies to convert are w_S·J, w_S·λ, …; the neural ΔH carries w_NN already. What a term's numbers
are in a host's units is declared with the term (`terms.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .artifact import Metadata
from .errors import UserError
from .lattice import GEOMETRIES, Boundary, Geometry
from .terms import TERMS, HostTerm, ModelTerm, Values


@dataclass(frozen=True)
class Target:
    """How one host writes the energy of the training convention."""

    key: str
    host: str
    """What users call it."""
    boundary_words: dict[Boundary, str]
    """What the host calls each boundary."""
    forbids_extinction: bool
    """Whether the host itself never takes a cell's last pixel."""
    own_elements: bool = True
    """Whether terms become elements of its own; the embedded host computes them as they are."""
    property_words: str = "the property {name!r}"
    """What a user sets so that a cell has a named property; `.format(name=…)`."""
    surface_unit: Mapping[str, float] = field(default_factory=dict)
    """A cell's surface in the host per ordered pair of neighbours that leaves it, by geometry."""
    highest_order: Mapping[str, int] = field(default_factory=dict)
    """Of the host's neighbourhoods, by geometry; where none is given every order serves."""

    pair_divisors: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    """By the host's word for it and the geometry: what it divides counts of neighbour pairs by, by neighbour order; a
    word without numbers stands for their number, and one that is not here is unknown."""

    def pair_divisor(self, word: str, geometry: Geometry, order: int) -> float | None:
        """What the host divides a count of neighbour pairs by where its file says this word; None: nobody knows."""
        if word not in self.pair_divisors:
            return None
        known = self.pair_divisors[word].get(geometry.name)
        if known is None:
            return float(geometry.neighbour_count(order))
        return known[order - 1] if order <= len(known) else None

    def boundary_named(self, text: str) -> Boundary:
        """The boundary a host takes from the text in its file: periodic to the letter, or with a border.

        Empty lines around the word do not count, blanks beside it do: neither host strips them.
        """
        word = "\n".join(line for line in text.splitlines() if line.strip())
        return "periodic" if word == self.boundary_words["periodic"] else "free"


TARGETS = {
    target.key: target
    for target in (
        Target(
            "embedded",
            "the embedded host",
            {"periodic": "periodic", "free": "free"},
            forbids_extinction=False,
            own_elements=False,
        ),
        Target(
            "cc3d",
            "CompuCell3D",
            {"periodic": "Periodic", "free": "NoFlux"},
            forbids_extinction=False,
            property_words="cell.dict[{name!r}]",
            # Pairs on a hexagonal lattice count as the edges of hexagons of area 1.
            surface_unit={"square": 1.0, "hexagonal": float(np.sqrt(2 / (3 * np.sqrt(3)))), "cubic": 1.0},
        ),
        Target(
            "morpheus",
            "Morpheus",
            # A constant border of a second medium whose contacts cost nothing; 'noflux' would be plain medium.
            {"periodic": "periodic", "free": "constant"},
            forbids_extinction=True,
            property_words='<Property symbol="{name}">',
            surface_unit={"square": 1.0, "hexagonal": 1.0, "cubic": 1.0},
            highest_order={"square": 6, "hexagonal": 5, "cubic": 8},
            pair_divisors={
                "none": dict.fromkeys(GEOMETRIES, (1.0,) * 8),
                "classic": dict.fromkeys(GEOMETRIES, (1.0,) * 8),
                "size": {},
                # Of 2.2; newer versions have another table.
                "norm": {
                    "square": (1, 3, 5, 11, 15, 18),
                    "hexagonal": (2.2, 6, 10.4, 22.1, 28.65),
                    "cubic": (1, 5, 9, 11, 23, 39, 47, 70),
                },
            },
        ),
    )
}


@dataclass(frozen=True)
class HostValues:
    """A model's analytic terms in a host's units, in the order of the energy, and its temperature there.

    `values.terms["contact"]["J"]` is `[T, T]`, `values.terms["volume"]["target"]` is `[T]`, and so on by the names of
    the weights (`TERMS`); entry 0 is the medium. `values.terms["contact"].order` is the neighbour order. Terms that the
    model lacks are not there.
    """

    terms: dict[str, HostTerm]
    temperature: float


def model_terms(metadata: Metadata, energy_scale: float = 1.0) -> Iterator[ModelTerm]:
    """The model's terms in the training convention, in the order of the energy."""
    if metadata.symbolic is None:
        return
    for name, spec in TERMS.items():
        if name in metadata.symbolic.terms:
            stated = metadata.symbolic.terms[name]
            values: Values = {key: np.array(stated[key], dtype=np.float64) for key in spec.weights if key in stated}
            scale = metadata.symbolic.weight * energy_scale
            yield ModelTerm(name, values, metadata.geometry, metadata.boundary, metadata.orders, scale)


def uncarried_terms(metadata: Metadata, target: Target) -> dict[str, str]:
    """The model's terms that a host's own elements cannot carry exactly, and why, in a clause; empty: none."""
    found = {term.name: TERMS[term.name].in_host(target, term) for term in model_terms(metadata)}
    return {name: reason for name, reason in found.items() if isinstance(reason, str)}


def symbolic_values(metadata: Metadata, target: Target, energy_scale: float = 1.0) -> HostValues:
    """w_S·J, w_S·λ, V* … and T of a model in a host's units; `energy_scale` multiplies every energy and T alike."""
    if metadata.symbolic is None:
        raise UserError(
            f"The model ({metadata.architecture}) has no analytic terms to write into {target.host}: use it as the "
            "whole Hamiltonian (term 'full')."
        )
    carried = {}
    for term in model_terms(metadata, energy_scale):
        in_host = TERMS[term.name].in_host(target, term)
        if isinstance(in_host, str):
            raise UserError(
                f"The model's term {term.name!r} is one that {target.host}'s own elements cannot carry, because "
                f"{in_host}: use the model as the whole Hamiltonian (term 'full')."
            )
        carried[term.name] = in_host
    return HostValues(carried, metadata.temperature * energy_scale)


def host_notes(metadata: Metadata, target: Target) -> list[str]:
    """Sentences about what a host does otherwise than training did, although it carries the energy."""
    in_host = [TERMS[term.name].in_host(target, term) for term in model_terms(metadata)]
    notes = [term.note for term in in_host if isinstance(term, HostTerm) and term.note]
    if target.forbids_extinction and not metadata.extinction:
        notes.append(f"{target.host} never takes a cell's last pixel, which could be taken in training.")
    return notes


def neural_scale(metadata: Metadata, host_temperature: float) -> float:
    """Factor of the neural ΔH in a host that runs at its own temperature: what it does to probabilities is kept."""
    return host_temperature / metadata.temperature


# -- for people ---------------------------------------------------------------------------------------------------


class ParameterRow(NamedTuple):
    """One number of a model in the units of every host (keys of `TARGETS`); None where a host does not carry it."""

    title: str
    key: str
    """What data sets with a known truth call it."""
    values: dict[str, float | None]


def parameter_rows(metadata: Metadata) -> list[ParameterRow]:
    """Every number of the analytic terms, the temperature and w_NN, host by host."""
    rows = []
    for term in model_terms(metadata):
        spec = TERMS[term.name]
        in_hosts = {key: spec.in_host(target, term) for key, target in TARGETS.items()}
        for weight in (weight for weight in spec.symbols if weight in term.values):
            for index, label, suffix in _entries(term, weight, metadata.types):
                values = {
                    key: float(found[weight][index]) if isinstance(found, HostTerm) else None
                    for key, found in in_hosts.items()
                }
                key = f"{spec.known_as[weight]}{suffix}" if weight in spec.known_as else ""
                rows.append(ParameterRow(spec.symbols[weight] + label, key, values))
    rows.append(ParameterRow("T", "", dict.fromkeys(TARGETS, metadata.temperature)))
    if metadata.neural is not None:
        rows.append(ParameterRow("w_NN", "", dict.fromkeys(TARGETS, metadata.neural.weight)))
    return rows


def _entries(term: ModelTerm, weight: str, types: tuple[str, ...]) -> Iterator[tuple[tuple[int, ...], str, str]]:
    """Index, label and suffix of a weight's numbers: a pair of types once, all cell types once where they are alike."""
    spec, value = TERMS[term.name], term.values[weight]
    if spec.weights[weight] == "TT":
        for a in range(len(types)):
            for b in range(max(a, 1), len(types)):
                yield (a, b), f" {types[a]}, {types[b]}", f"{a}{b}"
        return
    alike = not spec.medium and all((other[1:] == other[1:2]).all() for other in term.values.values())
    for cell_type in range(0 if spec.medium else 1, min(2, len(types)) if alike else len(types)):
        for rest in np.ndindex(value.shape[1:]):
            number = "".join(f" {place + 1}" for place in rest)
            yield (cell_type, *rest), number + ("" if alike else f", {types[cell_type]}"), ""
