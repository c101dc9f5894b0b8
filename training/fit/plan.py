"""What a fit chose before its closure is trained, kept as `plan.json`: a run that was killed goes on as it began."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neuralcpm_bridge.errors import UserError, reading
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.snapshots import Snapshots

from .. import checkpoint as checkpoints
from ..build import Description
from ..config import ModelSection
from ..export.artifact import from_weights, weights_of
from ..hamiltonians import Hamiltonian
from .closure import Lengths, Sight, closure_config, closure_model

FILE = "plan.json"
CLOSURE_FILE = "pairs.safetensors"
"""The network as pairs have trained it."""


@dataclass(frozen=True)
class Seen:
    """What pairs kept apart showed: how far a network has to see, what it knows of them (log 2 is everything), by how
    many standard errors and by how many states, and whether half of the states teach less."""

    sight: Sight
    gain: float
    surprise: float
    states: int
    more_helps: bool


@dataclass(frozen=True)
class Plan:
    """`analytic`: H_S of the closure, `baseline`: the analytic model on its own; `closure`: trained on
    pairs (None: too few cells for one); `residual`: by how many standard
    errors the baseline's moments differ from the data's at most (None: it was not trained)."""

    section: ModelSection
    analytic: Hamiltonian
    baseline: Hamiltonian
    closure: Hamiltonian | None
    seen: Seen | None
    lengths: Lengths
    said: tuple[str, ...]
    relaxation: int
    settled: bool
    residual: float | None

    @property
    def arrives(self) -> bool:
        """Whether samples are as old as cells take to settle."""
        return self.settled and self.lengths.sample_mcs >= self.relaxation

    def write(self, folder: Path, identity: dict[str, Any]) -> None:
        tree = {
            "of": identity,
            "model": self.section.model_dump(mode="json"),
            "seen": None if self.seen is None else asdict(self.seen),
            "lengths": asdict(self.lengths),
            "said": self.said,
            "relaxation": self.relaxation,
            "settled": self.settled,
            "residual": self.residual,
            "analytic": numbers(self.analytic),
            "baseline": numbers(self.baseline),
        }
        if self.closure is not None:
            checkpoints.save(folder / CLOSURE_FILE, checkpoints.Checkpoint(self.closure.state_dict(), {}))
        with writing(folder / FILE) as temporary:
            temporary.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path, identity: dict[str, Any] | None, data: Snapshots) -> Plan | None:
        """The plan of a folder, if it has one; `identity`: of the fit that it must belong to."""
        path = folder / FILE
        if not path.exists():
            return None
        try:
            tree = json.loads(path.read_text(encoding="utf-8"))
            if identity is not None and tree["of"] != identity:
                raise UserError(
                    f"{folder} holds a fit of other data or with other settings: choose a new folder with -o."
                )
            section = ModelSection.model_validate(tree["model"])
            analytic = _model(data, section, tree["analytic"])
            seen = None if tree["seen"] is None else Seen(Sight(**tree["seen"].pop("sight")), **tree["seen"])
            closure = None
            if seen is not None:
                config = closure_config(section, seen.sight, tree["of"]["members"], Lengths(**tree["lengths"]), 0, 1)
                closure = closure_model(config, data.reading(section.properties), analytic)
                closure.load_state_dict(checkpoints.load(folder / CLOSURE_FILE).tensors)
            return cls(
                section,
                analytic,
                _model(data, section, tree["baseline"]),
                closure,
                seen,
                Lengths(**tree["lengths"]),
                tuple(tree["said"]),
                tree["relaxation"],
                tree["settled"],
                tree["residual"],
            )
        except (OSError, ValueError, KeyError, TypeError, RuntimeError):
            raise UserError(f"{path} is not a readable plan of a fit: remove the folder, or choose another.") from None


def read_analytic(folder: Path, data: Snapshots) -> Hamiltonian:
    """H_S of a fit's plan alone."""
    with reading(folder / FILE, "a readable plan of a fit", "fit the data again"):
        tree = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return _model(data, ModelSection.model_validate(tree["model"]), tree["analytic"])


def numbers(model: Hamiltonian) -> dict[str, Any]:
    """Its analytic energies, as JSON has them."""
    return {"weights": {key: value.tolist() for key, value in weights_of(model).items()}, "orders": model.orders}


def _model(data: Snapshots, section: ModelSection, tree: dict[str, Any]) -> Hamiltonian:
    described = Description.of(data, section)
    arrays = {key: np.array(value) for key, value in tree["weights"].items()}
    return from_weights(described.types, described.lattice, described.cells, arrays, tree["orders"], None)
