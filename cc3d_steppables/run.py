"""Running a project in CompuCell3D, headless, from any Python: a copy of it, a progress bar, what it left behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.tables import PREFIX, PROGRESS

from .document import add_child, element_span, read_text, set_leaf, write_text
from .installations import INTERPRETER, activation, interpreters
from .project import Project
from .snapshots import pif_folder

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


def prepared_copy(project_file: str | Path, folder: Path, *, seed: int | None, statistics: bool = False) -> Project:
    """The project copied into `folder`, with a seed and (for recording) CC3D's energy statistics in its CC3DML."""
    copy = Project.open(project_file).copied_to(folder)
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


def run_job(job: Job, log: Path, progress: Callable[[int, int], None], say: Callable[[str], None]) -> None:
    """Run to the end; `progress` hears (steps done, in all), `say` the learned term's own lines, `log` all."""
    python = host_python()
    job.output.mkdir(parents=True, exist_ok=True)
    described = job.output / "neuralcpm_job.json"
    described.write_text(
        json.dumps(
            {
                "project": str(job.project.resolve()),
                "output": str(job.output.resolve()),
                "watch": job.watch,
                "count": job.count,
                "file": str(job.file.resolve()),
                "steps": job.steps,
            }
        ),
        encoding="utf-8",
    )
    command = [python, "-m", "cc3d_steppables.hostrun", str(described.resolve())]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        cwd=job.output,
        env=os.environ | activation(Path(python)) | {"PYTHONIOENCODING": "utf-8"},
    )
    lines: deque[str] = deque(maxlen=KEPT_LINES)
    assert process.stdout is not None
    try:
        with log.open("w", encoding="utf-8", buffering=1) as stream:
            for line in process.stdout:
                word, *rest = line.split() or [""]
                if word == PROGRESS and len(rest) == 2:
                    progress(int(rest[0]), int(rest[1]))
                    continue
                stream.write(line)
                lines.append(line.rstrip())
                if line.startswith(f"{PREFIX}:"):
                    say(line.rstrip())
    except KeyboardInterrupt:
        with suppress(subprocess.TimeoutExpired):
            process.wait(INTERRUPTED_SECONDS)  # the host was interrupted as well and saves what it has
        raise
    finally:
        if process.poll() is None and sys.exc_info()[0] is not None:
            process.terminate()
        process.wait()
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
        if re.match(r"ModuleNotFoundError: No module named '(cc3d_steppables|neuralcpm_bridge)", line):
            return f"{python} does not have this package: run neuralcpm cc3d setup --python {python}."
    if code == 0 and not any(line.strip() for line in lines):
        return f"{python} ended without a word and ran nothing: set {INTERPRETER} to the Python that imports cc3d."
    said = " / ".join(line for line in lines[-SHOWN_LINES:] if line.strip())
    ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"CompuCell3D {ended} ({said[-300:]}): see {log}."


def run_project(
    project_file: str | Path,
    folder: str | Path,
    *,
    steps: int | None = None,
    snapshots: int = 10,
    seed: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = print,
) -> Path:
    """Run a copy of a project; `folder` gets snapshots.npz, a picture of them, cc3d.log and the copy.

    The path of the data set, or of the folder of PIFs where the lattice is none that a data set holds.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} holds other files already: choose another folder or remove it.")
    host_python()  # without one nothing is to be written
    copy = prepared_copy(project_file, folder / "project", seed=seed)
    file = folder / "snapshots.npz"
    job = Job(copy.file, folder / "cc3d", "snapshots", snapshots, file, steps)
    try:
        run_job(job, folder / "cc3d.log", progress, say)
    finally:
        if file.is_file():
            draw(file, folder / "snapshots.png")
    return file if file.is_file() else pif_folder(file)


def draw(file: Path, picture: Path) -> None:
    """The snapshots side by side."""
    from neuralcpm_bridge.pictures import contact_sheet, save_png
    from neuralcpm_bridge.snapshots import load_snapshots

    found = load_snapshots(file)
    captions = [f"MCS {mcs}" for mcs in found.arrays["mcs"]]
    sheet: Any = contact_sheet(list(found), captions, title=picture.parent.name, type_names=found.type_names)
    save_png(sheet, picture)
