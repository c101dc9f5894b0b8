"""Learned terms injected into Morpheus' own examples: they run, and the energy stays right while they do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from morpheus_xml.inject import inject
from morpheus_xml.reader import read_model
from morpheus_xml.run import run_model
from neuralcpm_bridge.artifact import Artifact
from training.hamiltonians import Contact, Surface, Volume

from .morpheus_host import (
    analytic_model,
    closure_model,
    doubles,
    example,
    plugin_binary,
    sorting_model,
    stock_binary,
)

EXAMPLES = (
    "CellSorting_2D.xml",
    "Proliferation_2D.xml",
    "AutocrineChemotaxis.xml",
    "ConvergentExtension.xml",
    "CPM_Game_of_Life.xml",
    "Stigmergy_VectorField.xml",
    "ExcitableTissue.xml",
    "VascularPatterning.xml",
    "Dictyostelium.xml",
    "Pseudopodia.xml",
)


ON_OTHER_LATTICES = (
    *("Proliferation_2D.xml", "Protrusion_2D.xml", "RunAndTumble.xml", "CellCycle.xml"),
    *("CellSorting_3D.xml", "Proliferation_3D.xml", "Protrusion_3D.xml", "CellCycle_3D.xml"),
)
"""Hexagonal ones, cubic ones."""


def shortened(name: str, path: Path, steps: int = 10, lattice: str | None = None) -> Path:
    """One of Morpheus' examples for a few steps, on its own lattice or another."""
    text = example(name)
    if lattice is not None:
        text = re.sub(r'<Lattice class="\w+"', f'<Lattice class="{lattice}"', text)
    # Morpheus 2.2.4 takes a number here, and makes no cells of an expression.
    text = text.replace('number-of-cells="cell_density * size.x * size.y"', 'number-of-cells="120"')
    if name == "Proliferation_2D.xml":
        text = re.sub(r'(symbol="p" value=")[^"]*', r"\g<1>0.05", text)  # divisions within the few steps of a test
    duration = re.search(r'<MCSDuration[^>]*value="([^"]*)"', text)
    stop = steps * float(duration[1] if duration else 1)
    text = re.sub(r"<StopTime[^>]*/>", f'<StopTime value="{stop:g}"/>', text, count=1)
    path.write_text(text, encoding="utf-8")
    return path


def injected_runs(original: Path, artifact: Artifact, binary: Path) -> None:
    """Injected once or twice it is the same, nothing else has changed, and the energy stays right while it runs."""
    model = read_model(original)
    mapping = dict(zip((entry.name for entry in model.cell_types), artifact.metadata.types[1:], strict=True))
    injected = inject(original, artifact, types=mapping)
    learned = original.parent / "learned.xml"
    learned.write_bytes(injected.content)
    again = inject(learned, artifact, types=mapping)
    assert again.content == injected.content
    removed = re.sub(rb"\s*<NeuralHamiltonian [^>]*/>", b"", injected.content)
    assert removed == original.read_bytes()
    learned.write_bytes(injected.content.replace(b"<NeuralHamiltonian ", b'<NeuralHamiltonian check="1" '))
    result = run_model(learned, original.parent / "run", binary=binary)
    compared = re.search(r"(\d+) comparisons .* largest difference (\S+)", result.log.read_text())
    assert compared
    print(model.title, model.lattice.geometry.name, compared[0])
    assert float(compared[2]) <= 1e-3


def learned_types(original: Path) -> tuple[str, ...]:
    return ("medium", *(f"T{number}" for number, _ in enumerate(read_model(original).cell_types)))


@pytest.mark.parametrize("name", EXAMPLES)
def test_injected_examples_run(name: str, tmp_path: Path) -> None:
    binary = plugin_binary()
    original = shortened(name, tmp_path / "original.xml", lattice="square")
    boundary = read_model(original).lattice.boundary
    injected_runs(original, closure_model(tmp_path / "model.onnx", learned_types(original), boundary), binary)


@pytest.mark.parametrize("name", ON_OTHER_LATTICES)
def test_injected_examples_run_on_their_own_lattice(name: str, tmp_path: Path) -> None:
    binary = plugin_binary()
    original = shortened(name, tmp_path / "original.xml", steps=5)
    types, lattice = learned_types(original), read_model(original).lattice
    assert lattice.geometry.name != "square"
    contacts = doubles(2.0 + np.abs(np.subtract.outer(np.arange(len(types)), np.arange(len(types)))))
    artifact = analytic_model(
        tmp_path / "model.onnx",
        Contact(contacts, order=4),
        Volume(doubles([0.01]), doubles([100.0])),
        Surface(doubles([0.001]), doubles([50.0])),
        types=types,
        geometry=lattice.geometry.name,
        boundary=lattice.boundary,
    )
    injected_runs(original, artifact, binary)


@pytest.mark.parametrize("name", ["CellSorting_2D.xml"])
def test_distilled_examples_run_on_any_morpheus(name: str, tmp_path: Path) -> None:
    binary = stock_binary()
    original = shortened(name, tmp_path / "original.xml", steps=5)
    artifact = sorting_model(tmp_path / "model.onnx", target=200.0)
    written = tmp_path / "distilled.xml"
    written.write_bytes(inject(original, artifact, distilled=True).content)
    assert b"NeuralHamiltonian" not in written.read_bytes()
    run_model(written, tmp_path / "run", binary=binary)
