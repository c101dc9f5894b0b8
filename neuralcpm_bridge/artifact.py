"""The artifact: one ONNX file with weights, metadata and examples (docs/artifact.md is its contract)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from .errors import UserError, engine_speaking, reading
from .lattice import Boundary, Geometry, GeometryName, Lattice, boundaries, geometry_named, size_text
from .pretrained import resolve_model
from .state import CellState, is_property_name
from .terms import TERMS
from .upgrade import upgraded

if TYPE_CHECKING:
    from ._engine import Model

FORMAT = 2
METADATA_KEY = "neuralcpm"
CONVENTION = "H = 2/|N| sum over unordered neighbour pairs J + sum lambda (V - V*)^2 + ...; accept min(1, exp(-dH/T))"

CELL_INPUTS = ("volume", "anisotropy", "radius", "surface", "prolateness")
"""Of a cell of a cell graph: sites, 0 (round) to 1 (a rod), radius of gyration, surface, and in 3D the anisotropy with
its sign, of discs negative; named properties follow."""

ENGINE_KINDS = ("cell_graph", "nh", "local_nh")
"""Networks whose ΔH the engine computes incrementally; the others run on ONNX Runtime."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LatticeEntry(_Strict):
    """Where a model lives: its geometry, its boundary per axis, and the shape it was trained on, if any."""

    geometry: GeometryName = "square"
    boundary: tuple[Boundary, ...] = ("periodic", "periodic")
    shape: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls, geometry: str = "square", boundary: str | Sequence[str] = "periodic", shape: Sequence[int] | None = None
    ) -> LatticeEntry:
        """From names, one boundary for all axes or one for each."""
        each = boundaries(boundary, geometry_named(geometry).dimension)
        return cls(geometry=geometry_named(geometry).name, boundary=each, shape=None if shape is None else tuple(shape))

    @model_validator(mode="after")
    def _has_one_entry_per_axis(self) -> LatticeEntry:
        dimension = geometry_named(self.geometry).dimension
        if len(self.boundary) != dimension or (self.shape is not None and len(self.shape) != dimension):
            raise ValueError(f"a {self.geometry} lattice has {dimension} axes")
        return self

    def with_shape(self, shape: Sequence[int]) -> Lattice:
        return Lattice.of(shape, self.geometry, self.boundary)


GRAPH_SIZES = frozenset({"rounds", "width", "members", "order", "knots", "properties"})
CONVOLUTION_SIZES = frozenset({"stride", "widths", "pools", "padding", "project", "mlp", "conv_widths", "conv_pools"})


class NeuralSpec(_Strict):
    """Sizes of a network; the weights' shapes follow from it (docs/artifact.md). A cell graph has other ones than
    networks of convolutions."""

    kind: Literal["cell_graph", "nh", "local_nh", "nh_cnn", "cnn"]

    # of a cell graph: rounds of messages, features of a cell, networks in the committee, neighbour order of contacts,
    # knots of the energies of pairs by their distance (0: none), and the named properties of cells it reads
    rounds: int = Field(1, ge=1)
    width: int = Field(16, ge=16, multiple_of=16)
    members: int = Field(1, ge=1)
    order: int = Field(1, ge=1)
    knots: int = Field(0, ge=0)
    properties: tuple[str, ...] = ()

    # of convolutions
    stride: int = Field(3, ge=1)
    widths: tuple[int, ...] = ()
    pools: tuple[int, ...] = ()
    padding: Literal["zeros", "circular"] = "zeros"
    project: int = Field(32, ge=1)
    mlp: tuple[int, ...] = (32, 32)
    conv_widths: tuple[int, ...] = ()
    conv_pools: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _has_its_own_sizes(self) -> NeuralSpec:
        if len(set(self.properties)) != len(self.properties) or not all(map(is_property_name, self.properties)):
            raise ValueError(f"properties {', '.join(self.properties)} are not different names of letters and digits")
        foreign = self.model_fields_set & self._foreign
        if foreign:
            raise ValueError(f"a network of the kind {self.kind} has no {sorted(foreign)[0]}")
        return self

    @model_serializer(mode="wrap")
    def _only_its_own_sizes(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name not in self._foreign}

    @property
    def _foreign(self) -> frozenset[str]:
        """Fields of other kinds."""
        return CONVOLUTION_SIZES if self.is_graph else GRAPH_SIZES

    @property
    def is_graph(self) -> bool:
        """Whether it looks at cells, on any lattice; the others look at sites of 2D square ones."""
        return self.kind == "cell_graph"

    @property
    def receptive_field(self) -> int | None:
        """Sites across the window one energy site sees; None: the whole lattice, or as many cells as there are rounds
        to each side."""
        return self.stride * (8 * len(self.widths) + 1) if self.kind == "local_nh" else None

    @property
    def smallest_lattice(self) -> int:
        """Sites per side below which pooling leaves nothing."""
        if self.is_graph:
            return 1
        return self.stride * int(np.prod([1, *self.pools, *self.conv_pools]))


class SymbolicSpec(_Strict):
    """The analytic terms, their neighbour orders and values, for people and host writers; the initialisers count."""

    weight: float
    offset: float = 0.0
    terms: dict[str, dict[str, Any]]


class NeuralEntry(NeuralSpec):
    """A network's sizes and its weight w_NN, as the metadata holds them."""

    weight: float

    @property
    def spec(self) -> NeuralSpec:
        return NeuralSpec(**self.model_dump(exclude={"weight"}))


class Example(_Strict):
    """A state with its energies and flip differences (site, new id, ΔH), computed in float64 when it was written."""

    shape: tuple[int, ...]
    runs: list[tuple[int, int]]
    types: list[int]
    properties: dict[str, list[float]] = Field(default_factory=dict)
    """Named ones of cells that the model reads, one value per id."""
    energy: float
    symbolic: float
    neural: float
    flips: list[tuple[int, int, float]]

    @staticmethod
    def encode(ids: NDArray[np.int32]) -> list[tuple[int, int]]:
        flat = ids.ravel()
        starts = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1]]))
        lengths = np.diff(np.concatenate([starts, [flat.size]]))
        return [(int(flat[start]), int(length)) for start, length in zip(starts, lengths, strict=True)]

    def state(self, lattice: LatticeEntry) -> CellState:
        ids, lengths = np.array(self.runs, dtype=np.int64).reshape(-1, 2).T
        if lengths.min(initial=1) < 1 or lengths.sum() != np.prod(self.shape):
            raise UserError("An example state of the model file does not fill its lattice: export the model again.")
        return CellState(
            np.repeat(ids, lengths).reshape(self.shape),
            np.array(self.types),
            lattice.with_shape(self.shape),
            {name: np.array(values) for name, values in self.properties.items()},
        )


class Metadata(_Strict):
    """Everything a loader must know besides the weights."""

    format: int = FORMAT
    name: str
    architecture: str
    parameters: int
    types: tuple[str, ...]
    cells: int | None = None
    fixed_cells: int | None = None
    fixed_lattice: tuple[int, ...] | None = None
    lattice: LatticeEntry = LatticeEntry()
    convention: str = CONVENTION
    temperature: float = Field(1.0, gt=0)
    extinction: bool = True
    receptive_field: int | None = None
    symbolic: SymbolicSpec | None = None
    neural: NeuralEntry | None = None
    training: dict[str, Any] = Field(default_factory=dict)
    weights_hash: str = ""
    examples: list[Example] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_a_lattice_for_its_network(self) -> Metadata:
        if self.neural is not None and not self.neural.is_graph and self.lattice.geometry != "square":
            raise UserError(
                f"The network ({self.neural.kind}) is made for a {self.lattice.geometry} lattice, but convolutions "
                "exist on 2D square lattices only: use a cell graph, analytic terms, or a square lattice."
            )
        return self

    @property
    def geometry(self) -> Geometry:
        return geometry_named(self.lattice.geometry)

    @property
    def boundary(self) -> tuple[Boundary, ...]:
        return self.lattice.boundary

    @property
    def properties(self) -> tuple[str, ...]:
        """Named properties of cells that the model reads besides their types."""
        return self.neural.properties if self.neural is not None else ()

    @property
    def orders(self) -> dict[str, int]:
        """Neighbour order of every term that has one; all around a site where the model does not say."""
        terms = self.symbolic.terms if self.symbolic is not None else {}
        ordered = (name for name, spec in TERMS.items() if spec.ordered and name in terms)
        return {name: int(terms[name].get("order", self.geometry.moore_order)) for name in ordered}

    def example_states(self) -> list[CellState]:
        return [example.state(self.lattice) for example in self.examples]


def architecture_name(terms: set[str], kind: str | None) -> str:
    """What a model of these parts is called."""
    if kind is None:
        return "external" if "external" in terms else "cellsort" if terms <= {"contact", "volume"} else "analytic"
    if not terms:
        return kind
    closures = {"nh": "closure", "local_nh": "local_closure", "cell_graph": "graph_closure"}
    return closures.get(kind, f"{kind}_closure")


@dataclass(frozen=True)
class Artifact:
    """A loaded model file; `model` is the engine's, which has checked it and computes with it."""

    path: Path
    metadata: Metadata
    model: Model

    @cached_property
    def weights(self) -> dict[str, NDArray[Any]]:
        """Every named initialiser."""
        return self.model.weights

    @property
    def engine_serves(self) -> bool:
        """Whether the engine computes this architecture; the others run on ONNX Runtime."""
        return self.model.covered

    @property
    def property_means(self) -> dict[str, float]:
        """Of the named properties that it reads, over the training data: what a cell has until it is given one."""
        names = self.metadata.properties
        values = self.weights["neural.cell_mean"][-len(names) :] if names else ()
        return {name: float(value) for name, value in zip(names, values, strict=True)}

    @property
    def property_ranges(self) -> dict[str, NDArray[np.float64]]:
        """Smallest and largest value of each in the training data, by cell type, `[T, 2]`."""
        names, inputs = self.metadata.properties, len(self.metadata.properties)
        if not names:
            return {}
        ends = np.stack([self.weights[f"neural.{end}"][:, -inputs:] for end in ("low", "high")], axis=-1)
        return {name: ends[:, number].astype(np.float64) for number, name in enumerate(names)}

    @property
    def ranges(self) -> dict[str, dict[str, tuple[float, float]]]:
        """What the training data of a cell graph had of every cell type and input: smallest and largest value; empty
        where no data have been seen."""
        if "neural.low" not in self.weights:
            return {}
        low, high = self.weights["neural.low"], self.weights["neural.high"]
        inputs = (*CELL_INPUTS, *self.metadata.properties)
        return {
            cell_type: {name: (float(a), float(b)) for name, a, b in zip(inputs, low[row], high[row], strict=True)}
            for row, cell_type in enumerate(self.metadata.types)
            if row and high[row, 0] > 0
        }

    @property
    def size_bytes(self) -> int:
        return self.path.stat().st_size

    def state_from_channels(self, channels: NDArray[Any]) -> CellState:
        """`[2, H, W]`, with as many ids as the model was trained with (more, where it is not bound to them)."""
        ids = self.metadata.fixed_cells or self.metadata.cells
        if ids is not None and self.metadata.fixed_cells is None:
            ids = max(ids, int(np.asarray(channels)[0].max(initial=0)) + 1)
        return CellState.from_channels(channels, ids)

    def on(self, boundary: Sequence[Boundary]) -> Artifact:
        """The same model on another boundary, where its network sees any: a cell graph does, others stay."""
        network = self.metadata.neural
        if network is None or not network.is_graph or tuple(boundary) == self.metadata.boundary:
            return self
        lattice = self.metadata.lattice.model_copy(update={"boundary": tuple(boundary)})
        return replace(self, metadata=self.metadata.model_copy(update={"lattice": lattice}))

    def place(self, state: CellState) -> CellState:
        """The state on the model's boundary with the properties that it reads; refused where it cannot take it."""
        meta, lattice = self.metadata, state.lattice
        if lattice.geometry.name != meta.lattice.geometry:
            raise UserError(
                f"The state lies on a {lattice.geometry.name} lattice, but the model is for {meta.lattice.geometry} "
                "ones: use a model of that lattice."
            )
        known = meta.types
        if state.types.max() >= len(known):
            cell = int(np.argmax(state.types))
            raise UserError(
                f"Cell {cell} has type {state.types[cell]}, but the model knows the types 0 to {len(known) - 1} "
                f"({', '.join(known)}): map the type to one of these."
            )
        if meta.fixed_cells is not None and state.types.size != meta.fixed_cells:
            raise UserError(
                f"The state has {state.types.size} ids (medium included), but this model ({meta.architecture})"
                f" is fixed to {meta.fixed_cells}: use a state with as many, or a model of another architecture."
            )
        if meta.fixed_lattice is not None and lattice.shape != meta.fixed_lattice:
            raise UserError(
                f"The state is {size_text(lattice.shape)}, but the model's external potential is fixed to "
                f"{size_text(meta.fixed_lattice)}: crop or pad the state to that lattice."
            )
        smallest = meta.neural.smallest_lattice if meta.neural else 1
        if min(lattice.shape) < smallest:
            raise UserError(
                f"The state is {size_text(lattice.shape)}, but the model's strides and pools need at least "
                f"{smallest} sites per side: use a larger lattice."
            )
        state = state.reading(meta.properties)
        if lattice.boundary == meta.boundary:
            return state
        return replace(state, lattice=lattice.with_boundary(meta.boundary))


def load_artifact(path: str | Path) -> Artifact:
    """Read a model file; the engine checks its format, its hash, its shapes and its examples, in well under a second.

    `path` may name a bundled model: `pretrained:NAME`.
    """
    from ._engine import Model

    path = resolve_model(path)
    if not path.is_file():
        raise UserError(f"There is no model file {path}: give the path of a model.onnx, or pretrained:NAME.")
    with reading(path, "a readable model", "export it again"), engine_speaking():
        model = Model.load(str(path))
        try:
            metadata = Metadata.model_validate(upgraded(json.loads(model.metadata)))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise UserError(f"{path} has wrong metadata ({where}: {first['msg']}): export the model again.") from None
        return Artifact(path, metadata, model)


def reweighted(artifact: Artifact, factor: float) -> Artifact:
    """The same model with its learned term times a factor: for looking at what the term does, not for saving."""
    from ._engine import Model

    meta = artifact.metadata
    if meta.neural is None:
        return artifact
    weight = meta.neural.weight * factor
    changed = meta.model_copy(update={"neural": meta.neural.model_copy(update={"weight": weight})})
    weights = dict(artifact.weights) | {"neural.weight": np.full_like(artifact.weights["neural.weight"], weight)}
    with engine_speaking():
        return replace(artifact, metadata=changed, model=Model(changed.model_dump_json(), weights))


def check_against_examples(artifact: Artifact, backend: str) -> None:
    """Recompute the stored energies and flips with a back end; refuse the file where they differ."""
    from .delta import open_backend

    for number, (example, state) in enumerate(
        zip(artifact.metadata.examples, artifact.metadata.example_states(), strict=True)
    ):
        served = open_backend(artifact, state, prefer=backend)
        energy = served.energy()
        allowed = allowed_error(energy.symbolic, energy.neural)
        worst = max(abs(energy.symbolic - example.symbolic), abs(energy.neural - example.neural))
        if example.flips:
            sites, new_ids, deltas = (np.array(column) for column in zip(*example.flips, strict=True))
            worst = max(worst, float(np.abs(served.deltas(sites, new_ids).sum(axis=1) - deltas).max()))
        if not worst <= allowed:
            raise UserError(
                f"{artifact.path} disagrees with its own example {number} by {worst:.3g} (allowed: {allowed:.3g}) on "
                f"{served.name}: the file is damaged or was made by a faulty program, export it again."
            )


def allowed_error(symbolic: float, neural: float) -> float:
    """What float32 rounding explains between two back ends, as the engine's own loader has it."""
    return 1e-4 + 1e-5 * (abs(symbolic) + abs(neural))
