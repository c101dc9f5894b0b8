"""Watching a run inside CompuCell3D: snapshots of the lattice, and every attempted copy with its energies.

Imported inside CompuCell3D only; nothing here needs torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from cc3d import CompuCellSetup
from cc3d.core.PySteppables import SteppableBasePy
from cc3d.cpp import CompuCell
from numpy.typing import NDArray

from neuralcpm_bridge.files import Growing
from neuralcpm_bridge.hosting.facts import amplitudes_of
from neuralcpm_bridge.hosting.lattices import HostLattice
from neuralcpm_bridge.hosting.tables import PROGRESS, say

from .snapshots import save_snapshots
from .steppable import CC3DHost, NeuralHamiltonianSteppable

SIGN_OF_LIFE_SECONDS = 5.0


class WatchingSteppable(SteppableBasePy):
    """Runs before every step, so what it sees at step t is what step t − 1 left."""

    def __init__(self, frequency: int = 1, steps: int | None = None) -> None:
        super().__init__(frequency)
        self.runBeforeMCS = 1
        if not hasattr(self, "_host"):  # resizing the lattice calls this again
            self._host, self._wanted_steps = CC3DHost(self), steps
            self._said, self._said_at = -1, 0.0

    def init(self, _simulator: Any) -> None:
        self.facts = self._host.facts()  # what is refused is refused before the run, not after it
        if self._wanted_steps is not None:
            self.simulator.setNumSteps(self._wanted_steps)

    def step(self, mcs: int) -> None:
        self.tell(mcs, int(self.simulator.getNumSteps()))

    def tell(self, done: int, total: int) -> None:
        """At every percent, and every few seconds: who hears nothing for long gives the run up."""
        percent, now = done * 100 // max(total, 1), monotonic()
        if percent != self._said or now - self._said_at > SIGN_OF_LIFE_SECONDS:
            self._said, self._said_at = percent, now
            print(f"{PROGRESS} {done} {total}", flush=True)

    def lattice(self, mcs: int) -> HostLattice:
        """With the properties that the learned terms of the project read."""
        read = {name: 0 for term in learned_terms() for name in term.description()["properties"]}
        return HostLattice.of(self._host.ids(), self._host.cells(), mcs, read)


class SnapshotSteppable(WatchingSteppable):
    """Evenly spaced lattices, the first and the last among them, on disk as they come; `save` writes all, if any."""

    def __init__(self, frequency: int = 1, steps: int | None = None, snapshots: int = 10, file: str = "") -> None:
        super().__init__(frequency, steps)
        if not hasattr(self, "_lattices"):
            self._lattices: list[HostLattice] = []
            self._snapshots, self._file = snapshots, Path(file)
            self._growing = Growing(self._write, say)

    def step(self, mcs: int) -> None:
        super().step(mcs)
        last = int(self.simulator.getNumSteps()) - 1
        times = {round(last * k / max(self._snapshots, 1)) for k in range(max(self._snapshots, 1) + 1)}
        if mcs == 0 or (mcs - 1 in times and mcs > 1):
            self._lattices.append(self.lattice(max(mcs - 1, 0)))
            self._growing.grown()

    def finish(self) -> None:
        last = int(self.simulator.getNumSteps()) - 1
        if last > 0:
            self._lattices.append(self.lattice(last))

    def save(self) -> bool:
        if self._lattices:
            self._write()
        return bool(self._lattices)

    def _write(self) -> None:
        shape = self._lattices[-1].ids.shape  # a data set has one lattice size: after a resize, the last one's
        kept = [lattice for lattice in self._lattices if lattice.ids.shape == shape]
        project = Path(CompuCellSetup.persistent_globals.simulation_file_name).name
        provenance = {"host": "CompuCell3D", "project": project}
        save_snapshots(kept, self.facts.type_names, self.facts.lattice, provenance, self._file)


class FlipRecorder(WatchingSteppable):
    """Every attempted copy: where, which ids, what each energy said, whether it was accepted.

    Needs `<EnergyFunctionCalculator Type="Statistics">`, which keeps the energies of the last step by name.
    """

    def __init__(self, frequency: int = 1, steps: int | None = None, flips: int = 0, file: str = "") -> None:
        super().__init__(frequency, steps)
        if not hasattr(self, "_flips"):
            self._flips, self._file = flips, file
            self._asked: list[tuple[int, int, int]] = []
            self._attempts: list[Any] = []
            self._energies: list[Any] = []
            self._accepted: list[Any] = []
            self._states: list[tuple[HostLattice, dict[int, float]]] = []

    def init(self, simulator: Any) -> None:
        super().init(simulator)
        self._wrapper = CompuCell.EnergyFunctionPyWrapper()
        self._wrapper.setPotts(self.potts)
        self._wrapper.setSimulator(self.simulator)
        self._listener = Listener(self._wrapper, self._asked, self._host.shape())
        self._wrapper.registerPyEnergyFunction(self._listener)
        self.potts.registerEnergyFunctionWithName(self._wrapper.getEnergyFunctionPyWrapperPtr(), "neuralcpm_recorder")

    def step(self, mcs: int) -> None:
        self._collect()
        if self._flips:
            recorded = sum(map(len, self._attempts))
            self.tell(recorded, self._flips)
            self.simulator.setNumSteps(mcs + (2 if recorded < self._flips else 1))  # one more step, or the last
        else:
            super().step(mcs)
        cells, temperature = self._host.cells(), self._host.temperature()
        amplitudes = amplitudes_of(cells, self._host.type_amplitudes(), temperature)
        self._states.append((self.lattice(mcs), amplitudes or {cell.id: temperature for cell in cells}))

    def finish(self) -> None:
        self._collect()

    def _collect(self) -> None:
        """What the last step asked and what CC3D's statistics say about it, in the same order."""
        if not self._asked:
            if self._states:
                self._states.pop()  # no attempt: nothing to compare
            return
        count = len(self._asked)
        # The statistics may still hold an earlier step that had few attempts; ours are the last.
        self._energies.append(np.array([list(row) for row in self.potts.getCurrentEnergyChanges()[-count:]]))
        self._accepted.append(np.array(list(self.potts.getCurrentFlipResults()[-count:]), dtype=bool))
        self._attempts.append(np.array(self._asked, dtype=np.int64))
        self._asked.clear()

    def save(self) -> bool:
        if not self._attempts:
            return False
        states = self._states[: len(self._attempts)]
        cells = [
            (cell, cell_type, amplitudes[cell])
            for lattice, amplitudes in states
            for cell, cell_type in lattice.types.items()
        ]
        steps = [np.full(len(part), step) for step, part in enumerate(self._attempts)]
        about = {
            "names": list(self.potts.getEnergyFunctionNames()),
            "temperature": self._host.temperature(),
            "learned": [steppable.description() for steppable in learned_terms()],
            "properties": list(states[0][0].properties),
        }
        np.savez(
            self._file,
            ids=np.stack([lattice.ids for lattice, _ in states]),
            cells=np.array([entry[:2] for entry in cells], dtype=np.int64),
            amplitudes=np.array([entry[2] for entry in cells]),
            properties=np.concatenate([_table(lattice) for lattice, _ in states]),
            cell_counts=np.array([len(lattice.types) for lattice, _ in states]),
            step=np.concatenate(steps),
            attempts=np.concatenate(self._attempts),
            energies=np.concatenate(self._energies),
            accepted=np.concatenate(self._accepted),
            about=np.array(json.dumps(about)),
        )
        return True


def learned_terms() -> list[NeuralHamiltonianSteppable]:
    """Those that the project has registered."""
    registry = CompuCellSetup.persistent_globals.steppable_registry
    return list(registry.getSteppablesByClassName(NeuralHamiltonianSteppable.__name__))


def _table(lattice: HostLattice) -> NDArray[np.float64]:
    """Properties of its cells, `[cells, P]`."""
    columns = [[values[cell] for cell in lattice.types] for values in lattice.properties.values()]
    return np.array(columns, dtype=np.float64).reshape(-1, len(lattice.types)).T


class Listener:
    """An energy of zero that writes down what it was asked: site, new id, old id."""

    def __init__(self, wrapper: Any, asked: list[tuple[int, int, int]], shape: tuple[int, ...]) -> None:
        self.wrapper, self.asked = wrapper, asked
        self.height, self.width = shape[-2:]

    def changeEnergy(self) -> float:
        point, new, old = self.wrapper.getChangePoint(), self.wrapper.getNewCell(), self.wrapper.getOldCell()
        site = (point.z * self.height + point.y) * self.width + point.x
        self.asked.append((site, 0 if new is None else new.id, 0 if old is None else old.id))
        return 0.0
