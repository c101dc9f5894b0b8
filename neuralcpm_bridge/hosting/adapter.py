"""A learned term in a host that asks for ΔH: everything but the host itself.

`LearnedTerm` is told when a run begins, before every Monte Carlo step and when the run ends; in between the host calls
its callbacks. It raises only from these three, never from a callback, and saves the lattice first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import pretrained
from ..artifact import Artifact, load_artifact
from ..conventions import Target, neural_scale
from ..delta import Part
from ..errors import UserError
from .callbacks import Answering, Scaling, Tally
from .facts import Facts, HostCell, amplitudes_of
from .lattices import HostLattice, as_snapshots, rescue
from .mapping import map_types
from .mirror import Consistency, Mirror
from .tables import PREFIX, Progress, mapping_table, parameter_table, say
from .uncertainty import INTERVAL, LATTICES, TABLE, Interval, Kept, Limits, Watch

Parameter = tuple[str, str, str]
"""Name, learned and own value of a number, as text."""


@dataclass(frozen=True)
class Settings:
    """What a user chose."""

    model: str
    types: Mapping[str, str] | None = None
    weight: float = 1.0
    part: Part = "neural"
    extinction: bool = False
    check_every: int = 1000
    log_every: int = 100
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not np.isfinite(self.weight):
            raise UserError(f"weight is {self.weight}, but a finite number is needed: 1 is the model as trained.")
        for name, value in (("check_every", self.check_every), ("log_every", self.log_every)):
            if not isinstance(value, int) or value < 0:
                raise UserError(f"{name} is {value}, but a whole number of Monte Carlo steps is needed (0: never).")


class Host(Protocol):
    """What a host tells about itself."""

    target: Target

    def facts(self) -> Facts: ...

    def check(self, artifact: Artifact, part: Part) -> None:
        """Refuse a model or part that does not fit."""
        ...

    def parameters(self, artifact: Artifact, type_of: Mapping[int, int], temperature: float) -> list[Parameter]:
        """Names and values of the model's own terms in the host's words and units, beside the project's."""
        ...

    def shape(self) -> tuple[int, ...]:
        """[planes (z),] rows (y) and columns (x) at this moment."""
        ...

    def ids(self) -> NDArray[np.int64]:
        """The cell id of every site, `[H, W]` or `[D, H, W]`."""
        ...

    def cells(self) -> list[HostCell]: ...

    def temperature(self) -> float: ...

    def type_amplitudes(self) -> dict[int, float]:
        """Fluctuation amplitude by type number; empty where the project sets none."""
        ...

    def project_folder(self) -> Path | None: ...

    def output_folder(self) -> Path: ...

    def callbacks(self, artifact: Artifact) -> Answering:
        """What the host will call for this model."""
        ...

    def writers(self, found: HostLattice, type_names: Mapping[int, str]) -> Mapping[str, Callable[[Path], None]]:
        """How the host itself stores a lattice: file endings and what writes them."""
        ...


class LearnedTerm:
    """One model in one host."""

    def __init__(self, settings: Settings, host: Host) -> None:
        self.settings, self.host = settings, host
        self.weight = settings.weight
        self.others_follow = False
        """Whether other code may change cells between `before_step` and the step itself."""
        self.stale = True
        """Whether the lattice has not been loaded yet, or may have changed without a word."""
        self.last_check: Consistency | None = None
        self.label = ""
        """Behind the names of its files, where a project has several learned terms."""
        self._mcs = -1
        self._since = time.process_time()
        self._interval, self._logged = Tally(), Tally()
        self._uncertain = Kept()

    def begin(self) -> None:
        """Load and check everything, say how the project was taken. Then the callbacks are to be registered."""
        settings = self.settings
        try:
            self.facts = self.host.facts()
            self.artifact = load_artifact(find_model(settings.model, self.host.project_folder()))
            self.host.check(self.artifact, settings.part)
            self.type_of = map_types(self.facts.type_names, self.artifact.metadata.types, settings.types)
            self.watch = Watch(self.artifact, settings.limits, self._file(TABLE), lambda text: say(f"{PREFIX}: {text}"))
        except BaseException as error:
            self._give_up(error)
        self.mirror = Mirror(
            self.artifact,
            self.facts.type_names,
            self.type_of,
            part=settings.part,
            forbid_extinction=settings.extinction,
            target=self.host.target,
        )
        self.callbacks = self.host.callbacks(self.artifact)
        self.callbacks.before_next = self._catch_up
        self._introduce()

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
            if self.mirror.lattice is not None:
                self._follow()
                self._log(self._mcs, self._compare())
        except BaseException as error:
            self._give_up(error)

    # -- following the host ----------------------------------------------------------------------------------

    def _follow(self) -> None:
        cells = self.host.cells()
        written = self.callbacks.written(cells)
        lattice = replace(self.facts.lattice, shape=self.host.shape())
        if self.stale or lattice != self.mirror.lattice or not self.mirror.follow(cells, written):
            before = self.mirror.shapeless
            self.mirror.load(lattice, self.host.ids(), cells)
            self.stale = False
            self._warn_of(self.mirror.shapeless - before)
        self.callbacks.forget_written()
        self.callbacks.serve(self.mirror, cells, self._scaling(cells))

    def _warn_of(self, shapeless: Collection[int]) -> None:
        if shapeless:
            some = ", ".join(map(str, sorted(shapeless)[:5])) + (", …" if len(shapeless) > 5 else "")
            say(
                f"{PREFIX}: WARNING: {len(shapeless)} cells (ids {some}) span half of the periodic lattice or more and "
                "have no shape there: the model takes them for medium."
            )

    def _catch_up(self) -> None:
        """Before the first ΔH of a step, and after anyone has written the lattice."""
        if self.others_follow or self.callbacks.has_written():
            self._follow()

    def _scaling(self, cells: Sequence[HostCell]) -> Scaling:
        """The model's ΔH in the host's units: times its amplitude over the temperature of training."""
        meta, temperature, limits = self.artifact.metadata, self.host.temperature(), self.settings.limits
        amplitudes = amplitudes_of(cells, self.host.type_amplitudes(), temperature)
        scales = None
        if amplitudes is not None:
            scales = {cell: neural_scale(meta, amplitude) for cell, amplitude in amplitudes.items()}
        return Scaling(
            self.weight * neural_scale(meta, temperature) if scales is None else self.weight,
            scales,
            self.facts.amplitude_function,
            meta.temperature,
            self.watch.committee,
            limits.disagreement if limits.policy == "shrink" else 0.0,
        )

    # -- saying what is going on -----------------------------------------------------------------------------

    def _introduce(self) -> None:
        part, temperature = self.settings.part, self.host.temperature()
        if part == "neural" and self.artifact.metadata.neural is None and not self.settings.extinction:
            say(f"{PREFIX}: the model has no neural part, so term 'neural' adds nothing.")
        amplitudes = amplitudes_of(self.host.cells(), self.host.type_amplitudes(), temperature)
        table = mapping_table(
            self.facts,
            self.artifact,
            self.type_of,
            self.host.target,
            part=part,
            weight=self.weight,
            extinction=self.settings.extinction,
            temperature=temperature,
            by_cell=amplitudes is not None,
        )
        say(f"\n{PREFIX}: {self.artifact.path}\n{table}")
        own = self.host.parameters(self.artifact, self.type_of, temperature) if part == "neural" else []
        if own:
            say(f"\nThe closure was trained beside its own terms:\n{parameter_table(own)}\n")

    def _report(self, mcs: int) -> None:
        check = self._compare() if _due(mcs, self.settings.check_every) else None
        if _due(mcs, INTERVAL):
            self._look(mcs)
        if _due(mcs, self.settings.log_every) or (check is not None and not check.ok):
            self._log(mcs, check)

    def _count(self) -> None:
        """Counters of the callbacks into those of the interval and of the log's next line."""
        tally = self.callbacks.take_tally()
        self._interval.add(tally)
        self._logged.add(tally)

    def _look(self, mcs: int) -> None:
        """How sure the model was in the last interval; lattices of which it is not are kept for retraining."""
        self._count()
        interval, self._interval = self.watch.look(mcs, self._interval, self.mirror.range()), Tally()
        if interval.exceeds(self.settings.limits) and self._uncertain.wants():
            self._keep_lattice(interval)
        self.watch.note(interval)

    def _keep_lattice(self, interval: Interval) -> None:
        meta, cells = self.artifact.metadata, self.host.cells()
        # As the model sees it, under its own names: data to train it with.
        seen = [cell._replace(type=self.type_of[cell.type]) for cell in cells if self.type_of[cell.type] > 0]
        ids = self.host.ids()
        ids[~np.isin(ids, [cell.id for cell in seen])] = 0
        found = HostLattice.of(ids, seen, interval.mcs, meta.properties)
        self._uncertain.add((found, interval))
        # A data set has one size of lattices: after a resize, the last one's.
        kept = [entry for entry in self._uncertain.entries if entry[0].ids.shape == found.ids.shape]
        provenance = {"host": self.host.target.host, "model": self.artifact.metadata.name, "why": "uncertain"}
        try:
            names = dict(enumerate(meta.types))
            data = as_snapshots([entry[0] for entry in kept], names, self.facts.lattice, provenance)
            for name in ("disagreement", "outside"):
                values = [getattr(entry[1], name) for entry in kept]
                data.arrays[name] = np.array([np.nan if value is None else value for value in values])
            data.save(self._file(LATTICES))
        except UserError as error:  # no reason to end a simulation
            say(f"{PREFIX}: the uncertain lattice of MCS {interval.mcs} was not saved: {error}")

    def _file(self, name: str) -> Path:
        path = self.host.output_folder() / name
        return path.with_stem(path.stem + self.label)

    def _compare(self) -> Consistency:
        check = self.last_check = self.mirror.check(self.host.ids())
        if not check.drift <= check.allowed:
            raise UserError(
                f"The model's energy was {check.drift:.3g} off what it is from scratch ({check.energy.total:.6g}), "
                "more than rounding explains: its weights are out of range, or this is a fault to report."
            )
        self.callbacks.hold()  # what was asked before may be another lattice's
        return check

    def _log(self, mcs: int, check: Consistency | None) -> None:
        self._count()
        now = time.process_time()
        energy, passed, host = self.mirror.energy().neural, now - self._since, self.host.target.host
        sure = self.watch.look(mcs, self._logged, self.mirror.range()).sentence()
        say(Progress(mcs, self._logged, passed, energy, check, host, sure).line())
        self._since, self._logged = now, Tally()

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
            read = self.artifact.metadata.properties if hasattr(self, "artifact") else ()
            found = HostLattice.of(self.host.ids(), self.host.cells(), self._mcs, read)
            provenance = {"host": self.host.target.host, "rescued_because": reason}
            writers = self.host.writers(found, facts.type_names)
            return rescue(found, facts.type_names, facts.lattice, self.host.output_folder(), provenance, writers)
        except Exception as failure:  # the first error matters more than that its lattice could not be saved
            say(f"{PREFIX}: the lattice could not be saved ({failure}).")
            return []


def _due(mcs: int, every: int) -> bool:
    return every > 0 and mcs > 0 and mcs % every == 0


def find_model(model: str, project: Path | None) -> str | Path:
    """A model path is relative to the project's folder, as `Simulation/model.onnx`; else to the current folder.

    Models of this package go by their names, `pretrained:NAME`.
    """
    if model.startswith(pretrained.PREFIX):
        return model
    path = Path(model)
    for candidate in [path] if path.is_absolute() or project is None else [project / path, path]:
        if candidate.is_file():
            return candidate
    beside = f" beside the project in {project}" if project is not None and not path.is_absolute() else ""
    raise UserError(f"There is no model file {model}{beside}: give the path of a model.onnx.")
