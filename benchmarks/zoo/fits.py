"""`neuralcpm fit DATA -o RUN --seed S`, with no other setting, as a process of its own; and what it left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

LOG_FILE = "fit.log"
"""What a fit said, beside its folder's own files."""


@dataclass(frozen=True)
class Fitted:
    """How a fit ended, and how long it took."""

    folder: Path
    code: int
    minutes: float
    processor_minutes: float
    said: str
    """The last line."""

    @property
    def found(self) -> dict[str, Any]:
        """`fit.json`; empty where there is none."""
        path = self.folder / "fit.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def samples(self, name: str) -> Snapshots:
        """`samples` or `samples-baseline`: fresh replicates from scattered starts."""
        return load_snapshots(self.folder / f"{name}.npz")


def fit(data: Path, folder: Path, seed: int) -> Fitted:
    """From nothing: what an earlier run left in the folder is removed, for times are part of the result."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log = folder / LOG_FILE
    command = [str(program()), "fit", str(data), "-o", str(folder), "--seed", str(seed)]
    began = time.monotonic()
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return Fitted(
        folder,
        process.returncode,
        (time.monotonic() - began) / 60,
        (used.ru_utime + used.ru_stime) / 60,
        lines[-1].strip() if lines else "",
    )


def call(*arguments: object) -> None:
    """Another verb of `neuralcpm`, which must succeed."""
    done = subprocess.run([str(program()), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"neuralcpm {arguments[0]} failed: {done.stderr.strip() or done.stdout.strip()}")


def program() -> Path:
    """`neuralcpm` of the Python that runs this."""
    path = Path(sys.executable).with_name("neuralcpm")
    if not path.exists():
        raise UserError(f"There is no {path}: run the zoo with the Python that the package is installed in.")
    return path
