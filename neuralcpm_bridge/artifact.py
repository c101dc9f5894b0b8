"""The artifact: one ONNX file with weights, metadata and examples (docs/artifact.md is its contract)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import UserError
from .pretrained import resolve_model
from .state import CellState

FORMAT = 1
METADATA_KEY = "neuralcpm"
CONVENTION = "H = 1/4 sum over unordered Moore pairs J + sum lambda (V - V*)^2; accept min(1, exp(-dH/T))"

ENGINE_KINDS = ("nh", "local_nh")
"""Networks whose ΔH the engine computes incrementally; the others run on ONNX Runtime."""


Boundary = Literal["periodic", "free"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NeuralSpec(_Strict):
    """Sizes of a network; the weights' shapes follow from it (docs/artifact.md)."""

    kind: Literal["nh", "local_nh", "nh_cnn", "cnn"]
    stride: int = Field(3, ge=1)
    widths: tuple[int, ...] = ()
    pools: tuple[int, ...] = ()
    padding: Literal["zeros", "circular"] = "zeros"
    project: int = Field(32, ge=1)
    mlp: tuple[int, ...] = (32, 32)
    conv_widths: tuple[int, ...] = ()
    conv_pools: tuple[int, ...] = ()

    @property
    def receptive_field(self) -> int | None:
        """Sites across the window one energy site sees; None: the whole lattice."""
        return self.stride * (8 * len(self.widths) + 1) if self.kind == "local_nh" else None

    @property
    def smallest_lattice(self) -> int:
        """Sites per side below which pooling leaves nothing."""
        return self.stride * int(np.prod([1, *self.pools, *self.conv_pools]))


class SymbolicSpec(_Strict):
    """The analytic terms and their values, for people and host writers; the initialisers are what counts."""

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
    """A state with its energies and flip differences, computed in float64 when the file was written."""

    shape: tuple[int, int]
    runs: list[tuple[int, int]]
    types: list[int]
    energy: float
    symbolic: float
    neural: float
    flips: list[tuple[int, int, int, float]]

    @staticmethod
    def encode(ids: NDArray[np.int32]) -> list[tuple[int, int]]:
        flat = ids.ravel()
        starts = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1]]))
        lengths = np.diff(np.concatenate([starts, [flat.size]]))
        return [(int(flat[start]), int(length)) for start, length in zip(starts, lengths, strict=True)]

    def state(self) -> CellState:
        cells, lengths = np.array(self.runs, dtype=np.int64).reshape(-1, 2).T
        height, width = self.shape
        if lengths.min(initial=1) < 1 or lengths.sum() != height * width:
            raise UserError("An example state of the model file does not fill its lattice: export the model again.")
        return CellState(np.repeat(cells, lengths).reshape(self.shape), np.array(self.types))


class Metadata(_Strict):
    """Everything a loader must know besides the weights."""

    format: int = FORMAT
    name: str
    architecture: str
    parameters: int
    types: tuple[str, ...]
    cells: int | None = None
    fixed_cells: int | None = None
    fixed_lattice: tuple[int, int] | None = None
    lattice: tuple[int, int] | None = None
    boundary: Boundary = "periodic"
    neighbor_order: Literal[2] = 2
    convention: str = CONVENTION
    temperature: float = Field(1.0, gt=0)
    extinction: bool = True
    receptive_field: int | None = None
    symbolic: SymbolicSpec | None = None
    neural: NeuralEntry | None = None
    training: dict[str, Any] = Field(default_factory=dict)
    weights_hash: str = ""
    examples: list[Example] = Field(default_factory=list)


def architecture_name(terms: set[str], kind: str | None) -> str:
    """What a model of these parts is called."""
    if kind is None:
        return "external" if "external" in terms else "cellsort" if terms <= {"contact", "volume"} else "analytic"
    if not terms:
        return kind
    return {"nh": "closure", "local_nh": "local_closure"}.get(kind, f"{kind}_closure")


@dataclass(frozen=True)
class Artifact:
    """A loaded model file."""

    path: Path
    metadata: Metadata
    weights: dict[str, NDArray[Any]]

    @property
    def engine_serves(self) -> bool:
        return self.metadata.neural is None or self.metadata.neural.kind in ENGINE_KINDS

    @property
    def size_bytes(self) -> int:
        return self.path.stat().st_size

    def state_from_channels(self, channels: NDArray[Any]) -> CellState:
        """`[2, H, W]`, with as many ids as the model was trained with (more, where it is not bound to them)."""
        cells = self.metadata.fixed_cells or self.metadata.cells
        if cells is not None and self.metadata.fixed_cells is None:
            cells = max(cells, int(np.asarray(channels)[0].max(initial=0)) + 1)
        return CellState.from_channels(channels, cells)

    def check_state(self, state: CellState) -> None:
        """Refuse a state that this model cannot take."""
        known = self.metadata.types
        if state.types.max() >= len(known):
            cell = int(np.argmax(state.types))
            raise UserError(
                f"Cell {cell} has type {state.types[cell]}, but the model knows the types 0 to {len(known) - 1} "
                f"({', '.join(known)}): map the type to one of these."
            )
        fixed_cells, fixed_lattice = self.metadata.fixed_cells, self.metadata.fixed_lattice
        if fixed_cells is not None and state.types.size != fixed_cells:
            raise UserError(
                f"The state has {state.types.size} ids (medium included), but this model ({self.metadata.architecture})"
                f" is fixed to {fixed_cells}: use a state with as many, or a model of another architecture."
            )
        if fixed_lattice is not None and state.shape != tuple(fixed_lattice):
            raise UserError(
                f"The state is {state.shape[0]}×{state.shape[1]}, but the model's external potential is fixed to "
                f"{fixed_lattice[0]}×{fixed_lattice[1]}: crop or pad the state to that lattice."
            )
        smallest = self.metadata.neural.smallest_lattice if self.metadata.neural else 1
        if min(state.shape) < smallest:
            raise UserError(
                f"The state is {state.shape[0]}×{state.shape[1]}, but the model's strides and pools need at least "
                f"{smallest} sites per side: use a larger lattice."
            )


def load_artifact(path: str | Path, *, check_examples: bool = True) -> Artifact:
    """Read a model file and check its format, its hash, its shapes and (in well under a second) its examples.

    `path` may name a bundled model: `pretrained:NAME`.
    """
    from ._engine import EngineError, read_artifact

    path = resolve_model(path)
    if not path.is_file():
        raise UserError(f"There is no model file {path}: give the path of a model.onnx, or pretrained:NAME.")
    try:
        text, weights, _ = read_artifact(str(path))
    except EngineError as error:
        raise UserError(str(error)) from None
    try:
        metadata = Metadata.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise UserError(f"{path} has wrong metadata ({where}: {first['msg']}): export the model again.") from None
    artifact = Artifact(path, metadata, weights)
    _check_parts(artifact)
    if check_examples and artifact.engine_serves:
        check_against_examples(artifact, "engine")
    return artifact


def check_against_examples(artifact: Artifact, backend: str) -> None:
    """Recompute the stored energies and flips with a back end; refuse the file where they differ."""
    from .delta import open_backend

    for number, example in enumerate(artifact.metadata.examples):
        served = open_backend(artifact, example.state(), prefer=backend)
        energy = served.energy()
        allowed = 1e-4 + 1e-5 * max(abs(example.symbolic), abs(example.neural))
        worst = max(abs(energy.symbolic - example.symbolic), abs(energy.neural - example.neural))
        if example.flips:
            rows, cols, new_ids = (np.array(column) for column in list(zip(*example.flips, strict=True))[:3])
            deltas = served.deltas(rows, cols, new_ids).sum(axis=1)
            worst = max(worst, float(np.abs(deltas - [flip[3] for flip in example.flips]).max()))
        if not worst <= allowed:
            raise UserError(
                f"{artifact.path} disagrees with its own example {number} by {worst:.3g} (allowed: {allowed:.3g}) on "
                f"{served.name}: the file is damaged or was made by a faulty program, export it again."
            )


def _check_parts(artifact: Artifact) -> None:
    """The parts and values that people read must be those that are computed with."""
    entry = artifact.metadata.symbolic
    for part, stated in (("symbolic", entry), ("neural", artifact.metadata.neural)):
        if (stated is not None) != (f"{part}.weight" in artifact.weights):
            raise UserError(
                f"{artifact.path} states {'no' if stated is None else 'a'} {part} part in its metadata, but its "
                "weights say otherwise: export the model again."
            )
    if entry is None:
        return
    shown = {"weight": entry.weight, "offset": entry.offset}
    for term, values in entry.terms.items():
        shown |= {f"{term}.{key}": value for key, value in values.items() if key != "fields"}
    for key, value in shown.items():
        stored = artifact.weights.get(f"symbolic.{key}")
        if stored is None or stored.shape != np.shape(value) or not np.allclose(stored, value, rtol=1e-6, atol=1e-9):
            raise UserError(
                f"{artifact.path} states another {key} in its metadata than in its weights: export the model again."
            )
