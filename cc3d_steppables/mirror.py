"""The model's copy of a host's lattice, kept in step with it.

Hosts number cells as they like and never reuse a number; the model numbers them compactly. A cell whose type is
mapped to the medium has the model's id 0, like the medium itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.backends.engine import EngineBackend
from neuralcpm_bridge.delta import DeltaBackend, Energy, open_backend
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.state import NO_CELL, CellState

from .mapping import UNMAPPED, Term, unmapped


class HostCell(NamedTuple):
    """One cell as the host knows it."""

    id: int
    type: int
    amplitude: float = -1.0
    """Its own fluctuation amplitude; negative: none."""


class Consistency(NamedTuple):
    """What a comparison with the host's lattice and with a recomputed energy found."""

    pixels: int
    """Sites at which model and host differed."""
    energy: Energy
    """Recomputed from scratch."""
    drift: float
    """Largest |cached − recomputed| part of the energy."""
    allowed: float

    @property
    def ok(self) -> bool:
        return self.pixels == 0 and self.drift <= self.allowed


class Mirror:
    """`delta` and `commit` of a back end for a host's cells."""

    def __init__(
        self,
        artifact: Artifact,
        type_names: Mapping[int, str],
        type_of: Mapping[int, int],
        *,
        term: Term = "neural",
        forbid_extinction: bool = False,
    ) -> None:
        self.artifact = artifact
        self.term = term
        self.forbid_extinction = forbid_extinction
        self.index_of: dict[int, int] = {0: 0}
        """Host id → model id. The object stays the same, callbacks hold it."""
        self.backend: DeltaBackend | None = None
        self._type_names = dict(type_names)
        self._type_of = dict(type_of)
        self._kind_of: dict[int, int] = {}
        self._free: list[int] = []
        self._count = 1

    # -- following the host ----------------------------------------------------------------------------------

    def load(self, ids: NDArray[np.int64], cells: Iterable[HostCell]) -> None:
        """Take over a whole lattice of host ids, `[H, W]`."""
        self.index_of.clear()
        self.index_of[0] = 0
        self._kind_of.clear()
        self._free.clear()
        types = [0]
        for cell in sorted(cells):
            kind = self._model_type(cell.type)
            self._kind_of[cell.id] = cell.type
            self.index_of[cell.id] = len(types) if kind else 0
            if kind:
                types.append(kind)
        self._count = len(types)
        state = CellState(self._compact(ids), self._filled_up(types))
        if self.backend is not None and self.backend.state().shape == state.shape:
            self.backend.reset(state)
        else:
            self.backend = self._open(state)

    def refresh(self, cells: Sequence[HostCell], written: Mapping[tuple[int, int], int]) -> bool:
        """Follow new, changed and vanished cells and pixels written outside the Metropolis algorithm.

        `written` maps (row, col) to the host id found there. False: only a whole `load` can tell.
        """
        kinds, seen = self._kind_of, 0
        for cell in cells:
            seen += 1
            if kinds.get(cell.id) == cell.type:
                continue
            if not self._take(cell):
                return False
        if written and not self._write(written):
            return False
        return seen == len(kinds) or self._bury({cell.id for cell in cells})

    def _take(self, cell: HostCell) -> bool:
        """A cell that is new or has changed its type."""
        backend, kind = self.opened(), self._model_type(cell.type)
        index = self.index_of.get(cell.id)
        if index is None:
            index = 0
            if kind:
                if not self._free and self._count == self.artifact.metadata.fixed_cells:
                    self._too_many()
                index = self._free.pop() if self._free else self._count
                self._count = max(self._count, index + 1)
        elif (kind == 0) != (index == 0):
            return False  # its pixels become or cease to be medium, and only the lattice knows where they are
        if index:
            backend.set_type(index, kind)
        self.index_of[cell.id] = index
        self._kind_of[cell.id] = cell.type
        return True

    def _write(self, written: Mapping[tuple[int, int], int]) -> bool:
        try:
            indices = [self.index_of[host_id] for host_id in written.values()]
        except KeyError:
            return False
        rows, cols = zip(*written, strict=True)
        self.opened().change_pixels(rows, cols, indices)
        return True

    def _bury(self, alive: set[int]) -> bool:
        """Forget cells that the host has destroyed; their ids are free again."""
        dead = [host_id for host_id in self._kind_of if host_id not in alive]
        volumes = self.opened().state().volumes
        for host_id in dead:
            index = self.index_of[host_id]
            if index:
                if volumes[index]:
                    return False
                if self.artifact.metadata.fixed_cells is None:
                    self.opened().set_type(index, NO_CELL)
                self._free.append(index)
            del self.index_of[host_id], self._kind_of[host_id]
        return True

    # -- checking --------------------------------------------------------------------------------------------

    def check(self, ids: NDArray[np.int64]) -> Consistency:
        """Compare with the host's lattice, and the cached energy with one computed from scratch.

        Where the lattices differ the host's is taken over.
        """
        backend = self.opened()
        cached, state = backend.energy(), backend.state()
        found = self._compact(ids)
        differing = int((found != state.ids).sum())
        backend.reset(state)
        fresh = backend.energy()
        if differing:
            backend.reset(CellState(found, state.types))
        drift = max(abs(cached.symbolic - fresh.symbolic), abs(cached.neural - fresh.neural))
        if not np.isfinite(drift):
            raise UserError("The model's energy is not a number: its weights are out of range, export it again.")
        return Consistency(differing, fresh, drift, 1e-3 + 1e-5 * max(abs(fresh.symbolic), abs(fresh.neural)))

    def opened(self) -> DeltaBackend:
        if self.backend is None:
            raise RuntimeError("no lattice has been loaded yet")
        return self.backend

    def calls(self) -> tuple[Callable[[int, int, int], float], Callable[[int, int, int], None]]:
        """`delta` and `commit` by (row, col, model id), past every layer that only words errors."""
        backend = self.opened()
        if isinstance(backend, EngineBackend):
            return backend.engine.delta, backend.engine.commit
        return self._delta_with_rule if self.forbid_extinction else backend.delta, backend.commit

    def _delta_with_rule(self, row: int, col: int, new_id: int) -> float:
        """The extinction rule for back ends that do not know it."""
        state = self.opened().state()
        old_id = state.ids[row, col]
        if old_id and old_id != new_id and state.volumes[old_id] == 1:
            return inf
        return self.opened().delta(row, col, new_id)

    # -- details ---------------------------------------------------------------------------------------------

    def _open(self, state: CellState) -> DeltaBackend:
        if self.artifact.engine_serves:
            self.artifact.check_state(state)
            return EngineBackend(self.artifact, state, term=self.term, forbid_extinction=self.forbid_extinction)
        return open_backend(self.artifact, state, term=self.term)

    def _model_type(self, host_type: int) -> int:
        kind = self._type_of.get(host_type, UNMAPPED)
        if kind == UNMAPPED:
            raise UserError(unmapped(self._type_names.get(host_type, f"number {host_type}"), self.artifact))
        return kind

    def _compact(self, ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """Host ids to model ids."""
        found, inverse = np.unique(ids, return_inverse=True)
        strangers = [int(host_id) for host_id in found if int(host_id) not in self.index_of]
        if strangers:
            raise UserError(f"Cell {strangers[0]} is on the lattice but not among the host's cells: report this.")
        indices = np.array([self.index_of[int(host_id)] for host_id in found], dtype=np.int32)
        return indices[inverse].reshape(ids.shape)

    def _filled_up(self, types: list[int]) -> NDArray[np.int32]:
        """A model that is fixed to a number of ids gets as many; those without pixels are of type 1, as in training."""
        fixed = self.artifact.metadata.fixed_cells
        if fixed is not None:
            if len(types) > fixed:
                self._too_many()
            self._free.extend(range(fixed - 1, len(types) - 1, -1))
            self._count = fixed
            types = types + [1] * (fixed - len(types))
        return np.array(types, dtype=np.int32)

    def _too_many(self) -> None:
        raise UserError(
            f"There are more than {(self.artifact.metadata.fixed_cells or 1) - 1} cells, but this model "
            f"({self.artifact.metadata.architecture}) is fixed to that many: use a model of another architecture."
        )
