"""What the tests against a real Morpheus share: the program, its examples, a probe of its energies, small models."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from morpheus_xml.plugin_install import has_plugin
from morpheus_xml.run import BINARY_VARIABLE, LIBRARY_VARIABLE
from neuralcpm_bridge.artifact import Artifact, LatticeEntry
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.library import engine_library
from neuralcpm_bridge.state import CellState
from training.export import export
from training.hamiltonians import Contact, Hamiltonian, Surface, Symbolic, Term, Volume, VolumeFunction, make_preset

EXAMPLES_VARIABLE = "NEURALCPM_MORPHEUS_EXAMPLES"
EXPORTS_VARIABLE = "NEURALCPM_MORPHEUS_EXPORTS"
SOURCE_VARIABLE = "NEURALCPM_MORPHEUS_SOURCE"
PROBE = Path(__file__).parent / "morpheus_probe.cpp"
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


def probed_binary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Morpheus that exports its symbols, with the probe of its energies compiled and preloaded."""
    binary, source = (os.environ.get(name, "") for name in (EXPORTS_VARIABLE, SOURCE_VARIABLE))
    if not Path(binary).is_file() or not Path(source, "build", "morpheus", "core").is_dir():
        pytest.skip(f"{EXPORTS_VARIABLE} and {SOURCE_VARIABLE} name no Morpheus that exports its symbols and no build")
    library = folder / "libprobe.so"
    headers = ("build", "3rdparty", "morpheus", "build/morpheus/core", "morpheus/core", "3rdparty/tiny-process")
    command = ["c++", "-shared", "-fPIC", "-O1", "-std=gnu++11", "-fopenmp", "-w", "-DBOOST_ALL_NO_LIB", "-DNDEBUG"]
    subprocess.run(
        [*command, *(f"-I{Path(source) / header}" for header in headers), str(PROBE), "-o", str(library)], check=True
    )
    monkeypatch.setenv("LD_PRELOAD", str(library))
    return Path(binary)


def example(name: str) -> str:
    """The text of one of Morpheus' own examples."""
    roots = [Path(os.environ[EXAMPLES_VARIABLE])] if EXAMPLES_VARIABLE in os.environ else []
    roots += [parent / "Examples" for parent in stock_binary().resolve().parents]
    for root in roots:
        found = sorted(root.rglob(name)) if root.is_dir() else []
        if found:
            return found[0].read_text(encoding="utf-8")
    pytest.skip(f"Morpheus' example {name} was not found (set {EXAMPLES_VARIABLE})")


def doubles(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def analytic_model(
    path: Path,
    *terms: Term,
    types: tuple[str, ...] = TYPES,
    geometry: str = "square",
    boundary: str | Sequence[str] = "periodic",
    weight: float = 1.0,
) -> Artifact:
    lattice = LatticeEntry.of(geometry, boundary)
    return export(Hamiltonian(types, Symbolic(*terms, weight=weight), lattice=lattice), path)


def sorting_model(
    path: Path,
    boundary: str | Sequence[str] = "periodic",
    strength: float = 0.25,
    target: float = 24.0,
    geometry: str = "square",
    order: int | None = None,
) -> Artifact:
    """A cell-sorting Hamiltonian in dyadic numbers, so that sums of energies are exact; it mixes fast."""
    energies = doubles([[0, 0.5, 0.75], [0.5, 0.75, 1], [0.75, 1, 0.5]])
    volume = Volume(doubles([strength]), doubles([target]))
    return analytic_model(path, Contact(energies, order), volume, geometry=geometry, boundary=boundary)


def shaped_model(path: Path, boundary: str = "periodic") -> Artifact:
    """Contacts, volume energies that are no parabolas, surfaces (periodic): all that distilling can find."""
    terms = [
        Contact(doubles([[0, 4, 3], [4, 2, 5], [3, 5, 2.5]])),
        VolumeFunction(
            center=doubles([0, 36, 30]),
            low=doubles([0, 20, 15]),
            high=doubles([0, 45, 40]),
            coefficients=doubles([[0] * 4, [0.3, 0.2, 0.01, 0.002], [-0.2, 0.3, -0.02, 0.001]]),
            stiffness=doubles([0, 0.5, 0.25]),
        ),
    ]
    if boundary == "periodic":
        terms.append(Surface(doubles([0.03, 0.02]), doubles([18, 15])))
    return analytic_model(path, *terms, boundary=boundary, weight=1.5)


def closure_model(
    path: Path, types: tuple[str, ...] = TYPES, boundary: str | Sequence[str] = "periodic", seed: int = 0
) -> Artifact:
    """A Local NH closure with a network that matters and a tissue that holds together."""
    torch.manual_seed(seed)
    lattice = LatticeEntry.of("square", boundary)
    padding = "circular" if set(lattice.boundary) == {"periodic"} else None
    hamiltonian = make_preset("local8-closure", types=types, lattice=lattice, padding=padding)
    symbolic = Symbolic(
        Contact(3.0 + torch.rand(len(types), len(types))), Volume(torch.tensor([1.0]), torch.tensor([100.0]))
    )
    return export(Hamiltonian(types, symbolic, hamiltonian.network, 3.0, lattice=lattice, cells=51), path)


def graph_model(
    path: Path, geometry: str = "square", boundary: str | Sequence[str] = "periodic", volume: float = 100.0
) -> Artifact:
    """A cell graph's closure that reads two properties of every cell, with a network that matters."""
    torch.manual_seed(1)
    made = make_preset(
        "graph1-closure",
        types=TYPES,
        lattice=LatticeEntry.of(geometry, boundary),
        target_volume=volume,
        properties=("age", "marker"),
    )
    symbolic = Symbolic(Contact(3.0 + torch.rand(3, 3)), Volume(torch.tensor([1.0]), torch.tensor([volume])))
    return export(Hamiltonian(TYPES, symbolic, made.network, 20.0, lattice=made.lattice, cells=51), path)


def knotted_model(
    path: Path, geometry: str, boundary: str | Sequence[str], volume: float, order: int = 4, knots: int = 12
) -> Artifact:
    """Contacts, volumes and a cell graph of one order, with (`knots`) energies of all pairs by their distance."""
    torch.manual_seed(2)
    lattice = LatticeEntry.of(geometry, boundary)
    made = make_preset(
        "graph2-closure", types=TYPES, lattice=lattice, target_volume=volume, order=order, members=2, knots=knots
    )
    if knots:
        with torch.no_grad():
            made.network.reach.fill_(24.0)
            for member in made.network.members:
                member.pairs.normal_()
    symbolic = Symbolic(Contact(3.0 + torch.rand(3, 3), order), Volume(torch.tensor([1.0]), torch.tensor([volume])))
    return export(Hamiltonian(TYPES, symbolic, made.network, 5.0, lattice=lattice, cells=51), path)


def blocks(lattice: Lattice, side: int, gap: int = 1, types: int = 2, shift: int = 0) -> CellState:
    """Cells of `side` sites along every axis on a grid, types by turns, moved by `shift` (across periodic borders)."""
    ids = np.zeros(lattice.shape, dtype=np.int32)
    cell = 0
    for corner in product(*(range(0, size - side + 1, side + gap) for size in lattice.shape)):
        cell += 1
        ids[tuple(slice(start, start + side) for start in corner)] = cell
    axes = tuple(range(lattice.dimension))
    of_cell = np.concatenate([[0], 1 + np.arange(cell) % types])
    return CellState(np.roll(ids, (shift,) * lattice.dimension, axes), of_cell, lattice)


def squares(shape: tuple[int, int], side: int, gap: int = 1, types: int = 2, shift: int = 0) -> CellState:
    return blocks(Lattice.of(shape), side, gap, types, shift)
