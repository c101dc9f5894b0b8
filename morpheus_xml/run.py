"""Running Morpheus: progress, its failures (which leave the exit code 0), and its snapshots as a data set."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.library import engine_library
from neuralcpm_bridge.snapshots import Snapshots

from .check import require_sound
from .plugin_install import has_plugin
from .reader import ELEMENT, ModelFile, read_model
from .snapshots import PLOTS, read_snapshots

BINARY_VARIABLE = "NEURALCPM_MORPHEUS"
LIBRARY_VARIABLE = "NEURALCPM_LIBRARY"
FINISHED = "=== Simulation finished ==="
TIME = re.compile(r"Time: ([-+.eE0-9]+)")
UNUSED = re.compile(r"Error: Command line override (\S+?)=.* not used")
"""Said, and then run without the value that was asked for."""
MODEL_COPY = "model.xml"
"""The model beside its results: they need its type names to be understood."""


@dataclass(frozen=True)
class RunResult:
    """What a run left: its folder, and its snapshots if the model writes any."""

    folder: Path
    snapshots: Snapshots | None
    log: Path


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
    threads: int = 1,
    progress: Callable[[float, float | None], None] = lambda time, stop: None,
) -> RunResult:
    """Run a model into a folder; `progress(time, stop time)` is called as it goes.

    `symbols` overrides global symbols. `threads`: of OpenMP, which speed up large fields only and slow down the rest.
    Relative file names in the model count from the model's own folder.
    """
    model = read_model(path)
    require_sound(model)
    program = find_binary(binary)
    _require_plugin(model, program)
    folder = Path(folder)
    _clear(folder)
    source = model.path.resolve()
    command = [str(program), "--no-gnuplot", "--outdir", str(folder.resolve()), "-f", str(source)]
    for symbol, value in (symbols or {}).items():
        command += ["-s", f"{symbol}={value}"]
    log = folder / "morpheus.log"
    stop = model.number(model.stop_time)
    errors = _execute(command, source.parent, log, threads, lambda time: progress(time, stop))
    if errors is not None:
        raise UserError(f"Morpheus could not run {path}: {_sentence(errors)} (its output is in {log}).")
    if source != (folder / MODEL_COPY).resolve():
        shutil.copyfile(source, folder / MODEL_COPY)
    return RunResult(folder, read_snapshots(folder, model), log)


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
        for stale in [path for pattern in PLOTS for path in folder.glob(pattern)]:
            stale.unlink()
    except OSError as error:
        raise UserError(f"The folder {folder} cannot be used ({error.strerror}): choose another place.") from None


def _execute(command: list[str], where: Path, log: Path, threads: int, progress: Callable[[float], None]) -> str | None:
    """Run to the end; None if Morpheus says it finished, else what it said went wrong."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    if LIBRARY_VARIABLE not in environment:
        with suppress(UserError):  # a model without the plugin does not need it, and the plugin says where it does
            environment[LIBRARY_VARIABLE] = str(engine_library())
    finished = False
    with log.open("w", encoding="utf-8") as record, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command,
                cwd=where,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            return f"{command[0]} does not start ({error.strerror})"
        try:
            assert process.stdout is not None
            for line in process.stdout:
                record.write(line)
                time = TIME.match(line)
                if time:
                    progress(float(time[1]))
                finished = finished or line.startswith(FINISHED)
                unused = UNUSED.match(line)
                if unused:
                    process.kill()
                    process.wait()
                    return f"it has no global symbol {unused[1]!r} to override"
            code = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace")
        record.write(said)
    return None if finished and code == 0 else said or f"it ended with exit code {code} before it was finished"


def _sentence(errors: str) -> str:
    """What Morpheus wrote, in one line: its reason and the place in the model."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Could not initialize model")] or lines
    place = next((line.removeprefix("XMLPath:").strip() for line in lines if line.startswith("XMLPath:")), "")
    reason = " ".join(line for line in lines if not line.startswith("XMLPath:"))
    reason = reason if len(reason) <= 400 else f"{reason[:400]}…"
    return f"{reason.rstrip('.')}{f', at {place}' if place else ''}"
