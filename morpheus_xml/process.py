"""Morpheus' process: what it says line by line, how it ended, and giving up on one that neither moves nor ends."""

from __future__ import annotations

import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.watchdog import processor_seconds

LOOK_SECONDS = 5.0
IDLE_SECONDS = 120.0
"""Silent and without using the processor for so long: it waits for something that does not come."""
SILENT_SECONDS = 3600.0
"""Silent although it computes."""


class Process:
    """A program that is followed line by line; `errors` is what it wrote to standard error, once it has ended."""

    def __init__(self, command: list[str], where: Path, environment: dict[str, str]) -> None:
        self.errors = ""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        try:
            self._process = subprocess.Popen(
                command,
                cwd=where,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            self._errors.close()
            raise UserError(f"{command[0]} does not start ({error.strerror}): check the program.") from None

    def lines(self) -> Iterator[str]:
        """What it says, as it says it; refused where it neither moves nor ends."""
        said: queue.Queue[str | None] = queue.Queue()
        assert self._process.stdout is not None
        threading.Thread(target=_forward, args=(self._process.stdout, said.put), daemon=True).start()
        spoken = moved = time.monotonic()
        used = processor_seconds(self._process.pid)
        while True:
            try:
                line = said.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                now, using = time.monotonic(), processor_seconds(self._process.pid)
                if using is None or used is None or using > used + 0.01 * LOOK_SECONDS:
                    moved = now
                used = using
                if now - moved > IDLE_SECONDS or now - spoken > SILENT_SECONDS:
                    doing = "it neither computed nor said anything" if now - moved > IDLE_SECONDS else "it said nothing"
                    raise UserError(f"{doing} for {now - spoken:.0f} s and was stopped") from None
                continue
            if line is None:
                return
            spoken = moved = time.monotonic()
            yield line

    def end(self, *, kill: bool = False) -> int:
        """Its exit code; `kill`: without waiting for it."""
        if kill:
            self._process.kill()
        code = self._process.wait()
        with self._errors as stream:
            stream.seek(0)
            self.errors = stream.read().decode("utf-8", "replace")
        return code


def _forward(stream: IO[str], put: Callable[[str | None], None]) -> None:
    for line in stream:
        put(line)
    put(None)
