"""A ΔH back end from full energies: keeps the state, asks for the energies of changed copies in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..delta import Energy, Part, property_number
from ..errors import UserError
from ..lattice import Lattice
from ..state import CellState

BATCH_SITES = 2_000_000
"""Sites × cells per evaluation: bounds the memory of a batch of proposals."""


class FullEnergyBackend(ABC):
    """Exact for any Hamiltonian, at the price of a whole energy per proposal."""

    name: str

    def __init__(self, state: CellState, part: Part, means: Mapping[str, float] | None = None) -> None:
        """`means`: the properties that the model reads, and what a cell has until it is given one."""
        self.part: Part = part
        self._means = dict(means or {})
        self.reset(state)

    @abstractmethod
    def energies(
        self, ids: NDArray[np.int64], types: NDArray[np.int64], properties: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Symbolic and neural part `[n, 2]` of ids `[n, H, W]` or `[n, D, H, W]`, all with the same cells: types `[C]`,
        properties `[C, P]`."""

    def members(
        self, ids: NDArray[np.int64], types: NDArray[np.int64], properties: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The neural part as every member of a committee has it, `[n, K]`; other networks are their only member."""
        return self.energies(ids, types, properties)[:, 1:]

    def inside_range(self) -> NDArray[np.bool_]:
        return np.ones(self._types.size, dtype=bool)

    def reset(self, state: CellState) -> None:
        self.lattice: Lattice = state.lattice
        self._ids, self._types = state.ids.astype(np.int64), state.types.astype(np.int64)
        self._properties = state.reading(tuple(self._means)).property_table()
        self._current = self._of(self._ids[None])[0]

    def state(self) -> CellState:
        columns = dict(zip(self._means, self._properties.T, strict=True))
        return CellState(self._ids.astype(np.int32), self._types.astype(np.int32), self.lattice, columns)

    def energy(self) -> Energy:
        return Energy(*map(float, self._current))

    def delta(self, site: int, new_id: int) -> float:
        symbolic, neural = map(float, self.deltas([site], [new_id])[0])
        return {"full": symbolic + neural, "symbolic": symbolic, "neural": neural}[self.part]

    def spread(self) -> float:
        return float(self.members(self._ids[None], self._types, self._properties).std())

    def delta_spread(self, site: int, new_id: int) -> float:
        both = np.stack([self._ids, self._ids])
        both[1].flat[site] = new_id
        before, after = self.members(both, self._types, self._properties)
        return float((after - before).std())

    def deltas(self, sites: ArrayLike, new_ids: ArrayLike) -> NDArray[np.float64]:
        sites, new_ids = np.asarray(sites), np.asarray(new_ids)
        batch = max(1, BATCH_SITES // (self._ids.size * self._types.size))
        parts = [np.empty((0, 2))]
        for start in range(0, sites.size, batch):
            chosen = slice(start, start + batch)
            changed = np.repeat(self._ids.reshape(1, -1), sites[chosen].size, axis=0)
            changed[np.arange(len(changed)), sites[chosen]] = new_ids[chosen]
            parts.append(self._of(changed.reshape(-1, *self._ids.shape)) - self._current)
        return np.concatenate(parts)

    def commit(self, site: int, new_id: int) -> None:
        self.change_pixels([site], [new_id])

    def change_pixels(self, sites: ArrayLike, new_ids: ArrayLike) -> None:
        self._ids.ravel()[np.asarray(sites)] = new_ids
        self._current = self._of(self._ids[None])[0]

    def set_type(self, cell: int, cell_type: int) -> None:
        if cell >= self._types.size:
            new = cell + 1 - self._types.size
            self._types = np.concatenate([self._types, np.full(new, -1)])
            self._properties = np.concatenate([self._properties, np.zeros((new, len(self._means)))])
        if self._types[cell] < 0:
            self._properties[cell] = list(self._means.values())
        self._types[cell] = cell_type
        self.reset(self.state())

    def set_property(self, cell: int, name: str, value: float) -> None:
        number = property_number(tuple(self._means), name)
        if not (0 < cell < self._types.size and self._types[cell] > 0):
            raise UserError(
                f"The property {name!r} of cell {cell} was to be set, but there is no such cell: give it a type first."
            )
        columns = self._properties.T.copy()
        columns[number, cell] = value
        self.reset(replace(self.state(), properties=dict(zip(self._means, columns, strict=True))))

    def _of(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.energies(ids, self._types, self._properties)
