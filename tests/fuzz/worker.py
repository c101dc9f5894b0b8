"""One process that reads broken files: bounded memory, bounded processor time, and an eye on everything it prints."""

from __future__ import annotations

import importlib
import io
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import NamedTuple

import typer

from .targets import TARGETS, Target

MEMORY = 1 << 30
SECONDS = 10.0
"""Of processor time for one input: a busy machine is no finding."""
COMPLAINTS = ("neuralcpm: unexpected", "Traceback", "more memory than there is", "More memory was asked for")


class Input(NamedTuple):
    """The how-manieth broken file of which target."""

    target: int
    number: int

    def __str__(self) -> str:
        return f"{self.target}:{self.number}"


class Outcome(NamedTuple):
    """How reading one input ended; `finding` says what is wrong with that, empty where nothing is."""

    input: Input
    words: str
    accepted: bool
    finding: str
    seconds: float
    memory: int
    """Most bytes that the process has had in memory so far."""


class Hang(BaseException):
    """More processor time than one input may take; no reader catches it."""


def serve(connection: Connection, seeds: Path, memory: int = MEMORY) -> None:
    """Read every input that comes in, until None comes."""
    folder = Path(tempfile.mkdtemp(prefix="neuralcpm-fuzz-"))
    try:
        hasten()
        quiet(folder / "noise")
        reader = Reader(seeds, folder)
        bound_memory(memory)
        connection.send("ready")
        while (given := connection.recv()) is not None:
            connection.send(reader.read(given))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Reader:
    """Makes inputs and reads them, in a folder of its own."""

    def __init__(self, seeds: Path, folder: Path) -> None:
        self.seeds, self.folder = seeds, folder
        self.noise = (folder / "noise").open("rb")
        signal.signal(signal.SIGPROF, _give_up)
        shutil.copytree(seeds / "with", folder / "with")

    def make(self, given: Input) -> tuple[Target, Path, Random]:
        """The broken file, in a copy of its seed's folder."""
        target = TARGETS[given.target]
        random = Random(f"{target.name} {target.files} {given.number}")
        place = self.folder / target.name
        if not place.exists():
            shutil.copytree(self.seeds / target.name, place)
        chosen = random.choice(sorted((self.seeds / target.name).glob(target.files)))
        file = place / chosen.relative_to(self.seeds / target.name)
        file.write_bytes(target.mutate(chosen.read_bytes(), random))
        return target, file, random

    def read(self, given: Input) -> Outcome:
        target, file, random = self.make(given)
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        verb = random.choice(target.verbs)
        places = {"file": file, "folder": self.folder / target.name, "with": self.folder / "with", "out": out}
        words = [] if callable(verb) else [word.format_map(places) for word in verb]
        began, before = time.process_time(), peak_memory()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            code, said = _call(verb, file) if callable(verb) else _run(words)
            finding = _judged(code, said)
        except Hang:
            code, finding = -1, f"more than {SECONDS:g} s of processor time"
        except BaseException as error:  # whatever else ends a program
            code, finding = -1, f"{type(error).__name__} left the program: {error}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        peak = peak_memory()
        finding = finding or self._noise() or ("more than 1 GiB of memory" if peak > MEMORY >= before else "")
        taken = time.process_time() - began
        shutil.copy(self.seeds / target.name / file.relative_to(self.folder / target.name), file)  # whole again
        shown = " ".join(words) or f"{getattr(verb, '__name__', verb)} {file}"
        return Outcome(given, shown, code == 0, finding, taken, peak)

    def _noise(self) -> str:
        """What libraries printed behind Python's back."""
        text = self.noise.read().decode(errors="replace").strip()
        return f"a library printed: {text.splitlines()[0]}" if text else ""


def _run(words: list[str]) -> tuple[int, str]:
    from neuralcpm_bridge.app.cli import run

    said, printed = io.StringIO(), io.StringIO()
    with redirect_stderr(said), redirect_stdout(printed):
        code = run(words)
    return code, said.getvalue()


def _call(reader: object, file: Path) -> tuple[int, str]:
    from neuralcpm_bridge.errors import UserError

    assert callable(reader)
    try:
        reader(file)
    except UserError as error:
        return 2, f"neuralcpm: {' '.join(str(error).split())}"
    return 0, ""


def _judged(code: int, said: str) -> str:
    """What is wrong with how a verb ended."""
    for complaint in COMPLAINTS:
        if complaint in said:
            return said.strip().splitlines()[-1][:500]
    lines = said.strip().splitlines()
    if code == 2 and not lines:
        return "exit code 2 without a word"
    if code == 2 and not all(line.startswith("neuralcpm: ") for line in lines):
        return f"more than sentences: {next(line for line in lines if not line.startswith('neuralcpm: '))[:500]}"
    return ""


def _give_up(*_: object) -> None:
    raise Hang


def hasten() -> None:
    """Commands are put together once, not for each input, and reports do not take their time to measure speeds."""
    from neuralcpm_bridge.app.report import measuring

    typer.main.get_command = cache(typer.main.get_command)
    measuring.TIMED_SECONDS = 0.001


def bound_memory(most: int) -> None:
    """What libraries take for themselves is asked for first, and counts."""
    import resource

    for library in ("onnx", "onnxruntime", "tifffile", "torch", "training.export", "training.trainer"):
        importlib.import_module(library)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def peak_memory() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def quiet(file: Path) -> None:
    """Send what libraries print past Python into a file."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sys.stderr.flush()
    os.dup2(descriptor, 2)
