"""A stand-in for CompuCell3D: a lattice, cells, and wrapper objects that a Metropolis step reads from."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cc3d_steppables.callbacks import CC3DCallbacks
from cc3d_steppables.check import check_fit
from cc3d_steppables.energies import Energies
from cc3d_steppables.native import Function, NativeCallbacks
from cc3d_steppables.reader import ProjectFacts
from cc3d_steppables.snapshots import pif_writers
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.conventions import TARGETS
from neuralcpm_bridge.delta import Part
from neuralcpm_bridge.hosting.adapter import LearnedTerm, Parameter, Settings
from neuralcpm_bridge.hosting.facts import HostCell
from neuralcpm_bridge.hosting.lattices import HostLattice
from neuralcpm_bridge.lattice import Lattice

PLACES = (3, 0)
"""Where CompuCell3D's compiler has put `changeEnergy` and `field3DChange` in their classes' tables."""
TYPES = {0: "Medium", 1: "A", 2: "B", 3: "Wall"}
SQUARE = Lattice.of((30, 33), "square", "free")


def facts(lattice: Lattice = SQUARE, **changes: Any) -> ProjectFacts:
    values: dict[str, Any] = {
        "lattice": lattice,
        "potts_nodes": 1,
        "temperature": 10.0,
        "acceptance": "Default",
        "amplitude_function": "Min",
        "type_names": TYPES,
        "plugins": ("CellType", "Volume", "Contact"),
        "energies": Energies(),
    }
    return ProjectFacts(**(values | changes))


class Wrapper:
    """Where a callback reads what it is asked about; points are (row, col) or (plane, row, col)."""

    def __init__(self) -> None:
        self.point: tuple[int, ...] = (0, 0)
        self.new = self.old = None

    def getChangePoint(self) -> Any:
        plane, row, col = (0, 0, *self.point)[-3:]
        return SimpleNamespace(x=col, y=row, z=plane)

    def getNewCell(self) -> Any:
        return self.new

    def getOldCell(self) -> Any:
        return self.old


class FakeHost:
    """Cells by id, each with a type and an amplitude; the lattice holds ids."""

    target = TARGETS["cc3d"]

    def __init__(self, folder: Path, lattice: Lattice = SQUARE, native: bool = False, **changes: Any) -> None:
        self.folder, self.native = folder, native
        self.lattice = np.zeros(lattice.shape, dtype=np.int64)
        self.alive: dict[int, Any] = {}
        self.known = facts(lattice, **changes)
        self.degrees = self.known.temperature
        self.by_type: dict[int, float] = {}
        self.energy, self.change = Wrapper(), Wrapper()
        self.term: LearnedTerm | None = None

    # what the adapter asks

    def facts(self) -> ProjectFacts:
        return self.known

    def check(self, artifact: Artifact, part: Part) -> None:
        check_fit(self.known, artifact, part)

    def parameters(self, artifact: Artifact, type_of: Mapping[int, int], temperature: float) -> list[Parameter]:
        return self.known.parameters(artifact.metadata, type_of, temperature)

    def shape(self) -> tuple[int, ...]:
        return self.lattice.shape

    def ids(self) -> NDArray[np.int64]:
        return self.lattice.copy()

    def cells(self) -> list[HostCell]:
        return [HostCell(cell.id, cell.type, cell.amplitude, cell.dict, id(cell)) for cell in self.alive.values()]

    def temperature(self) -> float:
        return self.degrees

    def type_amplitudes(self) -> dict[int, float]:
        return self.by_type

    def project_folder(self) -> Path | None:
        return self.folder

    def output_folder(self) -> Path:
        return self.folder / "out"

    def callbacks(self, artifact: Artifact) -> CC3DCallbacks | NativeCallbacks:
        native = self.native and artifact.engine_serves
        self.called: Any = NativeCallbacks(PLACES, (None, None)) if native else CC3DCallbacks(self.energy, self.change)
        return self.called

    def writers(self, found: HostLattice, type_names: Mapping[int, str]) -> dict[str, Callable[[Path], None]]:
        return pif_writers(found, type_names)

    # what a simulation does

    def begin(self, model: str = "model.onnx", **options: Any) -> LearnedTerm:
        term = LearnedTerm(Settings(model, **options), self)
        term.begin()
        self.term = term
        return term

    def add(self, cell_id: int, cell_type: int, *box: slice, amplitude: float = -1.0, **properties: object) -> None:
        """A cell that fills a box: rows and columns, planes before them in 3D."""
        self.alive[cell_id] = SimpleNamespace(id=cell_id, type=cell_type, amplitude=amplitude, dict=properties)
        ranges = [range(*part.indices(side)) for part, side in zip(box, self.lattice.shape, strict=True)]
        for place in np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(ranges)).tolist():
            self.write(tuple(place), cell_id)

    def write(self, place: tuple[int, ...], cell_id: int) -> None:
        """CC3D's cell field: every write fires the watcher; an emptied cell is destroyed."""
        old_id = int(self.lattice[place])
        self.lattice[place] = cell_id
        if self.term is not None:
            self.change.point, self.change.new = place, self.alive.get(cell_id)
            if isinstance(self.called, NativeCallbacks):
                self._call(1, place, self.change.new, None)
            else:
                self.called.watcher.field3DChange()
        if old_id and not (self.lattice == old_id).any():
            del self.alive[old_id]

    def ask(self, place: tuple[int, ...], new_id: int) -> float:
        self.energy.point, self.energy.new = place, self.alive.get(new_id)
        self.energy.old = self.alive.get(int(self.lattice[place]))
        if isinstance(self.called, NativeCallbacks):
            return self._call(0, place, self.energy.new, self.energy.old)
        value = self.called.energy.changeEnergy()
        assert type(value) is float  # CC3D dies of anything else
        return value

    def _call(self, which: int, place: tuple[int, ...], new: Any, old: Any) -> float:
        """A virtual function of the energy (0) or of the watcher (1), as compiled code calls it."""
        called = self.called.objects[which]
        table = ctypes.c_void_p.from_address(called).value or 0
        function = ctypes.c_void_p.from_address(table + PLACES[which] * ctypes.sizeof(ctypes.c_void_p)).value or 0
        point = (ctypes.c_int16 * 3)(*(0, *place)[:-4:-1])
        addresses = (None if cell is None else id(cell) for cell in (new, old))
        return float(Function(function)(called, point, *addresses))

    def sweep(self, attempts: int, random: np.random.Generator, accept: float = 0.3) -> list[float]:
        """Attempted copies of neighbours, a share of them accepted whatever they cost."""
        lattice = replace(self.known.lattice, shape=self.lattice.shape)
        near = lattice.neighbours(lattice.geometry.moore_order)
        asked = []
        for _ in range(attempts):
            site = int(random.integers(lattice.sites))
            source = int(random.choice(near[site]))
            new_id = int(self.lattice.ravel()[source])
            place = lattice.index(site)
            if source < 0 or new_id == self.lattice[place]:
                continue
            asked.append(self.ask(place, new_id))
            if random.random() < accept:
                self.write(place, new_id)
        return asked
