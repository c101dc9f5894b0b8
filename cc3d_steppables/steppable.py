"""The steppable: CC3D's side of a learned term. Imported inside CompuCell3D only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from cc3d import CompuCellSetup
from cc3d.core.PySteppables import SteppableBasePy
from cc3d.cpp import CompuCell
from lxml import etree
from numpy.typing import NDArray

from neuralcpm_bridge.errors import UserError

from .adapter import LearnedTerm, Settings
from .facts import Facts, read_facts
from .mapping import Term
from .mirror import HostCell
from .tables import PREFIX


class NeuralHamiltonianSteppable(SteppableBasePy):
    """Adds a learned energy to a project.

    model: path of the model file, relative to the project's folder
    types: names of the project's cell types → names of the model's, where they differ ("medium": not seen)
    weight: factor of the learned term; a slider in Player
    term: "neural", beside the project's own contact and volume plugins, or "full", instead of them
    extinction: True forbids taking a cell's last pixel, as training did; False lets cells die
    check_every, log_every: Monte Carlo steps between two comparisons with the lattice, two lines of the log (0: never)
    """

    def __init__(
        self,
        frequency: int = 1,
        model: str | Path | None = None,
        types: Mapping[str, str] | None = None,
        weight: float = 1.0,
        term: Term = "neural",
        extinction: bool = False,
        check_every: int = 1000,
        log_every: int = 100,
    ) -> None:
        super().__init__(frequency)
        self.runBeforeMCS = 1
        learned: LearnedTerm | None = getattr(self, "_learned", None)
        if learned is not None:  # resizing the lattice calls this again, with the frequency alone
            learned.stale = True
            return
        if frequency != 1:
            raise UserError(f"frequency is {frequency}, but cells are followed at every step: leave it at 1.")
        if model is None:
            raise UserError("No model was given: pass model='Simulation/model.onnx', the path in the project's folder.")
        settings = Settings(str(model), types, float(weight), term, extinction, check_every, log_every)
        self._host = CC3DHost(self)
        self._learned = LearnedTerm(settings, self._host)

    def init(self, _simulator: Any) -> None:
        # Not in start(), which a restart skips.
        self._callbacks = self._learned.begin()
        self._energy_name = self._host.register(self._callbacks)

    def start(self) -> None:
        """Other steppables may still lay out cells: the lattice is read before the first step."""

    def step(self, mcs: int) -> None:
        registry = CompuCellSetup.persistent_globals.steppable_registry
        self._learned.others_follow = registry.runBeforeMCSSteppableList[-1] is not self
        self._learned.before_step(mcs, self._steered_weight())

    def finish(self) -> None:
        self._learned.end()

    def on_stop(self) -> None:
        self._learned.end()

    def add_steering_panel(self) -> None:
        weight, name = self._learned.settings.weight, self._steering_name()
        self.add_steering_param(name, weight, 0.0, max(2.0, 2 * weight), decimal_precision=2, widget_name="slider")

    def description(self) -> dict[str, Any]:
        """What was chosen, as JSON knows it: for whoever compares the energies afterwards."""
        settings = self._learned.settings
        return {
            "energy": self._energy_name,
            "model": str(self._learned.artifact.path),
            "types": dict(settings.types or {}),
            "weight": self._learned.weight,
            "term": settings.term,
            "extinction": settings.extinction,
        }

    def _steered_weight(self) -> float | None:
        # Read at every step: CC3D clears the mark of a moved slider before steppables of this kind see it. A restart
        # brings the sliders back without asking.
        parameter = CompuCellSetup.persistent_globals.steering_param_dict.get(self._steering_name())
        return None if parameter is None else float(parameter.val)

    def _steering_name(self) -> str:
        return f"{self._energy_name} weight"


class CC3DHost:
    """CompuCell3D through one steppable. Lattices are [x, y, z]: rows are y, columns are x."""

    def __init__(self, steppable: Any) -> None:
        self.steppable = steppable

    def facts(self) -> Facts:
        text = CompuCellSetup.persistent_globals.cc3d_xml_2_obj_converter.root.getCC3DXMLElementString()
        return read_facts(etree.fromstring(text, etree.XMLParser(resolve_entities=False, no_network=True)))

    def shape(self) -> tuple[int, int]:
        size = self.steppable.dim
        return int(size.y), int(size.x)

    def ids(self) -> NDArray[np.int64]:
        field = self.steppable.cell_field
        height, width = self.shape()
        ids = np.zeros((height, width), dtype=np.int64)
        for col in range(width):
            for row in range(height):
                cell = field[col, row, 0]
                if cell is not None:
                    ids[row, col] = cell.id
        return ids

    def cells(self) -> list[HostCell]:
        return [HostCell(cell.id, cell.type, cell.fluctAmpl) for cell in self.steppable.cell_list]

    def temperature(self) -> float:
        return float(self.steppable.potts.getTemperature())

    def type_amplitudes(self) -> dict[int, float]:
        potts = self.steppable.potts
        if not potts.hasCellTypeMotility():
            return {}
        return {number: float(potts.getCellTypeMotility(number)) for number in self.type_numbers() if number}

    def type_numbers(self) -> list[int]:
        return list(CompuCellSetup.simulation_utils.extract_type_names_and_ids())

    def project_folder(self) -> Path | None:
        project = CompuCellSetup.persistent_globals.simulation_file_name
        return Path(project).resolve().parent if project else None

    def output_folder(self) -> Path:
        folder = self.steppable.output_dir
        return Path(folder) if folder else Path.cwd()

    def wrappers(self) -> tuple[Any, Any]:
        self.energy_wrapper = CompuCell.EnergyFunctionPyWrapper()
        self.change_wrapper = CompuCell.ChangeWatcherPyWrapper()
        for wrapper in (self.energy_wrapper, self.change_wrapper):
            wrapper.setPotts(self.steppable.potts)
            wrapper.setSimulator(self.steppable.simulator)
        return self.energy_wrapper, self.change_wrapper

    def register(self, callbacks: Any) -> str:
        """Let CC3D call; the name under which it lists the energy. It holds no references: the steppable does."""
        potts = self.steppable.potts
        taken = set(potts.getEnergyFunctionNames())
        name = next(name for name in (PREFIX, *(f"{PREFIX}{k}" for k in range(2, 1000))) if name not in taken)
        self.energy_wrapper.registerPyEnergyFunction(callbacks.energy)
        self.change_wrapper.registerPyChangeWatcher(callbacks.watcher)
        potts.registerEnergyFunctionWithName(self.energy_wrapper.getEnergyFunctionPyWrapperPtr(), name)
        potts.registerCellGChangeWatcher(self.change_wrapper.getChangeWatcherPyWrapperPtr())
        return name
