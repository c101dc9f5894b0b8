"""Running a project in CompuCell3D, headless, from any Python: a copy of it, a progress bar, what it left behind."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.files import disk_speaking, writing
from neuralcpm_bridge.hosting.results import gather
from neuralcpm_bridge.hosting.tables import PREFIX, PROGRESS
from neuralcpm_bridge.hosting.watchdog import PATIENCE, Watchdog, arriving, end
from neuralcpm_bridge.snapshots import load_snapshots

from .document import add_child, element_span, read_text, set_leaf, write_text
from .hostrun import TERMINATED
from .installations import INTERPRETER, activation, interpreters
from .project import Project
from .snapshots import pif_folder
from .templates import PLACEHOLDER, filled

KEPT_LINES, SHOWN_LINES = 500, 5
INTERRUPTED_SECONDS = 20


@dataclass(frozen=True)
class Job:
    """One run: what to watch (`snapshots` or `flips`), how many, and the file to write."""

    project: Path
    output: Path
    watch: str
    count: int
    file: Path
    steps: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "project": str(self.project.resolve()),
            "output": str(self.output.resolve()),
            "watch": self.watch,
            "count": self.count,
            "file": str(self.file.resolve()),
            "steps": self.steps,
        }


def host_python() -> str:
    """The Python that imports cc3d: as the environment says, this one, or the first that is found."""
    named = os.environ.get(INTERPRETER)
    if named:
        if not Path(named).is_file():
            raise UserError(f"{INTERPRETER} is {named}, but there is no such file: set it to CompuCell3D's Python.")
        return named
    if found := interpreters():
        return str(found[0])
    raise UserError(f"CompuCell3D was not found: install it and set {INTERPRETER} to the Python that imports cc3d.")


def prepared_copy(
    project_file: str | Path,
    folder: Path,
    *,
    seed: int | None,
    statistics: bool = False,
    values: Mapping[str, str] | None = None,
) -> Project:
    """The project copied into `folder`, with a seed and (for recording) CC3D's energy statistics in its CC3DML.

    What lies beside the project and is spoken of in it is copied along. `{{name}}` of a parameter scan becomes what
    `values` say, else the first value that the scan lists.
    """
    source = Project.open(project_file)
    copy = source.copied_to(folder)
    source.copy_neighbours(folder)
    check_values(copy, values or {})
    _fill(copy, copy.values() | dict(values or {}))
    if seed is None and not statistics:
        return copy
    if copy.xml is None:
        raise UserError(
            f"{project_file} describes itself in Python, but its CC3DML must be changed for this: leave it."
        )
    text = read_text(copy.xml)
    if seed is not None:
        text = set_leaf(text, "Potts", "RandomSeed", str(seed), copy.xml)
    if statistics and element_span(text, "EnergyFunctionCalculator") is None:
        text = add_child(text, "Potts", '<EnergyFunctionCalculator Type="Statistics"/>', copy.xml)
    write_text(copy.xml, text)
    return copy


def check_values(project: Project, values: Iterable[str]) -> None:
    """Refuse values of names that the project does not have."""
    unknown = sorted(set(values).difference(*_placeholders(project).values()))
    if unknown:
        raise UserError(f"The project has no {{{{{unknown[0]}}}}} to be given a value: write it where the number is.")


def _fill(copy: Project, values: Mapping[str, str]) -> None:
    """Values in the place of `{{name}}` in the copy's CC3DML and scripts."""
    for path, names in _placeholders(copy).items():
        if names & values.keys():
            write_text(path, filled(read_text(path), values, path))


def _placeholders(project: Project) -> dict[Path, set[str]]:
    """Which `{{names}}` every CC3DML file and script of a project has."""
    files = sorted(path for path in project.file.parent.rglob("*") if path.suffix in (".py", ".xml") and path.is_file())
    return {path: set(PLACEHOLDER.findall(read_text(path))) for path in files}


def run_job(
    job: Job, log: Path, progress: Callable[[int, int], None], say: Callable[[str], None], patience: float = PATIENCE
) -> None:
    """Run to the end; `progress` hears (steps done, in all), `say` the learned term's own lines, `log` all.

    A host that has made no step for `patience` seconds, or neither step nor computation for a while, is given up.
    """
    python = host_python()
    job.output.mkdir(parents=True, exist_ok=True)
    described = job.output / "neuralcpm_job.json"
    described.write_text(json.dumps(job.as_json()), encoding="utf-8")
    process = subprocess.Popen(
        [python, "-m", "cc3d_steppables.hostrun", str(described.resolve())],
        stdin=subprocess.DEVNULL,  # a script that asks its user something shall end, not wait
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        cwd=job.output,
        env=os.environ | activation(Path(python)) | {"PYTHONIOENCODING": "utf-8"},
    )
    lines: deque[str] = deque(maxlen=KEPT_LINES)
    watchdog = Watchdog(process.pid, patience)
    try:
        with log.open("w", encoding="utf-8", buffering=1) as stream:
            for line in arriving(process):
                word, *rest = line.split() or [""]
                if word == PROGRESS and len(rest) == 2:
                    watchdog.moved(int(rest[0]))
                    progress(int(rest[0]), int(rest[1]))
                elif line:
                    stream.write(line)
                    lines.append(line.rstrip())
                    if line.startswith(f"{PREFIX}:"):
                        say(line.rstrip())
                watchdog.check(log)
    except KeyboardInterrupt:
        with suppress(subprocess.TimeoutExpired):
            process.wait(INTERRUPTED_SECONDS)  # the host was interrupted as well and saves what it has
        raise
    finally:
        end(process, hurried=sys.exc_info()[0] is not None)
        described.unlink(missing_ok=True)
    # CC3D also ends well when it could not run at all, for example after a syntax error in the main script.
    if process.returncode or not (job.file.is_file() or pif_folder(job.file).is_dir()):
        raise UserError(failure(process.returncode, list(lines), python, log))


def failure(code: int, lines: list[str], python: str, log: Path) -> str:
    """One sentence about a run that ended badly."""
    for line in reversed(lines):
        found = re.match(r"neuralcpm_bridge\.errors\.UserError: (.*)", line)
        if found:
            return f"{found.group(1)} (log: {log})"
        if re.search(r"ModuleNotFoundError: No module named '(cc3d_steppables|neuralcpm_bridge)", line):
            return f"{python} does not have this package: run neuralcpm cc3d setup --python {quote(python)}."
    if any(os.strerror(errno.ENOSPC) in line for line in lines):
        return f"CompuCell3D found no space left for its output: free space or choose another place (log: {log})."
    if code == 0 and not any(line.strip() for line in lines):
        return f"{python} ended without a word and ran nothing: set {INTERPRETER} to the Python that imports cc3d."
    if code < 0 or code == TERMINATED:
        return f"CompuCell3D was ended by signal {-code if code < 0 else signal.SIGTERM:d}: see {log}."
    raised = next((k for k in reversed(range(len(lines))) if re.match(r"[\w.]+(Error|Exception): ", lines[k])), None)
    said = " / ".join(line.strip() for line in lines[-SHOWN_LINES if raised is None else raised :] if line.strip())
    return f"CompuCell3D ended with exit code {code} ({said[:300] if raised is not None else said[-300:]}): see {log}."


def run_project(
    project_file: str | Path,
    folder: str | Path,
    *,
    steps: int | None = None,
    snapshots: int = 10,
    seed: int | None = None,
    values: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = print,
) -> Path:
    """Run a copy of a project once. `values`: of a parameter scan's `{{name}}`.

    `folder` gets snapshots.npz, a picture of them, results.json, cc3d.log, the copy and what is known about the model's
    uncertainty.

    The path of the data set, or of the folder of PIFs where the lattice is none that a data set holds.
    """
    folder = Path(folder)
    with disk_speaking(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"{folder} holds other files already: choose another folder or remove it.")
        host_python()  # without one nothing is to be written
        file = folder / "snapshots.npz"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            copy = prepared_copy(project_file, folder / "project", seed=seed, values=values)
            job = Job(copy.file, folder / "cc3d", "snapshots", snapshots, file, steps)
            run_job(job, folder / "cc3d.log", progress, say, patience)
        except UserError as error:
            raise UserError(f"{error}{_saved(file)}") from None
        finally:
            if file.is_file():
                draw(file, folder / "snapshots.png")
            uncertainty = gather(folder / "cc3d", folder)
        write_results(folder, Path(project_file), file, seed, values, uncertainty)
    return file if file.is_file() else pif_folder(file)


def _saved(file: Path) -> str:
    """What a run that ended early has left."""
    if not file.is_file():
        return ""
    return f" {len(load_snapshots(file))} states are in {file}."


def write_results(
    folder: Path,
    project: Path,
    file: Path,
    seed: int | None,
    values: Mapping[str, str] | None,
    uncertainty: dict[str, Any] | None,
) -> None:
    """A run in a few words, for programs."""
    results = {
        "project": project.name,
        "seed": seed,
        "values": dict(values or {}),
        "snapshots": file.name if file.is_file() else pif_folder(file).name,
        "uncertainty": uncertainty,
    }
    with writing(folder / "results.json") as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def draw(file: Path, picture: Path) -> None:
    """The snapshots side by side."""
    from neuralcpm_bridge.pictures import contact_sheet, save_png

    found = load_snapshots(file)
    captions = [f"MCS {mcs}" for mcs in found.arrays["mcs"]]
    sheet: Any = contact_sheet(list(found), captions, title=picture.parent.name, type_names=found.type_names)
    save_png(sheet, picture)
