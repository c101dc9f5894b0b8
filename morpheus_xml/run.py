"""Running Morpheus: progress, its failures (which leave the exit code 0), and its snapshots as a data set."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.hosting.results import gather
from neuralcpm_bridge.hosting.tables import PREFIX
from neuralcpm_bridge.hosting.uncertainty import CHART
from neuralcpm_bridge.library import engine_library
from neuralcpm_bridge.snapshots import Snapshots

from .check import require_sound
from .document import Edit
from .plugin_install import has_plugin
from .process import Process
from .reader import ELEMENT, ModelFile, model_of, read_model
from .snapshots import PLOTS, read_snapshots
from .uncertain import PLUGINS_FILE, collect_uncertain

BINARY_VARIABLE = "NEURALCPM_MORPHEUS"
LIBRARY_VARIABLE = "NEURALCPM_LIBRARY"
FINISHED = "=== Simulation finished ==="
TIME = re.compile(r"Time: ([-+.eE0-9]+)")
UNUSED = re.compile(r"Error: Command line override (\S+?)=.* not used")
"""Said, and then run without the value that was asked for."""
MODEL_COPY = "model.xml"
"""The model beside its results: they need its type names to be understood."""
SNAPSHOTS_FILE = "snapshots.npz"
RESULTS_FILE = "results.json"
OURS = (SNAPSHOTS_FILE, RESULTS_FILE, CHART, "uncertainty*.csv", "uncertain*.npz", PLUGINS_FILE.format(label="*"))
SAVING_SHARE = 0.05
"""Of a run's time that may go into saving what there is so far."""


@dataclass(frozen=True)
class RunResult:
    """What a run left: its folder, and its snapshots if the model writes any."""

    folder: Path
    snapshots: Snapshots | None
    log: Path
    uncertainty: dict[str, Any] | None = None
    """A summary of what the learned model was not sure of, if there is one."""


def find_binary(given: str | Path | None = None) -> Path:
    """The Morpheus program: the one given, else of the environment, else on the path."""
    named = str(given) if given is not None else os.environ.get(BINARY_VARIABLE, "")
    if named:
        found = Path(named)
        if not found.is_file() or not os.access(found, os.X_OK):
            raise UserError(f"{found} is not a program: give Morpheus' binary (--morpheus or {BINARY_VARIABLE}).")
        return found.resolve()
    on_path = shutil.which("morpheus") or shutil.which("morpheus-sim")
    if on_path is None:
        raise UserError(
            "Morpheus was not found: install it (https://morpheus.gitlab.io), then pass --morpheus PROGRAM or set "
            f"{BINARY_VARIABLE}."
        )
    return Path(on_path).resolve()


def run_model(
    path: str | Path,
    folder: str | Path,
    *,
    binary: str | Path | None = None,
    symbols: dict[str, str] | None = None,
    seed: int | None = None,
    threads: int = 1,
    progress: Callable[[float, float | None], None] = lambda time, stop: None,
    say: Callable[[str], None] = lambda line: None,
) -> RunResult:
    """Run a model into a folder; `progress(time, stop time)` is called as it goes, `say` hears the learned term.

    The folder gets the model as it ran, Morpheus' own output, its log and, as they come, the snapshots. `symbols`
    overrides global symbols or, by paths such as `CPM/MonteCarloSampler/MetropolisKinetics/@temperature`, attributes.
    `threads`: of OpenMP, which speed up large fields only and slow down the rest. Relative file names in the model
    count from the model's own folder.
    """
    model, program = check_run(path, binary)
    globals_, content = set_values(model, symbols or {}, seed)
    model = model_of(model.path, content)
    folder = Path(folder)
    _clear(folder)
    source, ran = model.path.resolve(), folder / MODEL_COPY
    if source != ran.resolve() or content != source.read_bytes():
        with writing(ran) as temporary:
            temporary.write_bytes(content)
    _copy_learned(model, folder)
    command = [str(program), "--no-gnuplot", "--outdir", str(folder.resolve()), "-f", str(ran.resolve())]
    for symbol, value in globals_.items():
        command += ["-s", f"{symbol}={value}"]
    log = folder / "morpheus.log"
    stop = model.number(model.stop_time)
    saved = _Saved(folder, model)

    def moved(now: float) -> None:
        progress(now, stop)
        saved.look()

    try:
        with _writing_to(log):
            _execute(command, source.parent, log, threads, moved, say)
    except UserError as error:
        saved.look(at_once=True)
        _write_results(model, folder, seed, symbols, saved)
        raise UserError(f"Morpheus could not run {path}: {error}{saved.sentence}.") from None
    except BaseException:  # interrupted
        saved.look(at_once=True)
        raise
    found = saved.all()
    return RunResult(folder, found, log, _write_results(model, folder, seed, symbols, saved))


def _copy_learned(model: ModelFile, folder: Path) -> None:
    """Learned models beside the results, for whoever runs the model there, or a checkpoint, again."""
    for name in model.learned:
        file, copy = model.path.parent / name, folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts or file.resolve() == copy.resolve():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        with writing(copy) as temporary:
            temporary.write_bytes(file.read_bytes())


def _write_results(
    model: ModelFile, folder: Path, seed: int | None, values: dict[str, str] | None, saved: _Saved
) -> dict[str, Any] | None:
    """A run in a few words, for programs; what it leaves of the model's uncertainty."""
    for number, name in enumerate(model.learned, start=1):
        label = "" if number == 1 else str(number)  # as the plugin numbers them
        collect_uncertain(folder, model.lattice, load_artifact(model.path.parent / name), label)
    uncertainty = gather(folder, folder)
    results = {
        "model": model.path.name,
        "seed": seed,
        "values": values or {},
        "snapshots": SNAPSHOTS_FILE if saved.count else None,
        "uncertainty": uncertainty,
    }
    with writing(folder / RESULTS_FILE) as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return uncertainty


def check_run(path: str | Path, binary: str | Path | None = None) -> tuple[ModelFile, Path]:
    """A model and the program to run it with; refused where something is wrong with them."""
    model = read_model(path)
    require_sound(model)
    program = find_binary(binary)
    _require_plugin(model, program)
    return model, program


def set_values(model: ModelFile, values: dict[str, str], seed: int | None) -> tuple[dict[str, str], bytes]:
    """Global symbols to override, and the model's text with the attributes and the seed set."""
    document, globals_, edits = model.document, {}, []
    for name, value in values.items():
        if "@" not in name:
            globals_[name] = value
            continue
        path, _, attribute = name.partition("/@")
        elements = list(model.root.all(path))
        if not elements:
            raise UserError(f"There is no element {path} in {model.path}, whose {attribute} is to be set: correct it.")
        edits += [document.attribute_edit(element, attribute, value) for element in elements]
    if seed is not None:
        edits.append(_seed_edit(model, seed))
    return globals_, document.edited(edits)


def _seed_edit(model: ModelFile, seed: int) -> Edit:
    present = model.root.find("Time/RandomSeed")
    if present is not None:
        return model.document.attribute_edit(present, "value", str(seed))
    time_element = model.root.find("Time")
    assert time_element is not None  # the checker has seen to it
    return model.document.append_edit(time_element, [f'<RandomSeed value="{seed}"/>'])


@dataclass
class _Saved:
    """The snapshots of a run as they come, in a file that holds what a run that is ended by force has done."""

    folder: Path
    model: ModelFile
    count: int = 0
    next_look: float = field(default_factory=time.monotonic)

    def look(self, *, at_once: bool = False) -> None:
        """Save what is new, as often as costs little; an image that Morpheus has not written to its end waits."""
        if time.monotonic() < self.next_look and not at_once:
            return
        began = time.process_time()
        reader = logging.getLogger("tifffile")
        reader.disabled = True  # it would warn of an image that is not complete yet
        with suppress(UserError, OSError, ValueError):
            self.all()
        reader.disabled = False
        self.next_look = time.monotonic() + (time.process_time() - began) / SAVING_SHARE

    def all(self) -> Snapshots | None:
        """Save what there is, and read it; None where the model writes no images of its cells."""
        found = read_snapshots(self.folder, self.model)
        if found is not None and len(found) > self.count:
            found.save(self.folder / SNAPSHOTS_FILE)
            self.count = len(found)
        return found

    @property
    def sentence(self) -> str:
        return f"; {self.count} states are in {self.folder / SNAPSHOTS_FILE}" if self.count else ""


def _require_plugin(model: ModelFile, program: Path) -> None:
    if any(entry.learned for entry in model.types) and not has_plugin(program):
        raise UserError(
            f"{model.path} needs the plugin {ELEMENT}, which {program} does not have: build Morpheus with it "
            "(neuralcpm morpheus plugin --into SOURCE_TREE) or write the model from a distilled one (distill)."
        )


def _clear(folder: Path) -> None:
    """Morpheus appends to images it finds: those of an earlier run of ours go, anything else stays."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file, but a folder for the results is needed: give another name.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for stale in [path for pattern in (*PLOTS, *OURS) for path in folder.glob(pattern)]:
            stale.unlink()
    except OSError as error:
        raise UserError(f"The folder {folder} cannot be used ({error.strerror}): choose another place.") from None


@contextmanager
def _writing_to(log: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{log} cannot be written ({error.strerror}): free space or choose another place for the results"
        ) from None


def _execute(
    command: list[str],
    where: Path,
    log: Path,
    threads: int,
    progress: Callable[[float], None],
    say: Callable[[str], None],
) -> None:
    """Run to the end; refused with what Morpheus said where it does not say that it finished."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    if LIBRARY_VARIABLE not in environment:
        with suppress(UserError):  # a model without the plugin does not need it, and the plugin says where it does
            environment[LIBRARY_VARIABLE] = str(engine_library())
    finished = False
    with log.open("w", encoding="utf-8", buffering=1) as record:
        process = Process(command, where, environment)
        try:
            for line in process.lines():
                record.write(line)
                if now := TIME.match(line):
                    progress(float(now[1]))
                elif line.startswith(PREFIX):
                    say(line.rstrip())
                finished = finished or line.startswith(FINISHED)
                if unused := UNUSED.match(line):
                    raise UserError(f"it has no global symbol {unused[1]!r} to override")
        except BaseException:
            process.end(kill=True)
            record.write(process.errors)
            raise
        code = process.end()
        record.write(process.errors)
    if not finished or code != 0:
        told = _sentence(process.errors) if process.errors.strip() else ""
        ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise UserError(f"{told or f'it {ended} before it was finished'} (its output is in {log})")


def _sentence(errors: str) -> str:
    """What Morpheus wrote, in one line: its reason and the place in the model."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Could not initialize model")] or lines
    place = next((line.removeprefix("XMLPath:").strip() for line in lines if line.startswith("XMLPath:")), "")
    reason = " ".join(line for line in lines if not line.startswith("XMLPath:"))
    reason = reason if len(reason) <= 400 else f"{reason[:400]}…"
    return f"{reason.rstrip('.')}{f', at {place}' if place else ''}"
