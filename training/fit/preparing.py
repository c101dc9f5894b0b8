"""What of a data set can be learned from: refused where nothing can, made coarser where cells are too large, parted
into states to train on and states to judge by."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice, size_text
from neuralcpm_bridge.metrics.geometry import piece_map
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import NO_CELL, CellState
from neuralcpm_bridge.survey import BEST_DIAMETER, DIAMETERS, Survey, survey

from ..build import without_shape
from ..hamiltonians import States

HELD_OUT = 0.2
FEWEST_HELD_OUT, MOST_HELD_OUT = 2, 64
ENOUGH_TO_HOLD_OUT = 6
"""States from which on some are kept to judge by."""
ENOUGH_CELLS = 50
"""Cells, in all states to train on, below which a network would learn single cells by heart."""
LEAST_WHOLE = 0.5
"""Share of a cell's sites that lie in its largest piece, on the mean, below which labels are no cells."""

MOST_LOST = 0.5
"""Share of states that must have shapes for a fit to go on without the others."""


class Prepared(NamedTuple):
    """States to train on and to judge by (the same ones where they are few), what was found and what was done."""

    train: Snapshots
    judge: Snapshots
    found: Survey
    said: tuple[str, ...]
    coarser: int
    learnable: bool
    """Whether there are enough cells for a network."""


def prepare(data: Snapshots, seed: int, may_coarsen: bool = True) -> Prepared:
    found = survey(data)
    refuse_what_is_no_tissue(data, found)
    said, coarser = list(found.remarks), 1
    if may_coarsen and found.diameter > DIAMETERS[1]:
        coarser = max(2, round(found.diameter / (1.25 * BEST_DIAMETER)))
        data = coarsened(data, coarser)
        found = survey(data)
        said.append(
            f"One of {coarser} sites along each axis was kept ({size_text(data.lattice.shape)} sites, cells "
            f"{found.diameter:.0f} sites across): the model is one of this lattice."
        )
    data, lost = with_shapes(data)
    if lost:
        said.append(
            f"{lost} of {lost + len(data)} states have a cell that spans half of the periodic lattice, where its shape "
            "is not defined: they were left out."
        )
    train, judge = parted(data, seed)
    if len(data) < ENOUGH_TO_HOLD_OUT:
        said.append(f"Too few states to keep some apart ({len(data)}): the model is judged by those it was trained on.")
    cells = sum(state.cells.size for state in train)
    if cells < ENOUGH_CELLS:
        said.append(
            f"{cells} cells in all are too few to learn a network from ({ENOUGH_CELLS} at least): contact and volume "
            "energies alone were fitted."
        )
    return Prepared(train, judge, found, tuple(said), coarser, cells >= ENOUGH_CELLS)


def refuse_what_is_no_tissue(data: Snapshots, found: Survey) -> None:
    if not found.types:
        raise UserError("The data set has no cells: give states with cells.")
    if len(data) > 1 and (data.ids == data.ids[0]).all():
        raise UserError(
            f"All {len(data)} states are the same, so nothing is known of how they vary: give snapshots of different "
            "tissues or times."
        )
    whole = np.concatenate([largest_pieces(state) for state in data.chosen(np.arange(min(len(data), 16)))])
    if whole.mean() < LEAST_WHOLE:
        raise UserError(
            f"Cells are in pieces, of which the largest holds {whole.mean():.0%} of a cell's sites on the mean, so the "
            "labels are no cells: check the segmentation."
        )


def largest_pieces(state: CellState) -> NDArray[np.float64]:
    """Share of every cell's sites that hang together in its largest piece."""
    ids, pieces = state.ids.ravel(), piece_map(state, state.lattice.geometry.moore_order).ravel()
    owner = np.zeros(int(pieces.max(initial=0)) + 1, dtype=np.int64)
    owner[pieces] = ids
    largest = np.zeros(state.types.size)
    np.maximum.at(largest, owner[1:], np.bincount(pieces, minlength=owner.size)[1:])
    return largest[state.cells] / state.volumes[state.cells]


def with_shapes(data: Snapshots) -> tuple[Snapshots, int]:
    """The states all of whose cells have a shape, and how many others there were."""
    good = [number for number, state in enumerate(data) if not bool(without_shape(States.of([state])).any())]
    if len(good) < MOST_LOST * len(data):
        raise UserError(
            f"{len(data) - len(good)} of {len(data)} states have a cell that spans half or more of the periodic "
            f"lattice of {size_text(data.lattice.shape)} sites, where its shape is not defined: import them with a "
            "larger lattice or a free boundary."
        )
    return data.chosen(good), len(data) - len(good)


def parted(data: Snapshots, seed: int) -> tuple[Snapshots, Snapshots]:
    """States to train on, and states to judge by."""
    if len(data) < ENOUGH_TO_HOLD_OUT:
        return data, data
    count = int(np.clip(round(HELD_OUT * len(data)), FEWEST_HELD_OUT, MOST_HELD_OUT))
    order = np.random.default_rng([seed, 37]).permutation(len(data))
    return data.chosen(np.sort(order[count:])), data.chosen(np.sort(order[:count]))


def coarsened(data: Snapshots, factor: int) -> Snapshots:
    """Every so-manyth site along each axis; the lattice keeps its geometry. A lattice that cannot be divided loses its
    last rows."""
    axes = (slice(None), *(slice(factor // 2, size // factor * factor, factor) for size in data.lattice.shape))
    ids = np.ascontiguousarray(data.ids[axes])
    types = data.types.copy()
    for own, of_cell in zip(ids, types, strict=True):  # a sliver may have lost all its sites
        lost = np.bincount(own.ravel(), minlength=of_cell.size)[: of_cell.size] == 0
        of_cell[1:][lost[1:]] = NO_CELL
    lattice = Lattice.of(ids.shape[1:], data.lattice.geometry, data.lattice.boundary)
    return replace(data, ids=ids, types=types, lattice=lattice)
