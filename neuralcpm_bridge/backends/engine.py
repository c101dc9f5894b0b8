"""ΔH through the C++ engine: exact, incremental, the default."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._engine import EngineError
from .._engine import State as EngineState
from ..artifact import Artifact
from ..delta import Energy, Part, property_number
from ..errors import UserError, engine_speaking
from ..state import CellState


class EngineBackend:
    """Keeps every activation of the current state; a proposal recomputes what one pixel reaches.

    States of one artifact share its model.
    """

    name = "engine"

    def __init__(
        self, artifact: Artifact, state: CellState, *, part: Part = "full", forbid_extinction: bool = False
    ) -> None:
        """`forbid_extinction` makes `delta` infinite where a cell's last pixel would be taken."""
        self.artifact = artifact
        self.part: Part = part
        self.forbid_extinction = forbid_extinction
        self._open(artifact.place(state))

    def _open(self, state: CellState) -> None:
        self.lattice = state.lattice
        with engine_speaking():
            self.engine = EngineState(
                self.artifact.model,
                state.ids,
                state.types,
                self.part,
                self.forbid_extinction,
                self.lattice.layout,
                list(self.lattice.boundary),
                state.property_table(),
            )

    def reset(self, state: CellState) -> None:
        placed = self.artifact.place(state)
        if placed.lattice != self.lattice:
            self._open(placed)
            return
        with engine_speaking():
            self.engine.reset(placed.ids, placed.types, placed.property_table())

    def state(self) -> CellState:
        columns = dict(zip(self.artifact.metadata.properties, self.engine.properties.T, strict=True))
        return CellState(self.engine.ids, self.engine.types, self.lattice, columns)

    def energy(self) -> Energy:
        with engine_speaking():
            return Energy(*self.engine.energy())

    def delta(self, site: int, new_id: int) -> float:
        # Hosts ask a thousand times per sweep: no context manager on this path.
        try:
            return self.engine.delta(site, new_id)
        except EngineError as error:
            raise UserError(str(error)) from None

    def spread(self) -> float:
        with engine_speaking():
            return self.engine.spread()

    def delta_spread(self, site: int, new_id: int) -> float:
        with engine_speaking():
            return self.engine.delta_spread(site, new_id)

    def inside_range(self) -> NDArray[np.bool_]:
        with engine_speaking():
            return self.engine.inside_range.astype(bool)

    def deltas(self, sites: ArrayLike, new_ids: ArrayLike) -> NDArray[np.float64]:
        with engine_speaking():
            return self.engine.deltas(_indices(sites), _indices(new_ids))

    def commit(self, site: int, new_id: int) -> None:
        try:
            self.engine.commit(site, new_id)
        except EngineError as error:
            raise UserError(str(error)) from None

    def change_pixels(self, sites: ArrayLike, new_ids: ArrayLike) -> None:
        with engine_speaking():
            self.engine.change_pixels(_indices(sites), _indices(new_ids))

    def set_type(self, cell: int, cell_type: int) -> None:
        with engine_speaking():
            self.engine.set_type(cell, cell_type)

    def set_property(self, cell: int, name: str, value: float) -> None:
        with engine_speaking():
            self.engine.set_property(cell, property_number(self.artifact.metadata.properties, name), value)

    def set_cell_coupling(self, coupling: ArrayLike) -> None:
        """Couplings `[C, K]` of single cells to the external fields, in place of their types'."""
        with engine_speaking():
            self.engine.set_cell_coupling(np.ascontiguousarray(coupling, dtype=np.float64))


def _indices(values: ArrayLike) -> NDArray[np.int64]:
    return np.ascontiguousarray(values, dtype=np.int64).ravel()
