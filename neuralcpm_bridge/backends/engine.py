"""ΔH through the C++ engine: exact, incremental, the default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._engine import EngineError, Model
from .._engine import State as EngineState
from ..artifact import Artifact
from ..delta import Energy, Term
from ..errors import UserError
from ..state import CellState


@contextmanager
def _speaking() -> Iterator[None]:
    """The engine's sentences are the user's."""
    try:
        yield
    except EngineError as error:
        raise UserError(str(error)) from None


def engine_model(artifact: Artifact) -> Model:
    """The engine's copy of a loaded artifact, whose examples its loader has seen to."""
    with _speaking():
        return Model(artifact.metadata.model_dump_json(exclude={"examples"}), artifact.weights)


class EngineBackend:
    """Keeps every activation of the current state; a proposal recomputes what one pixel reaches."""

    name = "engine"

    def __init__(
        self,
        artifact: Artifact,
        state: CellState,
        *,
        term: Term = "full",
        forbid_extinction: bool = False,
        model: Model | None = None,
    ) -> None:
        """`model` shares what `engine_model` made between several states; `forbid_extinction` makes `delta`
        infinite where a cell's last pixel would be taken."""
        self.artifact = artifact
        self.term: Term = term
        with _speaking():
            self.engine = EngineState(
                model if model is not None else engine_model(artifact), state.ids, state.types, term, forbid_extinction
            )

    def reset(self, state: CellState) -> None:
        self.artifact.check_state(state)
        with _speaking():
            self.engine.reset(state.ids, state.types)

    def state(self) -> CellState:
        return CellState(self.engine.ids, self.engine.types)

    def energy(self) -> Energy:
        with _speaking():
            return Energy(*self.engine.energy())

    def delta(self, row: int, col: int, new_id: int) -> float:
        # Hosts ask a thousand times per sweep: no context manager on this path.
        try:
            return self.engine.delta(row, col, new_id)
        except EngineError as error:
            raise UserError(str(error)) from None

    def deltas(self, rows: ArrayLike, cols: ArrayLike, new_ids: ArrayLike) -> NDArray[np.float64]:
        with _speaking():
            return self.engine.deltas(_indices(rows), _indices(cols), _indices(new_ids))

    def commit(self, row: int, col: int, new_id: int) -> None:
        try:
            self.engine.commit(row, col, new_id)
        except EngineError as error:
            raise UserError(str(error)) from None

    def change_pixels(self, rows: ArrayLike, cols: ArrayLike, new_ids: ArrayLike) -> None:
        with _speaking():
            self.engine.change_pixels(_indices(rows), _indices(cols), _indices(new_ids))

    def set_type(self, cell: int, cell_type: int) -> None:
        with _speaking():
            self.engine.set_type(cell, cell_type)

    def set_cell_coupling(self, coupling: ArrayLike) -> None:
        """Couplings `[C, K]` of single cells to the external fields, in place of their types'."""
        with _speaking():
            self.engine.set_cell_coupling(np.ascontiguousarray(coupling, dtype=np.float64))


def _indices(values: ArrayLike) -> NDArray[np.int64]:
    return np.ascontiguousarray(values, dtype=np.int64).ravel()
