"""The model's copy of a host's lattice, kept in step with it.

Hosts number cells as they like and never reuse a number; the model numbers them compactly. A cell whose type is
mapped to the medium has the model's id 0, like the medium itself. The numbering is the engine's, the same code that
Morpheus' plugin runs; what a model wants that the engine does not cover goes through another ΔH back end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._engine import IdMap
from .._engine import Mirror as EngineMirror
from ..artifact import Artifact, allowed_error
from ..conventions import TARGETS, Target
from ..delta import DeltaBackend, Energy, Part, open_backend
from ..errors import UserError, engine_speaking
from ..lattice import Lattice
from ..state import CellState
from .callbacks import Commit, Delta, Opinion, Outside
from .facts import HostCell
from .mapping import UNMAPPED, unmapped


class Consistency(NamedTuple):
    """What a comparison with the host's lattice and with a recomputed energy found."""

    pixels: int
    """Sites at which model and host differed."""
    energy: Energy
    """Recomputed from scratch."""
    drift: float
    """Largest |cached − recomputed| part of the energy."""

    @property
    def allowed(self) -> float:
        return allowed_error(*self.energy)

    @property
    def ok(self) -> bool:
        return self.pixels == 0 and self.drift <= self.allowed


class Mirror:
    """A model that answers by site and host id."""

    def __init__(
        self,
        artifact: Artifact,
        type_names: Mapping[int, str],
        type_of: Mapping[int, int],
        *,
        part: Part = "neural",
        forbid_extinction: bool = False,
        target: Target = TARGETS["embedded"],
    ) -> None:
        self.artifact, self.part, self.forbid_extinction, self.target = artifact, part, forbid_extinction, target
        self.lattice: Lattice | None = None
        """The host's, as it was loaded last."""
        self.shapeless: frozenset[int] = frozenset()
        """Host ids of cells that lie around a periodic lattice and have no shape: the model takes them for medium."""
        self._type_names, self._type_of = dict(type_names), dict(type_of)
        self._copy: EngineMirror | BackendMirror | None = None

    # -- following the host ----------------------------------------------------------------------------------

    def load(self, lattice: Lattice, ids: NDArray[np.int64], cells: Sequence[HostCell]) -> None:
        """Take over a whole lattice of host ids, `[H, W]` or `[D, H, W]`."""
        self.shapeless = frozenset()
        ids = np.ascontiguousarray(ids, dtype=np.int64)
        try:
            self._load(lattice, ids, cells)
        except UserError:
            self.shapeless = spanning_cells(ids, lattice)
            if not self.shapeless:
                raise
            self._load(lattice, ids, cells)
        self.lattice = lattice

    def _load(self, lattice: Lattice, ids: NDArray[np.int64], cells: Sequence[HostCell]) -> None:
        numbers, types = self._listed(cells)
        properties = self._properties(cells, types)
        with engine_speaking():
            if self._copy is None or lattice != self.lattice:
                self._copy = self._made(lattice)
            self._copy.load(ids, numbers, types)
            self._set(numbers, properties)

    def follow(self, cells: Sequence[HostCell], written: Mapping[int, int]) -> bool:
        """Follow cells, new, changed or gone, their properties, and pixels written outside of the Metropolis algorithm.

        `written` maps sites to the host ids found there. False: only a whole `load` can tell.
        """
        numbers, types = self._listed(cells)
        sites = np.fromiter(written, dtype=np.int64, count=len(written))
        ids = np.fromiter(written.values(), dtype=np.int64, count=len(written))
        properties = self._properties(cells, types)
        with engine_speaking():
            followed = self._loaded.follow(numbers, types, sites, ids)
            if followed:
                self._set(numbers, properties)
        return followed

    def check(self, ids: NDArray[np.int64]) -> Consistency:
        """Compare with the host's lattice, and the cached energy with one computed from scratch.

        Where the lattices differ the host's is taken over.
        """
        with engine_speaking():
            differing, symbolic, neural, drift = self._loaded.compare(np.ascontiguousarray(ids, dtype=np.int64))
        return Consistency(differing, Energy(symbolic, neural), drift)

    # -- asking ----------------------------------------------------------------------------------------------

    @property
    def copy(self) -> EngineMirror | BackendMirror:
        """What answers."""
        return self._loaded

    def calls(self) -> tuple[Delta, Commit, Opinion, Outside]:
        """`delta`, `commit`, `opinion` and `outside` by site and host id, past every layer that only words errors."""
        return self._loaded.delta, self._loaded.commit, self._loaded.opinion, self._loaded.outside

    def range(self) -> tuple[int, int]:
        """Cells that the model sees, and those of them that are unlike the training data's."""
        return self._loaded.range()

    def energy(self) -> Energy:
        return Energy(*self._loaded.energy())

    # -- details ---------------------------------------------------------------------------------------------

    @property
    def _loaded(self) -> EngineMirror | BackendMirror:
        if self._copy is None:
            raise RuntimeError("no lattice has been loaded yet")
        return self._copy

    def _made(self, lattice: Lattice) -> EngineMirror | BackendMirror:
        artifact = self.artifact.on(lattice.boundary)
        if artifact.engine_serves:
            return EngineMirror(
                artifact.model,
                lattice.shape,
                self.part,
                self.forbid_extinction,
                layout=lattice.layout,
                boundary=artifact.metadata.boundary,
            )
        return BackendMirror(artifact, self.part, self.forbid_extinction, lattice)

    def _listed(self, cells: Sequence[HostCell]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Host ids of the cells and the model's types of them."""
        types = [0 if cell.id in self.shapeless else self._type_of.get(cell.type, UNMAPPED) for cell in cells]
        if UNMAPPED in types:
            strangers = sorted({cell.type for cell, known in zip(cells, types, strict=True) if known == UNMAPPED})
            names = [self._type_names.get(number, f"number {number}") for number in strangers]
            raise UserError(unmapped(names, self.artifact.metadata.types))
        return np.array([cell.id for cell in cells], dtype=np.int64), np.array(types, dtype=np.int32)

    def _properties(self, cells: Sequence[HostCell], types: NDArray[np.int32]) -> NDArray[np.float64]:
        """Those that the model reads, `[n, P]`; refused where a cell that it sees lacks one."""
        names = self.artifact.metadata.properties
        table = np.zeros((len(cells), len(names)))
        for number, name in enumerate(names):
            for row, cell in enumerate(cells):
                value = cell.number(name)
                if value is not None:
                    table[row, number] = value
                elif types[row]:
                    found = f"is {cell.properties[name]!r}" if name in cell.properties else "is not set"
                    raise UserError(
                        f"The model reads the property {name!r} of every cell, but that of cell {cell.id} "
                        f"({self._type_names.get(cell.type, cell.type)}) {found}: set "
                        f"{self.target.property_words.format(name=name)} to a finite number where cells are made."
                    )
        return table

    def _set(self, cells: NDArray[np.int64], properties: NDArray[np.float64]) -> None:
        if isinstance(self._copy, EngineMirror) and properties.shape[1]:  # the other networks read none
            self._copy.set_properties(cells, properties)


def spanning_cells(ids: NDArray[np.int64], lattice: Lattice) -> frozenset[int]:
    """Cells that span half of a periodic axis or more: which way round they lie is not defined."""
    found: set[int] = set()
    for axis, (side, periodic) in enumerate(zip(lattice.shape, lattice.periodic, strict=True)):
        if not periodic:
            continue
        lines = np.moveaxis(ids, axis, 0).reshape(side, -1)
        pairs = np.unique(np.stack([lines.ravel(), np.repeat(np.arange(side), lines.shape[1])], axis=1), axis=0)
        for cell in np.unique(pairs[:, 0]):
            places = pairs[pairs[:, 0] == cell, 1]
            gaps = np.diff(np.concatenate([places, [places[0] + side]]))
            if cell > 0 and 2 * (side - int(gaps.max()) + 1) >= side:
                found.add(int(cell))
    return frozenset(found)


class BackendMirror:
    """What the engine's mirror does, for a model that it does not cover, through any other back end."""

    def __init__(self, artifact: Artifact, part: Part, forbid_extinction: bool, lattice: Lattice) -> None:
        self._artifact, self._part, self._lattice = artifact, part, lattice
        self._forbid_extinction = forbid_extinction
        self._numbers = IdMap(artifact.metadata.fixed_cells or 0)
        self._opened: DeltaBackend | None = None

    @property
    def backend(self) -> DeltaBackend:
        if self._opened is None:
            raise RuntimeError("no lattice has been loaded yet")
        return self._opened

    def load(self, host_ids: NDArray[np.int64], cells: NDArray[np.int64], types: NDArray[np.int32]) -> None:
        model_types = self._numbers.load(cells, types)
        state = CellState(self._numbers.translate(host_ids), model_types, self._lattice)
        if self._opened is None:
            self._opened = open_backend(self._artifact, state, part=self._part)
        else:
            self._opened.reset(state)

    def follow(
        self,
        cells: NDArray[np.int64],
        types: NDArray[np.int32],
        sites: NDArray[np.int64],
        host_ids: NDArray[np.int64],
    ) -> bool:
        changes = self._numbers.take(cells, types)
        if changes is None or not all(self._numbers.knows(host_id) for host_id in host_ids.tolist()):
            return False
        self._apply(changes)
        if sites.size:
            self.backend.change_pixels(sites, self._numbers.translate(host_ids))
        changes = self._numbers.bury(cells, types, self.backend.state().volumes)
        self._apply(changes or [])
        return changes is not None

    def delta(self, site: int, host_id: int) -> float:
        cell = self._numbers.at(host_id)
        if self._forbid_extinction:
            state = self.backend.state()
            old = state.ids.ravel()[site]
            if old and old != cell and state.volumes[old] == 1:
                return inf
        return self.backend.delta(site, cell)

    def commit(self, site: int, host_id: int) -> None:
        self.backend.commit(site, self._numbers.at(host_id))

    def opinion(self, site: int, host_id: int) -> tuple[float, float]:
        """What a committee says of a copy in the mean, and how far it disagrees."""
        cell = self._numbers.at(host_id)
        return self.backend.delta(site, cell), self.backend.delta_spread(site, cell)

    def outside(self, site: int, host_id: int) -> float:
        """Share of a copy's cells, the one there and the one to come, that are unlike the training data's."""
        cells = [cell for cell in (self.backend.state().ids.ravel()[site], self._numbers.at(host_id)) if cell]
        inside = self.backend.inside_range()
        return sum(not inside[cell] for cell in cells) / max(len(cells), 1)

    def range(self) -> tuple[int, int]:
        state = self.backend.state()
        seen = (state.types > 0) & (state.volumes > 0)
        return int(seen.sum()), int((seen & ~self.backend.inside_range()).sum())

    def energy(self) -> Energy:
        return self.backend.energy()

    def compare(self, host_ids: NDArray[np.int64]) -> tuple[int, float, float, float]:
        cached, state = self.backend.energy(), self.backend.state()
        found = self._numbers.translate(host_ids)
        differing = int((found != state.ids).sum())
        self.backend.reset(state)
        fresh = self.backend.energy()
        drift = max(abs(cached.symbolic - fresh.symbolic), abs(cached.neural - fresh.neural))
        if not np.isfinite(drift):
            raise UserError("The model's energy is not a number: its weights are out of range, export it again.")
        if differing:
            self.backend.reset(CellState(found, state.types, state.lattice))
        return differing, fresh.symbolic, fresh.neural, drift

    def _apply(self, changes: list[tuple[int, int]]) -> None:
        for cell, cell_type in changes:
            self.backend.set_type(cell, cell_type)
