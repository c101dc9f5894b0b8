"""The steppable: CC3D's side of a learned term. Imported inside CompuCell3D only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from cc3d import CompuCellSetup
from cc3d.core.PySteppables import SteppableBasePy
from cc3d.cpp import CompuCell
from lxml import etree
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.conventions import TARGETS
from neuralcpm_bridge.delta import Part
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.adapter import LearnedTerm, Parameter, Settings
from neuralcpm_bridge.hosting.facts import HostCell
from neuralcpm_bridge.hosting.lattices import HostLattice
from neuralcpm_bridge.hosting.tables import PREFIX
from neuralcpm_bridge.hosting.uncertainty import Limits, Policy

from .callbacks import CC3DCallbacks
from .check import check_fit
from .native import NativeCallbacks, native_callbacks
from .properties import PROPERTIES, read_properties
from .reader import ProjectFacts, read_facts
from .snapshots import pif_writers


class NeuralHamiltonianSteppable(SteppableBasePy):
    """Adds a learned energy to a project.

    model: path of the model file, relative to the project's folder
    types: names of the project's cell types → names of the model's, where they differ ("medium": not seen)
    weight: factor of the learned term; a slider in Player
    term: "neural", beside the project's own plugins (Contact, Volume, …), or "full", instead of them
    extinction: True forbids taking a cell's last pixel, as training did; False lets cells die
    check_every, log_every: Monte Carlo steps between two comparisons with the lattice, two lines of the log (0: never)
    uncertain: what to do where the model is not sure: "warn", "stop", or "shrink", towards the project's own energies
    limit, outside_limit: disagreement of a committee's members, in units of the training temperature, and share of
        cells outside of the training data's range above which a run is uncertain
    """

    def __init__(
        self,
        frequency: int = 1,
        model: str | Path | None = None,
        types: Mapping[str, str] | None = None,
        weight: float = 1.0,
        term: Part = "neural",
        extinction: bool = False,
        check_every: int = 1000,
        log_every: int = 100,
        uncertain: Policy = "warn",
        limit: float = 1.0,
        outside_limit: float = 0.1,
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
        limits = Limits(uncertain, float(limit), float(outside_limit))
        settings = Settings(str(model), types, float(weight), term, extinction, check_every, log_every, limits)
        self._host = CC3DHost(self)
        self._learned = LearnedTerm(settings, self._host)

    def init(self, _simulator: Any) -> None:
        # Not in start(), which a restart skips.
        self._energy_name = self._host.free_name()
        self._learned.label = self._energy_name.removeprefix(PREFIX)
        self._learned.begin()
        self._refuse_twice()
        self._host.register(self._energy_name)

    def _refuse_twice(self) -> None:
        registry = CompuCellSetup.persistent_globals.steppable_registry
        mine = self._learned.artifact.metadata
        for other in registry.getSteppablesByClassName(type(self).__name__):
            known = getattr(other._learned, "artifact", None)
            if other is not self and known is not None and known.metadata.weights_hash == mine.weights_hash:
                raise UserError(
                    f"The model {mine.name} is registered twice, and its energy would be counted twice: remove one of "
                    "the two learned terms."
                )

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
            "properties": list(self._learned.artifact.metadata.properties),
            "types": dict(settings.types or {}),
            "weight": self._learned.weight,
            "term": settings.part,
            "extinction": settings.extinction,
            "uncertain": settings.limits.policy,
        }

    def _steered_weight(self) -> float | None:
        # Read at every step: CC3D clears the mark of a moved slider before steppables of this kind see it. A restart
        # brings the sliders back without asking.
        parameter = CompuCellSetup.persistent_globals.steering_param_dict.get(self._steering_name())
        return None if parameter is None else float(parameter.val)

    def _steering_name(self) -> str:
        return f"{self._energy_name} weight"


class CellPropertiesSteppable(SteppableBasePy):
    """Gives the first cells of a project their properties (`cell.dict`), before the first step.

    file: a table with a column id and one for each property, relative to the project's folder
    """

    def __init__(self, frequency: int = 1, file: str = PROPERTIES) -> None:
        super().__init__(frequency)
        self._file = file

    def start(self) -> None:
        folder = CC3DHost(self).project_folder()
        known = read_properties(Path(self._file) if folder is None else folder / self._file)
        for cell in self.cell_list:
            cell.dict.update(known.get(cell.id, {}))


def one_potts_node() -> None:
    """Keep the Potts algorithm of a project that its script describes on one work node; other modules stay parallel.

    To be called before `CompuCellSetup.run()`: a learned term sees farther than the sections of several nodes.
    """
    converter = CompuCellSetup.persistent_globals.cc3d_xml_2_obj_converter
    metadata = None if converter is None else converter.root.getFirstElement("Metadata")
    if metadata is not None:
        metadata.attachElement("NonParallelModule", "").attachAttribute("Name", "Potts")


class CC3DHost:
    """CompuCell3D through one steppable. Its lattices are [x, y, z]: ours are [y, x] where z = 1, else [z, y, x]."""

    target = TARGETS["cc3d"]

    def __init__(self, steppable: Any) -> None:
        self.steppable = steppable

    def facts(self) -> ProjectFacts:
        text = CompuCellSetup.persistent_globals.cc3d_xml_2_obj_converter.root.getCC3DXMLElementString()
        return read_facts(etree.fromstring(text, etree.XMLParser(resolve_entities=False, no_network=True)))

    def check(self, artifact: Artifact, part: Part) -> None:
        check_fit(self.facts(), artifact, part)

    def parameters(self, artifact: Artifact, type_of: Mapping[int, int], temperature: float) -> list[Parameter]:
        return self.facts().parameters(artifact.metadata, type_of, temperature)

    def shape(self) -> tuple[int, ...]:
        size = self.steppable.dim
        sides = int(size.z), int(size.y), int(size.x)
        return sides if size.z > 1 else sides[1:]

    def ids(self) -> NDArray[np.int64]:
        field, shape = self.steppable.cell_field, self.shape()
        ids = np.zeros(shape, dtype=np.int64)
        for place in np.ndindex(*shape):
            plane, row, col = place if len(place) == 3 else (0, *place)
            cell = field[col, row, plane]
            if cell is not None:
                ids[place] = cell.id
        return ids

    def cells(self) -> list[HostCell]:
        return [
            HostCell(cell.id, cell.type, cell.fluctAmpl, cell.dict, int(cell.this)) for cell in self.steppable.cell_list
        ]

    def temperature(self) -> float:
        return float(self.steppable.potts.getTemperature())

    def type_amplitudes(self) -> dict[int, float]:
        potts = self.steppable.potts
        if not potts.hasCellTypeMotility():
            return {}
        numbers = CompuCellSetup.simulation_utils.extract_type_names_and_ids()
        return {number: float(potts.getCellTypeMotility(number)) for number in numbers if number}

    def project_folder(self) -> Path | None:
        project = CompuCellSetup.persistent_globals.simulation_file_name
        return Path(project).resolve().parent if project else None

    def output_folder(self) -> Path:
        folder = self.steppable.output_dir
        return Path(folder) if folder else Path.cwd()

    def writers(self, found: HostLattice, type_names: Mapping[int, str]) -> dict[str, Callable[[Path], None]]:
        return pif_writers(found, type_names)

    def callbacks(self, artifact: Artifact) -> CC3DCallbacks | NativeCallbacks:
        """CC3D holds no references to what it calls: this object does."""
        native = native_callbacks(CompuCell, self.steppable.potts) if artifact.engine_serves else None
        self._callbacks = native or self._interpreted()
        return self._callbacks

    def _interpreted(self) -> CC3DCallbacks:
        wrappers = CompuCell.EnergyFunctionPyWrapper(), CompuCell.ChangeWatcherPyWrapper()
        for wrapper in wrappers:
            wrapper.setPotts(self.steppable.potts)
            wrapper.setSimulator(self.steppable.simulator)
        return CC3DCallbacks(*wrappers)

    def free_name(self) -> str:
        """Under which CC3D can list an energy that it does not have yet."""
        taken = set(self.steppable.potts.getEnergyFunctionNames())
        return next(name for name in (PREFIX, *(f"{PREFIX}{k}" for k in range(2, 1000))) if name not in taken)

    def register(self, name: str) -> None:
        """Let CC3D call."""
        energy, watcher = self._callbacks.pointers()
        self.steppable.potts.registerEnergyFunctionWithName(energy, name)
        self.steppable.potts.registerCellGChangeWatcher(watcher)
