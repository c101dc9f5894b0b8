"""A complete CC3D project from a model and a state: energies converted exactly, the model along as a resource."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.conventions import TARGETS, uncarried_terms
from neuralcpm_bridge.delta import Part
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.fit import Blocks, check_lattice, in_whole_blocks
from neuralcpm_bridge.hosting.uncertainty import Limits
from neuralcpm_bridge.lattice import Lattice, to_rows
from neuralcpm_bridge.state import CellState
from neuralcpm_bridge.timelapse import frame_note

from .check import check_neighbourhoods
from .document import leaf
from .energies import Energies
from .folders import writing_folder
from .pif import write_pif
from .project import MODEL
from .properties import PROPERTIES, write_properties
from .reader import MEDIUM

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
    blocks: Blocks = "keep",
    limits: Limits | None = None,
) -> Path:
    """Write a project named like its folder; the path of its .cc3d file.

    `energy_scale` multiplies every energy and the temperature, which changes no probability; `blocks` is for networks
    of blocks on lattices whose sides are no multiples of them.
    """
    folder = Path(folder)
    name = re.sub(r"\W", "_", folder.name) or "project"
    limits = limits or Limits()
    limits.check(artifact)
    state = in_whole_blocks(artifact, artifact.place(state), blocks)
    check_lattice(state.lattice, artifact, "neural", TARGETS["cc3d"], "the state's boundary")
    if not (np.isfinite(energy_scale) and energy_scale > 0):
        raise UserError(f"The energy scale is {energy_scale}, but a number above 0 is needed: 1 keeps energies.")
    names = type_names(artifact)
    part, energies = terms_of(artifact, names, energy_scale)
    orders = {state.lattice.geometry.moore_order, *artifact.metadata.orders.values()}
    ids, lattice = in_rows(state, orders)
    check_neighbourhoods(lattice, orders)
    with writing_folder(folder) as temporary:
        simulation = temporary / "Simulation"
        simulation.mkdir()
        root = cc3dml(lattice, names, energies, artifact.metadata.temperature * energy_scale, steps, seed)
        write_xml(simulation / f"{name}.xml", root)
        (simulation / f"{name}.py").write_text(main_script(artifact, names, part, limits), encoding="utf-8")
        if state.properties:
            write_properties(temporary / PROPERTIES, state)
        write_pif(simulation / "init.piff", ids, {int(cell): names[state.types[cell]] for cell in state.cells})
        shutil.copyfile(artifact.path, temporary / MODEL)
        (temporary / f"{name}.cc3d").write_text(project_file(name, bool(state.properties)), encoding="utf-8")
    return folder / f"{name}.cc3d"


def in_rows(state: CellState, orders: Iterable[int]) -> tuple[NDArray[np.int32], Lattice]:
    """A state's ids on the lattice that CC3D will have: hexagonal ones in rows, with as much room as they had.

    Rows and skewed axes have different free sides, so no cell may have a neighbour, up to these orders, at one.
    """
    lattice = state.lattice
    if lattice.geometry.name != "hexagonal" or lattice.layout == "rows":
        return state.ids, lattice
    ids, rows = to_rows(state.ids, lattice)
    if rows.periodic[1]:
        if rows.shape[1] % 2:
            raise UserError(
                f"The hexagonal lattice is periodic over {rows.shape[1]} columns, but CompuCell3D takes an even number "
                "only: use such a lattice."
            )
        return ids, rows
    reach = max(int(abs(lattice.geometry.offsets(order)).max()) for order in orders)
    if state.ids[:, :reach].any() or state.ids[:, -reach:].any():
        raise UserError(
            "A cell lies at a free side of the hexagonal lattice, where CompuCell3D's rows have another border: leave "
            f"{reach} or more columns of medium on both sides."
        )
    return to_rows(state.ids, lattice, width=max(lattice.shape[1], rows.shape[1] + 2 * (reach - 1)))


def terms_of(artifact: Artifact, names: list[str], energy_scale: float) -> tuple[Part, Energies]:
    """Analytic terms go into CC3D's own plugins where these can carry all; else all is the learned term's."""
    meta = artifact.metadata
    if meta.symbolic is None or uncarried_terms(meta, TARGETS["cc3d"]):
        return "full", Energies()
    return "neural", Energies.of_model(meta, {name: number for number, name in enumerate(names)}, energy_scale)


def type_names(artifact: Artifact) -> list[str]:
    """The model's types as CC3D can name them: words, the first always Medium."""
    names = [MEDIUM, *(re.sub(r"\W", "_", name) for name in artifact.metadata.types[1:])]
    if len(set(names)) != len(names):
        found = ", ".join(artifact.metadata.types)
        raise UserError(f"The model's types {found} have no distinct names in CC3D: rename them.")
    return names


def cc3dml(
    lattice: Lattice, names: list[str], energies: Energies, temperature: float, steps: int, seed: int | None
) -> etree._Element:
    root = etree.Element("CompuCell3D", Revision="0", Version=VERSION)
    metadata = etree.SubElement(root, "Metadata")
    leaf(metadata, "NumberOfProcessors", "1")
    potts = etree.SubElement(root, "Potts")
    sides = dict(zip("xyz", (*lattice.shape[::-1], 1), strict=False))
    etree.SubElement(potts, "Dimensions", {axis: str(side) for axis, side in sides.items()})
    leaf(potts, "Steps", str(steps))
    leaf(potts, "Temperature", repr(float(temperature)))
    if lattice.geometry.name == "hexagonal":
        leaf(potts, "LatticeType", "Hexagonal")
    leaf(potts, "NeighborOrder", str(lattice.geometry.moore_order))
    for axis, boundary in zip("xyz", lattice.boundary[::-1], strict=False):  # no Boundary_z, which CC3D refuses, in 2D
        leaf(potts, f"Boundary_{axis}", TARGETS["cc3d"].boundary_words[boundary])
    if seed is not None:
        leaf(potts, "RandomSeed", str(seed))
    types = etree.SubElement(root, "Plugin", Name="CellType")
    for number, name in enumerate(names):
        etree.SubElement(types, "CellType", TypeId=str(number), TypeName=name)
    root.extend(energies.elements(names))
    initializer = etree.SubElement(root, "Steppable", Type="PIFInitializer")
    leaf(initializer, "PIFName", "Simulation/init.piff")
    return root


def main_script(artifact: Artifact, names: list[str], part: Part, limits: Limits) -> str:
    different = {
        name: model_name
        for name, model_name in zip(names[1:], artifact.metadata.types[1:], strict=True)
        if name != model_name
    }
    options = [f'model="{MODEL}"', f'term="{part}"', f"extinction={artifact.metadata.extinction}"]
    if different:
        options.append(f"types={different!r}")
    options += limits.options()
    lines = "".join(f"        {option},\n" for option in ("frequency=1", *options))
    reads = bool(artifact.metadata.properties)
    first = f'CompuCellSetup.register_steppable(steppable=CellPropertiesSteppable(frequency=1, file="{PROPERTIES}"))\n'
    note = frame_note(artifact.metadata.training)
    comment = f"# The movie that the model learned from: {note}\n" if note else ""
    return (
        f"{comment}"
        "from cc3d import CompuCellSetup\n"
        f"from cc3d_steppables import {'CellPropertiesSteppable, ' if reads else ''}NeuralHamiltonianSteppable\n\n"
        f"{first if reads else ''}"
        "CompuCellSetup.register_steppable(\n"
        f"    steppable=NeuralHamiltonianSteppable(\n{lines}    )\n)\n\n"
        "CompuCellSetup.run()\n"
    )


def project_file(name: str, with_properties: bool) -> str:
    properties = f'   <Resource Type="Properties">{PROPERTIES}</Resource>\n'
    return (
        f'<Simulation version="{VERSION}">\n'
        f'   <XMLScript Type="XMLScript">Simulation/{name}.xml</XMLScript>\n'
        f'   <PythonScript Type="PythonScript">Simulation/{name}.py</PythonScript>\n'
        '   <PIFFile Type="PIFFile">Simulation/init.piff</PIFFile>\n'
        f'   <Resource Type="Model">{MODEL}</Resource>\n'
        f"{properties if with_properties else ''}"
        "</Simulation>\n"
    )


def write_xml(path: Path, root: etree._Element) -> None:
    etree.indent(root, "   ")
    path.write_bytes(etree.tostring(root, encoding="utf-8") + b"\n")
