"""What a data set is: its lattice, cells and types, and what of it will be a problem, in sentences."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .lattice import Lattice
from .snapshots import Snapshots
from .state import CellState

FEW_STATES = 20
"""Below so many, what the data show is as uncertain as what a model makes of it."""
BEST_DIAMETER = 12.0
"""Sites across a cell at which shapes are resolved and chains still move: what is recommended."""
DIAMETERS = (4.0, 30.0)
"""Below the first a cell has no shape, above the last its outline moves too slowly to be learned from."""
LARGEST_IN_3D = 18.0
"""Where a cell 30 sites across has 14,000 of them: already at 18 it has 3,000, and chains take minutes."""
ALIKE = 0.98
"""Share of equal sites from which two states count as near-duplicates."""
MANY_ALIKE = 0.5
COMPARED = 64
"""Pairs of states that are compared with each other."""
AT_BORDER = 0.2
"""Share of cells at a free border from which their shapes are the frame's."""


@dataclass(frozen=True)
class TypeSurvey:
    """The cells of one type: how many in all states, mean and deviation of their volumes."""

    name: str
    cells: int
    volume: tuple[float, float]


@dataclass(frozen=True)
class Survey:
    """Of a data set; `cells`: least and most of a state; `remarks`: what will be a problem."""

    states: int
    cells: tuple[int, int]
    types: tuple[TypeSurvey, ...]
    diameter: float
    medium_share: float
    remarks: tuple[str, ...]

    @property
    def confluent(self) -> bool:
        return self.medium_share == 0


def survey(data: Snapshots) -> Survey:
    """Look at everything once."""
    counts = np.array([state.cells.size for state in data])
    every = np.concatenate([state.volumes[state.cells] for state in data])
    of_type = np.concatenate([state.types[state.cells] for state in data])
    types = tuple(
        TypeSurvey(type_name(data, number), own.size, (float(own.mean()), float(own.std())))
        for number in range(1, int(data.types.max(initial=0)) + 1)
        if (own := every[of_type == number]).size
    )
    found = Survey(
        len(data),
        (int(counts.min()), int(counts.max())),
        types,
        diameter(float(every.mean()), data.lattice) if every.size else 0.0,
        float((data.ids == 0).mean()),
        (),
    )
    return replace(found, remarks=tuple(_remarks(found, data)) if every.size else ("There are no cells.",))


def type_name(data: Snapshots, number: int) -> str:
    return data.type_names[number] if number < len(data.type_names) else f"type{number}"


def diameter(volume: float, lattice: Lattice) -> float:
    """Of a disc or ball of so many sites, in units of the nearest neighbours' distance."""
    space = volume * lattice.geometry.site_volume
    return float(2 * np.sqrt(space / np.pi) if lattice.dimension == 2 else 2 * (3 * space / (4 * np.pi)) ** (1 / 3))


def recommended_scale(across: float, dimension: int) -> float:
    """What images are to be resampled by whose cells are so many sites across: as they are where a model can move them,
    or where resampling would show no more."""
    largest = DIAMETERS[1] if dimension == 2 else LARGEST_IN_3D
    return 1.0 if across <= largest else float(f"{BEST_DIAMETER / across:.2g}")


def _remarks(found: Survey, data: Snapshots) -> list[str]:
    said = []
    if found.states > 1 and (data.ids == data.ids[0]).all():
        said.append(f"All {found.states} states are the same: nothing can be learned about what varies.")
    elif found.states < FEW_STATES:
        said.append(f"States are few ({found.states}): how they differ is hardly known, {FEW_STATES} serve better.")
    low, high = DIAMETERS
    factor = BEST_DIAMETER / found.diameter
    if found.diameter < low:
        said.append(
            f"Cells are {found.diameter:.1f} sites across, too few for a shape: images imported with --scale "
            f"{factor:.2g} times what it was would show more."
        )
    elif found.diameter > high:
        said.append(
            f"Cells are {found.diameter:.0f} sites across and move slowly: images imported with --scale {factor:.2g} "
            "times what it was would be learned from sooner."
        )
    if found.confluent:
        said.append("There is no medium: cells fill the lattice, and contact with the medium cannot be learned.")
    if len(found.types) == 1:
        said.append(f"There is one type of cells only, {found.types[0].name}: nothing can be said about sorting.")
    else:
        said += _strangers(data)
    if found.states > 1 and (alike := _alike(data)) > MANY_ALIKE:
        said.append(
            f"{100 * alike:.0f} % of the pairs of states that were compared are nearly the same: they count as few."
        )
    if found.cells[0] != found.cells[1]:
        said.append(f"States have from {found.cells[0]} to {found.cells[1]} cells: each chain keeps its own number.")
    if (cut := _at_free_border(data)) > AT_BORDER:
        said.append(
            f"{100 * cut:.0f} % of the cells lie at a free border and may be cut by the frame: their volumes and "
            "shapes are not their own (data import --border drop leaves them out)."
        )
    return said


def _strangers(data: Snapshots) -> list[str]:
    """Types that never touch."""
    count = int(data.types.max()) + 1
    contacts = np.sum([state.contacts(count) for state in data], axis=0)
    said = []
    present = [t for t in range(1, count) if (data.types == t).any()]
    for place, a in enumerate(present):
        for b in present[place + 1 :]:
            if contacts[a, b] == 0:
                both = f"{type_name(data, a)} and {type_name(data, b)}"
                said.append(f"{both} never touch: their contact energy cannot be learned.")
    return said


def _alike(data: Snapshots) -> float:
    """Share of pairs of states that are nearly the same."""
    rng = np.random.default_rng(0)
    pairs = [rng.choice(len(data), 2, replace=False) for _ in range(COMPARED)]
    return float(np.mean([_equal_share(data[a], data[b]) > ALIKE for a, b in pairs]))


def _equal_share(a: CellState, b: CellState) -> float:
    """Of the sites that are tissue in either state."""
    tissue = (a.ids > 0) | (b.ids > 0)
    return float((a.ids[tissue] == b.ids[tissue]).mean()) if tissue.any() else 1.0


def _at_free_border(data: Snapshots) -> float:
    """Share of cells with a site on the outermost row of a free axis."""
    touching, cells = 0, 0
    for state in data:
        touching += np.unique(_outermost(state)).size
        cells += state.cells.size
    return touching / max(cells, 1)


def _outermost(state: CellState) -> NDArray[np.int32]:
    faces = [np.zeros(0, dtype=np.int32)]
    for axis, wraps in enumerate(state.lattice.periodic):
        if not wraps:
            faces += [np.take(state.ids, end, axis).ravel() for end in (0, -1)]
    ids = np.concatenate(faces)
    return ids[ids > 0]
