"""Hands inputs to workers, replaces those that die or hang, and counts."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection, wait
from pathlib import Path

from .targets import TARGETS
from .worker import Input, Outcome, serve

PATIENCE = 300.0
"""Seconds on the clock after which a worker that does not answer is ended: something hangs outside of Python."""
START = 600.0
"""Seconds that a worker may take to start, on a machine that does much else."""


@dataclass
class Worker:
    """A process, what it is reading and since when; `given` is None until it is ready."""

    process: multiprocessing.process.BaseProcess
    connection: Connection
    given: Input | None = None
    since: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, seeds: Path) -> Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, seeds), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    @property
    def overdue(self) -> bool:
        return time.monotonic() - self.since > (START if self.given is None else PATIENCE)

    def end(self) -> None:
        self.process.kill()
        self.process.join()


@dataclass
class Tally:
    """What a campaign found."""

    inputs: int = 0
    accepted: int = 0
    findings: list[Outcome] = field(default_factory=list)
    slowest: float = 0.0
    memory: int = 0
    by_target: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        self.inputs += 1
        self.accepted += outcome.accepted
        self.slowest = max(self.slowest, outcome.seconds)
        self.memory = max(self.memory, outcome.memory)
        target = TARGETS[outcome.input.target]
        self.by_target[f"{target.name}/{target.files}"] += 1
        if outcome.finding:
            self.findings.append(outcome)

    def __str__(self) -> str:
        return (
            f"{self.inputs:,} inputs, {self.accepted:,} of them accepted, {len(self.findings)} findings; slowest "
            f"{self.slowest:.2f} s of processor time, most memory {self.memory / 2**20:.0f} MiB"
        )


def inputs(first: int = 0) -> Iterator[Input]:
    """All targets by turns, each as often as its share says, without end."""
    row = [number for number, target in enumerate(TARGETS) for _ in range(target.share)]
    for turn in count():
        for place, target in enumerate(row):
            earlier = row[:place].count(target)
            yield Input(target, first + turn * TARGETS[target].share + earlier)


def campaign(seeds: Path, given: Iterable[Input], workers: int, seconds: float | None = None) -> Iterator[Outcome]:
    """Read inputs until they or the seconds are over."""
    began, queue = time.monotonic(), iter(given)
    busy = [Worker.start(seeds) for _ in range(workers)]
    try:
        while busy:
            ready = wait([worker.connection for worker in busy], timeout=1.0)
            for worker in list(busy):
                if worker.connection in ready:
                    outcome = _answer(worker)
                elif worker.overdue:
                    outcome = _lost(worker, f"no answer for {PATIENCE:g} s")
                else:
                    continue
                if outcome is not None:
                    yield outcome
                busy.remove(worker)
                over = seconds is not None and time.monotonic() - began > seconds
                following = None if over else next(queue, None)
                if following is None:
                    worker.end()
                    continue
                if not worker.process.is_alive():
                    worker = Worker.start(seeds)
                    worker.given, queue = None, _before(following, queue)
                else:
                    worker.given, worker.since = following, time.monotonic()
                    worker.connection.send(following)
                busy.append(worker)
    finally:
        for worker in busy:
            worker.end()


def _before(first: Input, rest: Iterator[Input]) -> Iterator[Input]:
    yield first
    yield from rest


def _answer(worker: Worker) -> Outcome | None:
    try:
        found = worker.connection.recv()
    except EOFError:
        worker.process.join()
        return _lost(worker, f"the process ended with {worker.process.exitcode}")
    return found if isinstance(found, Outcome) else None


def _lost(worker: Worker, why: str) -> Outcome:
    worker.end()
    if worker.given is None:
        raise RuntimeError(f"A worker did not start: {why}.")
    return Outcome(worker.given, "", False, why, 0.0, 0)


def keep(seeds: Path, found: Input, folder: Path) -> Path:
    """Write a broken file down, to be looked at."""
    from .worker import Reader

    scratch = folder / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    (scratch / "noise").touch()
    _, file, _ = Reader(seeds, scratch).make(found)
    kept = folder / f"{found.target}-{found.number}-{file.name}"
    shutil.copy(file, kept)
    shutil.rmtree(scratch)
    return kept
