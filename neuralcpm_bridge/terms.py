"""The analytic terms of H_S, each declared once: its weights, whether it has a neighbourhood, how hosts carry it.

The weights of a term are `symbolic.<term>.<weight>` in the artifact and `symbolic.terms.<term>.<weight>` in its
metadata; formulas are in docs/artifact.md. Training (`training/hamiltonians/terms.py`) and the engine
(`engine/src/terms.cpp`) have a class for each under the same name. Everything else iterates over `TERMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .lattice import Boundary, Geometry

if TYPE_CHECKING:
    from .conventions import Target

Values = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class ModelTerm:
    """One term of a model in the training convention, with what decides how a host would write it.

    `orders`: the neighbour orders of all the model's terms. `scale`: w_S and the host's energy scale, which multiply
    every energy.
    """

    name: str
    values: Values
    geometry: Geometry
    boundary: tuple[Boundary, ...]
    orders: Mapping[str, int]
    scale: float = 1.0

    @property
    def order(self) -> int:
        return self.orders[self.name]

    @property
    def free(self) -> bool:
        """Whether some axis ends at a border."""
        return "free" in self.boundary


@dataclass(frozen=True)
class HostTerm:
    """One term as a host's own elements take it: numbers by the weights' names in the host's units."""

    values: Values
    order: int | None = None
    note: str = ""
    """What the host does otherwise in rare cases, as a sentence; empty: nothing."""

    def __getitem__(self, weight: str) -> NDArray[np.float64]:
        return self.values[weight]


Check = Callable[[ModelTerm], str]
"""Why a host cannot carry a term exactly: a clause that completes "…, because"; empty where it can."""


def always(term: ModelTerm) -> str:
    return ""


@dataclass(frozen=True)
class TermSpec:
    """The declaration of a term."""

    name: str
    weights: Mapping[str, str]
    """Shape of each weight by letters: T types (entry 0: the medium), K of the term's own, S the lattice's axes."""
    energies: frozenset[str]
    """Weights that are energies: they scale with w_S; the others are volumes, lengths and the like."""
    symbols: Mapping[str, str]
    """How people write the weights in a table; what is not here is too large for one."""
    known_as: Mapping[str, str] = field(default_factory=dict)
    """What the truth of a generated data set calls weights; a pair of types is added, as in J12."""
    ordered: bool = False
    """Whether it looks at neighbours up to some order."""
    optional: frozenset[str] = frozenset()
    medium: bool = False
    """Whether the medium pays too; else entry 0 of weights is unused."""
    hosts: Mapping[str, Check] = field(default_factory=dict)
    """The hosts that have an element for it (keys of `conventions.TARGETS`), and when that carries it exactly."""
    pair_units: Callable[[ModelTerm, Target], Mapping[str, float]] = lambda term, target: {}
    """Factors of weights in hosts that count neighbour pairs where the training convention weighs them with 2/|N|."""
    notes: Mapping[str, str] = field(default_factory=dict)

    def in_host(self, target: Target, term: ModelTerm) -> HostTerm | str:
        """The term in a host's units, or why the host cannot carry it exactly."""
        order = term.order if self.ordered else None
        units: Mapping[str, float] = {}
        if target.own_elements:
            if target.key not in self.hosts:
                return f"{target.host} has no element for it"
            if reason := self.hosts[target.key](term):
                return reason
            highest = target.highest_order.get(term.geometry.name)
            if order is not None and highest is not None and order > highest:
                return f"{target.host} knows neighbours up to order {highest} there, but it has order {order}"
            units = self.pair_units(term, target)
        values = {
            name: value * units.get(name, 1.0) * (term.scale if name in self.energies else 1.0)
            for name, value in term.values.items()
        }
        return HostTerm(values, order, self.notes.get(target.key, ""))

    def of_host(self, target: Target, written: ModelTerm) -> tuple[Values, str]:
        """`in_host` backwards: numbers of a host's element, with the host's temperature as their scale, in the training
        convention and units of that temperature; and a clause about where the host means something else, if it does."""
        units = self.pair_units(written, target)
        values = {
            name: value / units.get(name, 1.0) / (written.scale if name in self.energies else 1.0)
            for name, value in written.values.items()
        }
        return values, self.hosts[target.key](written)

    def described(self, weights: Mapping[str, NDArray[Any]], order: int | None) -> dict[str, Any]:
        """Its entry in the metadata from its weights by name; fields, being as large as the lattice, are counted."""
        entry: dict[str, Any] = {} if order is None else {"order": order}
        for name, letters in self.weights.items():
            if name in weights:
                entry |= {f"{name}s": len(weights[name])} if "S" in letters else {name: weights[name].tolist()}
        return entry


# -- which hosts carry what ---------------------------------------------------------------------------------------


def contact_units(term: ModelTerm, target: Target) -> dict[str, float]:
    return {"J": term.geometry.pair_weight(term.order)}


def surface_units(term: ModelTerm, target: Target) -> dict[str, float]:
    unit = target.surface_unit[term.geometry.name] / term.geometry.pair_weight(term.order)
    return {"strength": 1 / unit**2, "target": unit}


def unsigned_target(term: ModelTerm) -> str:
    lowest = float(term.values["target"][1:].min(initial=0.0))
    return f"CompuCell3D takes the target {lowest:g} without its sign" if lowest < 0 else ""


def parabolas_only(term: ModelTerm) -> str:
    return "CompuCell3D's Volume plugin knows one parabola per type only"


def morpheus_surface(term: ModelTerm) -> str:
    if term.free:
        return "Morpheus counts a free border into the surface of the cells at it"
    contact = term.orders.get("contact", term.order)
    if contact != term.order:
        return (
            f"Morpheus has one ShapeSurface for contacts and surfaces, but they have the orders {contact} and "
            f"{term.order}"
        )
    return ""


def cc3d_length(term: ModelTerm) -> str:
    if "periodic" in term.boundary:
        return "CompuCell3D does not follow a cell across a periodic border when it measures lengths"
    if term.geometry.dimension == 3 and "minor_target" not in term.values:
        return "CompuCell3D's length of 3D cells always has a minor axis, but the model has no target for it"
    return ""


def morpheus_length(term: ModelTerm) -> str:
    # Of a pixel that a cell loses Morpheus' tracker of 3D moments (2.2.4) takes the wrong place.
    return "Morpheus mistakes the length of a 3D cell that loses a pixel" if term.geometry.dimension == 3 else ""


# -- the terms, in the order of the energy ------------------------------------------------------------------------

STRENGTH = frozenset({"strength"})

TERMS: dict[str, TermSpec] = {
    spec.name: spec
    for spec in (
        TermSpec(
            "contact",
            {"J": "TT"},
            energies=frozenset({"J"}),
            symbols={"J": "J"},
            known_as={"J": "J"},
            ordered=True,
            hosts={"cc3d": always, "morpheus": always},
            pair_units=contact_units,
        ),
        TermSpec(
            "volume",
            {"strength": "T", "target": "T"},
            energies=STRENGTH,
            symbols={"strength": "λ", "target": "V*"},
            known_as={"strength": "lambda"},
            hosts={"cc3d": unsigned_target, "morpheus": always},
        ),
        TermSpec(
            "volume_function",
            {"center": "T", "low": "T", "high": "T", "coefficients": "TK", "stiffness": "T"},
            energies=frozenset({"coefficients", "stiffness"}),
            symbols={
                "center": "f center",
                "low": "f from V",
                "high": "f to V",
                "coefficients": "f power",
                "stiffness": "f stiffness",
            },
            hosts={"cc3d": parabolas_only, "morpheus": always},
        ),
        TermSpec(
            "surface",
            {"strength": "T", "target": "T"},
            energies=STRENGTH,
            symbols={"strength": "σ", "target": "S*"},
            ordered=True,
            hosts={"cc3d": unsigned_target, "morpheus": morpheus_surface},
            pair_units=surface_units,
        ),
        TermSpec(
            "length",
            {"strength": "T", "target": "T", "minor_target": "T"},
            energies=STRENGTH,
            symbols={"strength": "λ_L", "target": "L*", "minor_target": "M*"},
            optional=frozenset({"minor_target"}),
            hosts={"cc3d": cc3d_length, "morpheus": morpheus_length},
            notes={
                "cc3d": "CompuCell3D charges no length energy where rounding leaves the axes of a flat or very small "
                "cell undefined.",
                "morpheus": "Morpheus gives a cell of a single pixel the length 1, not 0.",
            },
        ),
        TermSpec(
            "external",
            {"field": "KS", "coupling": "TK"},
            energies=frozenset({"coupling"}),
            symbols={"coupling": "coupling"},
            medium=True,
        ),
    )
}


def described_terms(weights: Mapping[str, NDArray[Any]], orders: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """`symbolic.terms` of the metadata from all weights of a model by their full names."""
    described = {}
    for name, spec in TERMS.items():
        own = {key.split(".")[2]: value for key, value in weights.items() if key.startswith(f"symbolic.{name}.")}
        if own:
            described[name] = spec.described(own, orders[name] if spec.ordered else None)
    return described


@dataclass(frozen=True)
class VolumeFunction:
    """f(V) per type (entry 0 is the medium): a polynomial between two volumes, continued quadratically outside.

    f(V) = p(u) + p'(u)·(V − u) + stiffness·(V − u)², u = V limited to low … high,
    p(u) = Σ over k = 1…K of coefficients[type, k − 1]·(u − center)^k.
    """

    center: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    stiffness: NDArray[np.float64]

    def __call__(self, cell_type: int, volume: NDArray[np.float64]) -> NDArray[np.float64]:
        inside = np.clip(volume, self.low[cell_type], self.high[cell_type])
        x, beyond = inside - self.center[cell_type], volume - inside
        powers = np.arange(1, self.coefficients.shape[1] + 1)
        value = (self.coefficients[cell_type] * x[..., None] ** powers).sum(axis=-1)
        slope = (self.coefficients[cell_type] * powers * x[..., None] ** (powers - 1)).sum(axis=-1)
        return value + slope * beyond + self.stiffness[cell_type] * beyond**2
