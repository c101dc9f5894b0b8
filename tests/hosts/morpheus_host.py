"""What the tests against a real Morpheus share: the program, its examples, small models."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from morpheus_xml.plugin_install import has_plugin
from morpheus_xml.run import BINARY_VARIABLE, LIBRARY_VARIABLE
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.library import engine_library
from neuralcpm_bridge.state import CellState
from training.export import export
from training.hamiltonians import Contact, Hamiltonian, Surface, Symbolic, Volume, VolumeFunction, make_preset

EXAMPLES_VARIABLE = "NEURALCPM_MORPHEUS_EXAMPLES"
TYPES = ("medium", "ct1", "ct2")


def stock_binary() -> Path:
    """Morpheus, with or without the plugin."""
    named = os.environ.get(BINARY_VARIABLE)
    if not named or not Path(named).is_file():
        pytest.skip(f"{BINARY_VARIABLE} names no Morpheus program")
    return Path(named)


def plugin_binary() -> Path:
    """Morpheus with the plugin, and an engine library for it."""
    binary = stock_binary()
    if not has_plugin(binary):
        pytest.skip(f"{binary} has no NeuralHamiltonian plugin (neuralcpm morpheus plugin --into SOURCE_TREE)")
    if LIBRARY_VARIABLE not in os.environ:
        try:
            engine_library()
        except UserError as error:
            pytest.skip(f"{error} (or {LIBRARY_VARIABLE})")
    return binary


def example(name: str) -> str:
    """The text of one of Morpheus' own examples."""
    roots = [Path(os.environ[EXAMPLES_VARIABLE])] if EXAMPLES_VARIABLE in os.environ else []
    roots += [parent / "Examples" for parent in stock_binary().resolve().parents]
    for root in roots:
        found = sorted(root.rglob(name)) if root.is_dir() else []
        if found:
            return found[0].read_text(encoding="utf-8")
    pytest.skip(f"Morpheus' example {name} was not found (set {EXAMPLES_VARIABLE})")


def sorting_model(path: Path, boundary: str = "periodic", strength: float = 0.25, target: float = 24.0) -> Artifact:
    """A cell-sorting Hamiltonian in dyadic numbers, so that sums of energies are exact; it mixes fast."""
    energies = torch.tensor([[0, 0.5, 0.75], [0.5, 0.75, 1], [0.75, 1, 0.5]], dtype=torch.float64)
    symbolic = Symbolic(
        contact=Contact(energies, periodic=boundary == "periodic"),
        volume=Volume(torch.tensor([strength], dtype=torch.float64), torch.tensor([target], dtype=torch.float64)),
    )
    return export(Hamiltonian(TYPES, symbolic, boundary=boundary), path)


def shaped_model(path: Path, boundary: str = "periodic") -> Artifact:
    """Contacts, volume energies that are no parabolas, surfaces (periodic): all that distilling can find."""

    def tensor(values: object) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64)

    periodic = boundary == "periodic"
    symbolic = Symbolic(
        contact=Contact(tensor([[0, 4, 3], [4, 2, 5], [3, 5, 2.5]]), periodic=periodic),
        surface=Surface(tensor([0, 0.03, 0.02]), tensor([0, 18, 15])) if periodic else None,
        volume_function=VolumeFunction(
            center=tensor([0, 36, 30]),
            low=tensor([0, 20, 15]),
            high=tensor([0, 45, 40]),
            coefficients=tensor([[0] * 4, [0.3, 0.2, 0.01, 0.002], [-0.2, 0.3, -0.02, 0.001]]),
            stiffness=tensor([0, 0.5, 0.25]),
        ),
        weight=1.5,
    )
    return export(Hamiltonian(TYPES, symbolic, boundary=boundary), path)


def closure_model(path: Path, types: tuple[str, ...] = TYPES, boundary: str = "periodic", seed: int = 0) -> Artifact:
    """A Local NH closure with a network that matters and a tissue that holds together."""
    torch.manual_seed(seed)
    hamiltonian = make_preset(
        "local8-closure", types=types, boundary=boundary, padding="circular" if boundary == "periodic" else None
    )
    count = len(types)
    energies = 3.0 + torch.rand(count, count)
    symbolic = Symbolic(
        contact=Contact(energies, periodic=boundary == "periodic"),
        volume=Volume(torch.tensor([1.0]), torch.tensor([100.0])),
    )
    return export(
        Hamiltonian(types, symbolic, hamiltonian.network, network_weight=3.0, boundary=boundary, cells=51), path
    )


def squares(shape: tuple[int, int], side: int, gap: int = 1, types: int = 2, shift: int = 0) -> CellState:
    """Square cells on a grid, types by turns, moved down and right by `shift` (across a periodic border)."""
    ids = np.zeros(shape, dtype=np.int32)
    cell = 0
    for row in range(0, shape[0] - side + 1, side + gap):
        for col in range(0, shape[1] - side + 1, side + gap):
            cell += 1
            ids[row : row + side, col : col + side] = cell
    return CellState(np.roll(ids, (shift, shift), (0, 1)), np.concatenate([[0], 1 + np.arange(cell) % types]))
