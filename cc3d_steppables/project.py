"""A complete CC3D project from a model and a state: energies converted exactly, the model along as a resource."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
from lxml import etree

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.conventions import TARGETS, SymbolicValues, symbolic_values
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.state import CellState

from .facts import MEDIUM
from .folders import writing_folder
from .mapping import Term
from .pif import write_pif

MODEL = "Simulation/model.onnx"
VERSION = "4.8.0"
"""The CC3D that this was tested with."""


def write_project(
    artifact: Artifact,
    state: CellState,
    folder: str | Path,
    *,
    steps: int = 1000,
    seed: int | None = None,
    energy_scale: float = 1.0,
) -> Path:
    """Write a project named like its folder; the path of its .cc3d file.

    `energy_scale` multiplies every energy and the temperature, which changes no probability.
    """
    folder = Path(folder)
    name = re.sub(r"\W", "_", folder.name) or "project"
    artifact.check_state(state)
    if not (np.isfinite(energy_scale) and energy_scale > 0):
        raise UserError(f"The energy scale is {energy_scale}, but a number above 0 is needed: 1 keeps energies.")
    names = type_names(artifact)
    term, values = terms_of(artifact, energy_scale)
    with writing_folder(folder) as temporary:
        simulation = temporary / "Simulation"
        simulation.mkdir()
        root = cc3dml(artifact, state, names, values, steps, seed, energy_scale)
        write_xml(simulation / f"{name}.xml", root)
        (simulation / f"{name}.py").write_text(main_script(artifact, names, term), encoding="utf-8")
        write_pif(simulation / "init.piff", state.ids, {int(cell): names[state.types[cell]] for cell in state.cells})
        shutil.copyfile(artifact.path, temporary / MODEL)
        (temporary / f"{name}.cc3d").write_text(project_file(name), encoding="utf-8")
    return folder / f"{name}.cc3d"


def terms_of(artifact: Artifact, energy_scale: float) -> tuple[Term, SymbolicValues | None]:
    """Contact and volume go into CC3D's own plugins where these can carry them; else all is the learned term's."""
    symbolic = artifact.metadata.symbolic
    if symbolic is None or set(symbolic.terms) - {"contact", "volume"}:
        return "full", None
    return "neural", symbolic_values(artifact.metadata, TARGETS["cc3d"], energy_scale)


def type_names(artifact: Artifact) -> list[str]:
    """The model's types as CC3D can name them: words, the first always Medium."""
    names = [MEDIUM, *(re.sub(r"\W", "_", name) for name in artifact.metadata.types[1:])]
    if len(set(names)) != len(names):
        found = ", ".join(artifact.metadata.types)
        raise UserError(f"The model's types {found} have no distinct names in CC3D: rename them.")
    return names


def cc3dml(
    artifact: Artifact,
    state: CellState,
    names: list[str],
    values: SymbolicValues | None,
    steps: int,
    seed: int | None,
    energy_scale: float,
) -> etree._Element:
    target, meta = TARGETS["cc3d"], artifact.metadata
    height, width = state.shape
    root = etree.Element("CompuCell3D", Revision="0", Version=VERSION)
    metadata = etree.SubElement(root, "Metadata")
    _leaf(metadata, "NumberOfProcessors", "1")
    potts = etree.SubElement(root, "Potts")
    etree.SubElement(potts, "Dimensions", x=str(width), y=str(height), z="1")
    _leaf(potts, "Steps", str(steps))
    _leaf(potts, "Temperature", repr(float(meta.temperature * energy_scale)))
    _leaf(potts, "NeighborOrder", str(target.neighbor_order))
    for axis in "xy":
        _leaf(potts, f"Boundary_{axis}", target.boundary_words[meta.boundary])
    if seed is not None:
        _leaf(potts, "RandomSeed", str(seed))
    types = etree.SubElement(root, "Plugin", Name="CellType")
    for number, name in enumerate(names):
        etree.SubElement(types, "CellType", TypeId=str(number), TypeName=name)
    if values is not None:
        _add_energies(root, names, values)
    initializer = etree.SubElement(root, "Steppable", Type="PIFInitializer")
    _leaf(initializer, "PIFName", "Simulation/init.piff")
    return root


def _add_energies(root: etree._Element, names: list[str], values: SymbolicValues) -> None:
    volume = etree.SubElement(root, "Plugin", Name="Volume")
    for number, name in enumerate(names[1:], 1):
        etree.SubElement(
            volume,
            "VolumeEnergyParameters",
            CellType=name,
            LambdaVolume=repr(float(values.strength[number])),
            TargetVolume=repr(float(values.target_volume[number])),
        )
    contact = etree.SubElement(root, "Plugin", Name="Contact")
    for one, first in enumerate(names):
        for other in range(one, len(names)):
            energy = etree.SubElement(contact, "Energy", Type1=first, Type2=names[other])
            energy.text = repr(float(values.contact[one, other]))
    _leaf(contact, "NeighborOrder", str(TARGETS["cc3d"].neighbor_order))


def main_script(artifact: Artifact, names: list[str], term: Term) -> str:
    different = {
        name: model_name
        for name, model_name in zip(names[1:], artifact.metadata.types[1:], strict=True)
        if name != model_name
    }
    options = [f'model="{MODEL}"', f'term="{term}"', f"extinction={artifact.metadata.extinction}"]
    if different:
        options.append(f"types={different!r}")
    lines = "".join(f"        {option},\n" for option in ("frequency=1", *options))
    return (
        "from cc3d import CompuCellSetup\n"
        "from cc3d_steppables import NeuralHamiltonianSteppable\n\n"
        "CompuCellSetup.register_steppable(\n"
        f"    steppable=NeuralHamiltonianSteppable(\n{lines}    )\n)\n\n"
        "CompuCellSetup.run()\n"
    )


def project_file(name: str) -> str:
    return (
        f'<Simulation version="{VERSION}">\n'
        f'   <XMLScript Type="XMLScript">Simulation/{name}.xml</XMLScript>\n'
        f'   <PythonScript Type="PythonScript">Simulation/{name}.py</PythonScript>\n'
        '   <PIFFile Type="PIFFile">Simulation/init.piff</PIFFile>\n'
        f'   <Resource Type="Model">{MODEL}</Resource>\n'
        "</Simulation>\n"
    )


def write_xml(path: Path, root: etree._Element) -> None:
    etree.indent(root, "   ")
    path.write_bytes(etree.tostring(root, encoding="utf-8") + b"\n")


def _leaf(parent: etree._Element, tag: str, text: str) -> None:
    etree.SubElement(parent, tag).text = text
