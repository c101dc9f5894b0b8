"""The verb report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neuralcpm_bridge.files import check_file

from .options import LARGEST_SEED, MOST


def report(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN…", help="Folders of fit, train or reproduce, or model files.", show_default=False),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="report.html", help="The file to write.", show_default=False)
    ],
    data: Annotated[Path | None, typer.Option(help="Data set (.npz).", show_default="the runs' own")] = None,
    title: Annotated[str, typer.Option(help="Title of the page.", show_default="the runs' names")] = "",
    mcs: Annotated[
        int, typer.Option(min=0, max=MOST, help="Monte Carlo steps of samples of runs that kept none; 0: no samples.")
    ] = 500,
    replicates: Annotated[int, typer.Option(min=1, max=MOST, help="Samples to draw.")] = 8,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the samples.")] = 0,
) -> None:
    """Write one HTML file about trained models: samples and measures beside data, curves, parameters, provenance.

    About one fit alone it is the page that fit itself wrote, unless other data are given to compare with.
    """
    from rich.console import Console

    from ..fitted import write_fit_report
    from ..report import Sampling, write_report
    from ..report.fit_folder import is_fit
    from .machine import usable_cores

    check_file(output)
    if len(runs) == 1 and data is None and is_fit(runs[0]):
        with Console(stderr=True).status("…") as status:
            write_fit_report(Path(runs[0]), output, title=title, tell=status.update)
        print(f"Wrote {output} about the fit in {runs[0]}: open it in any browser.")
        return
    sampling = Sampling(replicates, mcs, seed, usable_cores()) if mcs else None
    with Console(stderr=True, markup=False).status("…") as status:
        names = write_report(runs, output, data=data, title=title, sampling=sampling, tell=status.update)
    print(f"Wrote {output} about {', '.join(names)}: open it in any browser.")
