"""A host's process watched from outside: its lines as they come, and giving it up when it neither moves nor ends."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..errors import UserError

PATIENCE = 600.0
"""Seconds without a Monte Carlo step after which a run is given up."""
IDLE_SECONDS, IDLE_SHARE = 90.0, 0.01
"""Without a step and with less than this share of a processor: it waits for something that does not come."""
LOOK_SECONDS = 1.0
ENDING_SECONDS = 20


def arriving(process: subprocess.Popen[str]) -> Iterator[str]:
    """Its lines, and an empty one whenever there was none for a second."""
    lines: queue.Queue[str | None] = queue.Queue()
    stream = process.stdout
    assert stream is not None

    def read() -> None:
        with suppress(ValueError, OSError):  # closed from the other side
            for line in stream:
                lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            yield ""
            continue
        if line is None:
            return
        yield line


class Watchdog:
    """Notes when a process moved last."""

    def __init__(self, pid: int, patience: float = PATIENCE) -> None:
        self._pid, self._patience = pid, patience
        self._at: int | None = None
        self._since = self._busy_since = time.monotonic()
        self._used = 0.0

    def moved(self, mcs: int) -> None:
        """It says that it has come so far."""
        if mcs != self._at:
            self._at, self._since = mcs, time.monotonic()

    def check(self, log: Path) -> None:
        """Raises where there is no hope."""
        now, used = time.monotonic(), processor_seconds(self._pid)
        if used is None or used - self._used > IDLE_SHARE * (now - self._busy_since):
            self._busy_since, self._used = now, used or 0.0
        still = now - self._since
        idle = min(now - self._busy_since, still)
        where = "before the first step" if self._at is None else f"at MCS {self._at}"
        if still > self._patience:
            raise UserError(
                f"The host has made no step for {still:.0f} s ({where}) and was ended: see {log}, or wait longer with "
                "--patience."
            )
        if idle > IDLE_SECONDS:
            raise UserError(
                f"The host has neither made a step nor computed anything for {idle:.0f} s ({where}) and was ended: it "
                f"waits for something, see {log}."
            )


def processor_seconds(pid: int) -> float | None:
    """That a process and its threads have used so far; None where this system does not tell."""
    if not hasattr(os, "sysconf"):
        return None
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def end(process: subprocess.Popen[str], *, hurried: bool) -> None:
    """Wait for a process; where something went wrong here, ask it to end, and do not wait for ever."""
    if hurried and process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_SECONDS)
        if process.poll() is None:
            process.kill()
    process.wait()
