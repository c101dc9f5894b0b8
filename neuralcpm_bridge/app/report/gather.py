"""What a run left in its folder, read without torch: the checkpoint's header, curves, model, data, samples."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import Artifact, load_artifact
from neuralcpm_bridge.errors import UserError, reading
from neuralcpm_bridge.pretrained import PREFIX
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

CHECKPOINT_FILE = "checkpoint.safetensors"
CURVES_FILE = "metrics.csv"
MODEL_FILE = "model.onnx"
DATA_FILE = "data.npz"
SAMPLES_FILE = "samples.npz"
RESULTS_FILE = "results.json"
CONTACT_NAMES = ("J01", "J02", "J11", "J12", "J22")
"""The order in which the generators' recipes state contact energies."""


@dataclass
class Run:
    """One model and what is known of its training; a model file alone is a run without history."""

    name: str
    artifact: Artifact | None = None
    header: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    samples: Snapshots | None = None
    results: dict[str, Any] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    data_path: Path | None = None
    note: str = ""

    @property
    def config(self) -> dict[str, Any]:
        return self.header.get("config", {})


def find_runs(places: Sequence[str | Path], scratch: Path) -> list[Run]:
    """Runs of the given folders (each a run, or an experiment with runs inside) and model files, in order.

    Models that are still checkpoints are exported into `scratch`.
    """
    runs = [run for place in places for run in _runs_at(place, scratch)]
    shown: dict[str, int] = {}
    for run in runs:
        shown[run.name] = shown.get(run.name, 0) + 1
        if shown[run.name] > 1:
            run.name = f"{run.name} ({shown[run.name]})"
    return runs


def _runs_at(place: str | Path, scratch: Path) -> Iterator[Run]:
    path = Path(place)
    if str(place).startswith(PREFIX) or path.is_file():
        artifact = load_artifact(place)
        yield Run(artifact.metadata.name or path.stem, artifact, hashes={"model file": sha256(artifact.path)})
        return
    if not path.is_dir():
        raise UserError(
            f"There is no run {path}: give folders that neuralcpm train or reproduce wrote, or model files."
        )
    folders = sorted({file.parent for name in (CHECKPOINT_FILE, MODEL_FILE) for file in path.glob(f"*/{name}")})
    if (path / CHECKPOINT_FILE).is_file() or (path / MODEL_FILE).is_file():
        folders = [path]
    if not folders:
        raise UserError(f"{path} holds no training run and no model.onnx: give a folder that neuralcpm train wrote.")
    for folder in folders:
        run = read_run(folder, scratch)
        if len(folders) == 1:
            run.name = path.resolve().name  # an experiment's only run is known by the experiment's name
        yield run


def read_run(folder: Path, scratch: Path) -> Run:
    with reading(folder, "a readable run", "train it again"):
        return _read_run(folder, scratch)


def _read_run(folder: Path, scratch: Path) -> Run:
    run = Run(folder.resolve().name)
    checkpoint = folder / CHECKPOINT_FILE
    if checkpoint.is_file():
        run.header = checkpoint_header(checkpoint)
        run.hashes["checkpoint"] = sha256(checkpoint)
    if (folder / CURVES_FILE).is_file():
        run.curves = read_curves(folder / CURVES_FILE)
    run.results = _json(folder / RESULTS_FILE) or _json(folder.parent / RESULTS_FILE)
    stated = run.config.get("data", {}).get("path")
    candidates = [folder / DATA_FILE, folder.parent / DATA_FILE, *([Path(stated)] if stated else [])]
    run.data_path = next((file for file in candidates if file.is_file()), None)
    if (folder / MODEL_FILE).is_file():
        run.artifact = load_artifact(folder / MODEL_FILE)
        run.hashes["model file"] = sha256(folder / MODEL_FILE)
    else:
        run.artifact, run.note = exported(folder, run.name, scratch)
    # an experiment keeps the samples of its runs beside them, under their names
    for file in (folder / SAMPLES_FILE, folder.parent / f"{folder.name}.npz"):
        if run.samples is None and file.is_file():
            run.samples = load_snapshots(file, run.artifact)
    return run


def exported(folder: Path, name: str, scratch: Path) -> tuple[Artifact | None, str]:
    """The checkpoint's model where torch can export it, else why not."""
    try:
        from training.export import export
        from training.trainer import load_run
    except ModuleNotFoundError as error:
        return None, f"{error.name} is not installed, so the weights of the checkpoint could not be read."
    hamiltonian, config, _ = load_run(folder)
    file = scratch / f"{len(list(scratch.iterdir()))}.onnx"
    temperature = config.sampler.temperature
    return export(hamiltonian, file, name=name, temperature=temperature), ""


def checkpoint_header(path: Path) -> dict[str, Any]:
    """The JSON that a checkpoint carries in its safetensors header."""
    with (
        reading(path, "a checkpoint of this program", "give the folder of a training run"),
        path.open("rb") as stream,
    ):
        length = int.from_bytes(stream.read(8), "little")
        if length > path.stat().st_size:
            raise ValueError("a header longer than the file")
        header = dict(json.loads(json.loads(stream.read(length))["__metadata__"]["neuralcpm"]))
        for name in ("step", "seconds", "evaluations"):
            if not isinstance(header[name], (int, float)) or not 0 <= header[name] < math.inf:
                raise ValueError(f"{name} is {str(header[name])[:40]}")
        for part in ("data", "model", "objective", "sampler"):
            header["config"][part] = dict(header["config"][part])
        return header


def read_curves(path: Path) -> dict[str, NDArray[np.float64]]:
    """Columns of `metrics.csv`."""
    with (
        reading(path, "a readable table of numbers", "remove it, or train again"),
        path.open(newline="", encoding="utf-8") as stream,
    ):
        header, *rows = [row for row in csv.reader(stream) if row]
        table = np.array([[float(value) for value in row] for row in rows], dtype=np.float64).reshape(-1, len(header))
        return dict(zip(header, table.T, strict=True))


def truth_of(data: Snapshots | None) -> dict[str, float]:
    """The parameters that generated a data set, by the names of `metrics.csv`; nothing where they are not known."""
    recipe = {} if data is None else data.provenance.get("recipe", {})
    energies = recipe.get("J", ())
    if len(energies) != len(CONTACT_NAMES) or "strength" not in recipe:
        return {}
    return {**dict(zip(CONTACT_NAMES, map(float, energies), strict=True)), "lambda": float(recipe["strength"])}


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    with reading(path, "readable JSON", "remove it, or run the experiment again"):
        content = json.loads(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}
