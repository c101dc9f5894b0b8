"""What a finished fit left in its folder, read without torch and believed no further than it can be checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.metrics.comparing import Measured
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

from .gather import CHECKPOINT_FILE, CURVES_FILE, Run, checkpoint_header, read_curves, sha256

RESULT_FILE = "fit.json"
MODELS = {"closure": ("model.onnx", "samples.npz"), "baseline": ("baseline.onnx", "samples-baseline.npz")}
HELD_OUT_FILE = "held-out.npz"
CLOSURE_FOLDER = "closure"
LARGEST_RESULT = 1 << 24
"""Bytes of a fit.json that is read at all."""

Count = Annotated[int, Field(ge=0)]
Pair = tuple[FiniteFloat, FiniteFloat]


class _Known(BaseModel):
    """What is used of a part of fit.json; whatever else stands there is left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class MeasureRow(_Known):
    data: Pair
    closure: Pair
    baseline: Pair


class StateCounts(_Known):
    train: Count
    judge: Count


class LatticeFacts(_Known):
    coarser: Count = 1


class PairFacts(_Known):
    """What networks know of copies kept apart from their training: nats per pair, of log 2 at most."""

    gain: FiniteFloat
    standard_errors: FiniteFloat


class ReturnFacts(_Known):
    """Mean square distances from the data of chains that left uncertain lattices."""

    before: FiniteFloat
    after: FiniteFloat


class RefitFacts(_Known):
    lattices: Count
    misfit: ReturnFacts


class Facts(_Known):
    """fit.json."""

    verdict: str
    adds: bool
    measures: dict[str, MeasureRow]
    states: StateCounts
    replicates: Count
    sample_mcs: Count
    relaxation_mcs: Count | None = None
    settled: bool | None = None
    misfit: dict[str, FiniteFloat] = Field(default_factory=dict)
    more_snapshots: str | None = None
    lattice: LatticeFacts = LatticeFacts()
    seconds: FiniteFloat | None = None
    minutes: FiniteFloat | None = None
    members: Count | None = None
    seed: int | None = None
    order: Count | None = None
    rounds: Count | None = None
    steps: Count | None = None
    pairs: PairFacts | None = None
    mcs_per_frame: Any = None
    frame_interval: Any = None
    time_unit: Any = ""
    time_notes: list[str] = Field(default_factory=list)
    events: list[str] = Field(default_factory=list)
    remarks: list[str] = Field(default_factory=list)
    like: str | None = None
    not_read: list[str] = Field(default_factory=list)
    refit: RefitFacts | None = None

    @property
    def kept_apart(self) -> bool:
        """Whether it was judged by other states than it was trained on, which takes some more of them."""
        return self.states.train != self.states.judge

    def rows(self, column: str) -> dict[str, Measured]:
        """Measures of the data, the closure or the baseline by their titles."""
        return {title: Measured(*getattr(row, column)) for title, row in self.measures.items()}


@dataclass(frozen=True)
class FitFolder:
    path: Path
    facts: Facts
    closure: Run
    baseline: Run
    data: Snapshots
    """The states it was judged by."""
    hashes: dict[str, str]

    @property
    def runs(self) -> list[Run]:
        """What there is to tell apart: without anything added the closure is the baseline."""
        return [self.closure, self.baseline] if self.facts.adds else [self.baseline]

    @property
    def recommended(self) -> Run:
        """The model to use: the closure where it adds something and is no further from the data than the baseline."""
        misfit = self.facts.misfit
        worse = misfit.get("closure", 0.0) > misfit.get("baseline", float("inf"))
        return self.closure if self.facts.adds and not worse else self.baseline


def is_fit(folder: str | Path) -> bool:
    return (Path(folder) / RESULT_FILE).is_file()


def read_fit(folder: Path) -> FitFolder:
    facts = _facts(folder / RESULT_FILE)
    runs = {}
    for name, (model, samples) in MODELS.items():
        artifact = load_artifact(_there(folder / model))
        run = Run(name, artifact, hashes={"model file": sha256(folder / model)})
        run.samples = load_snapshots(_there(folder / samples), artifact)
        runs[name] = run
    data = load_snapshots(_there(folder / HELD_OUT_FILE), runs["baseline"].artifact)
    history = folder / CLOSURE_FOLDER
    if facts.adds and (history / CURVES_FILE).is_file():
        runs["closure"].curves = read_curves(history / CURVES_FILE)
    if facts.adds and (history / CHECKPOINT_FILE).is_file():
        runs["closure"].header = checkpoint_header(history / CHECKPOINT_FILE)
    hashes = {f"{name} (SHA-256)": sha256(folder / name) for name in (RESULT_FILE, HELD_OUT_FILE)}
    return FitFolder(folder, facts, runs["closure"], runs["baseline"], data, hashes)


def _there(file: Path) -> Path:
    if not file.is_file():
        raise UserError(f"{file.parent} holds a {RESULT_FILE} but no {file.name}: let neuralcpm fit finish it again.")
    return file


def _facts(file: Path) -> Facts:
    try:
        if file.stat().st_size > LARGEST_RESULT:
            raise ValueError("too large")
        return Facts.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise UserError(
            f"{file} does not say what a fit found ({where}: {first['msg']}): let neuralcpm fit write it again."
        ) from None
    except (OSError, ValueError):
        raise UserError(f"{file} is not readable JSON of a fit: let neuralcpm fit write it again.") from None
