"""The paper's experiments and ours, each one module: data, training, sampling from mixed starts, metrics, a table."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from neuralcpm_bridge.errors import UserError

from .setting import Setting

EXPERIMENTS = {
    "cellsort-a": "cellsort",
    "cellsort-b": "cellsort",
    "elongation": "elongation",
    "cellular-mnist": "cellular_mnist",
    "bipolar": "bipolar",
    "samplers": "samplers",
}


def reproduce(name: str, setting: Setting) -> dict[str, Any]:
    """Run one experiment; its results as one JSON-ready dictionary."""
    if name not in EXPERIMENTS:
        raise UserError(f"There is no experiment {name!r}: choose one of {', '.join(EXPERIMENTS)}.")
    if setting.lattice != "square" and EXPERIMENTS[name] not in ("cellsort", "elongation", "samplers"):
        raise UserError(
            f"The experiment {name} exists on square lattices only: leave the lattice out, or choose cellsort-a, "
            "cellsort-b, samplers or elongation."
        )
    if setting.scale == "fit" and EXPERIMENTS[name] in ("cellsort", "samplers"):
        raise UserError(
            f"The experiment {name} recovers known energies and has no closure to fit: choose the scale small or paper."
        )
    run: Callable[[str, Setting], dict[str, Any]] = import_module(f".{EXPERIMENTS[name]}", __package__).run
    return run(name, setting)


__all__ = ["EXPERIMENTS", "Setting", "reproduce"]
