"""What `run` does where more than one run is asked for, in every host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import MOST
from .progress import progress

if TYPE_CHECKING:
    from neuralcpm_bridge.app.scaleout import Work

Replicates = Annotated[int, typer.Option(min=1, max=MOST, help="Runs of each setting, with seeds of their own.")]
Scan = Annotated[
    list[str] | None,
    typer.Option(
        metavar="key=a,b,c",
        help="Run with each of these values; may be repeated. Key: a {{key}} of a CompuCell3D project; a global symbol "
        "or PATH/@ATTRIBUTE of a Morpheus model.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Dask scheduler, or 'local'.", show_default="the cores of this machine"),
]


def run_ensemble(
    work: Work, output: Path, *, replicates: int, scans: list[str], cluster: str | None, seed: int
) -> None:
    """All runs, gathered in `output`; exit code 1 if one of them failed for good."""
    from neuralcpm_bridge.app.scaleout import gather, planned, run_many, summary

    runs = planned(replicates, scans, seed)
    work.check(runs[0].values)
    with progress("runs", len(runs)) as bar:
        outcomes = run_many(work, runs, output, cluster=cluster, progress=bar, say=bar.say)
    print(summary(outcomes, gather(output, outcomes), output))
    if any(outcome.error is not None for outcome in outcomes):
        raise typer.Exit(1)
