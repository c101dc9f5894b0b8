"""How an experiment is run: scale, seed, cores, where results go, and who is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from neuralcpm_bridge.files import writing
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

from ..datasets import Recipe, generate
from ..trainer import Report


def silent(message: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Setting:
    """`small` finishes on two cores; `fit` is `neuralcpm fit` on data of the paper's size, by copies alone; `paper` is
    the full setting, for a GPU machine."""

    scale: Literal["small", "fit", "paper"] = "small"
    seed: int = 0
    threads: int = 2
    folder: Path | None = None
    tell: Callable[[str], None] = field(default=silent)
    lattice: str = "square"

    def data(self, recipe: Recipe, samples: int | None = None, mcs: int | None = None) -> Snapshots:
        """The data set of this seed; kept in the folder, and taken from there when it is the same."""
        # As JSON keeps it: tuples are lists there.
        wanted = json.loads(
            json.dumps(asdict(recipe) | {"samples": samples or recipe.samples, "mcs": mcs or recipe.mcs})
        )
        path = None if self.folder is None else self.folder / "data.npz"
        if path is not None and path.exists():
            kept = load_snapshots(path)
            if kept.provenance.get("recipe") == wanted and kept.provenance.get("seed") == self.seed:
                self.tell(f"data: {len(kept)} states from {path}")
                return kept

        def progress(done: int, total: int) -> None:
            self.tell(f"data: {done} of {total} states")

        snapshots = generate(recipe, samples=samples, mcs=mcs, seed=self.seed, threads=self.threads, progress=progress)
        if path is not None:
            snapshots.save(path)
        return snapshots

    def progress(self, what: str, done: float, total: float) -> None:
        """A line about something that goes on."""
        self.tell(f"{what}: {done:g} of {total:g}")

    def show(self, what: str) -> Callable[[Report], None]:
        """A progress line per report of a trainer."""

        def line(report: Report) -> None:
            shown = ", ".join(f"{key} {report.values[key]:.4g}" for key in ("loss", "gap", "acceptance"))
            self.tell(f"{what}: step {report.step} of {report.steps}, {shown}")

        return line

    def run_folder(self, name: str) -> Path | None:
        return None if self.folder is None else self.folder / name

    def keep(self, results: dict[str, Any]) -> None:
        """Results as `results.json` in the folder."""
        if self.folder is not None:
            with writing(self.folder / "results.json") as temporary:
                temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
