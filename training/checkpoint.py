"""Checkpoints without pickle: tensors as safetensors, everything else as JSON in the same file's header.

A checkpoint is one model file, written last, and one chain file per rank named after the step, so that a run
killed at any moment finds a complete older checkpoint or a complete newer one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from neuralcpm_bridge.errors import UserError, reading
from neuralcpm_bridge.files import writing

VERSION = 3
MODEL_FILE = "checkpoint.safetensors"


def _with_a_lattice(header: dict[str, Any]) -> dict[str, Any]:
    """Version 1 knew square lattices, contacts all around and networks of convolutions only."""
    if "data" in header:  # a model file; chain files state nothing
        boundary = header["data"].pop("boundary")
        shape = header["data"]["lattice"]
        header["data"]["lattice"] = {"geometry": "square", "boundary": [boundary, boundary], "shape": shape}
        header["data"]["means"] = {}
        header["config"]["model"] |= {"order": None, "terms": [], "members": 1, "properties": []}
        header["config"]["objective"] |= {"push": None}
    return header


def _with_rails(header: dict[str, Any]) -> dict[str, Any]:
    """Version 2 knew no way back, no committee that weighs data, and one volume constraint for all types."""
    if "config" in header:
        header |= {"steps": header["config"]["optimizer"]["steps"], "calm": 1.0, "events": [], "acceptances": []}
        header["config"]["model"] |= {"by_type": False}
        header["config"]["objective"] |= {"bootstrap": False}
        header["config"]["run"] |= {"rollbacks": 4}
        for group in header["config"]["chains"]:
            group |= {"settle": 30}
    return header


UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _with_a_lattice, 2: _with_rails}
"""From the header of version k to that of version k + 1; tensors have kept their names."""


@dataclass
class Checkpoint:
    """Tensors by name and a JSON header (step, configuration, description of the model)."""

    tensors: dict[str, Tensor]
    header: dict[str, Any]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors of one prefix, without it."""
        return {key[len(prefix) + 1 :]: value for key, value in self.tensors.items() if key.startswith(prefix + ".")}


def save(path: Path, checkpoint: Checkpoint) -> None:
    header = {"neuralcpm": json.dumps({"version": VERSION, **checkpoint.header})}
    tensors = {key: value.detach().cpu().contiguous().clone() for key, value in checkpoint.tensors.items()}
    with writing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=header)
        except SafetensorError as error:  # how safetensors reports a full disk
            raise OSError(0, str(error)) from None


def load(path: Path) -> Checkpoint:
    if not path.is_file():
        raise UserError(f"There is no checkpoint {path}: give the folder of a training run.")
    with reading(path, "a checkpoint of this program", "start the run anew"):
        with safe_open(path, framework="pt") as archive:
            header = json.loads((archive.metadata() or {})["neuralcpm"])
            tensors = {key: archive.get_tensor(key) for key in archive.keys()}  # noqa: SIM118 (not a dict)
        version = header.pop("version", None)
        if not isinstance(version, int) or version > VERSION:
            raise UserError(
                f"{path} has the checkpoint version {version}, but {VERSION} is the newest known: update "
                "neuralcpm-bridge."
            )
        for older in range(version, VERSION):
            header = UPGRADES[older](header)
        return Checkpoint(tensors, header)


def chain_file(folder: Path, step: int, rank: int) -> Path:
    return folder / f"chains-{step:08d}-{rank}.safetensors"


def remove_older_chains(folder: Path, step: int, rank: int) -> None:
    """Chain files of this rank from other steps than the one just completed."""
    for path in folder.glob(f"chains-*-{rank}.safetensors"):
        if path != chain_file(folder, step, rank):
            path.unlink(missing_ok=True)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's moments and step counters as named tensors."""
    state = optimizer.state_dict()["state"]
    return {f"{index}.{key}": value for index, entry in state.items() for key, value in entry.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
