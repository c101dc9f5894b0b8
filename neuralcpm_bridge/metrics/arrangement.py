"""Who lies beside whom, how cells lie to each other, and where in the tissue: by type, of one state."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..state import CellState
from .geometry import mean_coordinates
from .paper import in_tissue
from .tissue import pairs_per_unit, principal_axes

Floats = NDArray[np.float64]


class Arrangement:
    """The contacts of a state, found once; `types`: number of types, the medium included."""

    def __init__(self, state: CellState, types: int | None = None) -> None:
        self.state, self.types = state, int(types if types is not None else state.types.max() + 1)
        ids_each = state.types.size
        keys = [np.zeros(0, dtype=np.int64)]
        for a, b in state.meetings():
            keys.append(np.minimum(a, b).astype(np.int64) * ids_each + np.maximum(a, b))
        key, pairs = np.unique(np.concatenate(keys), return_counts=True)
        self.first, self.second = key // ids_each, key % ids_each
        """Ids that touch, each pair once; the medium, where it takes part, comes first."""
        self.length: Floats = pairs / pairs_per_unit(state.lattice.geometry)

    @cached_property
    def _between_cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """Contacts of two cells, each from both sides: who, whom, how much."""
        own = self.first > 0
        first, second, length = self.first[own], self.second[own], self.length[own]
        return np.r_[first, second], np.r_[second, first], np.r_[length, length]

    def _by_type(self, values: Floats, cells: NDArray[np.int64]) -> Floats:
        """Means of one value per cell over each type, `[T]`; NaN for types without cells."""
        of_type = self.state.types[cells]
        counts = np.bincount(of_type, minlength=self.types).astype(np.float64)
        return np.bincount(of_type, values, minlength=self.types) / np.where(counts > 0, counts, np.nan)

    def surfaces(self) -> Floats:
        """Mean surface of the cells of each type, `[T]`, in lattice units."""
        return self._by_type(self._surface_of_ids()[self.state.cells], self.state.cells)

    def medium_shares(self) -> Floats:
        """Mean share of the surface of each type's cells that touches the medium, `[T]`."""
        with_medium = np.zeros(self.state.types.size)
        at_medium = self.first == 0
        with_medium[self.second[at_medium]] = self.length[at_medium]
        cells = self.state.cells
        surface = self._surface_of_ids()[cells]
        return self._by_type(with_medium[cells] / np.where(surface > 0, surface, np.nan), cells)

    def _surface_of_ids(self) -> Floats:
        ends, lengths = np.r_[self.first, self.second], np.r_[self.length, self.length]
        return np.bincount(ends, lengths, minlength=self.state.types.size).astype(np.float64)

    def neighbours(self) -> Floats:
        """How many cells of type b a cell of type a touches on the mean, `[T, T]`; rows of types without cells are
        NaN."""
        who, whom, _ = self._between_cells
        types, cells = self.state.types, self.state.cells
        table = np.zeros((self.types, self.types))
        np.add.at(table, (types[who], types[whom]), 1.0)
        counts = np.bincount(types[cells], minlength=self.types).astype(np.float64)
        return table / np.where(counts > 0, counts, np.nan)[:, None]

    def alignments(self) -> Floats:
        """How parallel touching cells of one type lie, `[T]`: 1 side by side or in line, 0 at random, weighed by the
        length of their contact; negative: crosswise."""
        who, whom, length = self._between_cells
        return self._nematic(self._longest[who], self._longest[whom], who, whom, length, same_type=True)

    def pointing(self) -> Floats:
        """Whether cells of a type point at the cells they touch, `[T]`: 1 end to end, 0 at random, negative: they lie
        beside them."""
        who, whom, length = self._between_cells
        lattice, places = self.state.lattice, mean_coordinates(self.state)
        ways = lattice.shortest(places[whom] - places[who])
        distance = np.linalg.norm(ways, axis=1, keepdims=True)
        ways = ways / np.where(distance > 0, distance, np.nan)
        return self._nematic(self._longest[who], ways, who, whom, length, same_type=False)

    def _nematic(
        self,
        a: Floats,
        b: Floats,
        who: NDArray[np.int64],
        whom: NDArray[np.int64],
        length: Floats,
        same_type: bool,
    ) -> Floats:
        """Mean order parameter (d cos² − 1) / (d − 1) of pairs of directions, by the type of the first cell."""
        dimension, types = self.state.lattice.dimension, self.state.types
        order = (dimension * (a * b).sum(axis=1) ** 2 - 1) / (dimension - 1)
        known = ~np.isnan(order) & ((types[who] == types[whom]) | (not same_type))
        of_type, weight = types[who][known], length[known]
        total = np.bincount(of_type, weight, minlength=self.types)
        return np.bincount(of_type, weight * order[known], minlength=self.types) / np.where(total > 0, total, np.nan)

    @cached_property
    def _longest(self) -> Floats:
        """Direction of the longest axis of every id, `[C, d]`."""
        return principal_axes(self.state).directions[:, 0]

    def distances(self) -> Floats:
        """How far from the tissue's middle the cells of each type lie, `[T]`, in units of the root mean square of all
        cells: below 1 inside, above 1 outside."""
        cells = self.state.cells
        if not cells.size:
            return np.full(self.types, np.nan)
        places = in_tissue(self.state, mean_coordinates(self.state))[cells]
        away = np.linalg.norm(places - places.mean(axis=0), axis=1)
        typical = np.sqrt((away**2).mean())
        return self._by_type(away / (typical if typical > 0 else np.nan), cells)
