"""Which runs there are, what one of them is, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Protocol

from neuralcpm_bridge.errors import UserError

Files = dict[str, bytes]
"""Contents by relative path."""


@dataclass(frozen=True)
class Run:
    """One of many: its values of what is scanned, which of the replicates it is, its seed."""

    number: int
    replicate: int
    seed: int
    values: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"run-{self.number:03d}"

    def __str__(self) -> str:
        said = [f"{key} = {value}" for key, value in self.values.items()]
        return f"{self.name} ({', '.join([*said, f'seed {self.seed}'])})"


class Work(Protocol):
    """What one run is. It is sent to other machines by pickle."""

    def check(self, values: Mapping[str, str]) -> None:
        """Refuse values that no run could be given."""
        ...

    def files(self) -> Files:
        """Everything that a run reads, for a machine that does not have it."""
        ...

    def __call__(self, run: Run, source: Path | None, results: Path) -> None:
        """Run into a folder that is empty, with the files in `source`, or where they are on this machine; a failure is
        a UserError."""
        ...


@dataclass
class Outcome:
    """What became of a run."""

    run: Run
    attempts: int = 0
    seconds: float = 0.0
    error: str | None = None


def planned(replicates: int, scans: Sequence[str], seed: int) -> list[Run]:
    """Every combination of the scanned values, each so often; `scans` are `key=a,b,c`. No two seeds are equal."""
    axes: dict[str, list[str]] = {}
    for scan in scans:
        key, equals, values = (part.strip() for part in scan.partition("="))
        chosen = [value.strip() for value in values.split(",")]
        if not (key and equals and all(chosen)):
            raise UserError(f"--scan {scan!r} was not understood: write --scan key=a,b,c.")
        if key in axes:
            raise UserError(f"--scan names {key} twice: give all of its values at once.")
        axes[key] = chosen
    settings = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return [
        Run(number, replicate, seed + number, values)
        for number, (values, replicate) in enumerate(product(settings, range(replicates)))
    ]


def packed(folder: Path) -> Files:
    """The files of a folder, by their paths in it."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
