"""A stand-in for CompuCell3D: a lattice, cells, and wrapper objects that a Metropolis step reads from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cc3d_steppables.adapter import LearnedTerm, Settings
from cc3d_steppables.facts import Facts
from cc3d_steppables.mirror import HostCell

TYPES = {0: "Medium", 1: "A", 2: "B", 3: "Wall"}


def facts(shape: tuple[int, int] = (30, 33), **changes: Any) -> Facts:
    values: dict[str, Any] = {
        "shape": shape,
        "depth": 1,
        "lattice": "Square",
        "periodic": (False, False),
        "potts_nodes": 1,
        "temperature": 10.0,
        "acceptance": "Default",
        "amplitude_function": "Min",
        "type_names": TYPES,
        "plugins": ("CellType", "Volume", "Contact"),
    }
    return Facts(**(values | changes))


class Wrapper:
    """Where a callback reads what it is asked about."""

    def __init__(self) -> None:
        self.point, self.new, self.old = (0, 0), None, None

    def getChangePoint(self) -> Any:
        return SimpleNamespace(y=self.point[0], x=self.point[1], z=0)

    def getNewCell(self) -> Any:
        return self.new

    def getOldCell(self) -> Any:
        return self.old


class FakeHost:
    """Cells by id, each with a type and an amplitude; the lattice holds ids."""

    def __init__(self, folder: Path, shape: tuple[int, int] = (30, 33), **changes: Any) -> None:
        self.folder = folder
        self.lattice = np.zeros(shape, dtype=np.int64)
        self.alive: dict[int, Any] = {}
        self.known = facts(shape, **changes)
        self.degrees = self.known.temperature
        self.by_type: dict[int, float] = {}
        self.energy, self.change = Wrapper(), Wrapper()
        self.term: LearnedTerm | None = None

    # what the adapter asks

    def facts(self) -> Facts:
        return self.known

    def shape(self) -> tuple[int, int]:
        return self.lattice.shape  # type: ignore[return-value]

    def ids(self) -> NDArray[np.int64]:
        return self.lattice.copy()

    def cells(self) -> list[HostCell]:
        return [HostCell(cell.id, cell.type, cell.amplitude) for cell in self.alive.values()]

    def temperature(self) -> float:
        return self.degrees

    def type_amplitudes(self) -> dict[int, float]:
        return self.by_type

    def project_folder(self) -> Path | None:
        return self.folder

    def output_folder(self) -> Path:
        return self.folder / "out"

    def wrappers(self) -> tuple[Any, Any]:
        return self.energy, self.change

    # what a simulation does

    def begin(self, model: str = "model.onnx", **options: Any) -> LearnedTerm:
        self.term = LearnedTerm(Settings(model, **options), self)
        self.callbacks = self.term.begin()
        return self.term

    def add(self, cell_id: int, kind: int, rows: slice, cols: slice, amplitude: float = -1.0) -> None:
        self.alive[cell_id] = SimpleNamespace(id=cell_id, type=kind, amplitude=amplitude)
        for row in range(*rows.indices(self.lattice.shape[0])):
            for col in range(*cols.indices(self.lattice.shape[1])):
                self.write(row, col, cell_id)

    def write(self, row: int, col: int, cell_id: int) -> None:
        """CC3D's cell field: every write fires the watcher; an emptied cell is destroyed."""
        old_id = int(self.lattice[row, col])
        self.lattice[row, col] = cell_id
        if self.term is not None:
            self.change.point, self.change.new = (row, col), self.alive.get(cell_id)
            self.callbacks.watcher.field3DChange()
        if old_id and not (self.lattice == old_id).any():
            del self.alive[old_id]

    def ask(self, row: int, col: int, new_id: int) -> float:
        self.energy.point, self.energy.new = (row, col), self.alive.get(new_id)
        self.energy.old = self.alive.get(int(self.lattice[row, col]))
        value = self.callbacks.energy.changeEnergy()
        assert type(value) is float  # CC3D dies of anything else
        return value

    def sweep(self, attempts: int, random: np.random.Generator, accept: float = 0.3) -> list[float]:
        """Attempted copies of neighbours, a share of them accepted whatever they cost."""
        height, width = self.lattice.shape
        asked = []
        for _ in range(attempts):
            row, col = int(random.integers(1, height - 1)), int(random.integers(1, width - 1))
            down, right = random.integers(-1, 2, size=2)
            new_id = int(self.lattice[row + down, col + right])
            if new_id == self.lattice[row, col]:
                continue
            asked.append(self.ask(row, col, new_id))
            if random.random() < accept:
                self.write(row, col, new_id)
        return asked
