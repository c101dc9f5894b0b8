"""Learned terms injected into Morpheus' own examples: they run, and the energy stays right while they do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from morpheus_xml.inject import inject
from morpheus_xml.reader import read_model
from morpheus_xml.run import run_model

from .morpheus_host import closure_model, example, plugin_binary, sorting_model, stock_binary

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


def shortened(name: str, path: Path, steps: int = 10) -> Path:
    """One of Morpheus' examples on a square lattice, for a few steps."""
    text = example(name).replace('class="hexagonal"', 'class="square"')
    # Morpheus 2.2.4 takes a number here, and makes no cells of an expression.
    text = text.replace('number-of-cells="cell_density * size.x * size.y"', 'number-of-cells="120"')
    if name == "Proliferation_2D.xml":
        text = re.sub(r'(symbol="p" value=")[^"]*', r"\g<1>0.05", text)  # divisions within the few steps of a test
    duration = re.search(r'<MCSDuration[^>]*value="([^"]*)"', text)
    stop = steps * float(duration[1] if duration else 1)
    text = re.sub(r"<StopTime[^>]*/>", f'<StopTime value="{stop:g}"/>', text, count=1)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", EXAMPLES)
def test_injected_examples_run(name: str, tmp_path: Path) -> None:
    binary = plugin_binary()
    original = shortened(name, tmp_path / "original.xml")
    model = read_model(original)
    boundary = model.boundary
    assert boundary is not None
    types = tuple(f"T{number}" for number, _ in enumerate(model.cell_types))
    artifact = closure_model(tmp_path / "model.onnx", ("medium", *types), boundary)
    mapping = {entry.name: learned for entry, learned in zip(model.cell_types, types, strict=True)}
    injected = inject(original, artifact, types=mapping)
    learned = tmp_path / "learned.xml"
    learned.write_bytes(injected.content)
    again = inject(learned, artifact, types=mapping)
    assert again.content == injected.content
    removed = re.sub(rb"\s*<NeuralHamiltonian [^>]*/>", b"", injected.content)
    assert removed == original.read_bytes()
    learned.write_bytes(injected.content.replace(b"<NeuralHamiltonian ", b'<NeuralHamiltonian check="1" '))
    result = run_model(learned, tmp_path / "run", binary=binary)
    compared = re.search(r"(\d+) comparisons .* largest difference (\S+)", result.log.read_text())
    assert compared
    print(name, compared[0])
    assert float(compared[2]) <= 1e-3


@pytest.mark.parametrize("name", ["CellSorting_2D.xml"])
def test_distilled_examples_run_on_any_morpheus(name: str, tmp_path: Path) -> None:
    binary = stock_binary()
    original = shortened(name, tmp_path / "original.xml", steps=5)
    artifact = sorting_model(tmp_path / "model.onnx", target=200.0)
    written = tmp_path / "distilled.xml"
    written.write_bytes(inject(original, artifact, distilled=True).content)
    assert b"NeuralHamiltonian" not in written.read_bytes()
    run_model(written, tmp_path / "run", binary=binary)
