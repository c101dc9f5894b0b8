"""Morpheus' own examples with a learned term in them: which run, which are refused and why, which fail.

    python benchmarks/morpheus_examples.py [NAME …]

Needs NEURALCPM_MORPHEUS, a binary with the plugin, and NEURALCPM_MORPHEUS_EXAMPLES, the folder of the examples. Every
model gets the closure of an untrained cell graph on its own lattice, its cell types by turns as A and B, for 100 Monte
Carlo steps or as many fit into a minute, and every ten steps the energy is compared with one computed
from scratch. Where that fails, the example is run without the term. Exit code 1 if one fails because of it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch

from morpheus_xml.check import check_fit
from morpheus_xml.inject import inject
from morpheus_xml.reader import ELEMENT, ModelFile, read_model
from morpheus_xml.run import run_model
from neuralcpm_bridge.artifact import Artifact, LatticeEntry
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import GEOMETRIES
from training.export import export
from training.hamiltonians import Contact, Hamiltonian, Symbolic, Volume, make_preset

EXAMPLES_VARIABLE = "NEURALCPM_MORPHEUS_EXAMPLES"
STEPS, SECONDS = 100, 60.0
TYPES = ("medium", "A", "B")


@dataclass(frozen=True)
class Found:
    """`outcome`: run, refused, failed, or broken where the example does not run without the term either."""

    name: str
    outcome: str
    said: str


class Enough(Exception):
    """The minute is over."""


def model_for(geometry: str, folder: Path) -> Artifact:
    torch.manual_seed(0)
    lattice = LatticeEntry.of(geometry, "periodic")
    made = make_preset("graph1-closure", types=TYPES, lattice=lattice, target_volume=100.0)
    symbolic = Symbolic(
        Contact(torch.linspace(4.0, 6.0, 9).reshape(3, 3)), Volume(torch.ones(1), torch.tensor([100.0]))
    )
    return export(Hamiltonian(TYPES, symbolic, made.network, lattice=lattice), folder / f"{geometry}.onnx")


def surveyed(path: Path, models: dict[str, Artifact], folder: Path) -> Found:
    try:
        model = read_model(path)
        artifact = models.get(model.lattice_class, models["square"])
        check_fit(model, artifact, "neural")
        types = {entry.name: TYPES[1 + k % 2] for k, entry in enumerate(model.cell_types)}
        # where temperatures are expressions, and whatever they are, the network is a nudge
        injected = inject(path, artifact, types=types, weight=1.0)
    except UserError as error:
        return Found(path.name, "refused", str(error).removeprefix(f"{path}, ").removeprefix(f"{path} "))
    learned, plain = folder / "learned.xml", folder / "plain.xml"
    learned.write_bytes(
        shortened(injected.content, model).replace(f"<{ELEMENT} ".encode(), f'<{ELEMENT} check="10" '.encode())
    )
    plain.write_bytes(shortened(model.document.content, model))
    try:
        return Found(path.name, "run", ran(learned, path.parent, folder))
    except UserError as error:
        reason = str(error)
    try:
        ran(plain, path.parent, folder)
    except UserError:
        return Found(path.name, "broken", f"without the term too: {reason}")
    return Found(path.name, "failed", reason)


def shortened(content: bytes, model: ModelFile) -> bytes:
    duration = model.root.find("CPM/MonteCarloSampler/MCSDuration")
    each = model.number(duration.attributes.get("value")) if duration else 1.0
    stop = f'<StopTime value="{STEPS * (each or 1.0):g}"/>'.encode()
    return re.sub(rb"<StopTime[^>]*/>", stop, content, count=1)


def ran(model: Path, beside: Path, folder: Path) -> str:
    """Run it to its end or for a minute; how far it came."""
    reached = [0.0, 0.0]
    began = time.monotonic()

    def progress(now: float, stop: float | None) -> None:
        reached[:] = now, stop or 1.0
        if time.monotonic() - began > SECONDS:
            raise Enough

    place = beside / f".neuralcpm-{model.name}"  # relative file names count from there
    place.write_bytes(model.read_bytes())
    try:
        run_model(place, folder / "results", progress=progress)
    except Enough:
        return f"{STEPS * reached[0] / reached[1]:.0f} steps in a minute"
    finally:
        place.unlink(missing_ok=True)
    return f"{STEPS} steps"


def main() -> int:
    root = Path(os.environ[EXAMPLES_VARIABLE])
    paths = sorted(path for path in root.rglob("*.xml") if not sys.argv[1:] or path.name in sys.argv[1:])
    found = []
    with tempfile.TemporaryDirectory() as name:
        models = {geometry: model_for(geometry, Path(name)) for geometry in GEOMETRIES}
        for number, path in enumerate(paths):
            folder = Path(name, str(number))
            folder.mkdir()
            found.append(surveyed(path, models, folder))
            print(f"{found[-1].outcome:8} {path.relative_to(root)!s:44} {found[-1].said}", flush=True)
    print(dict(Counter(each.outcome for each in found)))
    return int(any(each.outcome == "failed" for each in found))


if __name__ == "__main__":
    sys.exit(main())
