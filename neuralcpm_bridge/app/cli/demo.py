"""The verb demo."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .machine import usable_cores
from .options import LARGEST_SEED

if TYPE_CHECKING:
    from ..demo import Outcome

NAME_WIDTH = 18
LINE_WIDTH = 100


def demo(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder to write.", show_default="demo or demo-quick"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="No training (and no torch): the bundled models, in under a minute.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of every random number.")] = 0,
) -> None:
    """Show everything on elongated cells: data, fit, simulation, measures, both hosts in 2D and 3D, one report.

    Five minutes on two cores; both models are fitted from nothing.
    """
    from ..demo import FULL, QUICK, run_demo

    folder = output or Path("demo-quick" if quick else "demo")
    began = time.perf_counter()
    outcome = run_demo(folder, QUICK if quick else FULL, seed, usable_cores(), narrated)
    print(f"\nDone in {time.perf_counter() - began:.0f} s. Everything is in {folder}:\n")
    print(_places(folder, outcome))
    print(f"\nNext:\n\n{_next(folder, outcome)}")


@contextmanager
def narrated(name: str) -> Iterator[NarratedStep]:
    """A bar while the step runs, one line with its result and its time when it is done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(f"{name:<{NAME_WIDTH}}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    began, console = time.perf_counter(), Console(stderr=True, markup=False)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        step = NarratedStep(bar)
        yield step
    text = f"{step.result} ({time.perf_counter() - began:.0f} s)"
    indent = " " * NAME_WIDTH
    lines = textwrap.fill(f"{name:<{NAME_WIDTH}}{text}", LINE_WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    print(lines, flush=True)


class NarratedStep:
    """What the demo says about one step."""

    def __init__(self, bar: Any) -> None:
        self.bar, self.task, self.result = bar, bar.add_task("", total=None), ""

    def progress(self, done: int, total: int) -> None:
        self.bar.update(self.task, completed=done, total=total)

    def tell(self, result: str) -> None:
        self.result = result


def _places(folder: Path, outcome: Outcome) -> str:
    rows = {
        outcome.report: "the report: open it in any browser",
        folder / "closure" / "model.onnx": "the learned model; baseline/model.onnx is the other",
        outcome.project: "the CompuCell3D project; beside it one in 3D",
        outcome.morpheus: "the Morpheus model; beside it one in 3D",
        folder / "simulations": "snapshots, measures over time, animations",
        folder / "data.npz": "the data set",
    }
    width = max(len(str(path)) for path in rows) + 2
    return "\n".join(f"  {path!s:<{width}}{what}" for path, what in rows.items())


def _next(folder: Path, outcome: Outcome) -> str:
    program = "neuralcpm" if shutil.which("neuralcpm") else sys.argv[0]  # an environment that is not activated
    tissue = ["--init", "blob", "--lattice", "120x120", "--cells", 48, "--mcs", 100]
    lines: dict[str, list[object]] = {
        "watch it live in your browser": ["view", folder / "closure" / "model.onnx", "--state", folder / "data.npz"],
        "a tissue larger than any it was trained on": [
            *("simulate", folder / "closure" / "model.onnx", *tissue, "-o", folder / "tissue")
        ],
        "in CompuCell3D": ["cc3d", "run", outcome.project, "-o", folder / "cc3d"],
        "in Morpheus with the plugin": ["morpheus", "run", outcome.morpheus, "-o", folder / "morpheus"],
        "your own images: docs/microscopy.md": ["data", "import", "--help"],
    }
    return "\n".join(f"  # {what}\n  {shlex.join([program, *map(str, words)])}" for what, words in lines.items())
