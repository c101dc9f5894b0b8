"""A learned term in a host that asks for ΔH: everything but the host itself.

`LearnedTerm` is told when a run begins, before every Monte Carlo step and when the run ends; in between the host calls
its callbacks. It raises only from these three, never from a callback, and saves the lattice first.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.conventions import neural_scale
from neuralcpm_bridge.errors import UserError

from .callbacks import Callbacks
from .facts import AMPLITUDES, Facts
from .lattice import HostLattice, rescue
from .mapping import Term, check_fit, map_types
from .mirror import Consistency, HostCell, Mirror
from .tables import PREFIX, Progress, mapping_table, parameter_table, say


@dataclass(frozen=True)
class Settings:
    """What a user chose."""

    model: str
    types: Mapping[str, str] | None = None
    weight: float = 1.0
    term: Term = "neural"
    extinction: bool = False
    check_every: int = 1000
    log_every: int = 100

    def __post_init__(self) -> None:
        if not np.isfinite(self.weight):
            raise UserError(f"weight is {self.weight}, but a finite number is needed: 1 is the model as trained.")
        for name, value in (("check_every", self.check_every), ("log_every", self.log_every)):
            if not isinstance(value, int) or value < 0:
                raise UserError(f"{name} is {value}, but a whole number of Monte Carlo steps is needed (0: never).")


class Host(Protocol):
    """What a host tells about itself."""

    def facts(self) -> Facts: ...

    def shape(self) -> tuple[int, int]:
        """Rows (y) and columns (x) at this moment."""
        ...

    def ids(self) -> NDArray[np.int64]:
        """The cell id of every site, `[H, W]`."""
        ...

    def cells(self) -> list[HostCell]: ...

    def temperature(self) -> float: ...

    def type_amplitudes(self) -> dict[int, float]:
        """Fluctuation amplitude by type number; empty where the project sets none."""
        ...

    def project_folder(self) -> Path | None: ...

    def output_folder(self) -> Path: ...

    def wrappers(self) -> tuple[Any, Any]:
        """The objects from which the energy and the change callback read their arguments."""
        ...


class LearnedTerm:
    """One model in one host."""

    def __init__(self, settings: Settings, host: Host) -> None:
        self.settings, self.host = settings, host
        self.weight = settings.weight
        self.others_follow = False
        """Whether other code may change cells between `before_step` and the step itself."""
        self.stale = False
        """Whether the lattice may have changed without a word."""
        self.last_check: Consistency | None = None
        self._mcs = -1
        self._shape = (0, 0)
        self._since = time.perf_counter()

    def begin(self) -> Callbacks:
        """Load and check everything, say how the project was taken. The callbacks are to be registered."""
        try:
            self.facts = self.host.facts()
            self.artifact = load_artifact(find_model(self.settings.model, self.host.project_folder()))
            self._check()
        except BaseException as error:
            self._give_up(error)
        self.mirror = Mirror(
            self.artifact,
            self.facts.type_names,
            self.type_of,
            term=self.settings.term,
            forbid_extinction=self.settings.extinction,
        )
        self.callbacks = Callbacks(*self.host.wrappers(), self.mirror.index_of)
        self.callbacks.before_next = self._catch_up
        self._introduce()
        return self.callbacks

    def before_step(self, mcs: int, weight: float | None = None) -> None:
        """Follow what happened since the last step, then let the host ask."""
        self._mcs = mcs
        try:
            self._raise_kept()
            self.weight = self.weight if weight is None else weight
            self._follow()
            self._report(mcs)
        except BaseException as error:
            self._give_up(error)

    def end(self) -> None:
        """The run is over: a last comparison and log line."""
        try:
            self._raise_kept()
            if self.mirror.backend is not None:
                self._follow()
                self._log(self._mcs, self._compare())
        except BaseException as error:
            self._give_up(error)

    # -- following the host ----------------------------------------------------------------------------------

    def _follow(self) -> None:
        cells = self.host.cells()
        written = self.callbacks.written
        loaded = self.mirror.backend is not None and not self.stale and self.host.shape() == self._shape
        if not (loaded and self.mirror.refresh(cells, written)):
            self.mirror.load(self.host.ids(), cells)
            self._shape = self.host.shape()
            self.stale = False
        written.clear()
        self._set_factors(cells)
        self.callbacks.serve(*self.mirror.calls())

    def _catch_up(self) -> None:
        """Before the first ΔH of a step, and after anyone has written the lattice."""
        if self.callbacks.written or self.others_follow:
            self._follow()

    def _set_factors(self, cells: list[HostCell]) -> None:
        """The model's ΔH in the host's units: times its amplitude over the temperature of training."""
        meta, callbacks = self.artifact.metadata, self.callbacks
        temperature, by_type = self.host.temperature(), self.host.type_amplitudes()
        if not by_type and all(cell.amplitude < 0 for cell in cells):
            callbacks.factor, callbacks.factors = self.weight * neural_scale(meta, temperature), None
            return
        scales = {
            cell.id: neural_scale(meta, cell.amplitude if cell.amplitude >= 0 else by_type.get(cell.type, temperature))
            for cell in cells
        }
        callbacks.factor = self.weight
        callbacks.factors = scales, AMPLITUDES[self.facts.amplitude_function]

    # -- saying what is going on -----------------------------------------------------------------------------

    def _check(self) -> None:
        check_fit(self.facts, self.artifact, self.settings.term)
        self.type_of = map_types(self.facts, self.artifact, self.settings.types)
        if self.settings.term == "neural" and self.artifact.metadata.neural is None and not self.settings.extinction:
            say(f"{PREFIX}: the model has no neural part, so term 'neural' adds nothing.")

    def _introduce(self) -> None:
        temperature = self.host.temperature()
        amplitudes = self.host.type_amplitudes()
        say(
            f"\n{PREFIX}: {self.artifact.path}\n"
            + mapping_table(
                self.facts,
                self.artifact,
                self.type_of,
                term=self.settings.term,
                weight=self.weight,
                extinction=self.settings.extinction,
                temperature=temperature,
                by_cell=bool(amplitudes) or any(cell.amplitude >= 0 for cell in self.host.cells()),
            )
        )
        if self.settings.term == "neural":
            table = parameter_table(self.facts, self.artifact, self.type_of, temperature)
            if table:
                say(f"\nThe closure was trained beside its own contact and volume terms:\n{table}\n")

    def _report(self, mcs: int) -> None:
        check = self._compare() if _due(mcs, self.settings.check_every) else None
        if _due(mcs, self.settings.log_every) or (check is not None and not check.ok):
            self._log(mcs, check)

    def _compare(self) -> Consistency:
        check = self.last_check = self.mirror.check(self.host.ids())
        if not check.drift <= check.allowed:
            raise UserError(
                f"The model's energy was {check.drift:.3g} off what it is from scratch ({check.energy.total:.6g}), "
                "more than rounding explains: its weights are out of range, or this is a fault to report."
            )
        self.callbacks.serve(*self.mirror.calls())
        return check

    def _log(self, mcs: int, check: Consistency | None) -> None:
        tally, now = self.callbacks.tally, time.perf_counter()
        energy = self.mirror.opened().energy().neural
        progress = Progress(mcs, tally.calls, tally.accepted, tally.seconds, now - self._since, energy, check)
        say(progress.line())
        tally.clear()
        self._since = now

    # -- when something went wrong ---------------------------------------------------------------------------

    def _raise_kept(self) -> None:
        if self.callbacks.error is not None:
            raise self.callbacks.error

    def _give_up(self, error: BaseException) -> NoReturn:
        """Save the lattice, then say what happened."""
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise error
        reason = str(error) if isinstance(error, UserError) else f"unexpected {type(error).__name__}: {error}"
        saved = self._saved(reason)
        where = f" The lattice was saved in {' and '.join(map(str, saved))}." if saved else ""
        when = f"at MCS {self._mcs}" if self._mcs >= 0 else "before the first step"
        raise UserError(f"{PREFIX} stopped {when}: {reason}{where}") from error

    def _saved(self, reason: str) -> list[Path]:
        try:
            facts = getattr(self, "facts", None) or self.host.facts()
            if facts.depth != 1:
                return []
            types = {cell.id: cell.type for cell in self.host.cells()}
            boundary = "periodic" if all(facts.periodic) else "free"
            lattice = HostLattice(self.host.ids(), types, self._mcs)
            return rescue(lattice, facts.type_names, boundary, self.host.output_folder(), reason)
        except Exception as failure:  # the first error matters more than that its lattice could not be saved
            say(f"{PREFIX}: the lattice could not be saved ({failure}).")
            return []


def _due(mcs: int, every: int) -> bool:
    return every > 0 and mcs > 0 and mcs % every == 0


def find_model(model: str, project: Path | None) -> Path:
    """A model path is relative to the project's folder, as `Simulation/model.onnx`; else to the current folder."""
    path = Path(model)
    for candidate in [path] if path.is_absolute() or project is None else [project / path, path]:
        if candidate.is_file():
            return candidate
    beside = f" beside the project in {project}" if project is not None and not path.is_absolute() else ""
    raise UserError(f"There is no model file {model}{beside}: give the path of a model.onnx.")
