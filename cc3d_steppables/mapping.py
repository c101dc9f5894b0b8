"""What fits and what does not: a project's types, lattice, boundary and energies against a model's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.conventions import TARGETS
from neuralcpm_bridge.errors import UserError

from .facts import Facts

Term = Literal["neural", "full"]
UNMAPPED = -1

DOUBLE_COUNTED = ("Contact", "ContactLocalFlex", "ContactLocalProduct", "AdhesionFlex", "Volume", "VolumeLocalFlex")
"""Plugins that say what the model's own contact and volume terms say."""


def map_types(facts: Facts, artifact: Artifact, given: Mapping[str, str] | None) -> dict[int, int]:
    """The project's type numbers to the model's: as given, else by name; `UNMAPPED` where there is neither."""
    known = artifact.metadata.types
    given = dict(given or {})
    for host_name, model_name in given.items():
        if host_name not in facts.type_names.values():
            raise UserError(
                f"types names the cell type {host_name!r}, but the project has {_listed(facts.type_names.values())}: "
                "correct the name."
            )
        if model_name not in known:
            raise UserError(
                f"types maps {host_name!r} to {model_name!r}, but the model knows {_listed(known)}: choose one of "
                "these."
            )
    mapped = {}
    for number, name in facts.type_names.items():
        if number == 0:
            mapped[number] = 0
            if given.get(name, known[0]) != known[0]:
                raise UserError(f"types maps {name} to {given[name]!r}, but it is always {known[0]!r}: leave it out.")
        else:
            wanted = given.get(name, name)
            mapped[number] = known.index(wanted) if wanted in known else UNMAPPED
    return mapped


def unmapped(name: str, artifact: Artifact) -> str:
    """The sentence about a cell whose type the model was not told how to take."""
    known = artifact.metadata.types
    return (
        f"There are cells of type {name!r}, but the model knows {_listed(known)}: map the type, for example "
        f"types={{{name!r}: {known[min(1, len(known) - 1)]!r}}}, or to {known[0]!r} where the model should not see it."
    )


def check_fit(facts: Facts, artifact: Artifact, term: Term) -> None:
    """Refuse a project that a model cannot serve."""
    if term not in ("neural", "full"):
        raise UserError(f"term is {term!r}, but 'neural' and 'full' exist: choose one.")
    height, width = facts.shape
    if facts.depth != 1:
        raise UserError(
            f"The lattice is {width}×{height}×{facts.depth}, but the model is for 2D lattices: use a project with "
            "z = 1."
        )
    if facts.lattice.lower() != "square":
        raise UserError(f"The lattice is {facts.lattice}, but the model is for square lattices: remove LatticeType.")
    if facts.potts_nodes != 1:
        raise UserError(
            f"The Potts algorithm runs on {facts.potts_nodes} work nodes, but a learned term sees farther than their "
            'sections: add <NonParallelModule Name="Potts"/> to <Metadata>, or Metadata(num_processors=1) in Python.'
        )
    if term == "full":
        twice = [name for name in facts.plugins if name in DOUBLE_COUNTED]
        if twice:
            raise UserError(
                f"term='full' is the whole learned energy, but the project also has the plugin {twice[0]}: remove it, "
                "or use term='neural'."
            )
    check_boundary(facts, artifact, term)


def check_boundary(facts: Facts, artifact: Artifact, term: Term) -> None:
    """The model's neighbours beyond the border must be the project's.

    A network that pads with zeros although it was trained on periodic lattices never saw across a border: it serves
    every boundary as it did in training.
    """
    meta, padding = artifact.metadata, artifact.metadata.neural.padding if artifact.metadata.neural else None
    host = {(True, True): "Periodic", (False, False): "NoFlux"}.get(facts.periodic, "Periodic in one direction only")
    advice = "set Boundary_x and Boundary_y to {0}, or use a model with {1} padding."
    if padding == "circular" and host != "Periodic":
        raise UserError(
            f"The project's boundary is {host}, but the model's network wraps around (circular padding): "
            + advice.format("Periodic", "zero")
        )
    if padding == "zeros" and meta.boundary == "free" and host != "NoFlux":
        raise UserError(
            f"The project's boundary is {host}, but the model was trained on lattices with a border and its network "
            "does not see across it: " + advice.format("NoFlux", "circular")
        )
    if term == "full" and meta.symbolic is not None and host != TARGETS["cc3d"].boundary_words[meta.boundary]:
        raise UserError(
            f"The project's boundary is {host}, but the model's contact energy is {meta.boundary}: change Boundary_x "
            "and Boundary_y, or use term='neural' beside the project's own contact energy."
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
