"""What fits and what does not: a project's lattice, neighbourhoods and energies against a model's."""

from __future__ import annotations

from collections.abc import Iterable

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.conventions import TARGETS
from neuralcpm_bridge.delta import Part
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.fit import check_lattice
from neuralcpm_bridge.lattice import Lattice, size_text

from .energies import PLUGINS
from .reader import ProjectFacts

PARTS = ("neural", "full")
SMALLEST_LONGEST_SIDE = 12
"""CC3D itself refuses lattices all of whose sides are shorter."""
SMALLEST_HEXAGONAL_SIDE = 10
"""Below it CC3D collects the neighbours of hexagons on another lattice than the one it has."""


def check_fit(facts: ProjectFacts, artifact: Artifact, part: Part) -> None:
    """Refuse a project that a model cannot serve."""
    if part not in PARTS:
        raise UserError(f"term is {part!r}, but {' and '.join(map(repr, PARTS))} exist: choose one.")
    if facts.potts_nodes != 1:
        raise UserError(
            f"The Potts algorithm runs on {facts.potts_nodes} work nodes, but a learned term sees farther than their "
            'sections: add <NonParallelModule Name="Potts"/> to <Metadata>, or Metadata(num_processors=1) in Python.'
        )
    if part == "full":
        twice = [name for name in facts.plugins if name in counted_twice(artifact)]
        if twice:
            raise UserError(
                f"term='full' is the whole learned energy, but the project also has the plugin {twice[0]}: remove it, "
                "or use term='neural'."
            )
    axes = [f"Boundary_{axis}" for axis in "xyz"[: facts.lattice.dimension]]
    setting = f"{', '.join(axes[:-1])} and {axes[-1]}"
    check_lattice(facts.lattice, artifact, part, TARGETS["cc3d"], setting)


def counted_twice(artifact: Artifact) -> set[str]:
    """Plugins that say what a whole model says already: contacts and volumes always, the rest where it has the term."""
    symbolic = artifact.metadata.symbolic
    terms = {"contact", "volume"} | (PLUGINS.keys() & symbolic.terms.keys() if symbolic is not None else set())
    return {plugin for term in terms for plugin in PLUGINS[term]}


def check_neighbourhoods(lattice: Lattice, orders: Iterable[int]) -> None:
    """Refuse a lattice so thin that CC3D's neighbourhoods are cut.

    It collects offsets around the middle of the lattice itself and leaves out what falls off it. Steps farther than a
    free axis is wide never count, in CC3D as here; in 3D it collects on at least three sites per axis.
    """
    if max(lattice.shape) < SMALLEST_LONGEST_SIDE:
        raise UserError(
            f"The lattice has {size_text(lattice.shape)} sites, but CompuCell3D needs {SMALLEST_LONGEST_SIDE} along "
            "one axis at least: use a larger one."
        )
    hexagonal = lattice.geometry.name == "hexagonal"
    for order in orders:
        steps = abs(lattice.geometry.offsets(order)).max(axis=0)
        for side, reach, periodic in zip(lattice.shape, map(int, steps), lattice.periodic, strict=True):
            seen = max(side, 3) if lattice.dimension == 3 else side
            room = (seen - 1) // 2 - (1 if hexagonal else 0)  # on hexagons the middle may be a row off
            whole = room >= reach and (not hexagonal or side >= SMALLEST_HEXAGONAL_SIDE)
            if not whole and (periodic or side > reach):
                needed = max(2 * reach + 2 + 2 * hexagonal, SMALLEST_HEXAGONAL_SIDE if hexagonal else 0)
                raise UserError(
                    f"The lattice of {size_text(lattice.shape)} sites is too thin for neighbours of order {order}, "
                    f"which CompuCell3D cuts off there: use at least {needed} sites per side."
                )
