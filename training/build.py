"""From a configuration and a data set's description to a Hamiltonian ready to train."""

from __future__ import annotations

from typing import cast

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from neuralcpm_bridge.artifact import LatticeEntry
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import size_text
from neuralcpm_bridge.snapshots import Snapshots

from .config import ModelSection
from .hamiltonians import TERMS, CellGraph, Hamiltonian, LocalNeuralHamiltonian, States, make_preset
from .hamiltonians.cell_graph import Member
from .hamiltonians.moments import spans
from .hamiltonians.term import CellTerm, Start
from .warmstart import mean_volume

ALIASES = {"cellsort": "mnist-cellsort", "external": "mnist-external"}
"""Analytic models have no sizes, so the experiment in a preset's name says nothing."""


class Description(BaseModel):
    """What a model must know of its data; kept in the checkpoint, so that a run can be read without its data."""

    model_config = ConfigDict(frozen=True)

    types: tuple[str, ...]
    lattice: LatticeEntry
    cells: int
    target_volume: float
    means: dict[str, tuple[float, ...]] = {}
    """Of further terms: what each one measures, by cell type."""

    @classmethod
    def of(cls, snapshots: Snapshots, section: ModelSection) -> Description:
        count = int(snapshots.types.max()) + 1
        names = snapshots.type_names or ("medium", *(f"type{number}" for number in range(1, count)))
        if len(names) < count:
            raise UserError(
                f"The data set names {len(names)} types, but has cells of type {count - 1}: name every type, "
                "the medium first."
            )
        lattice = snapshots.lattice
        by_type = (*(("volume",) if section.by_type else ()), *section.terms)
        return cls(
            types=names,
            lattice=LatticeEntry.of(lattice.geometry.name, lattice.boundary, lattice.shape),
            cells=snapshots.types.shape[1],
            target_volume=section.target_volume or mean_volume(snapshots),
            means={name: measured_means(name, snapshots, len(names), section.order) for name in by_type},
        )


def measured_means(name: str, snapshots: Snapshots, types: int, order: int | None) -> tuple[float, ...]:
    """Mean by cell type of what a term measures, over all cells that have pixels; empty where it measures none."""
    probe = TERMS[name].fresh(Start(types, snapshots.lattice.shape, {name: (0.0,) * (types - 1)}, order))
    if not isinstance(probe, CellTerm):
        return ()
    values, of_cell = [torch.zeros(0)], [torch.zeros(0, dtype=torch.int64)]
    for state in snapshots:
        states = States.of([state])
        found = probe.measured(states)
        alive = (states.types >= 1) & (states.volumes > 0)
        values.append((found if found.dim() == 2 else found[..., 0])[alive])
        of_cell.append(states.types[alive])
    every, types_of = torch.cat(values), torch.cat(of_cell)
    by_type = [every[types_of == cell_type] for cell_type in range(1, types)]
    return tuple((own if own.numel() else every).mean().item() for own in by_type)


def build_hamiltonian(section: ModelSection, described: Description) -> Hamiltonian:
    """A freshly initialised Hamiltonian; draws from torch's global generator."""
    padding = section.padding
    if padding is None and section.preset.startswith("local"):
        padding = "circular" if set(described.lattice.boundary) == {"periodic"} else "zeros"
    hamiltonian = make_preset(
        ALIASES.get(section.preset, section.preset),
        described.types,
        cells=described.cells,
        lattice=described.lattice,
        target_volume=described.target_volume,
        padding=padding,
        order=section.order,
        terms=described.means,
        members=section.members,
        properties=section.properties,
        free_targets=section.by_type,
        knots=section.knots or 0,
    )
    scale_head(hamiltonian, section.head_gain)
    if section.freeze_symbolic and hamiltonian.symbolic is not None:
        hamiltonian.symbolic.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in hamiltonian.parameters()):
        raise UserError(
            f"model.freeze_symbolic leaves nothing to train in the preset {section.preset!r}: set it to false or "
            "use a closure."
        )
    return hamiltonian


def learn_statistics(network: CellGraph, snapshots: Snapshots) -> None:
    """Standardise a cell graph's inputs over a data set, and refuse one whose cells have no shape."""
    graphs = []
    for number, state in enumerate(snapshots):
        states = States.of([state], network.spec.properties)
        wide = without_shape(states)[0].nonzero()
        if len(wide):
            raise UserError(
                f"Cell {int(wide[0])} of state {number} spans half or more of the periodic lattice of "
                f"{size_text(snapshots.lattice.shape)} sites, where its shape is not defined: use a larger lattice or "
                "a free boundary, or leave the state out."
            )
        graphs.append(network.describe(states))
    network.learn_statistics(graphs)


def without_shape(states: States) -> Tensor:
    """Which ids span half or more of a periodic axis, `[B, C]` bool; on a free axis nothing does."""
    lattice = states.lattice
    rings = torch.tensor(
        [size if wraps else 2 * size for size, wraps in zip(lattice.shape, lattice.periodic, strict=True)]
    )
    return (2 * spans(states) >= rings).any(2)


def scale_head(hamiltonian: Hamiltonian, gain: float) -> None:
    """Multiply the network's initial output layer: how loudly it speaks before it has learned anything."""
    network = hamiltonian.network
    if network is None or gain == 1.0:
        return
    if isinstance(network, CellGraph):
        outputs = [cast(Member, member).out for member in network.members]
    elif isinstance(network, LocalNeuralHamiltonian):
        outputs = [network.cell_head.out, network.background_head.out]
    else:
        outputs = [cast(nn.Linear, network.out)]
    with torch.no_grad():
        for layer in outputs:
            layer.weight.mul_(gain)
