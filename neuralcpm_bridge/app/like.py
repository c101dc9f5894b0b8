"""H_S of a user's own project: the analytic energies that a closure is learned beside."""

from __future__ import annotations

from pathlib import Path

from neuralcpm_bridge.artifact import LatticeEntry
from neuralcpm_bridge.errors import UserError, reading
from neuralcpm_bridge.hosting.mapping import listed
from neuralcpm_bridge.hosting.own_energies import OwnEnergies
from neuralcpm_bridge.snapshots import Snapshots
from training.build import Description
from training.config import ModelSection
from training.export.artifact import from_weights
from training.fit import Given


def read_project(path: Path) -> OwnEnergies:
    """Of a CompuCell3D project (.cc3d) or a Morpheus model (.xml)."""
    if not path.is_file():
        raise UserError(f"There is no project {path}: give a .cc3d file of CompuCell3D or an .xml file of Morpheus.")
    if path.suffix == ".cc3d":
        from cc3d_steppables.own_energies import read_own_energies
    elif path.suffix == ".xml":
        from morpheus_xml.own_energies import read_own_energies
    else:
        raise UserError(
            f"{path} is neither a .cc3d file of CompuCell3D nor an .xml file of Morpheus: give one of these."
        )
    with reading(path, "a project whose energies can be read", "correct it"):
        return read_own_energies(path)


def like_project(path: Path, data: Snapshots) -> Given:
    """The energies of a project as a Hamiltonian of the data's types, in units of its temperature."""
    described = Description.of(data, ModelSection(preset="cellsort"))
    own = read_project(path).of_types(described.types)
    found = own.converted()
    lattice = LatticeEntry.of(own.lattice.geometry.name, own.lattice.boundary)
    hamiltonian = from_weights(described.types, lattice, described.cells, found.weights, found.orders, None)
    return Given(hamiltonian, own.source, own.temperature, (*own.not_read, *found.notes))


def said(given: Given) -> list[str]:
    """What was read and what was not, in lines."""
    orders = given.hamiltonian.orders
    terms = [f"{name} of order {orders[name]}" if name in orders else name for name in given.hamiltonian.terms]
    lines = [f"H_S is that of {given.source}: {listed(terms)}, at the temperature {given.temperature:g}."]
    lines += [f"Not read: {each}." for each in given.not_read]
    if given.not_read:
        lines.append(
            "What was not read is not in H_S: where the data show it, the closure learns it too, and in the project it "
            "would act twice. Take it out of the project, or leave it, if it is not what the data are about."
        )
    return lines
